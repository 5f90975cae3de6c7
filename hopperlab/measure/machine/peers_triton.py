# SPDX-License-Identifier: Apache-2.0
"""A peer written in Triton: a persistent bf16 product whose tiles come and go by TMA. Needs Triton 3.4 or newer; a GPU to run.

As many programs as multiprocessors walk over the tiles of C in groups of rows; Triton pipelines the loads, and with
`flatten` the pipeline runs on from one tile into the next. `best` tries a few configurations and keeps the fastest.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from .timing import interleaved

if TYPE_CHECKING:
    from ...runtime.arrays import Array

SMS = 132


@dataclass(frozen=True)
class Configuration:
    """Tile, pipeline depth and warps. halves: C leaves in two halves, which need half the shared memory; flatten: the loops over
    tiles and over k are one."""

    bm: int
    bn: int
    bk: int
    stages: int
    warps: int
    halves: bool = False
    flatten: bool = True


CONFIGURATIONS = (Configuration(128, 256, 64, 3, 8), Configuration(128, 256, 64, 4, 8, halves=True),
                  Configuration(128, 256, 64, 4, 8, halves=True, flatten=False), Configuration(128, 128, 64, 4, 4),
                  Configuration(128, 128, 128, 3, 8), Configuration(64, 128, 64, 5, 4))


@triton.jit
def product(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
            PROGRAMS: tl.constexpr, HALVES: tl.constexpr, FLATTEN: tl.constexpr):
    """c = a * b^T. a, b, c: tensor descriptors of bf16 matrices, m x k, n x k and m x n, in blocks of (BM, BK), (BN, BK) and
    (BM, BN), or (BM, BN / 2) with HALVES."""
    rows, columns = tl.cdiv(m, BM), tl.cdiv(n, BN)
    for tile in tl.range(tl.program_id(0), rows * columns, PROGRAMS, flatten=FLATTEN):
        group, inside = tile // (GROUP * columns), tile % (GROUP * columns)
        tall = min(rows - group * GROUP, GROUP)             # the last group may have fewer rows
        row = (group * GROUP + inside % tall) * BM
        column = (inside // tall) * BN
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for step in range(tl.cdiv(k, BK)):
            total = tl.dot(a.load([row, step * BK]), b.load([column, step * BK]).T, total)
        if HALVES:
            left, right = tl.split(tl.permute(tl.reshape(total, (BM, 2, BN // 2)), (0, 2, 1)))
            c.store([row, column], left.to(tl.bfloat16))
            c.store([row, column + BN // 2], right.to(tl.bfloat16))
        else:
            c.store([row, column], total.to(tl.bfloat16))


def bound(a: Array, b: Array, c: Array, choice: Configuration) -> Callable[[], None]:
    """A launch of one configuration on CuPy arrays of bf16 bits (uint16); the kernel is compiled at the first call."""
    import torch
    left, right, out = (torch.as_tensor(array.view("int16"), device="cuda").view(torch.bfloat16) for array in (a, b, c))
    (m, k), n = left.shape, right.shape[0]
    blocks = ((left, choice.bm, choice.bk), (right, choice.bn, choice.bk), (out, choice.bm, choice.bn // (1 + choice.halves)))
    descriptors = [TensorDescriptor.from_tensor(tensor, [rows, columns]) for tensor, rows, columns in blocks]
    grid = (min(SMS, triton.cdiv(m, choice.bm) * triton.cdiv(n, choice.bn)),)

    def run() -> None:
        product[grid](*descriptors, m, n, k, choice.bm, choice.bn, choice.bk, 8, SMS, choice.halves, choice.flatten,
                      num_stages=choice.stages, num_warps=choice.warps)
    return run


def best(a: Array, b: Array, c: Array) -> Callable[[], None] | None:
    """The fastest configuration on these operands; None where not one compiles (each that does not is named)."""
    runs = {}
    for choice in CONFIGURATIONS:
        try:
            run = bound(a, b, c, choice)
            run()
        except Exception as problem:                        # Triton's errors have no common class
            print(f"Triton, {choice}: {type(problem).__name__}: {str(problem).strip().partition(chr(10))[0]}", file=sys.stderr)
            continue
        runs[str(choice)] = run
    if not runs:
        return None
    samples = interleaved(runs, rounds=3)
    return runs[min(samples, key=lambda name: samples[name].ms)]
