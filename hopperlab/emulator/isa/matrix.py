# SPDX-License-Identifier: Apache-2.0
"""Matrix instructions of a warp: mma.sync, and the register side of ldmatrix, stmatrix, movmatrix (PTX ISA 9.7.14).

A fragment is a list of register arrays of shape (warps, 32). Every shape has one layout rule (lane = 4g + q, E elements
a register): A row = g + 8 (i & 1), k = 4E (i >> 1) + Eq + e; B the same with n = g; C row = g + 8 (i >> 1),
col = 2q + (i & 1). So fragments become matrices by transposing whole registers. Values are exact; sums are float32, in
NumPy's order: the architecture leaves the order open. Those of .f64 are a chain of fused multiply-adds along k.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ptx import ir
from .elements import ELEMENTS, Element
from .exact import fma64
from .formats import f32_f16
from .matrix_quads import product as quads_product
from .op import NEWER, Modifiers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# Shapes of each pair of element widths: (m, n, k) of one mma.sync on sm_90a.
_SHAPES = {
    "f16": ((16, 8, 8), (16, 8, 16)),
    "bf16": ((16, 8, 8), (16, 8, 16)),
    "tf32": ((16, 8, 4), (16, 8, 8)),
    "f64": ((8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)),
    "e4m3": ((16, 8, 16), (16, 8, 32)),
    "s8": ((8, 8, 16), (16, 8, 16), (16, 8, 32)),
    "s4": ((8, 8, 32), (16, 8, 32), (16, 8, 64)),
    "b1": ((8, 8, 128), (16, 8, 128), (16, 8, 256)),
}
_FAMILY = {"e5m2": "e4m3", "u8": "s8", "u4": "s4"}  # types that mix freely and share shapes
_ACCUMULATORS = {
    "f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",), "e4m3": ("f16", "f32"), "s8": ("s32",),
    "s4": ("s32",), "b1": ("s32",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MmaOp:
    """One mma.sync. `fn(a, b, c)` takes lists of (warps, 32) arrays, as many as `counts` says, in dtypes `ins` (one for
    each of A, B, C: 'u32', 'f32', 's32' or 'f64'), and returns the list of D in dtype `out`. Arguments stay as they
    are. `shape` is (m, n, k), `types` (D, A, B, C) as written."""

    fn: Callable
    counts: tuple[int, int, int]
    ins: tuple[str, str, str]
    out: str
    shape: tuple[int, int, int]
    types: tuple[str, str, str, str]


def mma(instr: ir.Instr) -> MmaOp:
    """mma.sync.aligned.shape.row.col{.satfinite}{.rounding}.dtype.atype.btype.ctype{.op.popc}; raises UnsupportedInstruction."""
    mods = Modifiers(instr)
    layouts = tuple(mods.require(("row", "col")) for _ in range(2))
    if not (mods.flag("sync") and mods.flag("aligned")):
        raise mods.fail("mma needs .sync.aligned")
    shape = _read_shape(mods)
    quads = shape == (8, 8, 4) and mods.left[1:3] == ["f16", "f16"]
    if layouts != ("row", "col") and not quads:
        raise mods.fail("mma needs .row.col (other layouts exist for .m8n8k4.f16 alone)")
    satfinite = mods.flag("satfinite")
    rounding = mods.choose(("rn", "rz", "rm", "rp"))
    bitwise = mods.choose(("xor", "and"))
    mods.flag("popc")
    types = tuple(mods.left)
    newer = next((mod for mod in types if mod in NEWER), None)
    if newer is not None or len(types) != 4:
        raise mods.fail(mods.unknown(newer, "type") if newer else "needs the types of D, A, B and C")
    if quads:
        return _build_quads(mods, layouts, types, satfinite or rounding or bitwise)
    _check(mods, shape, types, bitwise)
    if rounding and types[0] != "f64":
        raise mods.fail("a rounding mode is for .f64")
    return _build(shape, types, satfinite, bitwise, rounding or "rn")


def _build_quads(mods: Modifiers, layouts: tuple, types: tuple, strange) -> MmaOp:
    """mma.m8n8k4 of f16 (matrix_quads.py)."""
    d, _, _, c = types
    if strange or (d, c) not in (("f16", "f16"), ("f32", "f32"), ("f32", "f16")):
        raise mods.fail(f"sm_90a has no m8n8k4 product of .f16 with accumulators .{d} and .{c}")
    names = {"f16": "u32", "f32": "f32"}
    counts = (2, 2, 4 if c == "f16" else 8)
    return MmaOp(quads_product(layouts, d, c), counts, ("u32", "u32", names[c]), names[d], (8, 8, 4), types)


def _read_shape(mods: Modifiers) -> tuple[int, int, int]:
    name = next((mod for mod in mods.left if mod[:1] == "m" and "n" in mod and "k" in mod), None)
    if name is None:
        raise mods.fail("has no shape")
    mods.left.remove(name)
    m, rest = name[1:].split("n", 1)
    n, k = rest.split("k", 1)
    return int(m), int(n), int(k)


def _check(mods: Modifiers, shape: tuple, types: tuple, bitwise: str | None) -> None:
    d, a, b, c = types
    for name in (a, b):
        if name not in ELEMENTS:
            raise mods.fail(mods.unknown(name, "type"))
    family = _FAMILY.get(a, a)
    if family != _FAMILY.get(b, b) or d != c or d not in _ACCUMULATORS[family] or (bitwise is None) != (a != "b1"):
        raise mods.fail(f"sm_90a has no product of .{a} and .{b} with accumulators .{d} and .{c}")
    if shape not in _SHAPES[family]:
        known = ", ".join("m{}n{}k{}".format(*s) for s in _SHAPES[family])
        raise mods.fail(f".{a} has the shapes {known} here")


def _build(shape: tuple, types: tuple, satfinite: bool, bitwise: str | None, rounding: str) -> MmaOp:
    m, n, k = shape
    d, a, b, _ = types
    a_element, b_element = ELEMENTS[a], ELEMENTS[b]
    groups = k // (4 * a_element.per_register)
    rows = m // 8
    multiply = _popcount(bitwise, a_element, k) if bitwise else None
    finish = _FINISH[d]

    def fn(a_regs, b_regs, c_regs):
        left = gather(a_regs, a_element, rows, groups)
        right = gather(b_regs, b_element, 1, groups)
        product = multiply(left, right) if multiply else np.matmul(left, right.transpose(0, 2, 1))
        return finish(product, c_regs, satfinite)

    def chained(a_regs, b_regs, c_regs):
        left, right = gather(a_regs, a_element, rows, groups), gather(b_regs, b_element, 1, groups)
        return [_chain(left, right, c, i, rounding) for i, c in enumerate(c_regs)]

    accumulators = m * n // 32
    registers = accumulators // 2 if d == "f16" else accumulators
    name = {"f16": "u32"}.get(d, d)
    ins = (a_element.register, b_element.register, name)
    return MmaOp(chained if d == "f64" else fn, (rows * groups, groups, registers), ins, name, shape, types)


def gather(registers: Sequence[NDArray[Any]], element: Element, rows: int, groups: int) -> np.ndarray:
    """The (warps, 8*rows, K) matrix held by a fragment: register i has rows 8 (i % rows) … and K block i // rows."""
    warps = len(registers[0])
    if element.register == "f64":
        words = np.empty((warps, rows, 8, groups, 4), dtype=np.float64)
        for i, register in enumerate(registers):
            words[:, i % rows, :, i // rows] = register.reshape(warps, 8, 4)
        return words.reshape(warps, 8 * rows, -1)
    # Four words (one g, q = 0..3) move as one 16-byte item.
    words = np.empty((warps, rows, 8, groups), dtype=np.complex128)
    for i, register in enumerate(registers):
        words[:, i % rows, :, i // rows] = np.ascontiguousarray(register).view(np.complex128)
    return element.decode(words.view(np.uint32)).reshape(warps, 8 * rows, -1)


def _chain(left: np.ndarray, right: np.ndarray, c: np.ndarray, index: int, rounding: str) -> np.ndarray:
    """Accumulator `index` of .f64: one fused multiply-add after the other along k, each rounded."""
    warps, k = len(left), left.shape[2]
    rows = left[:, 8 * (index >> 1) : 8 * (index >> 1) + 8]
    total = c.reshape(warps, 8, 4)
    for step in range(k):
        total = fma64(rows[:, :, None, step], right[:, None, index & 1 :: 2, step], total, rounding)
    return np.ascontiguousarray(np.broadcast_to(total, (warps, 8, 4))).reshape(warps, 32)


def _halves(product: np.ndarray, index: int) -> np.ndarray:
    """Accumulator `index` of every lane, as a view of shape (warps, 32)."""
    rows = product[:, 8 * (index >> 1) : 8 * (index >> 1) + 8, index & 1 :: 2]
    return rows.reshape(len(product), 32)


def _finish_f32(product, c_regs, _satfinite) -> list:
    """D = product + C in float32 (or float64)."""
    return [_halves(product, i) + c for i, c in enumerate(c_regs)]


def _finish_f16(product, c_regs, _satfinite) -> list:
    """Accumulators are f16 pairs: register j holds both columns of row g + 8j."""
    out = []
    for j, c in enumerate(c_regs):
        terms = np.ascontiguousarray(c).view(np.float16).astype(np.float32)
        total = product[:, 8 * j : 8 * j + 8, :].reshape(len(product), 64) + terms
        out.append(f32_f16(total).view(np.uint32))
    return out


def _finish_s32(product, c_regs, satfinite: bool) -> list:
    """Exact dot products plus C, wrapping or clamped."""
    if not satfinite:
        return [_halves(product, i).astype(np.int32) + c for i, c in enumerate(c_regs)]
    totals = [_halves(product, i).astype(np.int64) + c for i, c in enumerate(c_regs)]
    return [np.minimum(np.maximum(t, -(2**31)), 2**31 - 1).astype(np.int32) for t in totals]


_FINISH = {"f32": _finish_f32, "f64": _finish_f32, "f16": _finish_f16, "s32": _finish_s32}


def finish(kind: str) -> Callable:
    """fn(product, c registers, satfinite) -> D registers, by the type of D."""
    return _FINISH[kind]


def _popcount(op: str, element: Element, k: int) -> Callable:
    """Bits set in (a op b), from products of 0/1 rows: xor = |a| + |b| - 2 a.b."""

    def fn(left, right):
        both = np.matmul(left, right.transpose(0, 2, 1))
        if op == "and":
            return both
        return left.sum(axis=2)[:, :, None] + right.sum(axis=2)[:, None, :] - 2 * both

    return fn


# --- ldmatrix, stmatrix, movmatrix ------------------------------------------------------------------------------------


def ldmatrix_distribute(rows: np.ndarray, trans: bool = False) -> list[np.ndarray]:
    """What ldmatrix puts into each register.

    rows: (warps, matrices, 8, 16) uint8, the rows in the order of their addresses. Returns one (warps, 32) uint32 array
    a matrix: lane 4g+q gets row g, columns 2q and 2q+1; with `trans` column g, rows 2q and 2q+1.
    """
    warps, count = rows.shape[:2]
    if trans:
        elements = np.ascontiguousarray(rows).view(np.uint16).swapaxes(2, 3)
        words = np.ascontiguousarray(elements).view(np.uint32)
    else:
        words = np.ascontiguousarray(rows).view(np.uint32)
    words = words.reshape(warps, count, 32)
    return [words[:, j] for j in range(count)]


def stmatrix_collect(registers: list[np.ndarray], trans: bool = False) -> np.ndarray:
    """The inverse: the (warps, matrices, 8, 16) uint8 rows that stmatrix writes."""
    warps, count = len(registers[0]), len(registers)
    words = np.stack(registers, axis=1).reshape(warps, count, 8, 4)
    if trans:
        elements = words.view(np.uint16).swapaxes(2, 3)
        return np.ascontiguousarray(elements).view(np.uint8)
    return words.view(np.uint8)


def movmatrix(register: np.ndarray) -> np.ndarray:
    """movmatrix.sync.aligned.m8n8.trans.b16: the 8x8 matrix of a (warps, 32) uint32 register, transposed."""
    elements = np.ascontiguousarray(register).view(np.uint16).reshape(-1, 8, 8).swapaxes(1, 2)
    return np.ascontiguousarray(elements).view(np.uint32).reshape(-1, 32)
