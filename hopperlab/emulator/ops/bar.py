"""bar.sync, bar.arrive, bar.red, barrier.* and bar.warp.sync (PTX ISA 9.7.13.1, 9.7.13.2)."""
from __future__ import annotations

import numpy as np

from ..ptx.ir import Imm, Reg
from ..translate import MachineOp
from ..waits import NamedWait
from .common import unsupported


def _bar(instr, function) -> MachineOp:
    mods = [m for m in instr.mods if m not in ("cta", "aligned")]
    if mods[0] == "warp":
        return MachineOp(warp_sync, None, collective=True)
    if mods[0] == "cluster":
        return _cluster(instr, mods)
    operands = instr.operands
    if mods[0] == "sync":
        threads = operands[1] if len(operands) > 1 else Imm(0, "int", 0)
        return MachineOp(sync, instr.index, ((operands[0], "u32"), (threads, "u32")), gate=True)
    if mods[0] == "arrive":
        return MachineOp(arrive, instr.index, ((operands[0], "u32"), (operands[1], "u32")))
    raise unsupported(instr, "bar.red is not implemented")


def _cluster(instr, mods) -> MachineOp:
    ordered = "relaxed" not in mods
    if mods[1] == "arrive":
        return MachineOp(cluster_arrive, ordered)
    if mods[1] == "wait":
        return MachineOp(cluster_wait, ordered, gate=True)
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


def sync(M, C, index, barrier, threads):
    """bar.sync: arrive, and wait until `threads` threads (0: the whole CTA) have."""
    keys, threads = _keys(M, C, barrier, threads, index)
    return NamedWait(keys, M.named.arrive(C, keys, threads))


def arrive(M, C, index, barrier, threads):
    """bar.arrive: arrive without waiting."""
    keys, threads = _keys(M, C, barrier, threads, index)
    M.named.arrive(C, keys, threads)


def warp_sync(M, C, info):
    """bar.warp.sync: orders memory among the warp's lanes."""
    M.synced(C)


RESOLVERS = {"bar": _bar, "barrier": _bar}
__all__ = ["RESOLVERS", "Reg"]
