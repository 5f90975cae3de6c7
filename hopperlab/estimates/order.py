# SPDX-License-Identifier: Apache-2.0
"""What memory brings where CTAs begin at different places of the same tiles (tiles shared along k): the loads of all CTAs in order, through an L2.

The loading warps run alone, their waits over at once (skeleton.py). CTAs go on at the same pace, by the bytes that they ask for; the L2 gives up what has not been asked
for longest (`missed`).
"""
from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..emulator import EmulatorError
from ..emulator.hazards.findings import Findings
from ..emulator.launch import Plan, geometry
from ..emulator.machine.in_flight import Landing
from ..emulator.observe.deadlock import Deadlock
from ..emulator.program import Program
from ..emulator.session import Session
from ..hopper.tile import box_spans, tile_bytes
from .draws import Drawing, NotDrawn
from .skeleton import loading
from .together import STEP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..emulator.machine.cohort import Cohort
    from ..emulator.machine.in_flight import BarrierOp

LAST = 0.1                   # of the loads of a CTA
MOST_LOADS = 1_000_000       # of all CTAs, which are followed through the L2
MOST_EACH = 500_000          # loads of a CTA, on average: who has more goes on for ever (a product of 16384 cubed in the smallest tiles has 340,000)
MOST_TURNS = 20_000          # of loops and branches between two loads: who runs longer waits for what the other warps do
QUANTUM = 1 << 14            # bytes of each CTA's loads that are through the L2 at once,
MOST_AT_ONCE = 1200          # or more, where that were more often than so
WAYS = 16                    # lines of a set of the L2: what memory brings for attention is 8 per cent from what was counted of twelve launches, 10 with 64 of them


@dataclass(frozen=True)
class Loads:
    """Loads of CTAs: how many each has in all, `counts`, and how many of these, the first ones, are `kept`: one CTA after the other, by address and bytes.
    whole: bytes of each with what its box has outside its array; tiles: of each, where tiles are drawn from a counter, how many were begun before its own (the first
    ones by the CTAs' numbers), else nothing."""

    counts: NDArray[Any]
    kept: NDArray[Any]
    places: NDArray[Any]
    nbytes: NDArray[Any]
    whole: NDArray[Any]
    tiles: NDArray[Any] | None = None

    def before(self) -> NDArray[Any]:
        """Bytes that its CTA has asked for before each, inside and outside."""
        asked: NDArray[Any] = np.cumsum(self.whole) - self.whole
        starts = np.cumsum(self.kept) - self.kept
        found: NDArray[Any] = asked - np.repeat(asked[np.minimum(starts, len(asked) - 1)], self.kept)
        return found


class Nothing(Landing):
    """Copies that never land: nobody waits for them."""

    lands = False

    def issue_copy(self, op: BarrierOp) -> None:
        """A copy to shared memory."""


class NotAlone(ValueError):
    """The loading warps cannot run without the others."""


