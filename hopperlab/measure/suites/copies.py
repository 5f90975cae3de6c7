# SPDX-License-Identifier: Apache-2.0
"""Copies beside cudaMemcpy: the recordings `copy` (1 GiB), `copies` (4 GiB, by way of a neighbour CTA, reads alone, multicast), `tma_vs_cp_async` (boxes).

Needs a Hopper GPU and CuPy. Every copy is compared with its source before it is timed; a wrong one raises AssertionError.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..launches import copies as copy_kernels
from ..launches.launch import SMS, Launch, box_load, bulk_copy, cp_async_copy, tma_copy, tma_copy_ring, vector_copy
from ..launches.operands import normal_bf16
from ..machine import peers
from ..machine.timing import interleaved
from ..recordings import Record
from .fields import beside, facts, gb_s, load, times

if TYPE_CHECKING:
    from ...runtime.arrays import Array

SHAPE = (16384, 32768)          # bf16: 1 GiB read, 1 GiB written
BOXES = ((4, 64), (8, 64), (16, 64), (32, 64), (64, 64), (128, 64), (32, 256), (64, 256))
SHARED_PER_SM = 224 * 1024
LARGE_SHAPE = (32768, 65536)  # bf16: 4 GiB
READS = {
    "4 slots of 16 KiB, 2 blocks per SM": (4, 16384, 2),
    "6 slots of 32 KiB, 1 block per SM": (6, 32768, 1),
    "8 slots of 8 KiB, 2 blocks per SM": (8, 8192, 2),
    "4 slots of 4 KiB, 8 blocks per SM": (4, 4096, 8),
    "2 slots of 4 KiB, 1 block per SM": (2, 4096, 1),
}


def copy_variants(source: Array, target: Array) -> Mapping[str, tuple[tuple[str, ...], Launch]]:
    """name -> (options, launch) of every way to copy a bf16 matrix whose rows are multiples of 16 bytes."""
    flat, out = source.reshape(-1).view("uint8"), target.reshape(-1).view("uint8")
    made = {"vector_copy": (("UNROLL=4",), vector_copy(flat, out)),
            "vector_copy 1": (("UNROLL=1",), vector_copy(flat, out, unroll=1)),
            "cp_async_copy": (("STAGES=8",), cp_async_copy(flat, out)),
            "bulk_copy": (("STAGES=4", "CHUNK_BYTES=4096"), bulk_copy(flat, out)),
            "bulk_copy 16K": (("STAGES=4", "CHUNK_BYTES=16384"), bulk_copy(flat, out, chunk=16384, blocks=2 * SMS))}
    for swizzle in ("none", "128B"):
        made[f"tma_copy {swizzle}"] = (("BOX_ROWS=64", "BOX_COLS=64", f"swizzle={swizzle}"),
                                       tma_copy(source, target, swizzle=swizzle))
    made["tma_copy wide"] = (("BOX_ROWS=32", "BOX_COLS=256", "swizzle=none"), tma_copy(source, target, (32, 256)))
    made["tma_copy_ring"] = (("BOX_ROWS=32", "BOX_COLS=256", "STAGES=4"), tma_copy_ring(source, target, (32, 256)))
    return made


def plain(rounds: int = 9) -> list[Record]:
    """Every way to copy 1 GiB, beside cudaMemcpy."""
    import cupy
    source = cupy.random.default_rng(3).integers(0, 1 << 16, size=SHAPE, dtype=cupy.uint16)
    target = cupy.empty_like(source)
    made = copy_variants(source, target)
    runs = {name: launch.bound() for name, (_, launch) in made.items()}
    for name, run in runs.items():
        target.fill(0)
        run()
        if not bool((source == target).all()):
            raise AssertionError(f"{name} copied wrongly")
    runs["cudaMemcpy"] = peers.device_copy(source, target)
    samples = interleaved(runs, rounds)
    peer, moved = samples["cudaMemcpy"], 2 * source.nbytes
    records = []
    for name, sample in samples.items():
        options, launch = made.get(name, ((), None))
        records.append(Record("copy", launch.kernel.name if launch else name, options, SHAPE, "bfloat16",
                              gb_s=gb_s(moved, sample), **times(sample), **facts(launch), **load(runs[name], 0.6),
                              **beside(sample, "cudaMemcpy", peer, gb_s(moved, peer))))
    return records


def boxes(rounds: int = 9) -> list[Record]:
    """One thread issuing TMA against 128 threads issuing cp.async: bandwidth by box, one block per SM and as many as fit."""
    import cupy
    matrix = normal_bf16(cupy, (16384, 16384), 4)
    made: dict[str, tuple[str, tuple[int, int], Launch]] = {}
    for box in BOXES:
        fit = min(16, SHARED_PER_SM // (4 * box[0] * box[1] * 2 + 1024))
        for per_sm in sorted({1, fit}):
            receipts = {}
            for how in ("tma", "cp_async"):
                out = cupy.zeros(SMS * per_sm, cupy.uint32)
                launch = box_load(how, matrix, out, box, blocks=SMS * per_sm)
                launch()
                receipts[how] = out.get()
                made[f"{how} {box} {per_sm}"] = (how, box, launch)
            if (receipts["tma"] != receipts["cp_async"]).any():
                raise AssertionError(f"box {box}: the two ways loaded different bytes")
    samples = interleaved({name: launch.bound() for name, (_, _, launch) in made.items()}, rounds)
    records = []
    for name, sample in samples.items():
        how, box, launch = made[name]
        rival = "tma" if how == "cp_async" else "cp_async"
        other = samples[name.replace(how, rival)]
        records.append(Record("boxes", f"{how}_load", (f"BOX_ROWS={box[0]}", f"BOX_COLS={box[1]}", "STAGES=4",
                                                       f"blocks_per_sm={launch.grid[0] // SMS}"), box, "bfloat16",
                              gb_s=gb_s(matrix.nbytes, sample), **times(sample), **facts(launch),
                              **beside(sample, f"{rival}_load", other, gb_s(matrix.nbytes, other))))
    return records


def _large(source, target) -> Mapping[str, tuple[tuple[str, ...], Launch]]:
    flat, out = source.reshape(-1).view("uint8"), target.reshape(-1).view("uint8")
    made = {
        "vector_copy 1": (("UNROLL=1",), vector_copy(flat, out, unroll=1)),
        "stream 0": (("THREADS=256", "VECTORS=1", "HINTS=0"), copy_kernels.stream_copy(flat, out, 256, 1, 0)),
        "stream 1": (("THREADS=256", "VECTORS=1", "HINTS=1"), copy_kernels.stream_copy(flat, out, 256, 1, 1)),
        "stream 2": (("THREADS=256", "VECTORS=1", "HINTS=2"), copy_kernels.stream_copy(flat, out, 256, 1, 2)),
        "bulk_copy": (("STAGES=4", "CHUNK_BYTES=4096"), bulk_copy(flat, out)),
        "tma_copy wide": (("BOX_ROWS=32", "BOX_COLS=256", "swizzle=none"), tma_copy(source, target, (32, 256))),
        "tma_copy 128B": (("BOX_ROWS=64", "BOX_COLS=64", "swizzle=128B"), tma_copy(source, target, swizzle="128B")),
        "tma_copy_ring": (("BOX_ROWS=32", "BOX_COLS=256", "STAGES=4"), tma_copy_ring(source, target, (32, 256))),
    }
    for method in copy_kernels.METHODS:
        made[f"dsmem {method}"] = ((f"METHOD={method}", "CLUSTER=2", "CHUNK_BYTES=8192"), copy_kernels.dsmem_copy(flat, out, method))
    return made


def large(rounds: int = 5) -> list[Record]:
    """Every way to copy 4 GiB that may be the fastest, beside cudaMemcpy; and, through a neighbour CTA, what a detour costs."""
    import cupy

    source = (
        cupy.random.default_rng(3)
        .integers(0, 1 << 32, size=LARGE_SHAPE[0] * LARGE_SHAPE[1] // 2, dtype=cupy.uint32)
        .view(cupy.uint16)
        .reshape(LARGE_SHAPE)
    )
    target = cupy.empty_like(source)
    made = _large(source, target)
    runs = {name: launch.bound() for name, (_, launch) in made.items()}
    for name, run in runs.items():
        target.fill(0)
        run()
        if not bool((source.view("uint64") == target.view("uint64")).all()):
            raise AssertionError(f"{name} copied wrongly")
    runs["cudaMemcpy"] = peers.device_copy(source, target)
    samples = interleaved(runs, rounds)
    peer, moved = samples["cudaMemcpy"], 2 * source.nbytes
    records = []
    for name, sample in samples.items():
        options, launch = made.get(name, ((), None))
        seconds = 0.5 if name in ("cudaMemcpy", "vector_copy 1", "tma_copy wide", "bulk_copy") else 0
        records.append(
            Record(
                "copy",
                launch.kernel.name if launch else name,
                options,
                LARGE_SHAPE,
                "bfloat16",
                gb_s=gb_s(moved, sample),
                **times(sample),
                **facts(launch),
                **load(runs[name], seconds),
                **beside(sample, "cudaMemcpy", peer, gb_s(moved, peer)),
            )
        )
    return records + _reads(source, rounds)


def reading(source: Array) -> dict[str, Launch]:
    """Name of READS -> a launch that reads `source` and uses nothing. Raises AssertionError where one read something else."""
    import cupy

    made = {}
    for name, (stages, chunk, blocks) in READS.items():
        receipts = cupy.zeros(blocks * SMS, cupy.uint32)
        made[name] = copy_kernels.bulk_read(source, receipts, stages, chunk, blocks * SMS)
        made[name]()
        last = (source.nbytes // chunk - 1) // (blocks * SMS) * (blocks * SMS) * chunk  # block 0's last chunk
        flat = source.reshape(-1).view("uint8")[last : last + chunk].get().view("uint32")
        if int(receipts[0]) != int(flat.sum(dtype="uint32")):
            raise AssertionError(f"bulk_read with {name} left a wrong receipt")
    return made


def _reads(source, rounds: int) -> list[Record]:
    made = reading(source)
    samples = interleaved({name: launch.bound() for name, launch in made.items()}, rounds)
    return [
        Record(
            "read",
            "bulk_read",
            (f"STAGES={READS[name][0]}", f"CHUNK_BYTES={READS[name][1]}"),
            LARGE_SHAPE,
            "bfloat16",
            gb_s=gb_s(source.nbytes, sample),
            note=name,
            **times(sample),
            **facts(made[name]),
        )
        for name, sample in samples.items()
    ]


def multicast(rounds: int = 5) -> list[Record]:
    """A broadcast of 64 MiB to each CTA of a cluster: with multicast, and each CTA for itself."""
    import cupy

    source = cupy.random.default_rng(7).integers(0, 1 << 16, size=(4096, 8192), dtype=cupy.uint16)
    made = {}
    for cluster in (2, 4, 8):
        for shared in (True, False):
            target = cupy.zeros((cluster, *source.shape), cupy.uint16)
            launch = copy_kernels.multicast_copy(source, target, (64, 128), cluster, shared)
            launch()
            if not bool((target == source).all()):
                raise AssertionError(f"the multicast of {cluster} copied wrongly")
            made[cluster, shared] = launch
    samples = interleaved({str(key): launch.bound() for key, launch in made.items()}, rounds)
    return [
        Record(
            "multicast_copy",
            "multicast_copy",
            (f"CLUSTER={cluster}", f"MULTICAST={int(shared)}"),
            source.shape,
            "bfloat16",
            gb_s=gb_s((1 + cluster) * source.nbytes, samples[str((cluster, shared))]),
            **times(samples[str((cluster, shared))]),
            **facts(launch),
        )
        for (cluster, shared), launch in made.items()
    ]


def measure(rounds: int = 5) -> list[Record]:
    """All records of the recording `copies`."""
    return [*large(rounds), *multicast(rounds)]
