# SPDX-License-Identifier: Apache-2.0
"""Lesson 18's products in Triton, with and without `warp_specialize`: C = A B^T on tensor descriptors, one tile a program, or programs that walk over the tiles.

C is stored by pointers: where Triton 3.6 makes roles it splits the tile between two consumers, and does not compile a store by descriptor of half a block. Needs
Triton to import, a GPU to run.
"""
from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

if TYPE_CHECKING:
    from ...runtime.arrays import Array

PROGRAMS = 132


@triton.jit
def product(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ROLES: tl.constexpr):
    """A program makes one tile of C."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for step in tl.range(tl.cdiv(k, BK), warp_specialize=ROLES):
        total = tl.dot(a.load([row, step * BK]), b.load([column, step * BK]).T, total)
    rows, columns = row + tl.arange(0, BM)[:, None], column + tl.arange(0, BN)[None, :]
    tl.store(c + rows * n + columns, total.to(tl.bfloat16), mask=(rows < m) & (columns < n))


@triton.jit
def persistent(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ROLES: tl.constexpr):
    """As many programs as multiprocessors walk over the tiles of C."""
    for tile in tl.range(tl.program_id(0), tl.cdiv(m, BM) * tl.cdiv(n, BN), 132, warp_specialize=ROLES):
        row, column = tile // tl.cdiv(n, BN) * BM, tile % tl.cdiv(n, BN) * BN
        total = tl.zeros((BM, BN), tl.float32)
        for step in range(tl.cdiv(k, BK)):
            total = tl.dot(a.load([row, step * BK]), b.load([column, step * BK]).T, total)
        rows, columns = row + tl.arange(0, BM)[:, None], column + tl.arange(0, BN)[None, :]
        tl.store(c + rows * n + columns, total.to(tl.bfloat16), mask=(rows < m) & (columns < n))


KERNELS: Mapping[str, Any] = {"product": product, "persistent": persistent}


@dataclass(frozen=True)
class Made:
    """What Triton's compiler made of a kernel. threads: a CTA's."""

    registers: int
    spills: int
    shared: int
    threads: int


Arguments = tuple[tuple[int, ...], list]


def _arguments(kernel: str, tile: tuple[int, int, int], roles: bool, left: Any, right: Any, out: Any) -> Arguments:
    """(grid, arguments) of a launch on PyTorch tensors of bf16."""
    bm, bn, bk = tile
    (m, k), n = left.shape, right.shape[0]
    descriptors = [TensorDescriptor.from_tensor(tensor, [rows, bk]) for tensor, rows in ((left, bm), (right, bn))]
    grid = (triton.cdiv(m, bm), triton.cdiv(n, bn)) if kernel == "product" else (PROGRAMS,)
    return grid, [*descriptors, out, m, n, k, bm, bn, bk, roles]


def compiled(kernel: str, tile: tuple[int, int, int], stages: int, warps: int, roles: bool, shape: tuple[int, int, int]) -> None:
    """Compile for a shape, and launch nothing. Raises what Triton raises."""
    import torch
    m, n, k = shape
    left, right, out = (torch.empty(size, device="cuda", dtype=torch.bfloat16) for size in ((m, k), (n, k), (m, n)))
    grid, arguments = _arguments(kernel, tile, roles, left, right, out)
    KERNELS[kernel].warmup(*arguments, num_stages=stages, num_warps=warps, grid=grid)


def bound(kernel: str, tile: tuple[int, int, int], stages: int, warps: int, roles: bool, a: Array, b: Array, c: Array) -> tuple[Callable[[], None], Made]:
    """(launch, what was compiled) on CuPy arrays of bf16 bits (uint16); it was launched once when this returns."""
    import torch
    left, right, out = (torch.as_tensor(array.view("int16"), device="cuda").view(torch.bfloat16) for array in (a, b, c))
    grid, arguments = _arguments(kernel, tile, roles, left, right, out)

    def run() -> Any:
        return KERNELS[kernel][grid](*arguments, num_stages=stages, num_warps=warps)
    made = run()
    threads = re.search(r"\.reqntid (\d+)", made.asm["ptx"])
    return run, Made(made.n_regs, made.n_spills, made.metadata.shared, int(threads[1]) if threads else 32 * warps)
