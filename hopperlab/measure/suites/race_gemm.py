# SPDX-License-Identifier: Apache-2.0
"""The race of products, `hopperlab bench gemm`: the course's kernels beside cuBLAS, PyTorch and Triton, at any shapes."""
from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import summaries
from ..launches import gemm, gemm_choice
from ..launches.gemm import LADDER
from ..launches.operands import bf16_values, normal_bf16
from ..launches.random_shapes import random_shapes
from ..machine import peers
from .compile_ahead import compile_ahead
from .fields import flop
from .race import Contestant, Race, Races, check_size, options

if TYPE_CHECKING:
    from ...runtime.arrays import Array

CUBES = tuple((size, size, size) for size in (1024, 2048, 4096, 8192, 16384))
SHAPES = (*CUBES, (4096, 7168, 2048), (4096, 4096, 14336), (128, 7168, 18432))
MOST_BYTES = 16 << 30           # of the arrays of one shape; the reference takes as much again
KERNELS = {**LADDER, "final_dependent": gemm.final_dependent}


def parsed(text: str) -> tuple[int, int, int]:
    """'4096' or '4096x7168x2048' (m x n x k). Raises ValueError that names the rule."""
    numbers = re.fullmatch(r"(\d+)(?:x(\d+)x(\d+))?", text)
    if numbers is None:
        raise ValueError(f"{text!r} is no shape of a product: write 4096 for a cube, or 4096x7168x2048 for m x n x k")
    m, n, k = (int(numbers[i] or numbers[1]) for i in (1, 2, 3))
    if min(m, n, k) < 1:
        raise ValueError(f"{text!r}: every size is at least 1")
    if k % 8:
        raise ValueError(f"{text!r}: k is {k}, no multiple of 8; TMA needs rows of a multiple of 16 bytes, 8 bf16 elements")
    check_size(text, 2 * (m * k + n * k + m * n), MOST_BYTES)
    return m, n, k


def wrong_share(ours: Array, expected: Array, k: int) -> float:
    """Fraction of elements of a bf16 product (as float32) that are further from the fp32 product than rounding explains.

    One rounding to bf16 is at most 2^-9 of the value (doubled here); sums in another order differ by far less than
    2^-10 sqrt(k), a thousandth of a sum's own size for standard normal operands, and one missing k-step by far more.
    """
    import cupy
    return float((~(cupy.abs(ours - expected) <= 2.0 ** -8 * cupy.abs(expected) + 2.0 ** -10 * k ** 0.5)).mean())


def race(shape: tuple[int, ...], kernels: tuple[str, ...], chosen: tuple[str, ...]) -> Race:
    """The course's kernels and the chosen peers on random normal bf16 operands."""
    import cupy
    m, n, k = shape
    a, b, c = normal_bf16(cupy, (m, k), 11), normal_bf16(cupy, (n, k), 12), cupy.empty((m, n), cupy.uint16)
    expected = bf16_values(a) @ bf16_values(b).T            # fp32, by cuBLAS's SGEMM
    made = {name: KERNELS[name](a, b, c) for name in kernels}
    field = {name: Contestant(name, launch.bound(), options(launch), launch) for name, launch in made.items()}
    for name in (name for name in ("final", "final_dependent") if name in made and n % 8 == 0):         # in both layouts of B, as the peers
        turned = KERNELS[name](a, cupy.ascontiguousarray(b.T).T, c)
        field[summaries.TURNED if name == "final" else f"{name} {summaries.TURNED}"] = Contestant(name, turned.bound(), options(turned), turned)
    field |= {entry: Contestant(entry, run, family=family) for entry, (family, run) in peers.products(chosen, a, b, c).items()}

    def wrong(contestant: Contestant) -> float:
        c.fill(0x7FC0)                                      # NaN: what is not written is wrong
        contestant.run()
        return wrong_share(bf16_values(c), expected, k)
    return Race("gemm", (m, n, k), "bfloat16", flop(shape), "tflops", field, wrong)


def compile_choices(shapes: Sequence[tuple[int, ...]], kernels: Sequence[str]) -> None:
    """Compile `final` as it is picked for each shape, all at once; what does not compile says so when it is launched."""
    if "final" in kernels:
        compile_ahead(kernel for m, n, k in shapes for b_mn in (False, True) if n % 8 == 0 or not b_mn
                      for kernel in gemm_choice.wanted(gemm_choice.choose(m, n, k, b_mn=b_mn), n))


RACES = Races("gemm", SHAPES, parsed, KERNELS, ("mma_multistage", "tma_wgmma", "warp_specialized", "final"), peers.PRODUCT_PEERS, race,
              random_shapes, compile_choices)
