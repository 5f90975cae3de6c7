"""bar.sync, bar.arrive, bar.red, barrier.* and bar.warp.sync (PTX ISA 9.7.13.1, 9.7.13.2)."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import checks_collective
from ..ptx.ir import Imm
from ..translate import MachineOp
from ..waits import NamedWait, VoteWait
from .common import unsupported


@dataclass
class Info:
    """index: of the instruction; aligned: all lanes of the warp must run it together."""

    index: int
    aligned: bool


@dataclass
class Vote(Info):
    """bar.red: which of (number of true, all true, some true) is asked for."""

    column: int = 0


VOTES = {("popc", "u32"): 0, ("and", "pred"): 1, ("or", "pred"): 2}


def _bar(instr, function) -> MachineOp:
    mods = [m for m in instr.mods if m not in ("cta", "aligned")]
    if mods == ["warp", "sync"]:
        mask = instr.operands[0] if instr.operands else Imm(0xFFFFFFFF, "int", 0xFFFFFFFF)
        return MachineOp(warp_sync, instr.index, ((mask, "u32"),), collective=True, masked=True)
    if mods[0] == "cluster":
        return _cluster(instr, mods)
    operands = instr.operands
    info = Info(instr.index, instr.op == "bar" or "aligned" in instr.mods)
    if mods[0] == "sync":
        threads = operands[1] if len(operands) > 1 else Imm(0, "int", 0)
        return MachineOp(sync, info, ((operands[0], "u32"), (threads, "u32")), gate=True)
    if mods[0] == "arrive":
        return MachineOp(arrive, info, ((operands[0], "u32"), (operands[1], "u32")))
    if mods[0] == "red" and tuple(mods[1:]) in VOTES:
        threads = operands[2] if len(operands) > 3 else Imm(0, "int", 0)
        info = Vote(info.index, info.aligned, VOTES[tuple(mods[1:])])
        dtype = "u32" if info.column == 0 else "pred"
        return MachineOp(vote, info, ((operands[1], "u32"), (threads, "u32"), (operands[-1], "pred")), ((operands[0], dtype),), gate=True)
    raise unsupported(instr)


def _cluster(instr, mods) -> MachineOp:
    ordered, aligned = "relaxed" not in mods, "aligned" in instr.mods
    if mods[1] == "arrive":
        return MachineOp(cluster_arrive, ordered, collective=aligned)
    if mods[1] == "wait":
        return MachineOp(cluster_wait, ordered, gate=True, collective=aligned)
    raise unsupported(instr)


def cluster_arrive(M, C, release: bool):
    """barrier.cluster.arrive[.relaxed]: this thread has come this far."""
    M.cluster_barrier.arrive(C, release)


def cluster_wait(M, C, acquire: bool):
    """barrier.cluster.wait: until every living thread of the cluster has arrived."""
    return M.cluster_barrier.wait(C, acquire)


def _keys(M, C, barrier, threads, index):
    barrier, threads = M.lanes(C, barrier).astype(np.int64), M.lanes(C, threads).astype(np.int64)
    if (barrier > 15).any():
        raise M.fault(C, index, int(np.argmax(barrier)), f"barrier {int(barrier.max())}: a CTA has barriers 0 to 15",
                      "out-of-bounds", int(barrier.max()))
    return M.slot_of(C) * 16 + barrier, threads


def sync(M, C, info, barrier, threads):
    """bar.sync: arrive, and wait until `threads` threads (0: the whole CTA) have."""
    keys, threads = _keys(M, C, barrier, threads, info.index)
    return NamedWait(keys, M.named.arrive(C, keys, threads, info))


def vote(M, C, info, barrier, threads, predicate):
    """bar.red: a bar.sync that also counts or combines one predicate a thread."""
    keys, threads = _keys(M, C, barrier, threads, info.index)
    return VoteWait(keys, M.named.arrive(C, keys, threads, info, M.lanes(C, predicate)), info.column)


def arrive(M, C, info, barrier, threads):
    """bar.arrive: arrive without waiting."""
    keys, threads = _keys(M, C, barrier, threads, info.index)
    M.named.arrive(C, keys, threads, info)


def warp_sync(M, C, index, mask):
    """bar.warp.sync: orders memory among the warp's lanes."""
    checks_collective.masked(M, C, index, mask)
    M.synced(C)


RESOLVERS = {"bar": _bar, "barrier": _bar}
