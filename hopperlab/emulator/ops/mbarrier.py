# SPDX-License-Identifier: Apache-2.0
"""mbarrier instructions (PTX ISA 9.7.13.15)."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ptx.ir import Imm, Sink
from ..compile.translated import MachineOp
from ..machine.waits import DoubtfulWait, MbarrierWait
from .common import unsupported

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..isa.value import Value
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine

PHASE_BIT = np.uint64(61)
MOST_BYTES = (1 << 20) - 1


@dataclass
class Info:
    """index: of the instruction; expect: arrive.expect_tx; release: not .relaxed; turn: of a wait, which visits are answered no (wait_answers.py), or None."""

    index: int
    expect: bool = False
    release: bool = True
    parity: bool = False
    drop: bool = False
    no_complete: bool = False      # the program promises that this arrival ends no phase
    wide: bool = False             # .cluster scope or wider
    cluster: bool = False          # a shared::cluster or generic address, which may name another CTA's barrier
    turn: int | None = None


def _mbarrier(instr, function) -> MachineOp:
    mods, ops = instr.mods, instr.operands
    what = mods[0]
    info = Info(instr.index, "expect_tx" in mods, "relaxed" not in mods, "parity" in mods, what == "arrive_drop",
                cluster=not any(m.startswith("shared") for m in mods) or "shared::cluster" in mods)
    info.no_complete = "noComplete" in mods
    info.wide = not {"cluster", "gpu", "sys"}.isdisjoint(mods)
    if what == "pending_count":
        return MachineOp(pending_count, info, ((ops[1], "u64"),), ((ops[0], "u32"),))
    if what == "init":
        return MachineOp(init, info, ((ops[0], None), (ops[1], "u32")))
    if what == "inval":
        return MachineOp(inval, info, ((ops[0], None),))
    if what in ("arrive", "arrive_drop"):
        return _arrive(info, ops)
    if what in ("expect_tx", "complete_tx"):
        return MachineOp(transaction, (info, what), ((ops[0], None), (ops[1], "u32")))
    if what in ("test_wait", "try_wait"):
        kind = "u32" if info.parity else "u64"
        if len(ops) > (4 if what == "try_wait" else 3):
            raise unsupported(instr, "operands: the result, an address, a state or a parity" + (", and a time hint in nanoseconds" if what == "try_wait" else ""))
        sources = ((ops[1], None), (ops[2], kind))
        idle = MachineOp(look_away, info, sources[:1])
        if what == "try_wait":
            return MachineOp(try_wait, info, sources, ((ops[0], "pred"),), gate=True, unread=idle)
        return MachineOp(test_wait, info, sources, ((ops[0], "pred"),), poll=True, unread=idle)
    raise unsupported(instr)


def _arrive(info: Info, ops) -> MachineOp:
    target, address = ops[0], ops[1]
    count = ops[2] if len(ops) > 2 else Imm(1, "int", 1)
    dsts = () if type(target) is Sink else ((target, "u64"),)
    return MachineOp(arrive, info, ((address, None), (count, "u32")), dsts)


def init(M: Machine, C: Cohort, info: Any, address: Value, count: Value) -> None:
    """mbarrier.init."""
    M.barriers.init(C, address, count, info)


def inval(M: Machine, C: Cohort, info: Any, address: Value) -> None:
    """mbarrier.inval."""
    M.barriers.invalidate(C, address, info)


def arrive(M: Machine, C: Cohort, info: Any, address: Value, count: Value) -> NDArray[Any]:
    """mbarrier.arrive[.expect_tx] and arrive_drop; returns the state before."""
    ids = M.barriers.ids(C, address, info)
    amount = M.lanes(C, count).astype(np.int64)
    if info.no_complete:
        _must_not_complete(M, C, info, ids, amount)
    if info.drop:
        np.subtract.at(M.barriers.expected, ids, 1 if info.expect else amount)
    if info.expect:
        return M.barriers.arrive(C, ids, np.int64(1), info, expect=_expected(M, C, info, ids, amount))
    return M.barriers.arrive(C, ids, amount, info)


def _must_not_complete(M, C, info, ids, amount) -> None:
    """.noComplete arrivals that leave nothing pending are undefined behaviour."""
    left = M.barriers.pending[ids].copy()
    np.subtract.at(left, np.arange(len(ids)), np.array([amount[ids == b].sum() for b in ids]))
    if (left <= 0).any():
        lane = int(np.flatnonzero(left <= 0)[0])
        M.tell.no_complete_completes(int(C.gids[lane]), int(ids[lane]), info.index)


def _expected(M: Machine, C: Cohort, info: Info, ids: NDArray[Any], amount: NDArray[Any]) -> NDArray[Any]:
    """Bytes that lanes announce, as the count of an mbarrier takes them: it holds at most 2^20 - 1, and more wraps around to less."""
    far = (amount > 0) & ((amount > MOST_BYTES) | (M.barriers.tx[ids] + amount > MOST_BYTES))
    if not far.any():
        return amount
    lane = int(np.argmax(far))
    M.tell.expected_too_much(int(C.gids[lane]), int(ids[lane]), int(amount[lane]), info.index)
    return np.where(amount >> 31 > 0, amount - (1 << 32), amount)


def pending_count(M: Machine, C: Cohort, info: Any, state: Value) -> Value:
    """mbarrier.pending_count: arrivals that were pending before the arrive that returned this state."""
    return (state & np.uint64(0xFFFFF)).astype(np.uint32)


def transaction(M: Machine, C: Cohort, info: Any, address: Value, nbytes: Value) -> None:
    """mbarrier.expect_tx and complete_tx."""
    info, what = info
    ids = M.barriers.ids(C, address, info)
    amount = M.lanes(C, nbytes).astype(np.int64)
    if what == "expect_tx":
        M.barriers.expect_tx(ids, _expected(M, C, info, ids, amount), info)
    else:
        for barrier, count in zip(ids.tolist(), amount.tolist()):
            M.barriers.complete_tx(barrier, count)


def _parity(M, C, info, value):
    value = M.lanes(C, value)
    return ((value >> PHASE_BIT) & np.uint64(1)).astype(np.int64) if not info.parity else (value & np.uint32(1)).astype(np.int64)


def try_wait(M: Machine, C: Cohort, info: Any, address: Value, value: Value) -> MbarrierWait:
    """mbarrier.try_wait: blocks until the phase is complete (or a time limit)."""
    ids, parity = M.barriers.ids(C, address, info), _parity(M, C, info, value)
    if info.turn is None or M.sure is None:
        return MbarrierWait(ids, parity, info.index)
    return DoubtfulWait(ids, parity, info.index, M.barriers.doubts.no(M, C, ids, parity, info))


def look_away(M: Machine, C: Cohort, info: Any, address: Value) -> None:
    """A wait whose result nobody looks at: it may have given up, so nothing is known after it."""
    M.tell.wait_unread(C, M.barriers.ids(C, address, info), info.index)


def test_wait(M: Machine, C: Cohort, info: Any, address: Value, value: Value) -> NDArray[Any]:
    """mbarrier.test_wait: asks without blocking; lanes that see the phase complete acquire."""
    wait = MbarrierWait(M.barriers.ids(C, address, info), _parity(M, C, info, value), info.index)
    mask = wait.mask(M)
    if info.turn is not None and M.sure is not None:
        no = M.barriers.doubts.no(M, C, wait.keys, wait.extra, info)
        M.barriers.doubts.answered(M, C, wait.keys, no, info.index)
        C.polled |= bool(no.any())
        mask = mask & ~no
    told = mask
    if info.turn is not None and M.sure is not None and mask.any():
        told = mask & M.barriers.doubts.told(M, C, wait.keys, info)
    if told.all():
        wait.passed(M, C)
        return mask
    if not mask.all():
        C.polled, C.asked = True, np.union1d(C.asked, wait.keys[~mask])
        M.barriers.questions.answered_no(C.gids[~mask], wait.subset(~mask))
    if told.any():
        index = np.flatnonzero(told)
        wait.subset(index).passed(M, type(C)(C.gids[index], None, C.pc))
    return mask


RESOLVERS = {"mbarrier": _mbarrier}
