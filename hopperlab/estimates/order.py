# SPDX-License-Identifier: Apache-2.0
"""What memory brings where CTAs begin at different places of the same tiles (tiles shared along k): the loads of all CTAs in order, through an L2.

The loading warps run alone, their waits over at once (draws.py). CTAs go on at the same pace, by the bytes that they ask for; what an L2 has given
up since it was last asked for comes again, the least recent first.
"""
from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..emulator import EmulatorError
from ..emulator.hazards.findings import Findings
from ..emulator.launch import Plan, geometry
from ..emulator.machine.in_flight import Landing
from ..emulator.observe.deadlock import Deadlock
from ..emulator.observe.work import Work
from ..emulator.program import Program
from ..emulator.session import Session
from .draws import Undone, skeleton
from .together import HALF, STEP
from .trace import Enough

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..emulator.machine.cohort import Cohort
    from ..emulator.machine.in_flight import BarrierOp

LAST = 0.1                   # of the loads of a CTA
EVERY = 1 << 40              # all loads
MOST_WORK = 80_000_000       # of a run of the loading warps (emulator/observe/work.py)


class Nothing(Landing):
    """Copies that never land: nobody waits for them."""

    lands = False

    def issue_copy(self, op: BarrierOp) -> None:
        """A copy to shared memory."""


class Loads(Undone):
    """Loads by tensor maps and in bulk, by CTA and in its order: (place, bytes). enough: loads of each, after which the rest is not looked at."""

    def __init__(self, machine: Any, enough: int):
        super().__init__()
        self.machine, self.enough = machine, enough
        self.counts = np.zeros(machine.slots, np.int64)
        self.told: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []         # (CTAs, places, bytes)

    @property
    def found(self) -> list[list[tuple[int, float]]]:
        """Those of each CTA."""
        if not self.told:
            return [[] for _ in self.counts]
        slots, places, nbytes = (np.concatenate(part) for part in zip(*self.told, strict=True))
        order = np.argsort(slots, kind="stable")
        every = list(zip(places[order].tolist(), nbytes[order].astype(float).tolist(), strict=True))
        ends = np.cumsum(self.counts).tolist()
        return [every[start:end] for start, end in zip([0, *ends], ends)]

    def boxes_read(self, gids: NDArray[Any], places: NDArray[Any], nbytes: NDArray[Any]) -> None:
        """Loads, or tensor loads of several CTAs at once."""
        slots = gids // (32 * self.machine.warps)
        self.told.append((slots, places, nbytes))
        np.add.at(self.counts, slots, 1)
        if self.counts.min() >= self.enough:
            raise Enough

    def box_read(self, gid: int, fields: Any, rows: Any, index: int, barriers: list[int]) -> None:
        """A tensor load."""
        width = max(0, rows.last - rows.first) * fields.elem_bytes
        self.boxes_read(np.array([gid]), np.array([int(rows.address[0]) + rows.first * fields.elem_bytes]), np.array([len(rows.address) * width]))

    def span_read(self, gid: int, allocation: Any, first: int, nbytes: int, index: int, barriers: list[int]) -> None:
        """A bulk load."""
        self.boxes_read(np.array([gid]), np.array([allocation.address + first]), np.array([nbytes]))

    def global_atomic(self, C: Cohort, parts: list[Any], info: Any) -> None:
        """An atomic addition."""
        self.keep(parts, info.nbytes)


class NotAlone(ValueError):
    """The loading warps cannot run without the others."""


def loads(launch: Plan, ctas: NDArray[Any], enough: int) -> list[list[tuple[int, float]]]:
    """(place, bytes) of loads of these CTAs, `enough` of each or all. Raises NotAlone where the loading warps cannot run alone."""
    shape = launch.geometry
    program = Program(skeleton(launch.program.ptx, loads=True), launch.program.resources)
    few = geometry(shape.grid, min(shape.threads, 32), 32, shape.per_cta[2], shape.cluster if shape.explicit_cluster else None)
    few = replace(few, slots=len(ctas), ctas=len(ctas))
    few.__dict__["cta_order"] = ctas
    heard: list[Any] = []

    def listen(machine: Any) -> list[Any]:
        nothing: Any = Nothing
        bound: Any = Work
        machine.landing, machine.findings = nothing(machine), Findings(machine)
        heard.append(Loads(machine, enough))
        return [*heard, bound(machine), Deadlock(machine, ())]
    session = Session(schedule="lazy", hazards_mode="collect", trace=False, check=False, limit=MOST_WORK)
    machine: Any = replace(launch, program=program, geometry=few, session=session).machine(listen)
    try:
        machine.scheduler.run()
    except Enough:
        pass
    except EmulatorError as problem:
        raise NotAlone(f"its loads cannot be followed without what else it does: {problem}") from None
    finally:
        heard[0].restore()
        launch.memory.release_views()
        machine.findings.close()
    found: list[list[tuple[int, float]]] = heard[0].found
    if not any(found):
        raise NotAlone("its first warp loads nothing")
    return found


def missed(found: list[list[tuple[int, float]]], size: float, step: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """(bytes asked for, bytes that come from memory) through an L2 of `size` bytes, of each `step` bytes that a CTA asks for."""
    order = []
    for mine in found:
        before = np.cumsum([0.0, *(nbytes for _, nbytes in mine)])
        order += [(at, *load) for at, load in zip(before.tolist(), mine)]
    order.sort(key=lambda load: load[0])
    asked, brought = np.zeros((2, int(order[-1][0] / step) + 1))
    held: OrderedDict[int, float] = OrderedDict()
    full = 0.0
    for at, place, nbytes in order:
        asked[int(at / step)] += nbytes
        if place in held:
            held.move_to_end(place)
            continue
        brought[int(at / step)] += nbytes
        held[place] = nbytes
        full += nbytes
        while full > size:
            full -= held.popitem(last=False)[1]
    return asked, brought


def asked(launch: Plan, ctas: NDArray[Any]) -> int:
    """How many loads these CTAs have in all. Raises NotAlone where the loading warps cannot run alone."""
    return sum(map(len, loads(launch, ctas, EVERY)))


def together_at_last(found: list[list[tuple[int, float]]]) -> float:
    """Of what CTAs ask for at last, a share of LAST of all, what the one before each asks for as well."""
    same = every = 0.0
    before: set[int] = set()
    for mine in found:
        late = mine[-max(1, int(LAST * len(mine))):]
        same += sum(nbytes for place, nbytes in late if place in before)
        every += sum(nbytes for _, nbytes in late)
        before = {place for place, _ in late}
    return same / every


def brought(launch: Plan, loaded: float, each: int) -> tuple[float, list[float], float]:
    """Bytes that memory brings for a launch that loads so many; of what each CTA asks for, STEP after STEP, which share; and of what CTAs ask for at last, what
    neighbours do, too. The first `each` loads of a CTA are followed, those after them go on as the last third of these."""
    found = loads(launch, launch.geometry.cta_order, each)
    asked_for, came = missed(found, HALF, STEP)
    late = 2 * len(came) // 3
    after = float(came[late:].sum() / asked_for[late:].sum())
    return (float(came.sum() + max(0.0, loaded - asked_for.sum()) * after), [*(came / np.maximum(1.0, asked_for)).tolist(), after], together_at_last(found))
