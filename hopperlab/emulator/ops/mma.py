# SPDX-License-Identifier: Apache-2.0
"""ldmatrix, stmatrix, movmatrix and mma.sync (PTX ISA 9.7.14). What a fragment means is in isa/matrix.py."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..isa import matrix
from ..ptx.ir import Vec
from ..compile.translated import MachineOp
from . import mma_sparse
from .common import SHARED_TAG, accumulators, flat_shared, unsupported

if TYPE_CHECKING:
    from ..isa.value import Value
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine


@dataclass
class Info:
    """index: of the instruction; count: matrices; trans: transposed; op: the arithmetic of mma."""

    index: int
    count: int = 0
    trans: bool = False
    op: object = None
    sizes: tuple = ()


def _items(operand):
    return operand.items if type(operand) is Vec else (operand,)


def _matrix_info(instr) -> Info:
    mods = instr.mods
    if "m8n8" not in mods or "b16" not in mods:
        raise unsupported(instr, "only the m8n8.b16 form exists on sm_90a (m16n16, m16n8 and b8 need sm_100a)")
    info = Info(instr.index, next((int(m[1]) for m in mods if m in ("x1", "x2", "x4")), 0), "trans" in mods)
    registers = _items(instr.operands[instr.op == "stmatrix"])
    if info.count != len(registers):
        raise unsupported(instr, f"{len(registers)} registers for {info.count} matrices")
    return info


def _ldmatrix(instr, function) -> MachineOp:
    info = _matrix_info(instr)
    return MachineOp(load_matrix, info, ((instr.operands[1], None),), tuple((r, "u32") for r in _items(instr.operands[0])), collective=True)


def _rows(M, C, info: Info, address):
    """Byte positions of the rows that lanes 0..8*count-1 of every warp name: (warps, count, 8), and those lanes' ids."""
    if not C.full32():
        raise M.fault(C, info.index, 0, "ldmatrix and stmatrix need all 32 lanes of the warp", "divergent-collective", 0)
    address = M.lanes(C, address)
    if int(address[0]) >> 40 == SHARED_TAG:
        address = address & np.uint64(0xFFFFFF)
    used = 8 * info.count
    lanes = (C.gids.reshape(-1, 32)[:, :used]).reshape(-1)
    sub = C if used == 32 else C.cached(f"rows{used}", lambda: type(C)(lanes, None, C.pc))
    picked = address if used == 32 else address.reshape(-1, 32)[:, :used].reshape(-1)
    return flat_shared(M, sub, picked, 16, info.index), sub


def load_matrix(M: Machine, C: Cohort, info: Info, address: Value) -> Value | tuple[Value, ...]:
    """ldmatrix: 8x8 matrices of 16-bit elements, one 16-byte row an address."""
    M.tell.warp_synced(C)
    flat, sub = _rows(M, C, info, address)
    M.tell.rows_read(C, sub.gids, flat, info.count, info.index)
    rows = M.altered.delivered("ldmatrix", M.smem_wide[flat >> 4].view(np.uint8).reshape(-1, info.count, 8, 16))
    out = [o.reshape(-1) for o in matrix.ldmatrix_distribute(rows, info.trans)]
    return out[0] if info.count == 1 else tuple(out)


def _stmatrix(instr, function) -> MachineOp:
    info = _matrix_info(instr)
    sources = ((instr.operands[0], None), *((r, "u32") for r in _items(instr.operands[1])))
    return MachineOp(store_matrix, info, sources, collective=True)


def store_matrix(M: Machine, C: Cohort, info: Info, address: Value, *registers: Value) -> None:
    """stmatrix: the inverse of ldmatrix."""
    M.tell.warp_synced(C)
    M.progress += 1
    flat, sub = _rows(M, C, info, address)
    M.tell.rows_written(C, sub.gids, flat, info.count, info.index)
    rows = M.altered.delivered("stmatrix", matrix.stmatrix_collect([M.lanes(C, r).reshape(-1, 32) for r in registers], info.trans))
    M.smem_wide[flat >> 4] = np.ascontiguousarray(rows).reshape(-1, 16).view(np.complex128)[:, 0]


def _movmatrix(instr, function) -> MachineOp:
    return MachineOp(move_matrix, Info(instr.index), ((instr.operands[1], "u32"),), ((instr.operands[0], "u32"),), collective=True)


def move_matrix(M: Machine, C: Cohort, info: Info, value: Value) -> Value:
    """movmatrix: transpose an 8x8 fragment."""
    M.tell.warp_synced(C)
    return matrix.movmatrix(M.lanes(C, value).reshape(-1, 32)).reshape(-1)


def _mma(instr, function) -> MachineOp:
    if instr.mods[0].startswith("sp"):
        return mma_sparse.sparse(instr)
    op = matrix.mma(instr)
    d, a, b, c = (_items(o) for o in instr.operands[:4])
    info = Info(instr.index, op=op, sizes=(len(a), len(b), len(c)))
    if (len(a), len(b), len(c)) != op.counts:
        raise unsupported(instr, f"{len(a)}, {len(b)} and {len(c)} registers for A, B and C, it takes {op.counts[0]}, {op.counts[1]} and {op.counts[2]}")
    types = [m for m in instr.mods if m in ("f16", "f32", "s32")] or [""]    # D's first, C's last
    wanted = {("f16", "f32"): 4, ("f32", "f16"): 8}.get((types[0], types[-1]), op.counts[2])
    if len(d) != wanted:
        raise unsupported(instr, f"{len(d)} registers for D, it has {wanted}")
    accumulators(instr, instr.operands[0], types[0])
    accumulators(instr, instr.operands[3], types[-1])
    sources = tuple((r, kind) for group, kind in zip((a, b, c), op.ins) for r in group)
    dsts = tuple((r, op.out) for r in d)
    return MachineOp(multiply, info, sources, dsts, collective=True)


def multiply(M: Machine, C: Cohort, info: Info, *values: Value) -> Value | tuple[Value, ...]:
    """mma.sync: D = A*B + C of every warp."""
    M.tell.warp_synced(C)
    if not C.full32():
        raise M.fault(C, info.index, 0, "mma.sync needs all 32 lanes of the warp", "divergent-collective", 0)
    rows = [M.lanes(C, v).reshape(-1, 32) for v in values]
    na, nb, _ = info.sizes
    a, b = ([M.altered.taken("mma", r) for r in part] for part in (rows[:na], rows[na:na + nb]))
    c = rows[na + nb:]
    out = info.op.fn(a, b, c) if not M.altered.negates("mma") else _negated(info.op, a, b, c)
    M.tell.multiplied(C, info.index, "mma_sync", len(rows[0]))
    flat = [np.ascontiguousarray(o).reshape(-1) for o in out]
    return flat[0] if len(flat) == 1 else tuple(flat)


def _negated(op: matrix.MmaOp, a: list, b: list, c: list) -> list:
    """C - A*B, of sums that registers hold as numbers."""
    if op.out == "u32":
        raise ValueError(f"mma.sync of {op.types} keeps its sums packed; such products cannot be altered")
    return [was - product for was, product in zip(c, op.fn(a, b, [np.zeros_like(was) for was in c]), strict=True)]


RESOLVERS = {"ldmatrix": _ldmatrix, "stmatrix": _stmatrix, "movmatrix": _movmatrix, "mma": _mma}
