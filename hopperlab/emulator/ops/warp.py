# SPDX-License-Identifier: Apache-2.0
"""Instructions between the lanes of a warp: shfl, vote, match, redux, elect, activemask (PTX ISA 9.7.9.6, 9.7.13.9 …)."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ptx.ir import Imm, PredPair
from ..compile.translated import MachineOp
from .common import unsupported

if TYPE_CHECKING:
    from ..isa.value import Value
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine

LANES = np.arange(32)


@dataclass
class Info:
    """A decoded warp instruction: its mode and type."""

    index: int
    mode: str
    kind: str = "u32"
    pair: bool = False


def _pair(operand):
    if type(operand) is PredPair:
        return operand.first, operand.second
    return operand, None


def _mode(instr, modes: tuple[str, ...], kinds: tuple[str, ...]) -> str:
    """The one word of a warp instruction that says what it does; .sync stands before it (behind it for match) and the type at the end."""
    words = [m for m in instr.mods[:-1] if m != "sync"]
    if len(words) != 1 or words[0] not in modes or instr.mods[-1] not in kinds:
        raise unsupported(instr, f"the form is {instr.op}.sync with one of .{', .'.join(modes)} and the type .{' or .'.join(kinds)}")
    return words[0]


def _shfl(instr, function) -> MachineOp:
    mode = _mode(instr, ("up", "down", "bfly", "idx"), ("b32",))
    value, predicate = _pair(instr.operands[0])
    info = Info(instr.index, mode, pair=predicate is not None)
    sources = tuple((o, "u32") for o in (*instr.operands[1:4], _mask(instr, 4)))
    dsts = ((value, "u32"),) + (((predicate, "pred"),) if predicate is not None else ())
    return MachineOp(shuffle, info, sources, dsts, collective=True, masked=True)


def _mask(instr, place: int):
    """The member mask operand (all lanes where the form has none)."""
    return instr.operands[place] if len(instr.operands) > place else Imm(0xFFFFFFFF, "int", 0xFFFFFFFF)


def _meet(M, C, info: Info, mask) -> None:
    """The lanes that `mask` names run this together: memory is ordered among them."""
    M.tell.named_lanes_met(C, info.index, mask)
    M.tell.warp_synced(C)


def shuffle(M: Machine, C: Cohort, info: Info, value: Value, lane_b: Value, clamp: Value, mask: Value) -> Value | tuple[Value, Value]:
    """shfl.sync: each lane reads another's register. PTX ISA 9.7.9.6."""
    _meet(M, C, info, mask)
    layout = C.layout()
    rows = layout.expand(M.lanes(C, value))
    b = layout.expand(M.lanes(C, lane_b)).astype(np.int64) & 31
    c = layout.expand(M.lanes(C, clamp)).astype(np.int64)
    segment, limit = (c >> 8) & 31, c & 31
    low = LANES & segment
    top = low | (limit & ~segment & 31)
    if info.mode == "up":
        source = LANES - b
        inside = source >= (low | limit & ~segment & 31)
    elif info.mode == "down":
        source = LANES + b
        inside = source <= top
    elif info.mode == "bfly":
        source = LANES ^ b
        inside = source <= top
    else:
        source = low | (b & ~segment & 31)
        inside = source <= top
    if info.mode in ("bfly", "idx") and not (type(mask) is not np.ndarray and int(mask) == 0xFFFFFFFF):
        M.tell.lanes_asked(C, info.index, layout.compress(np.where(inside, source, LANES)), mask)
    source = np.where(inside, source, LANES)
    out = layout.compress(np.take_along_axis(rows, source, axis=1))
    return (out, layout.compress(np.broadcast_to(inside, rows.shape))) if info.pair else out


def _vote(instr, function) -> MachineOp:
    mode, kind = _mode(instr, ("all", "any", "uni", "ballot"), ("pred", "b32")), instr.mods[-1]
    if (mode == "ballot") != (kind == "b32"):
        raise unsupported(instr, ".ballot gives a .b32, the others a .pred")
    dtype = "u32" if mode == "ballot" else "pred"
    return MachineOp(vote, Info(instr.index, mode, kind), ((instr.operands[1], "pred"), (_mask(instr, 2), "u32")),
                     ((instr.operands[0], dtype),), collective=True, masked=True)


def vote(M: Machine, C: Cohort, info: Info, predicate: Value, mask: Value) -> Value:
    """vote.sync.{all,any,uni,ballot}."""
    _meet(M, C, info, mask)
    layout = C.layout()
    members, masks = _members(M, C, layout, mask)
    ballot = (layout.expand(M.lanes(C, predicate), False).astype(np.int64) << LANES).sum(axis=1)[:, None] & masks
    if info.mode == "ballot":
        return layout.compress(ballot.astype(np.uint32))
    every, some = ballot == members, ballot != 0
    return layout.compress({"all": every, "any": some, "uni": every | ~some}[info.mode])


