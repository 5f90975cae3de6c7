# SPDX-License-Identifier: Apache-2.0
"""What memory brings where CTAs begin at different places of the same tiles (tiles shared along k): the loads of all CTAs in order, through an L2.

The loading warps run alone, their waits over at once (skeleton.py). CTAs go on at the same pace, by the bytes that they ask for; the L2 gives up any of its lines
with the same chance, so that whatever was asked for since, something of it is left.
"""
from __future__ import annotations

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
from .draws import Undone
from .skeleton import loading
from .together import HALF, STEP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..emulator.machine.cohort import Cohort
    from ..emulator.machine.in_flight import BarrierOp

LAST = 0.1                   # of the loads of a CTA
MOST_LOADS = 2_500_000       # of all CTAs, which are followed through the L2
MOST_EACH = 500_000          # loads of a CTA, on average: who has more goes on for ever (a product of 16384 cubed in the smallest tiles has 340,000)
MOST_TURNS = 20_000          # of loops and branches between two loads: who runs longer waits for what the other warps do
QUANTUM = 1 << 14            # bytes of each CTA's loads that are through the L2 at once


@dataclass(frozen=True)
class Loads:
    """Loads of CTAs: how many each has in all, `counts`, and how many of these, the first ones, are `kept`: one CTA after the other, by address and bytes.
    whole: bytes of each with what its box has outside its array."""

    counts: NDArray[Any]
    kept: NDArray[Any]
    places: NDArray[Any]
    nbytes: NDArray[Any]
    whole: NDArray[Any]

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


class Heard(Undone):
    """Listens to tensor and bulk loads. kept: loads of each CTA that are kept, those after them are counted."""

    def __init__(self, machine: Any, kept: int):
        super().__init__()
        self.machine, self.kept = machine, kept
        self.counts = np.zeros(machine.slots, np.int64)
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
        slots, number = gids // (32 * self.machine.warps), self.number
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
        slot, number = gid // (32 * self.machine.warps), self.number
        kept = self._keeps(np.array([slot]))
        if kept is None or kept[0]:
            self.spans.append((number, slot, place, nbytes, whole))

    def global_atomic(self, C: Cohort, parts: list[Any], info: Any) -> None:
        """An atomic addition."""
        self.keep(parts, info.nbytes)

    def loads(self) -> Loads:
        """All that were heard."""
        parts = [np.array(self.spans, np.int64).reshape(-1, 5).T]
        for told in self.told.values():
            numbers = np.concatenate([np.arange(number, number + len(slots)) for _, number, slots, _ in told])
            starts = [np.concatenate(each).astype(np.int64) for each in zip(*(starts for *_, starts in told), strict=True)]
            parts.append(np.stack([numbers, np.concatenate([slots for _, _, slots, _ in told]), *box_spans(told[0][0], starts)]))
        numbers, slots, places, nbytes, whole = np.concatenate(parts, axis=1)
        order = np.lexsort((numbers, slots))
        return Loads(self.counts, np.bincount(slots, minlength=len(self.counts)), places[order], nbytes[order].astype(float), whole[order].astype(float))


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


def missed(found: Loads, size: float, step: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """(bytes asked for, bytes that come from memory) through an L2 of `size` bytes, of each `step` bytes that a CTA asks for.

    Whatever comes takes the place of any of what is there, each with the same chance: after so many bytes have come since it was asked for last, a line is there with
    the chance exp(-bytes / size); what is expected to come is counted. What CTAs ask for at once comes once."""
    before = found.before()
    order = np.argsort(before, kind="stable")
    before, places, nbytes = before[order], found.places[order], found.nbytes[order]
    turns = (before / min(QUANTUM, step)).astype(np.int64)
    same = np.argsort(places, kind="stable")
    again = np.flatnonzero(places[same[1:]] == places[same[:-1]])
    last = np.full(len(order), -1)
    last[same[again + 1]] = turns[same[again]]
    came = np.zeros(len(order))
    given_up = np.zeros(int(turns[-1]) + 2)                    # before each turn: bytes that others have taken the places of
    ends = np.searchsorted(turns, np.arange(len(given_up) - 1), "right")
    start, full = 0, 0.0
    for turn, end in enumerate(ends.tolist()):
        there = np.where(last[start:end] < 0, 0.0, np.exp((given_up[last[start:end]] - given_up[turn]) / size))
        came[start:end] = (1 - there) * nbytes[start:end]
        full += float(came[start:end].sum())
        start, given_up[turn + 1] = end, max(0.0, full - size)
    steps = (before / step).astype(np.int64)
    return np.bincount(steps, nbytes), np.bincount(steps, came)


def together_at_last(found: Loads) -> float:
    """Of what CTAs ask for at last, a share of LAST of all, what the one before each asks for as well."""
    ends = np.repeat(np.cumsum(found.kept), found.kept)
    late = np.arange(len(found.places)) >= ends - np.repeat(np.maximum(1, (LAST * found.kept).astype(np.int64)), found.kept)
    slots = np.repeat(np.arange(1, len(found.kept) + 1), found.kept)[late]
    _, which = np.unique(found.places[late], return_inverse=True)
    asked = which * (len(found.kept) + 1) + slots
    return float(found.nbytes[late][np.isin(asked - 1, asked)].sum() / max(1.0, found.nbytes[late].sum()))


def brought(found: Loads, loaded: float) -> tuple[float, list[float], float]:
    """Bytes that memory brings for a launch that loads so many; of what each CTA asks for, STEP after STEP, which share; and of what CTAs ask for at last, what
    neighbours do, too. Those that were not followed go on as the last third of those that were."""
    asked_for, came = missed(found, HALF, STEP)
    late = 2 * len(came) // 3
    after = float(came[late:].sum() / max(1.0, asked_for[late:].sum()))
    return (float(came.sum() + max(0.0, loaded - asked_for.sum()) * after), [*(came / np.maximum(1.0, asked_for)).tolist(), after], together_at_last(found))
