# SPDX-License-Identifier: Apache-2.0
"""mma.sp.sync: products whose A has two zeros in every four elements (one in two for tf32, two pairs in every four pairs of
4-bit integers) (PTX ISA 9.7.14.6).

A fragment holds only what is not zero; a metadata word says where it stands. A word covers rows g and g + 8 of 16 columns
(8 of tf32), 16 bits each, or one row of 32 columns of bytes (64 of 4 bits); the selector picks the lanes of each quad that hold them.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..isa import matrix
from ..isa.elements import ELEMENTS
from ..ptx.ir import Imm, Vec
from ..compile.translated import MachineOp
from .common import no_sm_90a, unsupported

if TYPE_CHECKING:
    from ..isa.value import Value
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine
    from ..ptx.ir import Instr

SHAPES = {"f16": (16, 32), "bf16": (16, 32), "tf32": (8, 16), "s8": (32, 64), "u8": (32, 64), "s4": (64, 128), "u4": (64, 128), "e4m3": (64,), "e5m2": (64,)}
ACCUMULATORS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "s8": ("s32",), "u8": ("s32",), "s4": ("s32",), "u4": ("s32",), "e4m3": ("f32",),
                "e5m2": ("f32",)}
NIBBLES = ("s4", "u4")
WORDS = ("sp", "sp::ordered_metadata", "sync", "aligned", "row", "col", "satfinite")


@dataclass
class Info:
    """A decoded mma.sp: K, the types of D, A and B, lanes a quad that hold metadata, registers of A, B and C."""

    index: int
    k: int
    types: tuple
    selector: int
    sizes: tuple
    satfinite: bool


def sparse(instr: Instr) -> MachineOp:
    """MachineOp of mma.sp."""
    rest = [m for m in instr.mods if m not in WORDS]
    if len(rest) != 5 or not {"sync", "aligned", "row", "col"} <= set(instr.mods):
        raise unsupported(instr)
    shape, d_type, a_type, b_type, c_type = rest
    same = a_type == b_type or any({a_type, b_type} <= pair for pair in ({"s8", "u8"}, {"e4m3", "e5m2"}, {"s4", "u4"}))
    if {a_type, b_type} <= {"e4m3", "e5m2"} and d_type == c_type == "f16":
        raise no_sm_90a(instr, "a sparse product of fp8 into f16", "sm_120a")
    if shape not in {f"m16n8k{k}" for k in SHAPES.get(a_type, ())} or not same or d_type != c_type or d_type not in ACCUMULATORS[a_type]:
        raise unsupported(instr, f"sm_90a has no sparse product {shape} of .{a_type} and .{b_type} into .{d_type}")
    d, a, b, c = (o.items if type(o) is Vec else (o,) for o in instr.operands[:4])
    k, choice = int(shape[6:]), instr.operands[5]
    lanes = _holders(a_type, k)
    if type(choice) is not Imm or not 0 <= choice.value < 4 // lanes:
        raise unsupported(instr, f"the sparsity selector of this shape is 0 to {4 // lanes - 1}")
    info = Info(instr.index, k, (d_type, a_type, b_type), choice.value, (len(a), len(b), len(c)), "satfinite" in instr.mods)
    blocks = k // (4 * ELEMENTS[a_type].per_register)
    wanted = (2 if d_type == "f16" else 4, blocks, blocks, 2 if d_type == "f16" else 4)
    if (len(d), *info.sizes) != wanted:
        raise unsupported(instr, f"{len(d)}, {len(a)}, {len(b)} and {len(c)} registers for D, A, B and C, it takes {', '.join(map(str, wanted))}")
    accumulator = {"f16": "u32", "s32": "s32"}.get(d_type, d_type)
    sources = (*((r, "u32") for r in (*a, *b)), *((r, accumulator) for r in c), (instr.operands[4], "u32"))
    return MachineOp(multiply, info, sources, tuple((r, accumulator) for r in d), collective=True)


def _holders(kind: str, k: int) -> int:
    """Lanes of a quad that hold metadata of one instruction."""
    per_word = {"tf32": 8, "s4": 32, "u4": 32}.get(kind, 16)
    return k // per_word


def positions(meta: np.ndarray, info: Info) -> np.ndarray:
    """(warps, 16, K/2): the column in which each stored element of A stands. meta: uint32 (warps, 32)."""
    kind, lanes = info.types[1], _holders(info.types[1], info.k)
    first = lanes * info.selector
    words = meta.reshape(-1, 8, 4)[:, :, first:first + lanes]                     # warp, g, holder
    if kind in ("f16", "bf16", "tf32"):
        halves = np.ascontiguousarray(words)[..., None].view(np.uint16)           # warp, g, chunk, row g or g + 8
        rows = halves.transpose(0, 3, 1, 2).reshape(len(words), 16, lanes)
        bits = 16
    else:
        rows = words.reshape(len(words), 8, lanes // 2, 2).transpose(0, 3, 1, 2).reshape(len(words), 16, lanes // 2)
        bits = 32
    step = 4 if kind == "tf32" else 2
    code = (rows[..., None].astype(np.int64) >> np.arange(0, bits, step)).reshape(len(words), 16, -1)
    if kind in NIBBLES:                                    # a code places two neighbours: in pairs of columns
        pairs = 4 * (np.arange(info.k // 4) // 2) + (code & 3)
        return np.repeat(2 * pairs, 2, axis=-1) + np.arange(info.k // 2) % 2
    stored = np.arange(info.k // 2)
    return 2 * stored + (code >> 1 & 1) if kind == "tf32" else 4 * (stored // 2) + (code & 3)


def multiply(M: Machine, C: Cohort, info: Info, *values: Value) -> tuple[Value, ...]:
    """mma.sp: A spread out, then as mma."""
    M.tell.warp_synced(C)
    if not C.full32():
        raise M.fault(C, info.index, 0, "mma.sp needs all 32 lanes of the warp", "divergent-collective", 0)
    rows = [M.lanes(C, v).reshape(-1, 32) for v in values]
    na, nb, _ = info.sizes
    left, right = ELEMENTS[info.types[1]], ELEMENTS[info.types[2]]
    stored = matrix.gather(rows[:na], left, 2, info.k // 2 // (4 * left.per_register))
    where = positions(rows[-1], info)
    pairs = (where[:, :, ::2] if info.types[1] in NIBBLES else where).reshape(*where.shape[:2], -1, 2)
    if info.types[1] != "tf32" and (pairs[..., 0] == pairs[..., 1]).any():
        warp = int(np.argmax((pairs[..., 0] == pairs[..., 1]).any(axis=(1, 2))))
        raise M.fault(C, info.index, 32 * warp, "metadata that puts two elements into one place", "illegal-descriptor", 0)
    dense = np.zeros((len(stored), 16, info.k), stored.dtype)
    np.put_along_axis(dense, where, stored, axis=2)
    other = matrix.gather(rows[na:na + nb], right, 1, info.k // (4 * right.per_register))
    out = matrix.finish(info.types[0])(np.matmul(dense, other.transpose(0, 2, 1)), rows[na + nb:-1], info.satfinite)
    flat = [np.ascontiguousarray(o).reshape(-1) for o in out]
    return tuple(flat)