def _members(M, C, layout, mask):
    """(warps, 32) bits of the lanes that run with each lane, and the masks themselves."""
    masks = layout.expand(M.lanes(C, mask)).astype(np.int64)
    present = np.full(len(masks), 0xFFFFFFFF, np.int64) if layout.active is None else (layout.active.astype(np.int64) << LANES).sum(axis=1)
    return masks & present[:, None], masks


def _match(instr, function) -> MachineOp:
    value, predicate = _pair(instr.operands[0])
    info = Info(instr.index, _mode(instr, ("any", "all"), ("b32", "b64")), pair=predicate is not None)
    if info.mode == "any" and predicate is not None:
        raise unsupported(instr, "match.any has no predicate")
    kind = "u64" if instr.mods[-1] == "b64" else "u32"
    dsts = ((value, "u32"),) + (((predicate, "pred"),) if predicate is not None else ())
    sources = ((instr.operands[1], kind), (_mask(instr, 2), "u32"))
    return MachineOp(match, info, sources, dsts, collective=True, masked=True)


def match(M: Machine, C: Cohort, info: Info, value: Value, mask: Value) -> Value | tuple[Value, Value]:
    """match.{any,all}.sync: lanes that hold the same value."""
    _meet(M, C, info, mask)
    layout = C.layout()
    rows = layout.expand(M.lanes(C, value))
    members, _ = _members(M, C, layout, mask)
    same = rows[:, :, None] == rows[:, None, :]
    equal = (same.astype(np.int64) << LANES).sum(axis=2) & members
    if info.mode == "any":
        return layout.compress(equal.astype(np.uint32))
    agree = equal == members
    out = layout.compress(np.where(agree, members, 0).astype(np.uint32))
    return (out, layout.compress(agree)) if info.pair else out


def _redux(instr, function) -> MachineOp:
    mode, kind = _mode(instr, tuple(_REDUCE), ("u32", "s32", "b32", "f32")), instr.mods[-1]
    kind = {"b32": "u32"}.get(kind, kind)
    if kind not in ("u32", "s32"):
        raise unsupported(instr, "redux.f32 needs sm_100a or newer; Hopper (sm_90a) does not have it")
    return MachineOp(reduce, Info(instr.index, mode, kind), ((instr.operands[1], kind), (_mask(instr, 2), "u32")),
                     ((instr.operands[0], kind),), collective=True, masked=True)


_REDUCE = {"add": (np.add, 0), "min": (np.minimum, None), "max": (np.maximum, None), "and": (np.bitwise_and, -1),
           "or": (np.bitwise_or, 0), "xor": (np.bitwise_xor, 0)}


def reduce(M: Machine, C: Cohort, info: Info, value: Value, mask: Value) -> Value:
    """redux.sync over the lanes of a warp."""
    _meet(M, C, info, mask)
    layout = C.layout()
    value = M.lanes(C, value)
    function, neutral = _REDUCE[info.mode]
    if neutral is None:
        limits = np.iinfo(value.dtype)
        neutral = limits.max if info.mode == "min" else limits.min
    fill = np.array(neutral, np.int64).astype(value.dtype)
    rows = layout.expand(value, fill)
    members, _ = _members(M, C, layout, mask)
    if layout.active is None and (members == 0xFFFFFFFF).all():
        return layout.spread(function.reduce(rows, axis=1, dtype=value.dtype))
    inside = (members[:, :, None] >> LANES & 1).astype(bool)
    return layout.compress(function.reduce(np.where(inside, rows[:, None, :], fill), axis=2, dtype=value.dtype))


def _elect(instr, function) -> MachineOp:
    leader, predicate = _pair(instr.operands[0])
    return MachineOp(elect, Info(instr.index, "elect"), ((_mask(instr, 1), "u32"),), ((leader, "u32"), (predicate, "pred")), collective=True, masked=True)


def elect(M: Machine, C: Cohort, info: Info, mask: Value) -> tuple[Value, Value]:
    """elect.sync: the lowest lane is the leader (measured on an H200)."""
    _meet(M, C, info, mask)
    layout = C.layout()
    members, _ = _members(M, C, layout, mask)
    lowest = np.log2((members & -members).astype(np.float64)).astype(np.uint32)
    leader = layout.compress(lowest)
    return leader, (C.gids & 31) == leader


def _activemask(instr, function) -> MachineOp:
    return MachineOp(active_mask, None, (), ((instr.operands[0], "u32"),))


def active_mask(M: Machine, C: Cohort, info: Any) -> Value:
    """activemask: the lanes that happen to run together."""
    layout = C.layout()
    if layout.active is None:
        return np.uint32(0xFFFFFFFF)
    return layout.spread((layout.active.astype(np.int64) << LANES).sum(axis=1).astype(np.uint32))


RESOLVERS = {"shfl": _shfl, "vote": _vote, "match": _match, "redux": _redux, "elect": _elect, "activemask": _activemask}
