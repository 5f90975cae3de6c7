"""mbarrier instructions (PTX ISA 9.7.13.15)."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import reports
from ..ptx.ir import Imm, Sink
from ..translate import MachineOp
from ..waits import MbarrierWait
from .common import unsupported

PHASE_BIT = np.uint64(61)


@dataclass
class Info:
    """index: of the instruction; expect: arrive.expect_tx; release: not .relaxed."""

    index: int
    expect: bool = False
    release: bool = True
    parity: bool = False
    drop: bool = False
    no_complete: bool = False      # the program promises that this arrival ends no phase
    wide: bool = False             # .cluster scope or wider
    cluster: bool = False          # a shared::cluster or generic address, which may name another CTA's barrier


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
        sources = ((ops[1], None), (ops[2], kind))
        if what == "try_wait":
            return MachineOp(try_wait, info, sources, ((ops[0], "pred"),), gate=True)
        return MachineOp(test_wait, info, sources, ((ops[0], "pred"),), poll=True)
    raise unsupported(instr)


def _arrive(info: Info, ops) -> MachineOp:
    target, address = ops[0], ops[1]
    count = ops[2] if len(ops) > 2 else Imm(1, "int", 1)
    dsts = () if type(target) is Sink else ((target, "u64"),)
    return MachineOp(arrive, info, ((address, None), (count, "u32")), dsts)


def init(M, C, info, address, count):
    """mbarrier.init."""
    M.barriers.init(C, address, count, info)


def inval(M, C, info, address):
    """mbarrier.inval."""
    M.barriers.invalidate(C, address, info)


def arrive(M, C, info, address, count):
    """mbarrier.arrive[.expect_tx] and arrive_drop; returns the state before."""
    ids = M.barriers.ids(C, address, info)
    amount = M.lanes(C, count).astype(np.int64)
    if info.no_complete:
        _must_not_complete(M, C, info, ids, amount)
    if info.expect:
        return M.barriers.arrive(C, ids, np.int64(1), info, expect=amount, release=info.release)
    if info.drop:
        np.subtract.at(M.barriers.expected, ids, amount)
    return M.barriers.arrive(C, ids, amount, info, release=info.release)


def _must_not_complete(M, C, info, ids, amount) -> None:
    """.noComplete arrivals that leave nothing pending are undefined behaviour."""
    left = M.barriers.pending[ids].copy()
    np.subtract.at(left, np.arange(len(ids)), np.array([amount[ids == b].sum() for b in ids]))
    if (left <= 0).any():
        lane = int(np.flatnonzero(left <= 0)[0])
        reports.completes(M, info.index, int(C.gids[lane]), int(ids[lane]))


def pending_count(M, C, info, state):
    """mbarrier.pending_count: arrivals that were pending before the arrive that returned this state."""
    return (state & np.uint64(0xFFFFF)).astype(np.uint32)


def transaction(M, C, info, address, nbytes):
    """mbarrier.expect_tx and complete_tx."""
    info, what = info
    ids = M.barriers.ids(C, address, info)
    amount = M.lanes(C, nbytes).astype(np.int64)
    if what == "expect_tx":
        M.barriers.expect_tx(ids, amount, info)
    else:
        for barrier, count in zip(ids.tolist(), amount.tolist()):
            M.barriers.complete_tx(barrier, count)


def _parity(M, C, info, value):
    value = M.lanes(C, value)
    return ((value >> PHASE_BIT) & np.uint64(1)).astype(np.int64) if not info.parity else (value & np.uint32(1)).astype(np.int64)


def try_wait(M, C, info, address, value):
    """mbarrier.try_wait: blocks until the phase is complete (or a time limit)."""
    return MbarrierWait(M.barriers.ids(C, address, info), _parity(M, C, info, value), info.index)


def test_wait(M, C, info, address, value):
    """mbarrier.test_wait: asks without blocking; lanes that see the phase complete acquire."""
    wait = MbarrierWait(M.barriers.ids(C, address, info), _parity(M, C, info, value), info.index)
    mask = wait.mask(M)
    if mask.all():
        wait.passed(M, C)
        return mask
    C.polled = True
    if mask.any():
        index = np.flatnonzero(mask)
        wait.subset(index).passed(M, type(C)(C.gids[index], None, C.pc))
    return mask


RESOLVERS = {"mbarrier": _mbarrier}
