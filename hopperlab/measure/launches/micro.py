# SPDX-License-Identifier: Apache-2.0
"""The kernels of kernels/micro, ready to call: a `Probe` holds a launch and the arrays it fills, in either place.

Every size can be made small, so that the same recipe runs in the emulator. Cycles are of one multiprocessor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...runtime.arrays import array_module, asnumpy
from ...runtime.library import load_kernel
from ...runtime.tensor_map import TensorMap
from .launch import Launch

if TYPE_CHECKING:
    from ...runtime.arrays import Array

INPUTS = {"bf16": (0, 16), "f16": (1, 16), "tf32": (2, 8), "e4m3": (3, 32), "s8": (4, 32)}  # INPUT, k of one wgmma
SPACES = {"shared": 0, "dsmem": 1, "l2": 2}
EXCHANGES = {"global memory": 0, "st.shared::cluster": 1, "st.async": 2, "cp.async.bulk": 3}
COPIES = {"tensor": 0, "bulk": 1, "ld.global": 2, "cp.async": 3, "wait_group": 4}
PLACES = {"parameter": 0, "constant": 1, "global": 2}
MASKS = {"none": 0, "32B": 0x080, "64B": 0x180, "128B": 0x380}
ACCESSES = {"row, 16 bytes": 0, "column, 16 bytes": 1, "column, 4 bytes": 2, "column, 2 bytes": 3, "column, ldmatrix": 4}


@dataclass(frozen=True)
class Probe:
    """A launch and its arrays: out (int64 cycles, one a sample or as the kernel's header says) and what else it writes."""

    launch: Launch
    out: object
    more: object = None

    def cycles(self) -> np.ndarray:
        """Launch once, wait, and return `out` as a NumPy array."""
        self.launch()
        return asnumpy(self.out)


def _xp(backend: str | None):
    return array_module(backend)


def _defines(**values: object) -> tuple[str, ...]:
    return tuple(f"-D{name.upper()}={value}" for name, value in values.items())


def _probe(
    path: str,
    kernel: str,
    options: Sequence[str],
    grid: int,
    block: int,
    samples: int,
    args: tuple = (),
    more: tuple = (),
    shared_mem: int = 0,
    backend: str | None = None,
) -> Probe:
    """Arguments: `args`, then out, then `more` (arrays that the kernel fills as well)."""
    out = _xp(backend).zeros(samples, np.int64)
    loaded = load_kernel(path, kernel, tuple(options), backend=backend)
    return Probe(Launch(loaded, (grid,), (block,), (*args, out, *more), shared_mem), out, more[0] if more else None)


def barrier(
    kernel: str,
    threads: int = 64,
    rounds: int = 64,
    samples: int = 16,
    cluster: int = 2,
    backend: str | None = None,
    **choices: int,
) -> Probe:
    """A kernel of micro/barriers.cu; choices: elected, relaxed, order."""
    grid = cluster if kernel in ("cluster_meeting", "remote_round_trip") else 1
    options = _defines(rounds=rounds, samples=samples, cluster=cluster, **choices)
    return _probe("micro/barriers.cu", kernel, options, grid, threads, samples, backend=backend)


def copy(kernel: str, how: str, rows: int, columns: int, copies: int = 64, tiles: int = 4, backend: str | None = None) -> Probe:
    """micro/tma_latency.cu: 'tma_latency' (out: two passes over `copies` boxes) or 'tma_issue' (out: copies / tiles times)."""
    xp = _xp(backend)
    matrix = xp.asarray(np.random.default_rng(rows).integers(0, 1 << 16, (copies * rows, columns)).astype(np.uint16))
    options = _defines(how=COPIES[how], box_rows=rows, box_cols=columns, copies=copies, tiles=tiles)
    count, held = (2 * copies, 1) if kernel == "tma_latency" else (copies // tiles, tiles)
    maps = TensorMap.tiled(matrix, box=(rows, columns), dtype="bfloat16")
    return _probe(
        "micro/tma_latency.cu",
        kernel,
        options,
        1,
        128,
        count,
        (maps, matrix),
        shared_mem=held * rows * columns * 2,
        backend=backend,
    )


def descriptor(place: str, prefetch: bool = False, maps: int = 16, pause: int = 4000, backend: str | None = None) -> Probe:
    """micro/descriptor_fetch.cu: out[2 i] the first copy through map i, out[2 i + 1] the second."""
    xp = _xp(backend)
    matrix = xp.asarray(np.random.default_rng(1).integers(0, 1 << 16, (32, 128)).astype(np.uint16))
    image = TensorMap.tiled(matrix, box=(32, 128), dtype="bfloat16")
    options = _defines(place=PLACES[place], prefetch=int(prefetch), maps=maps, pause=pause)
    if place == "constant":
        options += ("-DMAP_WORDS=" + ",".join(f"{word:#x}" for word in np.frombuffer(bytes(image), np.uint64)),)
    images = bytes(image) * maps
    by_value = np.frombuffer(images, np.dtype(f"V{len(images)}"))[0]
    in_global = xp.asarray(np.frombuffer(images, np.uint64).copy())
    return _probe(
        "micro/descriptor_fetch.cu",
        "descriptor_fetch",
        options,
        1,
        32,
        2 * maps,
        (image, by_value, in_global),
        shared_mem=8192,
        backend=backend,
    )


def map_cache(
    maps: int, passes: int = 3, stride: int = 1, turn: bool = False, backend: str | None = None
) -> Probe:
    """micro/map_cache.cu: out[pass * maps + i] = cycles of the i-th copy of a pass, each through another map; stride: from map to map, in maps."""
    xp = _xp(backend)
    matrix = xp.asarray(np.random.default_rng(2).integers(0, 1 << 16, (8, 64)).astype(np.uint16))
    image = TensorMap.tiled(matrix, box=(1, 64), dtype="bfloat16")
    in_global = xp.asarray(np.frombuffer(bytes(image) * (maps * stride), np.uint64).copy())
    numbers = (np.int32(maps), np.int32(stride), np.int32(turn))
    return _probe(
        "micro/map_cache.cu",
        "map_cache",
        _defines(passes=passes),
        1,
        32,
        passes * maps,
        (image, in_global, *numbers),
        shared_mem=128,
        backend=backend,
    )


def early_opening(
    rows: int, columns: int, announced: int, trials: int = 64, patience: int = 20000, backend: str | None = None
) -> Probe:
    """micro/early_opening.cu: out[2 t] = lines of 128 bytes that were there when the barrier opened, -1 where it did not; out[2 t + 1] = cycles."""
    matrix = _xp(backend).asarray(np.random.default_rng(rows).integers(1, 1 << 16, (trials * rows, columns)).astype(np.uint16))
    return _probe(
        "micro/early_opening.cu",
        "early_opening",
        _defines(box_rows=rows, box_cols=columns),
        1,
        32,
        2 * trials,
        (TensorMap.tiled(matrix, box=(rows, columns), dtype="bfloat16"), np.int32(announced), np.int32(trials), np.int32(patience)),
        shared_mem=rows * columns * 2,
        backend=backend,
    )


def chase(space: str, chain: int = 256, samples: int = 8, cluster: int = 2, backend: str | None = None) -> Probe:
    """Latency of dependent 4-byte loads: out[sample] = cycles of `chain`; out[samples] = where it ended."""
    options = _defines(space=SPACES[space], cluster=cluster, chain=chain, samples=samples)
    buffer = _xp(backend).zeros(chain, np.uint32)
    return _probe(
        "micro/memory_latency.cu", "chase", options, cluster, 32, samples + 1, (buffer,), shared_mem=4 * chain, backend=backend
    )


def stream(
    space: str,
    write: bool = False,
    threads: int = 512,
    rounds: int = 256,
    cluster: int = 2,
    blocks: int = 2,
    backend: str | None = None,
) -> Probe:
    """Bandwidth: out[block] = cycles in which a block moves rounds * threads * 16 bytes."""
    xp = _xp(backend)
    options = _defines(space=SPACES[space], cluster=cluster, rounds=rounds, write=int(write))
    vectors = threads * (8 if write else 1)
    buffer, sums = xp.zeros(blocks * vectors * 4, np.uint32), xp.zeros(blocks * threads, np.uint32)
    return _probe(
        "micro/memory_latency.cu", "stream", options, blocks, threads, blocks, (buffer,), (sums,), vectors * 16, backend
    )


def bulk_stream(
    chunk: int = 8192, depth: int = 4, rounds: int = 64, cluster: int = 2, blocks: int = 2, backend: str | None = None
) -> Probe:
    """Bandwidth of cp.async.bulk between CTAs: out[block] = cycles in which a block sends (and receives) rounds chunks."""
    options = _defines(cluster=cluster, rounds=rounds, chunk=chunk, depth=depth)
    return _probe(
        "micro/memory_latency.cu", "bulk_stream", options, blocks, 32, blocks, shared_mem=(1 + depth) * chunk, backend=backend
    )


def exchange(how: str, rounds: int = 32, samples: int = 8, backend: str | None = None) -> Probe:
    """Round trips of 2 KiB between two CTAs: out[sample] = cycles of `rounds`; out[samples] = messages that CTA 1 answered.

    Each launch needs its flags zero: `Probe.more` is them.
    """
    xp = _xp(backend)
    buffer, flags, out = xp.zeros((2, 128, 4), np.uint32), xp.zeros(2, np.uint32), xp.zeros(samples + 1, np.int64)
    kernel = load_kernel(
        "micro/exchange.cu", "exchange", _defines(how=EXCHANGES[how], rounds=rounds, samples=samples), backend=backend
    )
    return Probe(Launch(kernel, (2,), (128,), (buffer, flags, out)), out, flags)


def wgmma(
    n: int,
    kind: str = "bf16",
    source: str = "SS",
    in_flight: int = 3,
    warpgroups: int = 2,
    rounds: int = 64,
    samples: int = 4,
    blocks: int = 1,
    backend: str | None = None,
) -> Probe:
    """micro/wgmma_rate.cu: cycles until 4 * rounds instructions per warpgroup were issued, and until they were done."""
    options = _defines(
        n=n, input=INPUTS[kind][0], a_source=int(source == "RS"), in_flight=in_flight, rounds=rounds, samples=samples
    )
    results = _xp(backend).zeros(blocks * warpgroups * 128, np.float32)
    return _probe(
        "micro/wgmma_rate.cu",
        "wgmma_rate",
        options,
        blocks,
        128 * warpgroups,
        2 * samples,
        more=(results,),
        shared_mem=49152,
        backend=backend,
    )


def wgmma_beside_copies(
    n: int, copy_bytes: int = 16384, copies: int = 4, rounds: int = 256, blocks: int = 1, backend: str | None = None
) -> Probe:
    """micro/wgmma_beside_copies.cu: for each CTA cycles of two warpgroups' 8 * rounds wgmma, cycles of the copies beside them, and their number.

    copy_bytes: of one copy into shared memory (0: none are made), copies: under way at once.
    """
    xp = _xp(backend)
    source = xp.zeros(max(16, blocks * copies * copy_bytes), np.uint8)
    options = _defines(n=n, copy_bytes=copy_bytes, copies=copies, rounds=rounds)
    results = xp.zeros(blocks * 256, np.float32)
    return _probe(
        "micro/wgmma_beside_copies.cu",
        "wgmma_beside_copies",
        options,
        blocks,
        288,
        3 * blocks,
        (source,),
        (results,),
        shared_mem=49152 + copies * copy_bytes,
        backend=backend,
    )


def mma(ilp: int = 8, warps: int = 4, rounds: int = 64, samples: int = 4, blocks: int = 1, backend: str | None = None) -> Probe:
    """micro/mma_rate.cu: cycles until ilp * rounds mma.sync a warp were issued, and until they were done."""
    results = _xp(backend).zeros(blocks * warps * 32, np.float32)
    return _probe(
        "micro/mma_rate.cu",
        "mma_rate",
        _defines(ilp=ilp, samples=samples),
        blocks,
        32 * warps,
        2 * samples,
        (np.int32(rounds),),
        (results,),
        backend=backend,
    )


def multicast(
    matrix: Array,
    cluster: int,
    multicast: bool,
    blocks: int,
    rows: int = 64,
    stages: int = 4,
    passes: int = 1,
    backend: str | None = None,
) -> Launch:
    """micro/multicast_load.cu over a bf16 matrix (uint16) of at most 256 columns; its last argument but two is the receipts."""
    columns = matrix.shape[1]
    options = _defines(cluster=cluster, multicast=int(multicast), box_rows=rows, box_cols=columns, stages=stages)
    kernel = load_kernel("micro/multicast_load.cu", "multicast_load", options, backend=backend)
    box = (rows // cluster if multicast else rows, columns)
    sums = _xp(backend).zeros(blocks, np.uint32)
    return Launch(
        kernel,
        (blocks,),
        (64,),
        (TensorMap.tiled(matrix, box=box, dtype="bfloat16"), sums, np.int32(matrix.shape[0] // rows), np.int32(passes)),
        stages * rows * columns * 2,
    )


def setmaxnreg(without: bool = False, backend: str | None = None) -> Probe:
    """micro/setmaxnreg_cost.cu: cycles of the giver and of the two takers."""
    return _probe("micro/setmaxnreg_cost.cu", "setmaxnreg_cost", _defines(without=int(without)), 1, 384, 3, backend=backend)


def reads(
    swizzle: str,
    access: str,
    row_bytes: int | None = None,
    pad: int = 0,
    rounds: int = 32,
    samples: int = 4,
    warps: int = 16,
    backend: str | None = None,
) -> Probe:
    """micro/swizzle_reads.cu: out[sample] = cycles in which each of `warps` warps makes 8 * rounds reads."""
    width = row_bytes or (128 if swizzle == "none" else int(swizzle[:-1]))
    options = _defines(mask=MASKS[swizzle], row_bytes=width, pad=pad, access=ACCESSES[access], rounds=rounds, samples=samples)
    sums = _xp(backend).zeros(32 * warps, np.uint32)
    return _probe(
        "micro/swizzle_reads.cu",
        "swizzle_reads",
        options,
        1,
        32 * warps,
        samples,
        more=(sums,),
        shared_mem=64 * (width + pad),
        backend=backend,
    )


def cluster_launch(cluster: int, blocks: int, shared_mem: int = 0, backend: str | None = None) -> Probe:
    """micro/cluster_launch.cu: out[block] = when it began (ns); more[block] = its multiprocessor."""
    xp = _xp(backend)
    starts, places = xp.zeros(blocks, np.int64), xp.zeros(blocks, np.uint32)
    kernel = load_kernel("micro/cluster_launch.cu", "cluster_launch", _defines(cluster=cluster), backend=backend)
    return Probe(Launch(kernel, (blocks,), (128,), (starts, places), shared_mem), starts, places)
