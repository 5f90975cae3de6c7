# SPDX-License-Identifier: Apache-2.0
"""What the CTAs of one wave load at the same time, and how much of it is the same: that comes from memory once, and again for a later wave if the L2 has given it up.

All CTAs that fit on the chip run in the emulator until each has asked for its first bytes, without the data. What they share then they share to the end.
"""
from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..emulator import EmulatorError
from ..emulator.hazards.findings import Findings
from ..emulator.launch import one_blas_thread
from ..emulator.machine.events import Listener
from ..emulator.observe.deadlock import Deadlock
from ..emulator.observe.work import Work
from ..hopper import limits
from . import order
from .chip import amounts
from .cut import NotEnough, progress
from .still import Still
from .together import Together
from .trace import LINE, Enough, Recorder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..emulator.launch import Plan
    from ..emulator.machine.cohort import Cohort
    from .sample import Sample

FIRST = 1 << 16              # bytes of a CTA's first loads that are looked at
MOST_WORK = 40_000_000       # of a wave (emulator/observe/work.py)
ALONE = 0.9                  # of what persistent CTAs ask for at the same time, what differs, from which on their loads are followed one by one (order.py)
MOST_ATTENDED = 400_000      # loads of attention that are followed: it goes on as it went
BEGUN = 1 << 18              # bytes of a CTA's loads of attention, of which it matters how many come from memory
AGAIN = 1.3                  # times that a byte is loaded, on average, from which on it matters who loads it when


