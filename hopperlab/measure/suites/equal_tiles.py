# SPDX-License-Identifier: Apache-2.0
"""Lesson 13's comparisons beside the ladder, the recording `schedules`: `hopperlab bench lessons --kernels schedules`. Needs a Hopper GPU.

`equal`: cooperative and ping-pong consumers with the same tile, ring, order of tiles and epilogue, for short and long k. `onto`: c = a b^T + c with the old
tile loaded under the products, beside the kernel that only writes C, and cuBLAS with beta 1 and 0. Every result is checked at the timed shape.
"""
from __future__ import annotations

from collections.abc import Callable

from ..launches import beside_ladder, gemm
from ..launches.launch import Launch
from ..launches.operands import bf16_values, normal_bf16
from ..machine import peers
from ..machine.timing import interleaved
from ..recordings import Record
from .fields import beside, facts, tflops, times
from .products import check_product

METHOD = ("events around single launches, cold L2, variants interleaved round by round, random normal bf16 operands, every result compared with cuBLAS's at the "
          "timed shape; ratios are taken within a round")
EQUAL = (6144, 5632)                    # 2112 tiles of 128 x 128: 16 for each of 132 CTAs, so that no wave is cut
DEPTHS = (256, 512, 1024, 2048, 8192)
ONTO = ((8192, 8192, 512), (8192, 8192, 2048), (8192, 8192, 8192))

Made = dict[str, tuple[str, Launch | None, Callable[[], None]]]         # name -> (kernel, launch, what is timed)


def _arrays(shape: tuple[int, int, int]):
    import cupy

    m, n, k = shape
    return normal_bf16(cupy, (m, k), k + 1), normal_bf16(cupy, (n, k), k + 2), cupy.empty((m, n), cupy.uint16)


def _records(suite: str, shape: tuple[int, int, int], made: Made, peer: str, rounds: int) -> list[Record]:
    """A record of each, beside `peer`, which is one of them."""
    samples = interleaved({name: run for name, (_, _, run) in made.items()}, rounds)
    theirs = samples[peer]
    return [Record(suite, made[name][0], (), shape, "bfloat16", mode="cold L2", tflops=tflops(shape, sample), **times(sample),
                   **beside(sample, peer, theirs, tflops(shape, theirs)), **facts(made[name][1]), note=name) for name, sample in samples.items()]


def equal(rounds: int) -> list[Record]:
    """Cooperative, ping-pong and cuBLAS at 6144 x 5632 for every k of DEPTHS; ratios are to cooperative."""
    import cupy

    records = []
    for k in DEPTHS:
        shape = (*EQUAL, k)
        a, b, c = _arrays(shape)
        expected = cupy.empty_like(c)
        peers.cublas(a, b, expected)()
        made: Made = {"cuBLAS": ("cuBLAS", None, peers.cublas(a, b, c))}
        for name, kernel, launch in (("cooperative", "cooperative", beside_ladder.cooperative(a, b, c)), ("ping-pong", "pingpong", gemm.pingpong(a, b, c))):
            made[name] = (kernel, launch, launch.bound())
        for name, (_, _, run) in made.items():
            check_product(name, run, c, expected)
        records += _records("equal", shape, made, "cooperative", rounds)
    return records


def _check_onto(name: str, run: Callable[[], None], c, old, expected) -> None:
    """Raise unless `run` makes `expected` of the c that holds `old`, to bf16 accuracy."""
    c[...] = old
    run()
    ours, theirs = bf16_values(c), bf16_values(expected)
    error = float(abs(ours - theirs).max() / abs(theirs).max())
    if not error < 2e-2:
        raise AssertionError(f"{name}: largest error against cuBLAS is {error:.2e} of the largest result")


def onto(rounds: int) -> list[Record]:
    """c = a b^T + c beside c = a b^T, by our kernels and by cuBLAS; ratios are to the kernel that only writes C."""
    import cupy

    records = []
    for shape in ONTO:
        a, b, c = _arrays(shape)
        expected, old = cupy.empty_like(c), normal_bf16(cupy, shape[:2], 7)
        writes, reads = gemm.overlapped_store(a, b, c), beside_ladder.reads_c(a, b, c)
        made: Made = {"only writes C": ("overlapped_store", writes, writes.bound()), "adds to C": ("reads_c", reads, reads.bound()),
                      "cuBLAS, only writes C": ("cuBLAS", None, peers.cublas(a, b, c)), "cuBLAS, adds to C": ("cuBLAS", None, peers.cublas_onto(a, b, c))}
        for name, (_, _, run) in made.items():
            adds = name.endswith("adds to C")
            expected[...] = old
            (peers.cublas_onto if adds else peers.cublas)(a, b, expected)()
            _check_onto(name, run, c, old, expected)
        records += _records("onto", shape, made, "only writes C", rounds)
    return records


def measure(rounds: int = 15) -> list[Record]:
    """The records of `equal` and of `onto`."""
    return [*equal(rounds), *onto(rounds)]
