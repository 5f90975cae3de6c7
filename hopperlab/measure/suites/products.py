# SPDX-License-Identifier: Apache-2.0
"""Products of the first lessons beside cuBLAS: the recordings `gemm` and `stages`. Needs a Hopper GPU and CuPy, one peer PyTorch.

Every result is compared with its peer's before it is timed; a wrong one raises AssertionError instead of being recorded.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..launches.launch import GEMMS, Launch, mma_multistage, tma_wgmma, warp_specialized
from ..launches.operands import bf16_values, normal_bf16
from ..machine import peers
from ..machine.timing import interleaved
from ..recordings import Record
from .fields import beside, facts, load, tflops, times

if TYPE_CHECKING:
    from ...runtime.arrays import Array

SQUARES = tuple((size, size, size) for size in (1024, 2048, 4096, 8192))
SHAPES = (*SQUARES, (4096, 7168, 2048), (4096, 4096, 14336))


def _gemm_variants(a, b, c) -> dict[str, tuple[str, tuple[str, ...], Launch]]:
    """name -> (kernel, options, launch) of every product in the ladder."""
    made = {f"mma {bn}": _multistage(a, b, c, 4, bn) for bn in (128, 256)}
    return made | {name: (name, ("STAGES=4",), GEMMS[name](a, b, c)) for name in ("tma_wgmma", "warp_specialized")}


def _multistage(a, b, c, depth: int, bn: int) -> tuple[str, tuple[str, ...], Launch]:
    return "mma_multistage", (f"STAGES={depth}", "BM=128", f"BN={bn}"), mma_multistage(a, b, c, depth, bn=bn)


def check_product(name: str, run: Callable[[], None], c: Array, expected: Array) -> None:
    """Raise unless `run` fills c (bf16 bits, poisoned with NaN before) with `expected` to bf16 accuracy."""
    c.fill(0x7FC0)
    run()
    ours, theirs = bf16_values(c), bf16_values(expected)
    error = float(abs(ours - theirs).max() / abs(theirs).max())
    if not error < 2e-2:
        raise AssertionError(f"{name}: largest error against cuBLAS is {error:.2e} of the largest result")


def best_cublas(rounds: int, a: Array, b: Array, c: Array) -> Callable[[], None]:
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
        best = tflops((m, n, k), samples["cuBLAS"])
        seconds = 1.5 if (m, n, k) == (8192, 8192, 8192) else 0
        for name, sample in samples.items():
            kernel, options, launch = variants.get(name, ("cuBLAS", (), None))
            records.append(Record("gemm", kernel, options, (m, n, k), "bfloat16", tflops=tflops((m, n, k), sample),
                                  **times(sample), **beside(sample, "cuBLAS", samples["cuBLAS"], best), **facts(launch),
                                  **load(runs[name], seconds)))
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
        made[f"tma {depth}"] = ("tma_wgmma", (f"STAGES={depth}",), tma_wgmma(a, b, c, depth))
        made[f"ws {depth}"] = ("warp_specialized", (f"STAGES={depth}",), warp_specialized(a, b, c, depth))
    runs = {name: launch.bound() for name, (_, _, launch) in made.items()} | {"cuBLAS": best_cublas(rounds, a, b, c)}
    for name, run in runs.items():
        check_product(name, run, c, expected)
    samples = interleaved(runs, rounds)
    peer = samples["cuBLAS"]
    made["cuBLAS"] = ("cuBLAS", (), None)
    shape = (size, size, size)
    return [Record("stages", made[name][0], made[name][1], shape, "bfloat16", tflops=tflops(shape, sample), **times(sample),
                   **beside(sample, "cuBLAS", peer, tflops(shape, peer)), **facts(made[name][2]))
            for name, sample in samples.items()]
