"""Measure copies and reads of 4 GiB on this machine, beside cudaMemcpy: `python -m hopperlab.measure.copies_record [--out DIR]`.

Writes the recording `copies` (the recording `copy` has the plain ways at 1 GiB): copies, also by way of a neighbour CTA, reads
alone, and multicast. Needs a Hopper GPU. Every copy is compared with its source before it is timed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from . import copies, launches, peers, record, recordings
from .bench_facts import beside, facts, gb_s, load, times
from .board import header
from .launches import SMS, Launch
from .recordings import Record
from .timing import interleaved

LARGE_SHAPE = (32768, 65536)  # bf16: 4 GiB
READS = {
    "4 slots of 16 KiB, 2 blocks an SM": (4, 16384, 2),
    "6 slots of 32 KiB, 1 block an SM": (6, 32768, 1),
    "8 slots of 8 KiB, 2 blocks an SM": (8, 8192, 2),
    "4 slots of 4 KiB, 8 blocks an SM": (4, 4096, 8),
    "2 slots of 4 KiB, 1 block an SM": (2, 4096, 1),
}


def _large(source, target) -> Mapping[str, tuple[tuple[str, ...], Launch]]:
    flat, out = source.reshape(-1).view("uint8"), target.reshape(-1).view("uint8")
    made = {
        "vector_copy 1": (("UNROLL=1",), launches.vector_copy(flat, out, unroll=1)),
        "stream 0": (("THREADS=256", "VECTORS=1", "HINTS=0"), copies.stream_copy(flat, out, 256, 1, 0)),
        "stream 1": (("THREADS=256", "VECTORS=1", "HINTS=1"), copies.stream_copy(flat, out, 256, 1, 1)),
        "stream 2": (("THREADS=256", "VECTORS=1", "HINTS=2"), copies.stream_copy(flat, out, 256, 1, 2)),
        "bulk_copy": (("STAGES=4", "CHUNK_BYTES=4096"), launches.bulk_copy(flat, out)),
        "tma_copy wide": (("BOX_ROWS=32", "BOX_COLS=256", "swizzle=none"), launches.tma_copy(source, target, (32, 256))),
        "tma_copy 128B": (("BOX_ROWS=64", "BOX_COLS=64", "swizzle=128B"), launches.tma_copy(source, target, swizzle="128B")),
        "tma_copy_ring": (("BOX_ROWS=32", "BOX_COLS=256", "STAGES=4"), launches.tma_copy_ring(source, target, (32, 256))),
    }
    for method in copies.METHODS:
        made[f"dsmem {method}"] = ((f"METHOD={method}", "CLUSTER=2", "CHUNK_BYTES=8192"), copies.dsmem_copy(flat, out, method))
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


def _reads(source, rounds: int) -> list[Record]:
    import cupy

    made = {}
    for name, (stages, chunk, blocks) in READS.items():
        receipts = cupy.zeros(blocks * SMS, cupy.uint32)
        made[name] = copies.bulk_read(source, receipts, stages, chunk, blocks * SMS)
        made[name]()
        last = (source.nbytes // chunk - 1) // (blocks * SMS) * (blocks * SMS) * chunk  # block 0's last chunk
        flat = source.reshape(-1).view("uint8")[last : last + chunk].get().view("uint32")
        if int(receipts[0]) != int(flat.sum(dtype="uint32")):
            raise AssertionError(f"bulk_read with {name} left a wrong receipt")
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
            launch = copies.multicast_copy(source, target, (64, 128), cluster, shared)
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


def main(arguments: list[str] | None = None) -> int:
    """Command line: measure and write the recording."""
    parser = argparse.ArgumentParser(prog="python -m hopperlab.measure.copies_record", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=recordings.FOLDER, help="where to write (the package's recordings)")
    parser.add_argument("--rounds", type=int, default=5, help="launches of each variant that count (5)")
    chosen = parser.parse_args(arguments)
    records = measure(chosen.rounds)
    for item in records:
        print(record.summary(item), flush=True)
    recordings.save("copies", header(), records, chosen.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
