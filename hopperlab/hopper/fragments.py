# SPDX-License-Identifier: Apache-2.0
"""Which thread holds which element: register fragments of wgmma, mma.sync, ldmatrix, stmatrix and movmatrix.

Every function returns read-only index arrays, one row a thread and one column an element in register order (the low part
of a register first), so `matrix[row, col]` is a fragment and `out[row, col] = fragment` puts it back.
g = lane // 4 is the group and q = lane % 4 the thread in the group, as in the PTX ISA.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np

WARP = 32
WARPGROUP = 128


class Fragment(NamedTuple):
    """Index arrays (threads, elements): element e of thread t is matrix[row[t, e], col[t, e]]."""

    row: np.ndarray
    col: np.ndarray


class Mma(NamedTuple):
    """Fragments of one mma.sync: a over (m, k), b over (k, n), c (and d) over (m, n)."""

    a: Fragment
    b: Fragment
    c: Fragment


def _frozen(row: np.ndarray, col: np.ndarray) -> Fragment:
    row, col = np.array(np.broadcast_arrays(row, col), dtype=np.int64)
    row.setflags(write=False)
    col.setflags(write=False)
    return Fragment(row, col)


def _lanes(threads: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Warp in the warpgroup, group g and thread-in-group q of each thread, as columns (threads, 1)."""
    t = np.arange(threads)[:, None]
    return t // WARP, t % WARP // 4, t % 4


@lru_cache(maxsize=64)
def wgmma_d(n: int) -> Fragment:
    """Accumulator D (64 x n) of wgmma: arrays (128, n // 2); element i is f32 or s32 register i.

    row = 16 w + g + 8 * ((i >> 1) & 1), col = 8 * (i >> 2) + 2 q + (i & 1). With an f16 accumulator register j packs
    elements 2j (low half) and 2j + 1. Raises ValueError unless n is 8 to 256 in steps of 8.
    Source: PTX ISA 9.7.15.5.1.1 (register fragments for D); CUTLASS CLayout_64xN.
    """
    if n % 8 or not 8 <= n <= 256:
        raise ValueError(f"n = {n}: a wgmma accumulator has 8 to 256 columns in steps of 8")
    w, g, q = _lanes(WARPGROUP)
    i = np.arange(n // 2)[None, :]
    return _frozen(16 * w + g + 8 * (i >> 1 & 1), 8 * (i >> 2) + 2 * q + (i & 1))


@lru_cache(maxsize=8)
def wgmma_a(elem_bits: int) -> Fragment:
    """Operand A of wgmma from registers (64 x 32 bytes): arrays (128, elements); `col` is k.

    elem_bits 16: 8 elements, K = 16; 32 (tf32): 4, K = 8; 8: 16, K = 32. Elements fill four 32-bit registers, low part
    first. Raises ValueError for other sizes. Source: PTX ISA 9.7.15.5.1.1 (fragments for A); CUTLASS ALayout.
    """
    if elem_bits not in (8, 16, 32):
        raise ValueError(f"elem_bits = {elem_bits}: wgmma's A registers hold 8-, 16- or 32-bit elements")
    per = 32 // elem_bits
    w, g, q = _lanes(WARPGROUP)
    e = np.arange(4 * per)[None, :]
    reg = e // per
    return _frozen(16 * w + g + 8 * (reg & 1), per * q + e % per + 4 * per * (reg >> 1))


MMA_SHAPES: dict[str, tuple[str, ...]] = {
    "f16": ("m16n8k8", "m16n8k16"), "bf16": ("m16n8k8", "m16n8k16"), "tf32": ("m16n8k4", "m16n8k8"),
    "f64": ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"), "e4m3": ("m16n8k32",), "e5m2": ("m16n8k32",),
    "s8": ("m8n8k16", "m16n8k16", "m16n8k32"), "u8": ("m8n8k16", "m16n8k16", "m16n8k32"),
    "s4": ("m8n8k32", "m16n8k32", "m16n8k64"), "u4": ("m8n8k32", "m16n8k32", "m16n8k64"),
    "b1": ("m8n8k128", "m16n8k128", "m16n8k256"),
}
"""Shapes of mma.sync by the PTX type of A and B (PTX ISA 9.7.14.5). The f16 m8n8k4 of Volta, laid out otherwise, is left out."""

_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}


