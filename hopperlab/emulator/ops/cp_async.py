# SPDX-License-Identifier: Apache-2.0
"""cp.async of 4, 8 or 16 bytes per thread, its groups and waits (PTX ISA 9.7.9.25.3). Other cp.* opcodes are in copies.py."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.in_flight import ArrivalOp, CpAsyncOp
from ..ptx.ir import Not
from ..compile.translated import MachineOp
from . import copies
from .common import find_global, flat_shared, unsupported

if TYPE_CHECKING:
    from ..isa.value import Value
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine


HINTS = {"L2::cache_hint", "L2::64B", "L2::128B", "L2::256B"}


@dataclass
class Info:
    """index: of the instruction; size: bytes written to shared memory (4, 8 or 16); noinc: the arrival is in the count; ignores: the last operand is a
    predicate, ignore-src, and not the bytes to read."""

    index: int
    size: int
    noinc: bool = False
    ignores: bool = False


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
    if mods[:2] not in (("async", "ca"), ("async", "cg")) or mods[2:4] not in (("shared", "global"), ("shared::cta", "global")) or not set(mods[4:]) <= HINTS:
        raise unsupported(instr, "the form is cp.async.{ca,cg}.shared.global")
    sources = [(ops[0], None), (ops[1], None)]
    extra = ops[3:-1] if "L2::cache_hint" in mods else ops[3:]
    if len(extra) > 1:
        raise unsupported(instr, "operands: the addresses, the size, and the bytes to read or the predicate ignore-src")
    ignores = bool(extra) and (type(extra[0]) is Not or getattr(extra[0], "type", "") == "pred")
    if extra:
        sources.append((extra[0], "pred" if ignores else "u32"))
    return MachineOp(copy, Info(instr.index, ops[2].value, ignores=ignores), tuple(sources))


def copy(M: Machine, C: Cohort, info: Info, target: Value, source: Value, size: Value | None = None) -> None:
    """cp.async: bytes past `size` are zero (all, where the predicate ignore-src holds); the copy lands by its group's wait_group."""
    if info.ignores:
        size = np.where(size, 0, info.size)
    flat = flat_shared(M, C, target, info.size, info.index)
    source = M.lanes(C, source)
    valid = None if size is None else M.lanes(C, size).astype(np.int64)
    if size is not None and size.dtype == bool:              # ignore-src: where it holds, zeros are written
        valid = np.where(M.lanes(C, size), 0, info.size)
    live = np.arange(C.n) if valid is None else np.flatnonzero(valid > 0)
    parts, sub = [], C
    if len(live) < C.n:
        sub, source = type(C)(C.gids[live], None, C.pc), source[live]
    if len(live):
        parts = [(allocation, live if where is None else live[where], offset)
                 for allocation, where, offset in find_global(M, sub, source, info.size, info.index)]
    M.tell.cp_async(C, sub, source, parts, flat, info.size, info.index)
    group = M.landing.cp_groups.open(C.gids)
    M.landing.issue_cp(CpAsyncOp(C.gids, group, _mover(M, info.size, flat, valid, parts, C.n), info.index))


def _mover(M, size: int, flat, valid, parts, n: int):
    """copy(pick): move the lanes of `pick` (slice, mask or indices) from global to shared memory."""
    def move(pick) -> None:
        rows = np.zeros(n, M.smem_views[size].dtype)
        for allocation, lanes, offset in parts:
            rows[lanes] = M.altered.source("cp.async", allocation).view(size)[offset // size]
        if valid is not None and ((valid > 0) & (valid < size)).any():
            raw = rows.view(np.uint8).reshape(n, size)
            raw[np.arange(size) >= valid[:, None]] = 0
        M.smem_views[size][flat[pick] // size] = rows[pick]
    return move


def commit(M: Machine, C: Cohort, info: Any) -> None:
    """cp.async.commit_group: this thread's copies since the last commit become one group."""
    M.landing.cp_groups.commit(C.gids)
    M.tell.committed(C, False)


def wait(M: Machine, C: Cohort, pending: int) -> None:
    """cp.async.wait_group N: all but the N latest groups of this thread are complete and visible to it."""
    M.landing.finish_cp(C.gids, pending)
    M.tell.groups_waited(C, False, pending, False)


def wait_all(M: Machine, C: Cohort, info: Any) -> None:
    """cp.async.wait_all: commit, then wait for every group."""
    commit(M, C, info)
    wait(M, C, 0)


def arrive(M: Machine, C: Cohort, info: Info, address: Value) -> None:
    """cp.async.mbarrier.arrive[.noinc]: each lane arrives when all copies it has started so far have landed. Without .noinc
    the pending count first grows by one, so that the arrival changes nothing but the time. PTX ISA 9.7.13.15.15."""
    ids = M.barriers.ids(C, address, info)
    number = M.landing.cp_groups.close(C.gids)
    M.tell.cp_closed(C)
    if not info.noinc:
        M.barriers.raise_pending(ids)
    for barrier in np.unique(ids).tolist():
        lanes = np.flatnonzero(ids == barrier)
        gids = C.gids[lanes]
        op = ArrivalOp(barrier, gids, number[lanes], info.index, int(gids[0]) // M.T)
        M.tell.arrival_issued(op)
        M.landing.issue_arrival(op)
    M.progress += 1


RESOLVERS = {"cp": _cp}
