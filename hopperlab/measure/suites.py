"""What is measured: one function a recording, each returning records. All need a Hopper GPU and CuPy, some peers PyTorch.

Every result is compared with its peer's before it is timed; a wrong one raises AssertionError instead of being recorded.
"""
from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from . import launches, peers
from .bench_facts import beside as _beside
from .bench_facts import facts as _facts
from .bench_facts import gb_s as _gb_s
from .bench_facts import load as _load
from .bench_facts import tflops as _tflops
from .bench_facts import times as _times
from .bench_facts import wait as _wait
from .launches import SMS, Launch
from .operands import normal_bf16
from .recordings import Record
from .timing import Sample, interleaved

SQUARES = tuple((size, size, size) for size in (1024, 2048, 4096, 8192))
SHAPES = (*SQUARES, (4096, 7168, 2048), (4096, 4096, 14336))
COPY_SHAPE = (16384, 32768)                                 # bf16: 1 GiB read, 1 GiB written
BOXES = ((4, 64), (8, 64), (16, 64), (32, 64), (64, 64), (128, 64), (32, 256), (64, 256))
SHARED_PER_SM = 224 * 1024


def ceilings(rounds: int = 9) -> list[Record]:
    """What this GPU reaches at best: a large device-to-device copy, and cuBLAS products of 8192 in each data type."""
    import cupy
    source = cupy.random.default_rng(1).integers(0, 1 << 30, size=COPY_SHAPE[0] * COPY_SHAPE[1] // 2, dtype=cupy.int32)
    target = cupy.empty_like(source)
    runs = {"device copy": peers.device_copy(source, target)}
    products = {dtype: peers.torch_product(8192, dtype) for dtype in peers.GEMM_DTYPES}
    runs |= {dtype: run for dtype, run in products.items() if run is not None}
    samples = interleaved(runs, rounds)
    copied = samples.pop("device copy")
    records = [Record("ceilings", "device copy", (), (source.nbytes,), "bytes", gb_s=_gb_s(2 * source.nbytes, copied),
                      note="cudaMemcpy, bytes read plus bytes written", **_times(copied), **_load(runs["device copy"], 1.5))]
    for dtype, sample in samples.items():
        records.append(Record("ceilings", "cuBLAS product", shape=(8192, 8192, 8192), dtype=dtype, **_times(sample),
                              tflops=_tflops((8192, 8192, 8192), sample), **_load(runs[dtype], 1.5)))
    return records


def _gemm_variants(a, b, c) -> dict[str, tuple[str, tuple[str, ...], Launch]]:
    """name -> (kernel, options, launch) of every product in the ladder."""
    made = {f"mma {bn}": _multistage(a, b, c, 4, bn) for bn in (128, 256)}
    return made | {name: (name, ("STAGES=4",), launches.GEMMS[name](a, b, c)) for name in ("tma_wgmma", "warp_specialized")}


def _multistage(a, b, c, depth: int, bn: int) -> tuple[str, tuple[str, ...], Launch]:
    return "mma_multistage", (f"STAGES={depth}", "BM=128", f"BN={bn}"), launches.mma_multistage(a, b, c, depth, bn=bn)


def check_product(name: str, run: Callable[[], None], c, expected) -> None:
    """Raise unless `run` fills c (bf16 bits, poisoned with NaN before) with `expected` to bf16 accuracy."""
    from .operands import bf16_values
    c.fill(0x7FC0)
    run()
    ours, theirs = bf16_values(c), bf16_values(expected)
    error = float(abs(ours - theirs).max() / abs(theirs).max())
    if not error < 2e-2:
        raise AssertionError(f"{name}: largest error against cuBLAS is {error:.2e} of the largest result")


def best_cublas(rounds: int, a, b, c) -> Callable[[], None]:
    """The faster of cublasGemmEx and PyTorch on these operands."""
    entry = {"cublasGemmEx": peers.cublas(a, b, c)}
    torch_run = peers.torch_matmul(a, b, c)
    if torch_run is not None:
        entry["torch"] = torch_run
    samples = interleaved(entry, rounds=max(3, rounds // 3))
    return entry[min(samples, key=lambda name: samples[name].ms)]


def gemm(rounds: int = 9) -> list[Record]:
    """Every product of the course beside cuBLAS over square and model-like shapes, bf16, random normal operands."""
    import cupy
    records = []
    for m, n, k in SHAPES:
        a, b = normal_bf16(cupy, (m, k), 11), normal_bf16(cupy, (n, k), 12)
        c, expected = cupy.empty((m, n), cupy.uint16), cupy.empty((m, n), cupy.uint16)
        peers.cublas(a, b, expected)()
        variants = _gemm_variants(a, b, c)
        runs = {name: launch.bound() for name, (_, _, launch) in variants.items()}
        runs["cuBLAS"] = best_cublas(rounds, a, b, c)
        for name, run in runs.items():
            check_product(name, run, c, expected)
        samples = interleaved(runs, rounds)
        best = _tflops((m, n, k), samples["cuBLAS"])
        seconds = 1.5 if (m, n, k) == (8192, 8192, 8192) else 0
        for name, sample in samples.items():
            kernel, options, launch = variants.get(name, ("cuBLAS", (), None))
            records.append(Record("gemm", kernel, options, (m, n, k), "bfloat16", tflops=_tflops((m, n, k), sample),
                                  **_times(sample), **_beside(sample, "cuBLAS", samples["cuBLAS"], best), **_facts(launch),
                                  **_load(runs[name], seconds)))
    return records


def stages(rounds: int = 9, size: int = 4096) -> list[Record]:
    """The depth of the ring against speed, for each kernel that has one."""
    import cupy
    a, b = normal_bf16(cupy, (size, size), 21), normal_bf16(cupy, (size, size), 22)
    c, expected = cupy.empty((size, size), cupy.uint16), cupy.empty((size, size), cupy.uint16)
    peers.cublas(a, b, expected)()
    made: dict[str, tuple[str, tuple[str, ...], Launch | None]] = {}
    for depth in range(2, 9):
        made |= {f"mma {depth} {bn}": _multistage(a, b, c, depth, bn) for bn in (128, 256)}
    for depth in range(2, 7):
        made[f"tma {depth}"] = ("tma_wgmma", (f"STAGES={depth}",), launches.tma_wgmma(a, b, c, depth))
        made[f"ws {depth}"] = ("warp_specialized", (f"STAGES={depth}",), launches.warp_specialized(a, b, c, depth))
    runs = {name: launch.bound() for name, (_, _, launch) in made.items()} | {"cuBLAS": best_cublas(rounds, a, b, c)}
    for name, run in runs.items():
        check_product(name, run, c, expected)
    samples = interleaved(runs, rounds)
    peer = samples["cuBLAS"]
    made["cuBLAS"] = ("cuBLAS", (), None)
    shape = (size, size, size)
    return [Record("stages", made[name][0], made[name][1], shape, "bfloat16", tflops=_tflops(shape, sample), **_times(sample),
                   **_beside(sample, "cuBLAS", peer, _tflops(shape, peer)), **_facts(made[name][2]))
            for name, sample in samples.items()]


def copy_variants(source, target) -> Mapping[str, tuple[tuple[str, ...], Launch]]:
    """name -> (options, launch) of every way to copy a bf16 matrix whose rows are multiples of 16 bytes."""
    flat, out = source.reshape(-1).view("uint8"), target.reshape(-1).view("uint8")
    made = {"vector_copy": (("UNROLL=4",), launches.vector_copy(flat, out)),
            "vector_copy 1": (("UNROLL=1",), launches.vector_copy(flat, out, unroll=1)),
            "cp_async_copy": (("STAGES=8",), launches.cp_async_copy(flat, out)),
            "bulk_copy": (("STAGES=4", "CHUNK_BYTES=4096"), launches.bulk_copy(flat, out)),
            "bulk_copy 16K": (("STAGES=4", "CHUNK_BYTES=16384"), launches.bulk_copy(flat, out, chunk=16384, blocks=2 * SMS))}
    for swizzle in ("none", "128B"):
        made[f"tma_copy {swizzle}"] = (("BOX_ROWS=64", "BOX_COLS=64", f"swizzle={swizzle}"),
                                       launches.tma_copy(source, target, swizzle=swizzle))
    made["tma_copy wide"] = (("BOX_ROWS=32", "BOX_COLS=256", "swizzle=none"), launches.tma_copy(source, target, (32, 256)))
    made["tma_copy_ring"] = (("BOX_ROWS=32", "BOX_COLS=256", "STAGES=4"), launches.tma_copy_ring(source, target, (32, 256)))
    return made


def copies(rounds: int = 9) -> list[Record]:
    """Every way to copy 1 GiB, beside cudaMemcpy."""
    import cupy
    source = cupy.random.default_rng(3).integers(0, 1 << 16, size=COPY_SHAPE, dtype=cupy.uint16)
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
        records.append(Record("copy", launch.kernel.name if launch else name, options, COPY_SHAPE, "bfloat16",
                              gb_s=_gb_s(moved, sample), **_times(sample), **_facts(launch), **_load(runs[name], 0.6),
                              **_beside(sample, "cudaMemcpy", peer, _gb_s(moved, peer))))
    return records


def boxes(rounds: int = 9) -> list[Record]:
    """One thread issuing TMA against 128 threads issuing cp.async: bandwidth by box, one block an SM and as many as fit."""
    import cupy
    matrix = normal_bf16(cupy, (16384, 16384), 4)
    made: dict[str, tuple[str, tuple[int, int], Launch]] = {}
    for box in BOXES:
        fit = min(16, SHARED_PER_SM // (4 * box[0] * box[1] * 2 + 1024))
        for per_sm in sorted({1, fit}):
            receipts = {}
            for how in ("tma", "cp_async"):
                out = cupy.zeros(SMS * per_sm, cupy.uint32)
                launch = launches.box_load(how, matrix, out, box, blocks=SMS * per_sm)
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
                              gb_s=_gb_s(matrix.nbytes, sample), **_times(sample), **_facts(launch),
                              **_beside(sample, f"{rival}_load", other, _gb_s(matrix.nbytes, other))))
    return records


def _host_times(run: Callable[[], None], wait: Callable[[], None], rounds: int) -> Sample:
    times = []
    for _ in range(rounds):
        _wait()
        began = time.perf_counter()
        run()
        wait()
        times.append(1e3 * (time.perf_counter() - began))
    return Sample(tuple(times))


def habits(rounds: int = 21) -> list[Record]:
    """One copy of 16 MiB timed in four ways, the first of them wrong (lesson 00)."""
    import cupy
    source = cupy.random.default_rng(5).integers(0, 256, size=1 << 24, dtype=cupy.uint8)
    launch = launches.vector_copy(source, cupy.empty_like(source))
    run = launch.bound()
    ways = {"host clock, no synchronise": _host_times(run, lambda: None, rounds),
            "host clock, synchronised": _host_times(run, _wait, rounds),
            "events, warm L2": interleaved({"x": run}, rounds, 3, cold=False)["x"],
            "events, cold L2": interleaved({"x": run}, rounds, 3)["x"]}
    return [Record("timing", "vector_copy", (way,), (source.nbytes,), "bytes", gb_s=_gb_s(2 * source.nbytes, sample),
                   **_times(sample), **_facts(launch)) for way, sample in ways.items()]


SUITES: Mapping[str, Callable[..., list[Record]]] = {
    "ceilings": ceilings, "gemm": gemm, "stages": stages, "copy": copies, "boxes": boxes, "timing": habits}
