"""cp.async of 4, 8 or 16 bytes a thread, its groups and waits (PTX ISA 9.7.9.25.3). Other cp.* opcodes are in copies.py."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..clocks import V, X
from ..landing import ArrivalOp, CpAsyncOp
from ..ptx.ir import Imm
from ..translate import MachineOp
from . import copies
from .common import find_global, flat_shared, unsupported


@dataclass
class Info:
    """index: of the instruction; size: bytes written to shared memory (4, 8 or 16); noinc: the arrival is in the count."""

    index: int
    size: int
    noinc: bool = False


def _cp(instr, function) -> MachineOp:
    mods, ops = instr.mods, instr.operands
    if mods[0] == "reduce" or "bulk" in mods:
        return copies.resolve(instr, function)
    if mods[:2] == ("async", "commit_group"):
        return MachineOp(commit, None)
    if mods[:2] == ("async", "wait_group"):
        return MachineOp(wait, ops[0].value)
    if mods[:2] == ("async", "wait_all"):
        return MachineOp(wait_all, None)
    if mods[:2] == ("async", "mbarrier"):
        return MachineOp(arrive, Info(instr.index, 0, "noinc" in mods), ((ops[0], None),))
    if mods[0] != "async" or type(ops[2]) is not Imm:
        raise unsupported(instr)
    info = Info(instr.index, ops[2].value)
    sources = [(ops[0], None), (ops[1], None)]
    hint = "L2::cache_hint" in mods
    extra = ops[3:-1] if hint else ops[3:]
    if extra:
        sources.append((extra[0], "u32"))
    return MachineOp(copy, info, tuple(sources))


def copy(M, C, info: Info, target, source, size=None):
    """cp.async: bytes past `size` are zero; the copy lands by its group's wait_group."""
    flat = flat_shared(M, C, target, info.size, info.index)
    source = M.lanes(C, source)
    valid = None if size is None else M.lanes(C, size).astype(np.int64)
    live = np.arange(C.n) if valid is None else np.flatnonzero(valid > 0)
    parts = []
    if len(live):
        whole = len(live) == C.n
        sub = C if whole else type(C)(C.gids[live], None, C.pc)
        M.counting.in_global(sub, source if whole else source[live], info.size, "cp_async", info.index)
        for allocation, where, offset in find_global(M, sub, source[live] if not whole else source, info.size, info.index):
            lanes = live if where is None else live[where]
            parts.append((allocation, lanes, offset))
            if M.global_shadow is not None:
                M.global_shadow.read(C.gids[lanes], allocation, offset, info.size, info.index)
    group = M.landing.open_group(C.gids, bulk=False)
    if M.shadow is not None:
        clocks = M.clocks
        M.shadow.store(C.gids, flat, info.size, info.index, clocks.cp0 + (C.gids >> 5) % clocks.warps, group)
        C.unsynced = True
    M.landing.issue_cp(CpAsyncOp(C.gids, group, _mover(M, info.size, flat, valid, parts, C.n), info.index))


def _mover(M, size: int, flat, valid, parts, n: int):
    """copy(pick): move the lanes of `pick` (slice, mask or indices) from global to shared memory."""
    width = min(size, 8)
    words = size // width

    def move(pick) -> None:
        rows = np.zeros((n, words), f"u{width}")
        for allocation, lanes, offset in parts:
            rows[lanes] = allocation.view(width)[(offset // width)[:, None] + np.arange(words)]
        if valid is not None and ((valid > 0) & (valid < size)).any():
            raw = rows.view(np.uint8).reshape(n, size)
            raw[np.arange(size) >= valid[:, None]] = 0
        M.smem_views[width].reshape(-1, words)[flat[pick] // size] = rows[pick]
    return move


def commit(M, C, info):
    """cp.async.commit_group: this thread's copies since the last commit become one group."""
    M.landing.commit(C.gids, bulk=False)


def wait(M, C, pending: int):
    """cp.async.wait_group N: all but the N latest groups of this thread are complete and visible to it."""
    M.landing.finish_cp(C.gids, np.maximum(M.landing.committed(C.gids, bulk=False) - pending, 0).astype(np.int32))
    C.unsynced = True


def wait_all(M, C, info):
    """cp.async.wait_all: commit, then wait for every group."""
    commit(M, C, info)
    wait(M, C, 0)


def arrive(M, C, info: Info, address):
    """cp.async.mbarrier.arrive[.noinc]: each lane arrives when all copies it has started so far have landed. Without .noinc
    the pending count first grows by one, so that the arrival changes nothing but the time. PTX ISA 9.7.13.15.15."""
    ids = M.barriers.ids(C, address, info)
    number = M.landing.close_groups(C.gids)
    if not info.noinc:
        M.barriers.raise_pending(ids)
    for barrier in np.unique(ids).tolist():
        lanes = np.flatnonzero(ids == barrier)
        gids = C.gids[lanes]
        known = _copies_of(M.clocks, gids, number[lanes])
        if M.barriers.checks is not None:
            for gid in gids[np.unique(gids >> 5, return_index=True)[1]].tolist():
                M.barriers.checks.issued(barrier, gid, info.index)
        M.landing.issue_arrival(ArrivalOp(barrier, gids, number[lanes], known, info.index, int(gids[0]) // M.T))
    M.progress += 1


def _copies_of(clocks, gids, number) -> np.ndarray:
    """(planes, columns): that these threads' copies up to `number` have landed; one thread of a warp speaks for itself alone."""
    known = np.zeros((clocks.planes, clocks.columns), np.int32)
    for warp in np.unique(gids >> 5):
        here = (gids >> 5 == warp) & (number > 0)
        column = clocks.cp0 + int(warp) % clocks.warps
        if here.sum() == 1:
            known[X, column] = int(number[here][0]) << 5 | int(gids[here][0]) & 31
        elif here.any():
            known[V, column] = number[here].max()
    return known


RESOLVERS = {"cp": _cp}