@lru_cache(maxsize=64)
def mma(shape: str, dtype: str) -> Mma:
    """Fragments of mma.sync.aligned.`shape` with A and B of PTX type `dtype`, each (32, elements).

    A register holds p = max(1, 32 / bits) elements along k. Registers of A go over blocks of 8 rows first, then blocks of
    4p in k: row = g + 8 * (reg % (m/8)), k = p q + e % p + 4 p * (reg // (m/8)); B: k = p q + e % p + 4 p reg, col = g;
    C and D: row = g + 8 * (i >> 1), col = 2 q + (i & 1). Raises ValueError for a shape the type does not have.
    Source: PTX ISA 9.7.14.5.1 to 9.7.14.5.14 (matrix fragments for mma.m8n8k*, mma.m16n8k*).
    """
    if dtype not in MMA_SHAPES:
        raise ValueError(f"mma.sync has no operand type {dtype!r}: choose one of {', '.join(MMA_SHAPES)}")
    if shape not in MMA_SHAPES[dtype]:
        raise ValueError(f"mma.sync of {dtype} has no shape {shape}: choose one of {', '.join(MMA_SHAPES[dtype])}")
    m, n, k = (int(x) for x in re.findall(r"\d+", shape))
    per = max(1, 32 // _BITS[dtype])
    _, g, q = _lanes(WARP)
    e = np.arange(m * k // WARP)[None, :]
    reg, inside = e // per, e % per
    a = _frozen(g + 8 * (reg % (m // 8)), per * q + inside + 4 * per * (reg // (m // 8)))
    e = np.arange(k * n // WARP)[None, :]
    b = _frozen(per * q + e % per + 4 * per * (e // per), g)
    i = np.arange(m * n // WARP)[None, :]
    return Mma(a, b, _frozen(g + 8 * (i >> 1), 2 * q + (i & 1)))


def mma_m16n8k16_a() -> Fragment:
    """A (16 x 16, f16 or bf16) of mma.m16n8k16: arrays (32, 8), `col` is k (PTX ISA 9.7.14.5.8)."""
    return mma("m16n8k16", "f16").a


def mma_m16n8k16_b() -> Fragment:
    """B (16 x 8, f16 or bf16) of mma.m16n8k16: arrays (32, 4), `row` is k (PTX ISA 9.7.14.5.8)."""
    return mma("m16n8k16", "f16").b


def mma_m16n8k16_c() -> Fragment:
    """C and D (16 x 8) of mma.m16n8k16: arrays (32, 4) (PTX ISA 9.7.14.5.8)."""
    return mma("m16n8k16", "f16").c


@lru_cache(maxsize=8)
def ldmatrix(trans: bool = False) -> Fragment:
    """The 8 x 8 matrix of 16-bit elements as ldmatrix and stmatrix spread it over a warp: arrays (32, 2), low half first.

    Register j of every lane holds matrix j in this way: row = lane // 4, col = 2 * (lane % 4) + e; with .trans row and col
    change places. Source: PTX ISA 9.7.14.5.15 (ldmatrix), 9.7.14.5.16 (stmatrix).
    """
    _, g, q = _lanes(WARP)
    across = 2 * q + np.arange(2)[None, :]
    return _frozen(across, g) if trans else _frozen(g, across)


def ldmatrix_address_lanes(num: int) -> np.ndarray:
    """Which lane's address is each row's: int64 (num, 8); row r of matrix j is at the address lane 8j + r gives.

    num is 1, 2 or 4 (.x1, .x2, .x4); raises ValueError otherwise. A row is 16 bytes and 16-byte aligned.
    Source: PTX ISA 9.7.14.5.15.
    """
    if num not in (1, 2, 4):
        raise ValueError(f"num = {num}: ldmatrix and stmatrix move 1, 2 or 4 matrices")
    return np.arange(8 * num).reshape(num, 8)


@lru_cache(maxsize=1)
def movmatrix() -> Fragment:
    """Where movmatrix.trans takes each element of its result from: arrays (32, 2) of source lane and source half.

    The result's element (row, col) is the source's (col, row), both spread as by `ldmatrix`.
    Source: PTX ISA 9.7.14.5.17.
    """
    to = ldmatrix()
    return _frozen(4 * to.col + to.row // 2, to.row % 2)
