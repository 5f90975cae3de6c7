# SPDX-License-Identifier: Apache-2.0
"""wmma.load, wmma.mma and wmma.store, which libcu++'s mma.h uses (PTX ISA 9.7.14.4).

Which lane holds which element of a wmma fragment is not specified. Here element e of a matrix (rows of A, columns of B,
rows of C, innermost k or n) sits in lane e // s, slot e % s, with s elements a lane; a fragment that has room for more
repeats itself. A 4-bit or 1-bit row is handled as 32-bit words.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..isa import operand_values
from ..isa.exact import fma64
from ..ptx.ir import Vec
from ..compile.translated import DTYPES, HOME, MachineOp
from . import loadstore
from .common import SPACES, Access, unsupported

if TYPE_CHECKING:
    from ..isa.value import Value
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine

SHAPES = {
    "f16": ("m16n16k16", "m32n8k16", "m8n32k16"), "bf16": ("m16n16k16", "m32n8k16", "m8n32k16"), "tf32": ("m16n16k8",), "f64": ("m8n8k4",),
    "s8": ("m16n16k16", "m32n8k16", "m8n32k16"), "u8": ("m16n16k16", "m32n8k16", "m8n32k16"),
    "s4": ("m8n8k32",), "u4": ("m8n8k32",), "b1": ("m8n8k128",),
}
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "f32": 32, "s32": 32}
DTYPE = {8: "u8", 16: "u16", 32: "u32", 64: "u64"}


@dataclass
class Matrix:
    """One operand: rows x columns elements of `bits`, innermost along columns; `element`: the PTX type."""

    element: str
    rows: int
    columns: int

    @property
    def bits(self) -> int:
        """Bits of what is moved as one: sub-byte elements go as words."""
        return max(BITS[self.element], 32 if BITS[self.element] < 8 else 8)

    @property
    def packed(self) -> int:
        """Elements in one moved piece."""
        return self.bits // BITS[self.element]

    @property
    def pieces(self) -> int:
        """Pieces of the whole matrix."""
        return self.rows * self.columns // self.packed

    def slots(self, per_lane: int) -> np.ndarray:
        """(32, per_lane): which piece each slot of each lane holds."""
        return (np.arange(32 * per_lane) % self.pieces).reshape(32, per_lane)


@dataclass
class Info:
    """A decoded wmma instruction; `by_rows`: memory holds the matrix row by row; `per_lane`: pieces a lane holds."""

    index: int
    matrix: Matrix
    by_rows: bool = True
    access: Access | None = None
    per_lane: int = 0
    registers: int = 0


def _shape(instr, element: str, accumulates: bool) -> tuple[int, int, int]:
    name = next((m for m in instr.mods if m.startswith("m") and m[1:2].isdigit()), "")
    inputs = {"f32": ("f16", "bf16", "tf32"), "s32": ("s8", "s4", "b1"), "f16": ("f16",), "f64": ("f64",)}
    allowed = [s for t in (inputs.get(element, ()) if accumulates else (element,)) for s in SHAPES.get(t, ())]
    if name not in allowed:
        raise unsupported(instr, f"wmma has no shape {name or '?'} for .{element}")
    m, rest = name[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


def _matrix(instr, which: str, element: str) -> Matrix:
    m, n, k = _shape(instr, element, which in "cd")
    return Matrix(element, *{"a": (m, k), "b": (n, k)}.get(which, (m, n)))


def _items(operand) -> tuple:
    return operand.items if type(operand) is Vec else (operand,)


def _per_lane(instr, matrix: Matrix, registers: tuple) -> int:
    width = 64 if matrix.element == "f64" else 32
    count = len(registers) * width // matrix.bits
    if 32 * count % matrix.pieces:
        raise unsupported(instr, f"{len(registers)} registers for a fragment of .{matrix.element}")
    return count


def _wmma(instr, function) -> MachineOp:
    what = instr.mods[0]
    if what == "mma":
        return _multiply(instr)
    if what not in ("load", "store"):
        raise unsupported(instr)
    element, which = instr.mods[-1], instr.mods[1]
    matrix = _matrix(instr, which, element)
    layout = next((m for m in instr.mods if m in ("row", "col")), None)
    space = next((m for m in instr.mods if m in SPACES), "generic")
    if layout is None:
        raise unsupported(instr, "a layout .row or .col is needed")
    by_rows = (layout == "row") != (which == "b")
    address, registers = (instr.operands[1], instr.operands[0]) if what == "load" else (instr.operands[0], instr.operands[1])
    registers = _items(registers)
    access = Access(instr.index, DTYPE[matrix.bits], matrix.bits // 8, 1, "shared" if space.startswith("shared") else space,
                    cluster=space in ("generic", "shared::cluster"))
    info = Info(instr.index, matrix, by_rows, access, _per_lane(instr, matrix, registers), len(registers))
    stride = ((instr.operands[2], "u32"),) if len(instr.operands) > 2 else ()
    kind = "u64" if element == "f64" else "u32"
    if what == "load":
        dsts = tuple((r, HOME[r.type] if r.type != "f32" else "u32") for r in registers)
        return MachineOp(load, info, ((address, None), *stride), tuple((r, kind) for r, _ in dsts), collective=True)
    sources = ((address, None), *((r, kind) for r in registers), *stride)
    return MachineOp(store, info, sources, collective=True)


def _places(M, C, info: Info, address, stride) -> np.ndarray:
    """(per_lane, lanes) addresses of the pieces of every lane."""
    if not C.full32():
        raise M.fault(C, info.index, 0, "wmma needs all 32 lanes of the warp", "divergent-collective", 0)
    m = info.matrix
    inner = m.columns if info.by_rows else m.rows
    step = M.lanes(C, stride).astype(np.int64) if stride is not None else np.full(C.n, inner, np.int64)
    if (step * BITS[m.element] % 128).any() and BITS[m.element] < 32:
        raise M.fault(C, info.index, 0, f"a stride of {int(step[0])} elements of .{m.element}: it must be a multiple of 16 bytes", "misaligned", int(step[0]))
    piece = m.slots(info.per_lane)
    row, column = piece // (m.columns // m.packed), piece % (m.columns // m.packed)
    across, along = (row, column) if info.by_rows else (column, row)
    lanes = C.gids & 31
    offset = across[lanes].T * (step // m.packed) + along[lanes].T
    return M.lanes(C, address) + (offset * (m.bits // 8)).astype(address.dtype)


def load(M: Machine, C: Cohort, info: Info, address: Value, stride: Value | None = None) -> Value | tuple[Value, ...]:
    """wmma.load: a matrix from memory into the registers of a warp."""
    M.tell.warp_synced(C)
    places = _places(M, C, info, address, stride)
    pieces = np.stack([M.lanes(C, loadstore.load(M, C, info.access, at)) for at in places], axis=1)
    words = np.ascontiguousarray(pieces).view(np.uint64 if info.matrix.element == "f64" else np.uint32)
    out = tuple(np.ascontiguousarray(words[:, k]) for k in range(info.registers))
    return out[0] if len(out) == 1 else out


def store(M: Machine, C: Cohort, info: Info, address: Value, *rest: Value) -> None:
    """wmma.store: the registers of a warp to a matrix in memory."""
    M.tell.warp_synced(C)
    stride = rest[info.registers] if len(rest) > info.registers else None
    words = np.stack([M.lanes(C, r) for r in rest[:info.registers]], axis=1)
    pieces = words.view(DTYPES[info.access.type])
    for at, column in zip(_places(M, C, info, address, stride), pieces.T):
        loadstore.store(M, C, info.access, at, np.ascontiguousarray(column))


# --- multiplication ---------------------------------------------------------------------------------------------------
@dataclass
class Product:
    """A decoded wmma.mma: its four matrices with registers of each, `op` for b1, `satfinite`, and how sums of f64 are rounded."""

    index: int
    matrices: tuple
    counts: tuple
    op: str = ""
    satfinite: bool = False
    rounding: str = "rn"


def _types(instr) -> tuple[str, str, str, str]:
    types = [m for m in instr.mods if m in BITS]
    if len(types) == 2:                      # .dtype.ctype: A and B are f16
        return types[0], "f16", "f16", types[1]
    if len(types) != 4:
        raise unsupported(instr)
    return tuple(types)


def _multiply(instr) -> MachineOp:
    types = _types(instr)
    d, a, b, c = (_items(o) for o in instr.operands[:4])
    if {types[1], types[2]} not in ({"s8", "u8"}, {"s4", "u4"}) and types[1] != types[2]:
        raise unsupported(instr, f".{types[1]} with .{types[2]}")
    ma, mb = _matrix(instr, "a", types[1]), _matrix(instr, "b", types[2])
    matrices = (Matrix(types[0], ma.rows, mb.rows), ma, mb, Matrix(types[3], ma.rows, mb.rows))
    op = next((m for m in instr.mods if m in ("xor", "and")), "")
    counts = tuple(_per_lane(instr, m, r) for m, r in zip(matrices, (d, a, b, c)))
    rounding = next((m for m in instr.mods if m in ("rn", "rz", "rm", "rp")), "rn")
    info = Product(instr.index, matrices, counts, op, "satfinite" in instr.mods, rounding)
    kinds = ["u64" if m.element == "f64" else "u32" for m in matrices]
    sources = tuple((r, k) for rs, k in zip((a, b, c), kinds[1:]) for r in rs)
    return MachineOp(multiply, info, sources, tuple((r, kinds[0]) for r in d), collective=True)


def _gathered(M, C, registers, matrix: Matrix, per_lane: int) -> np.ndarray:
    """(warps, rows, bytes of a row) of a fragment."""
    words = np.stack([M.lanes(C, r) for r in registers], axis=1)
    pieces = words.view(DTYPES[DTYPE[matrix.bits]]).reshape(-1, 32 * per_lane)[:, :matrix.pieces]
    return np.ascontiguousarray(pieces).reshape(-1, matrix.rows, matrix.columns // matrix.packed).view(np.uint8)


def _values(raw: np.ndarray, element: str) -> np.ndarray:
    if element in ("s4", "u4"):
        nibbles = np.stack([raw & 15, raw >> 4], axis=-1).reshape(*raw.shape[:-1], -1).astype(np.int64)
        return (nibbles - 16 * (nibbles > 7) if element == "s4" else nibbles).astype(np.float64)
    if element == "b1":
        return np.unpackbits(raw, axis=-1, bitorder="little").astype(np.float64)
    if element in ("f32", "s32", "f64"):
        return raw.view({"f32": np.float32, "s32": np.int32, "f64": np.float64}[element]).astype(np.float64)
    return operand_values.to_float(raw, element).astype(np.float64)


def multiply(M: Machine, C: Cohort, info: Product, *registers: Value) -> Value | tuple[Value, ...]:
    """wmma.mma: D = A*B + C of every warp, accumulated in double precision and rounded once (f64: by each multiply-add along k)."""
    M.tell.warp_synced(C)
    if not C.full32():
        raise M.fault(C, info.index, 0, "wmma.mma needs all 32 lanes of the warp", "divergent-collective", 0)
    values, at = [], 0
    for matrix, per_lane in zip(info.matrices[1:], info.counts[1:]):
        count = per_lane * matrix.bits // (64 if matrix.element == "f64" else 32)
        values.append(_values(_gathered(M, C, registers[at:at + count], matrix, per_lane), matrix.element))
        at += count
    a, b, c = values
    if info.matrices[0].element == "f64":
        M.tell.multiplied(C, info.index, "wmma", len(c))
        for k in range(a.shape[2]):
            c = fma64(a[:, :, None, k], b[:, None, :, k], c, info.rounding)
        return _scattered(c, info)
    product = np.matmul(a, b.transpose(0, 2, 1))
    if info.op == "xor":
        product = a.sum(axis=2)[:, :, None] + b.sum(axis=2)[:, None, :] - 2 * product
    M.tell.multiplied(C, info.index, "wmma", len(product))
    return _scattered(product + c, info)


def _scattered(total: np.ndarray, info: Product):
    """The registers that hold D."""
    element = info.matrices[0].element
    if element == "s32":
        total = np.clip(total, -(1 << 31), (1 << 31) - 1) if info.satfinite else total
        raw = total.astype(np.int64).astype(np.int32)
    else:
        raw = total.astype({"f16": np.float16, "f32": np.float32, "f64": np.float64}[element])
    words = np.ascontiguousarray(raw.reshape(-1, info.counts[0])).view(np.uint64 if element == "f64" else np.uint32)
    out = tuple(np.ascontiguousarray(words[:, k]) for k in range(words.shape[1]))
    return out[0] if len(out) == 1 else out


RESOLVERS = {"wmma": _wmma}