class Heard(Drawing):
    """Listens to tensor and bulk loads. kept: loads of each CTA that are kept, those after them are counted."""

    def __init__(self, machine: Any, kept: int):
        super().__init__(machine)
        self.kept = kept
        self.counts = np.zeros(machine.slots, np.int64)
        self.drew: list[tuple[int, int, int]] | None = []                                          # (CTA, loads before, number), None: there is no such counter
        self.told: dict[int, list[tuple[Any, int, NDArray[Any], list[NDArray[Any]]]]] = {}         # by fields: (these, number of the first, CTAs, coordinates)
        self.spans: list[tuple[int, int, int, int, int]] = []                                      # (number, CTA, place, bytes, and with what is outside)
        self.number = self.turns = 0

    def runs_on(self) -> None:
        """Warps start, or jump back. Raises NotAlone for those that wait for ever."""
        self.turns += 1
        if self.turns > MOST_TURNS:
            raise NotAlone("its loads cannot be followed without what else it does: the loading warp waits for other warps")

    def _keeps(self, slots: NDArray[Any]) -> NDArray[Any] | None:
        """Counts loads of these CTAs; which of them are kept, None for all."""
        self.turns = 0
        self.counts += np.bincount(slots, minlength=len(self.counts))
        self.number += len(slots)
        if self.number > MOST_EACH * len(self.counts):
            raise NotAlone("its loads cannot be followed without what else it does: the loading warp does not end")
        if self.number < self.kept:                       # no CTA can have more
            return None
        kept: NDArray[Any] = self.counts[slots] <= self.kept
        return kept

    def boxes_read(self, gids: NDArray[Any], fields: Any, starts: list[NDArray[Any]]) -> None:
        """Tensor loads of several CTAs at once."""
        slots, number = gids // (32 * self.M.warps), self.number
        kept = self._keeps(slots)
        if kept is None or kept.all():
            self.told.setdefault(id(fields), []).append((fields, number, slots, [start.copy() for start in starts]))
        elif kept.any():
            self.told.setdefault(id(fields), []).append((fields, number, slots[kept], [start[kept] for start in starts]))

    def box_read(self, gid: int, fields: Any, rows: Any, index: int, barriers: list[int]) -> None:
        """A tensor load."""
        width = max(0, rows.last - rows.first) * fields.elem_bytes
        self._span(gid, int(rows.address[0]) + rows.first * fields.elem_bytes, int(rows.inside.sum()) * width, tile_bytes(fields))

    def span_read(self, gid: int, allocation: Any, first: int, nbytes: int, index: int, barriers: list[int]) -> None:
        """A bulk load."""
        self._span(gid, allocation.address + first, nbytes, nbytes)

    def _span(self, gid: int, place: int, nbytes: int, whole: int) -> None:
        slot, number = gid // (32 * self.M.warps), self.number
        kept = self._keeps(np.array([slot]))
        if kept is None or kept[0]:
            self.spans.append((number, slot, place, nbytes, whole))

    def global_atomic(self, C: Cohort, parts: list[Any], info: Any) -> None:
        """An atomic addition."""
        self.keep(parts, info.nbytes)
        try:
            found = self.numbers(C, parts, info)
        except NotDrawn:
            self.drew = None
        if self.drew is not None:
            self.drew += [(warp // self.M.warps, int(self.counts[warp // self.M.warps]), number) for warp, number in found]

    def loads(self) -> Loads:
        """All that were heard."""
        parts = [tuple(np.array(self.spans, np.int64).reshape(-1, 5).T)]
        for told in self.told.values():
            numbers = np.concatenate([np.arange(number, number + len(slots)) for _, number, slots, _ in told])
            starts = [np.concatenate(each).astype(np.int64) for each in zip(*(starts for *_, starts in told), strict=True)]
            parts.append((numbers, np.concatenate([slots for _, _, slots, _ in told]), *box_spans(told[0][0], starts)))
        numbers, slots, places, nbytes, whole = map(np.concatenate, zip(*parts, strict=True))
        order = in_order(numbers)
        order = order[in_order(slots[order])]
        kept = np.bincount(slots, minlength=len(self.counts))
        return Loads(self.counts, kept, places[order], nbytes[order].astype(float), whole[order].astype(float), self._tiles(kept))

    def _tiles(self, kept: NDArray[Any]) -> NDArray[Any] | None:
        """As in Loads."""
        if not self.drew:
            return None
        slots, before, numbers = np.array(self.drew).T
        found = []
        for slot, count in enumerate(kept.tolist()):
            mine = np.flatnonzero(slots == slot)
            found.append(np.r_[slot, len(kept) + numbers[mine]][np.searchsorted(before[mine], np.arange(count), "right")])
        return np.concatenate(found)


def follow(launch: Plan, ctas: NDArray[Any] | None = None, most: int = MOST_LOADS) -> Loads:
    """Loads of these CTAs, or of all of a launch, the first of each kept, so that there are `most` at most. Raises NotAlone where the loading warps cannot run alone."""
    shape = launch.geometry
    chosen = shape.cta_order if ctas is None else ctas
    program = Program(loading(launch.program.ptx), launch.program.resources)
    few = geometry(shape.grid, min(shape.threads, 32), 32, shape.per_cta[2], shape.cluster if shape.explicit_cluster else None)
    heard: list[Any] = []

    def listen(machine: Any) -> list[Any]:
        nothing: Any = Nothing
        machine.landing, machine.findings = nothing(machine), Findings(machine)
        heard.append(Heard(machine, max(1, most // len(chosen))))
        return [*heard, Deadlock(machine, ())]
    session = Session(schedule="lazy", hazards_mode="collect", trace=False, check=False)
    machine: Any = replace(launch, program=program, geometry=few.only(chosen), session=session).machine(listen)
    try:
        machine.scheduler.run()
    except EmulatorError as problem:
        raise NotAlone(f"its loads cannot be followed without what else it does: {problem}") from None
    finally:
        heard[0].restore()
        launch.memory.release_views()
        machine.findings.close()
    if not heard[0].number:
        raise NotAlone("its first warp loads nothing")
    found: Loads = heard[0].loads()
    return found


def in_turn(found: Loads) -> Loads:
    """The same where tiles are drawn: who has asked for all that his tile takes takes the next one, at the same pace as all others. (Warps that draw alone take
    turns.)"""
    if found.tiles is None:
        return found
    each = np.bincount(found.tiles, found.whole)
    free = [(0.0, cta) for cta in range(len(found.kept))]
    owner = np.zeros(len(each), np.int64)
    for tile, nbytes in enumerate(each.tolist()):
        at, owner[tile] = free[0]
        heapq.heapreplace(free, (at + nbytes, int(owner[tile])))
    order = np.lexsort((np.arange(len(found.tiles)), found.tiles, owner[found.tiles]))
    kept = np.bincount(owner[found.tiles], minlength=len(found.kept))
    return replace(found, kept=kept, places=found.places[order], nbytes=found.nbytes[order], whole=found.whole[order], tiles=found.tiles[order])


def missed(found: Loads, half: float, step: float, stored: float = 0.0, cluster: int = 1) -> tuple[NDArray[Any], NDArray[Any], float]:
    """(bytes asked for, bytes that come from memory) through an L2 of twice `half` bytes, of each `step` bytes that a CTA asks for, and which
    share of all another one asks for at once. stored: bytes that all write meanwhile; cluster: CTAs of one.

    Each half of the L2 has the lines of its half of memory, and copies of those of the other half that its SMs ask for (which of them are there is not known: any).
    It gives up what has not been asked for longest among WAYS lines: after so many different bytes have come, a line is gone as often as WAYS or more of them fell to
    its set. What CTAs ask for at once comes once."""
    before = found.before()
    order = np.argsort(before, kind="stable")
    before, places, nbytes = before[order], found.places[order], found.nbytes[order]
    turns = (before / max(min(QUANTUM, step), before[-1] / MOST_AT_ONCE)).astype(np.int64)
    count = int(turns[-1]) + 1
    sides = np.random.default_rng(1).permutation(-(-len(found.kept) // cluster))[np.arange(len(found.kept)) // cluster] % 2
    side = np.repeat(sides, found.kept)[order]
    same, theirs = in_order(places), [np.flatnonzero(side == one) for one in (0, 1)]
    last = _last(places, turns, same)
    mine = [_last(places, turns, same[side[same] == one])[those] for one, those in enumerate(theirs)]
    different = _different(turns, last, nbytes, count)
    sets = [(different + _different(turns[those], since, nbytes[those], count)) / 2 for those, since in zip(theirs, mine, strict=True)]
    gone = [_gone(each, half, stored / 2 / count) for each in sets]
    came = np.empty(len(order))
    for one, those, since in zip((0, 1), theirs, mine, strict=True):
        here = gone[one].ravel()
        at = turns[those] * (count + 1) + 1
        before_all = at + last[those]
        came[those] = nbytes[those] * (here[before_all] + gone[1 - one].ravel()[before_all] * here[at + since]) / 2
    steps = (before / step).astype(np.int64)
    return np.bincount(steps, nbytes), np.bincount(steps, came), float(nbytes[last == turns].sum() / max(1.0, nbytes.sum()))


def in_order(keys: NDArray[Any]) -> NDArray[Any]:
    """Where whole numbers stand, the least first, of equal ones the first: 16 bits at a time, which NumPy sorts without comparing them."""
    left = keys - keys.min()
    left //= max(1, int(np.gcd.reduce(left)))
    order = np.argsort((left & 0xFFFF).astype(np.uint16), kind="stable")
    while left.max() >> 16:
        left >>= 16
        order = order[np.argsort((left & 0xFFFF).astype(np.uint16)[order], kind="stable")]
    return order


def _last(places: NDArray[Any], turns: NDArray[Any], same: NDArray[Any]) -> NDArray[Any]:
    """The turn in which each place was asked for before, -1 for never. same: those to look at, by place, one after the other of the same place."""
    sorted_places = places[same]
    again = np.flatnonzero(sorted_places[1:] == sorted_places[:-1])
    last = np.full(len(turns), -1)
    last[same[again + 1]] = turns[same[again]]
    return last


def _gone(different: NDArray[Any], half: float, written: float) -> NDArray[Any]:
    """[turn, 1 + before]: chance that in a turn a half of the L2, of so many bytes, has no line any more that it was asked for last in the turn `before`, -1: never.
    different: bytes of these that came to it until then (`_different`); written: bytes that come with each turn beside them."""
    count = len(different)
    fresh = different[:, 1:] - np.diagonal(different, 1) + written * (np.arange(count)[:, None] - np.arange(count))
    return np.hstack((np.ones((count, 1)), np.interp(fresh / half, *_SETS)))


def _different(turns: NDArray[Any], last: NDArray[Any], nbytes: NDArray[Any], count: int) -> NDArray[Any]:
    """[turn, 1 + before]: bytes asked for up to a turn whose place was asked for last up to the turn `before`: less those up to `before` itself, what differs between."""
    table = np.bincount(turns * (count + 1) + last + 1, nbytes, count * (count + 1)).reshape(count, count + 1)
    found: NDArray[Any] = table.cumsum(axis=0).cumsum(axis=1)
    return found


def _shares(ways: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """(bytes that have come, in sizes of a cache, the chance that a line is gone): `ways` or more fell to its set of as many."""
    came = np.linspace(0.0, 4.0, 401)
    each = np.exp(-ways * came)
    fewer = each.copy()
    for number in range(1, ways):
        each = each * ways * came / number
        fewer += each
    return came, 1 - fewer


_SETS = _shares(WAYS)


def together_at_last(found: Loads) -> float:
    """Of what CTAs ask for at last, a share of LAST of all, what the one before each asks for as well."""
    ends = np.repeat(np.cumsum(found.kept), found.kept)
    late = np.arange(len(found.places)) >= ends - np.repeat(np.maximum(1, (LAST * found.kept).astype(np.int64)), found.kept)
    slots = np.repeat(np.arange(1, len(found.kept) + 1), found.kept)[late]
    _, which = np.unique(found.places[late], return_inverse=True)
    asked = which * (len(found.kept) + 1) + slots
    return float(found.nbytes[late][np.isin(asked - 1, asked)].sum() / max(1.0, found.nbytes[late].sum()))


def brought(found: Loads, half: float, once: float = 0.0, stored: float = 0.0, cluster: int = 1, step: float = STEP) -> tuple[float, list[float], float, float]:
    """Bytes that memory brings for all of these loads, through an L2 of twice `half` bytes; of what each CTA asks for, `step` bytes after `step`, which share; of
    what CTAs ask for at last, what neighbours do, too; and of all, what others ask for at once. Those that were not kept go on as the last third of those that were.
    once: bytes that differ (0: not known; boxes that overlap are asked for as if they differed); stored, cluster: as in `missed`."""
    kept, every = found.kept.sum(), found.counts.sum()
    asked_for, came, same = missed(found, half, step, stored * float(kept / every), cluster)
    if once and kept == every:
        _, first = np.unique(found.places, return_index=True)
        came = came * min(1.0, once / float(found.nbytes[first].sum()))
    late = 2 * len(came) // 3
    after = float(came[late:].sum() / max(1.0, asked_for[late:].sum()))
    more = float(found.nbytes.sum() * (every / kept - 1))
    return float(came.sum()) + more * after, [*(came / np.maximum(1.0, asked_for)).tolist(), after], together_at_last(found), same
