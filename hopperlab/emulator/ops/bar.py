# SPDX-License-Identifier: Apache-2.0
"""bar.sync, bar.arrive, bar.red, barrier.* and bar.warp.sync (PTX ISA 9.7.13.1, 9.7.13.2)."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ptx.ir import Imm
from ..compile.translated import MachineOp
from ..machine.waits import NamedWait, VoteWait
from .common import unsupported

if TYPE_CHECKING:
    from ..isa.value import Value
    from ..machine.cluster_barrier import ClusterWait
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine


@dataclass
class Info:
    """index: of the instruction; aligned: all lanes of the warp must run it together."""

    index: int
    aligned: bool


@dataclass
class Cluster:
    """barrier.cluster: index of the instruction; ordered: .release or .acquire, not .relaxed."""

    index: int
    ordered: bool


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
    if mods[:1] == ["cluster"]:
        return _cluster(instr, mods)
    operands = instr.operands
    info = Info(instr.index, instr.op == "bar" or "aligned" in instr.mods)
    if mods == ["sync"]:
        threads = operands[1] if len(operands) > 1 else Imm(0, "int", 0)
        return MachineOp(sync, info, ((operands[0], "u32"), (threads, "u32")), gate=True)
    if mods == ["arrive"]:
        return MachineOp(arrive, info, ((operands[0], "u32"), (operands[1], "u32")), collective=info.aligned)
    if mods[:1] == ["red"] and tuple(mods[1:]) in VOTES:
        threads = operands[2] if len(operands) > 3 else Imm(0, "int", 0)
        info = Vote(info.index, info.aligned, VOTES[tuple(mods[1:])])
        dtype = "u32" if info.column == 0 else "pred"
        return MachineOp(vote, info, ((operands[1], "u32"), (threads, "u32"), (operands[-1], "pred")), ((operands[0], dtype),), gate=True)
    raise unsupported(instr)


def _cluster(instr, mods) -> MachineOp:
    info, aligned = Cluster(instr.index, "relaxed" not in mods), "aligned" in instr.mods
    if mods[1:2] == ["arrive"]:
        return MachineOp(cluster_arrive, info, collective=aligned)
    if mods[1:2] == ["wait"]:
        return MachineOp(cluster_wait, info, gate=True, collective=aligned)
    raise unsupported(instr)


def cluster_arrive(M: Machine, C: Cohort, info: Cluster) -> None:
    """barrier.cluster.arrive[.relaxed]: this thread has come this far."""
    M.cluster_barrier.arrive(C, info)


def cluster_wait(M: Machine, C: Cohort, info: Cluster) -> ClusterWait:
    """barrier.cluster.wait: until every living thread of the cluster has arrived."""
    return M.cluster_barrier.wait(C, info)


def _keys(M, C, barrier, threads, index):
    barrier, threads = M.lanes(C, barrier).astype(np.int64), M.lanes(C, threads).astype(np.int64)
    if (barrier > 15).any():
        raise M.fault(C, index, int(np.argmax(barrier)), f"barrier {int(barrier.max())}: a CTA has barriers 0 to 15",
                      "out-of-bounds", int(barrier.max()))
    return M.slot_of(C) * 16 + barrier, threads


def sync(M: Machine, C: Cohort, info: Any, barrier: Value, threads: Value) -> NamedWait:
    """bar.sync: arrive, and wait until `threads` threads (0: the whole CTA) have."""
    keys, threads = _keys(M, C, barrier, threads, info.index)
    return NamedWait(keys, M.named.arrive(C, keys, threads, info))


def vote(M: Machine, C: Cohort, info: Any, barrier: Value, threads: Value, predicate: Value) -> VoteWait:
    """bar.red: a bar.sync that also counts or combines one predicate a thread."""
    keys, threads = _keys(M, C, barrier, threads, info.index)
    return VoteWait(keys, M.named.arrive(C, keys, threads, info, M.lanes(C, predicate)), info.column)


def arrive(M: Machine, C: Cohort, info: Any, barrier: Value, threads: Value) -> None:
    """bar.arrive: arrive without waiting."""
    keys, threads = _keys(M, C, barrier, threads, info.index)
    M.named.arrive(C, keys, threads, info)


def warp_sync(M: Machine, C: Cohort, index: int, mask: Value) -> None:
    """bar.warp.sync: orders memory among the warp's lanes."""
    M.tell.named_lanes_met(C, index, mask)
    M.tell.warp_synced(C)


RESOLVERS = {"bar": _bar, "barrier": _bar}