class Loads(Listener):
    """The first loads of each CTA."""

    def __init__(self, machine: Any):
        self.M = machine
        self.bytes = np.zeros(machine.slots)
        self.found: list[tuple[NDArray[Any], int, NDArray[Any], float, bool]] = []     # (CTAs, array, places, bytes of each, for several CTAs)
        self.boxes: Counter[tuple[int, int, int]] = Counter()                           # by CTA, array and place: how often, of copies that are one request

    def _add(self, slots: NDArray[Any], array: int, places: NDArray[Any], nbytes: float, sent: bool = False) -> None:
        fresh = self.bytes[slots] < FIRST
        self.found.append((slots[fresh], array, places[fresh], nbytes, sent))
        np.add.at(self.bytes, slots, nbytes)
        if self.bytes.min() >= FIRST:
            raise Enough

    def _box(self, gid: int, array: int, place: int, nbytes: float, barriers: list[int]) -> None:
        slots = self._slot(gid)
        self.boxes[int(slots[0]), array, place] += int(self.bytes[slots[0]] < FIRST)
        self._add(slots, array, np.array([place]), nbytes, len(barriers) > 1)

    def _slot(self, gids: Any) -> NDArray[Any]:
        slots: NDArray[Any] = np.atleast_1d(np.asarray(gids)) // (32 * self.M.warps)
        return slots

    def box_read(self, gid: int, fields: Any, rows: Any, index: int, barriers: list[int]) -> None:
        """A tensor load."""
        at = int(rows.address[0])
        allocation = self.M.memory.find(at)
        if allocation is not None:
            width = max(0, rows.last - rows.first) * fields.elem_bytes
            self._box(gid, allocation.address, at + rows.first * fields.elem_bytes, float(len(rows.address) * width), barriers)

    def span_read(self, gid: int, allocation: Any, first: int, nbytes: int, index: int, barriers: list[int]) -> None:
        """A bulk load."""
        self._box(gid, allocation.address, allocation.address + first, float(nbytes), barriers)

    def cp_async(self, C: Cohort, live: Cohort, address: NDArray[Any], parts: list[Any], flat: NDArray[Any], size: int, index: int) -> None:
        """cp.async."""
        for allocation, lanes, offsets in parts:
            self._add(self._slot(C.gids[lanes]), allocation.address, allocation.address + np.asarray(offsets) // LINE * LINE, float(size))

    def together(self) -> Together:
        """Sums by array."""
        told, entries = Together(), []
        for array in {array for _, array, _, _, _ in self.found}:
            mine = [(slots, places, nbytes) for slots, a, places, nbytes, _ in self.found if a == array]
            told.sent[array] = sum(nbytes * len(places) for _, a, places, nbytes, sent in self.found if a == array and sent)
            places = np.concatenate([p for _, p, _ in mine])
            slots = np.concatenate([s for s, _, _ in mine])
            weights = np.concatenate([np.full(len(p), n) for _, p, n in mine])
            told.asked[array] = float(weights.sum())
            often = [number for (_, a, _), number in self.boxes.items() if a == array]
            told.repeated[array] = sum(number for number in often if number > 1) / max(1, sum(often))
            pairs, where = np.unique(np.stack([places, slots]), axis=1, return_inverse=True)
            each = np.bincount(where.ravel(), weights)
            _, of = np.unique(pairs[0], return_inverse=True)
            told.different[array] = float((np.bincount(of.ravel(), each) / np.maximum(1, np.bincount(of.ravel()))).sum())
            same = np.r_[False, pairs[0, 1:] == pairs[0, :-1]]
            entries.append((array, pairs[1], np.where(same, np.r_[-1, pairs[1, :-1]], -1), each))
        between, size = _between(self.M.slots, entries), self.M.cluster
        for array, now, before, each in entries:
            pair = (before >= 0) & (now // 2 == before // 2) & (size % 2 == 0)                  # CTAs of a cluster, on one TPC
            told.paired[array] = float(each[pair].sum())
            told.near[array] = float(each[(before >= 0) & ~pair & (now // size - before // size <= 1)].sum())
            far, where = np.unique(between[before, now][before >= 0], return_inverse=True)
            told.again[array] = list(zip(far.tolist(), np.bincount(where.ravel(), each[before >= 0]).tolist(), strict=True)) if len(far) else []
        return told


def _between(slots: int, entries: list[tuple[int, NDArray[Any], NDArray[Any], NDArray[Any]]]) -> NDArray[Any]:
    """[i, j]: bytes that differ, of those that CTAs after i and up to j ask for."""
    fresh = np.zeros((slots + 1, slots))                             # [1 + i, j]: that j asks for, and i was the last one before it to
    for _, now, before, each in entries:
        np.add.at(fresh, (before + 1, now), each)
    fresh = np.cumsum(fresh, axis=0)[1:]                             # [i, j]: that j asks for, and nobody after i before it
    found: NDArray[Any] = np.cumsum(np.triu(fresh, 1), axis=1)
    return found


def of(sample: Sample) -> Together | None:
    """What a wave of a sample's launch shares; None where nothing is loaded twice, and where too little was seen.
    Attention asks for the keys and values of a head by many CTAs at about the same time, which all wait for them, and memory brings them once (profiles.json), or more
    often, where the L2 does not hold those of all heads that are at work."""
    ops, at_once = {instr.op for instr in sample.machine.body}, limits.SMS * sample.resident
    attends = "ex2" in ops and not ops.isdisjoint(("wgmma", "mma"))
    try:
        arrays, stored = amounts(sample, progress(sample))
    except NotEnough:
        return Together(new=True) if attends else None
    once = sum(size for _, size in arrays.values())
    if attends:
        told = Together(new=True)
        if sample.total <= at_once:
            with contextlib.suppress(order.NotAlone):
                found = order.follow(sample.plan, most=MOST_ATTENDED)
                told.followed = partial(order.brought, order.in_turn(found), once=once, stored=stored, cluster=sample.cluster, step=BEGUN)
                told.dealt = _dealt(found, sample) if found.tiles is None else None
        return told
    if sum(nbytes for nbytes, _ in arrays.values()) < AGAIN * once:
        return None
    told = together(sample.plan, at_once)
    if sample.total <= at_once and (sample.asked or sum(told.different.values()) > ALONE * sum(told.asked.values())):
        with contextlib.suppress(order.NotAlone):
            told.followed = partial(order.brought, sample.loads or order.follow(sample.plan), once=once, stored=stored, cluster=sample.cluster)
    return told


def _dealt(found: order.Loads, sample: Sample) -> tuple[float, float, float]:
    """As in Together."""
    clusters = found.counts.reshape(-1, sample.cluster).sum(axis=1)
    return float(found.counts[np.isin(sample.plan.geometry.cta_order, sample.ctas)].sum()), float(clusters.max()), float(clusters.sum())


def together(launch: Plan, at_once: int) -> Together:
    """What the first `at_once` CTAs of a launch share."""
    shape = launch.geometry
    count = min(shape.ctas, at_once // shape.cluster_ctas * shape.cluster_ctas)
    heard: list[Any] = []

    def listen(machine: Any) -> list[Any]:
        still: Any = Still
        bound: Any = Work
        machine.landing, machine.findings = still(machine), Findings(machine)
        heard.extend((Loads(machine), Recorder(machine)))
        return [*heard, bound(machine), Deadlock(machine, ())]
    machine: Any = replace(launch, geometry=shape.only(shape.cta_order[:count]), session=replace(launch.session, limit=MOST_WORK)).machine(listen)
    try:
        with one_blas_thread():
            machine.scheduler.run()
    except (Enough, EmulatorError):
        pass
    finally:
        heard[1].restore()
        launch.memory.release_views()
        machine.findings.close()
    told: Together = heard[0].together()
    return told
