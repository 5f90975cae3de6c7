# SPDX-License-Identifier: Apache-2.0
"""When each warp instruction and each asynchronous operation of a launch begins and ends, by the estimate. `hl.emulate(clock=...)` makes them (emulating.py)."""
from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..emulator.ptx.places import user_site
from ..measure.timelines import KernelTimeline, Mark
from . import trace as T
from .estimating import Estimate
from .programs import COMPUTE
from .timed import NAMES, Timed

if TYPE_CHECKING:
    from ..emulator.ptx.ir import Instr
    from .costs import Cost
    from .sample import Sample

UNITS = "cycles", "us"
WAITS = T.WAIT, T.NAMED_WAIT, T.CLUSTER_WAIT, T.GROUPS
SINCE = 0.5                  # cycles, below which a wait is none
FEW = 100.0                  # bytes that a warp stores, up to which it is no tile (a mark is 16)
LONG = 150.0                 # cycles, from which on what is computed is looked at


@dataclass(frozen=True)
class EstimatedSpan:
    """Something that lasts from start to end: cycles of an SM since the launch began, estimated.

    block: linear CTA number; turn: 0 for the CTAs that begin, 1 for those that take their places, and so on (then `block` is the one that stands for them);
    warp, warps: the first warp and how many go together; what: in words (timed.NAMES, or of an engine timed.ENGINES); engine: an asynchronous operation, which goes on
    beside the warp; read: of a store, when its source is free again; barrier: number of the mbarrier that a load completes on, else -1; opcode, file, line, ptx_line:
    of the instruction, as in the emulator's timeline; '' and 0 where it is not known.
    """

    block: int
    turn: int
    warp: int
    warps: int
    what: str
    engine: bool
    start: float
    end: float
    read: float
    barrier: int = -1
    opcode: str = ""
    file: str = ""
    line: int = 0
    ptx_line: int = 0

    @property
    def cycles(self) -> float:
        """How long it lasts."""
        return self.end - self.start


@dataclass(frozen=True)
class Row:
    """Warps that go together, and what they do: (event, its number, start, end, how many of them)."""

    block: int
    warp: int
    warps: int
    events: tuple[tuple[str, int, float, float, int], ...]


class LaunchTimes:
    """The estimate of a launch, and the times behind it, of the CTAs that were sampled (all others do as they do).

    estimate: estimating.Estimate; kernel: its name; blocks: linear numbers of those CTAs; cycles: up to which they were simulated (the rest of a long launch goes on at
    their pace).
    """

    def __init__(self, estimate: Estimate, sample: Sample, costs: Sequence[Cost], found: Sequence[Timed], turns: Mapping[int, int]):
        self.estimate, self.kernel = estimate, estimate.kernel
        self.blocks: list[int] = list(sample.ctas)
        self.cycles = max((timed.end for timed in found if not timed.engine), default=0.0)
        self._found, self._costs, self._turns = found, costs, turns
        self._body: Sequence[Instr] = sample.machine.body

    @property
    def source(self) -> str:
        """What is said under every picture of it: that it is an estimate, and the error of such ones."""
        return f"estimated for an {self.estimate.board}, not measured; {self.estimate.family}"

    def spans(self, turn: int | None = 0) -> list[EstimatedSpan]:
        """Every step of every warp and every asynchronous operation, by block, warp and start. What a warp computes between two events is one span. turn: 0 for the
        CTAs that begin, None for all that were simulated."""
        made = [self._span(timed) for timed in self._of(turn)]
        return sorted(made, key=lambda span: (span.block, span.turn, span.warp, span.start))

    def instructions(self, turn: int | None = 0) -> Iterator[EstimatedSpan]:
        """The same with each warp instruction by itself. Those between two events share its time by the slots that they take, in the order of the PTX, which ptxas may
        change; one that takes no slot lasts nothing."""
        for timed in self._of(turn):
            if timed.engine or timed.step[0] != COMPUTE:
                yield self._span(timed)
            else:
                yield from self._pieces(timed)

    def timeline(self, unit: str = "cycles") -> KernelTimeline:
        """The rows that a kernel's own marks would leave (hl.timeline): 'wait' on barriers, 'mma' from a block's first product to the wait for it, 'issue' of a stage's
        loads, 'store'. unit: 'cycles' of an SM, or 'us'. Raises ValueError for another one."""
        scale, marks = self.scale(unit), self.marks()
        first = min((mark.start for mark in marks), default=0.0)
        rows = [replace(mark, start=round(scale * (mark.start - first), 3), end=round(scale * (mark.end - first), 3)) for mark in marks]
        return KernelTimeline(rows, kernel=self.kernel, place="estimate", unit=unit, source=self.source)

    def scale(self, unit: str) -> float:
        """How many of a unit a cycle is. Raises ValueError for another one than 'cycles' and 'us'."""
        if unit not in UNITS:
            raise ValueError(f"unit {unit!r}: choose one of {', '.join(UNITS)}")
        return 1.0 if unit == "cycles" else 1 / self.estimate.mhz

    def marks(self) -> list[Mark]:
        """The rows of `timeline`, in cycles since the launch began."""
        marks = [Mark(row.block, warp, 0, event, number, start, end) for row in self.rows() for event, number, start, end, warps in row.events
                 for warp in range(row.warp, row.warp + warps)]
        return sorted(marks, key=lambda m: (m.block, m.warp, m.start, m.end))

    def rows(self, compute: bool = False) -> list[Row]:
        """The same by warps that go together. compute: with 'compute', where they do so for long and have no products under way."""
        return [Row(self.blocks[slot], first, warps, tuple(_events([timed for timed in own if not timed.engine], compute)))
                for (slot, first, warps), own in itertools.groupby(sorted(self._of(0), key=_who), key=_who)]

    def __repr__(self) -> str:
        seen = f"{len(self._found):,} steps of {len(self.blocks)} CTA{'s' * (len(self.blocks) > 1)}"
        return f"{self.estimate}\n  {seen} up to cycle {self.cycles:,.0f}: spans(), instructions(), timeline()"

    def _of(self, turn: int | None) -> Iterator[Timed]:
        return (timed for timed in self._found if turn is None or self._turns[timed.copy] == turn)

    def _span(self, timed: Timed) -> EstimatedSpan:
        step, actor = timed.step, timed.actor
        at = step[2][0][0] if step[0] == COMPUTE else step[1]
        barrier = step[3][0][0] if step[0] == T.LOAD and step[3] else -1
        return EstimatedSpan(self.blocks[actor.slot], self._turns[timed.copy], actor.first, step[-1], timed.engine or NAMES[step[0]], bool(timed.engine), timed.start,
                             timed.end, timed.read, barrier, *(_place(self._body[at]) if at >= 0 else ()))

    def _pieces(self, timed: Timed) -> Iterator[EstimatedSpan]:
        """What is loaded from global memory is there when the warp goes on."""
        places = [at for start, end in timed.step[2] for at in range(start, end)]
        slots = [_slots(self._costs[at]) for at in places]
        scale, begun = (timed.end - timed.start) / (sum(slots) or 1.0), timed.start
        for at, takes in zip(places, slots, strict=True):
            cost = self._costs[at]
            end = timed.end if cost.loaded else min(timed.end, begun + max(scale * takes, cost.chain if takes else 0.0))
            yield EstimatedSpan(self.blocks[timed.actor.slot], self._turns[timed.copy], timed.actor.first, timed.step[-1], "compute", False, begun,
                                max(begun, end), end, -1, *_place(self._body[at]))
            begun += scale * takes


def _who(timed: Timed) -> tuple[int, int, int]:
    return timed.actor.slot, timed.actor.first, timed.actor.warps


def _slots(cost: Cost) -> float:
    return cost.issue + cost.alu / 2 + cost.special + cost.tensor


def _place(instr: Instr) -> tuple[str, str, int, int]:
    site = user_site(instr)
    return (instr.opcode, site.file, site.line, instr.ptx_line) if site is not None else (instr.opcode, "", 0, instr.ptx_line)


def _events(own: Sequence[Timed], compute: bool = False) -> list[tuple[str, int, float, float, int]]:
    """(event, number, start, end, warps) of one actor, as the marks of the course's kernels name them; with `compute` that, too."""
    found: list[tuple[str, float, float, int]] = []
    products: float | None = None                # since when there are products under way that the next wait is for
    storing, into = False, set[Any]()            # whether the last event is a store that goes on; stages that loads went into since the last wait
    for timed in own:
        kind = timed.step[0]
        stores = kind == T.STORE or kind == COMPUTE and timed.step[1].stored > FEW
        if kind == T.WGMMA:
            products, storing = timed.start if products is None else products, False
        elif kind == T.PRODUCTS and (products is not None or timed.end > timed.start + SINCE):
            found.append(("mma", timed.start if products is None else products, timed.end, timed.step[-1]))
            products = None
        elif kind == COMPUTE and timed.step[1].tensor > 0:
            _extend(found, "mma", timed, bool(found) and found[-1][0] == "mma")
        elif kind in WAITS and timed.end > timed.start + SINCE:
            found.append(("wait", timed.start, timed.end, timed.step[-1]))
            into.clear()
            storing = False
        elif kind == T.LOAD and (stage := timed.step[3][0][0] if timed.step[3] else None) not in into:
            into.add(stage)
            found.append(("issue", timed.start, timed.start, timed.step[-1]))
        elif stores:
            _extend(found, "store", timed, storing)
            storing = True
        elif compute and kind == COMPUTE and products is None and timed.end > timed.start + LONG:
            _extend(found, "compute", timed, bool(found) and found[-1][0] == "compute" and timed.start < found[-1][2] + SINCE)
            storing = False
    numbers: dict[str, Iterator[int]] = {event: itertools.count() for event, *_ in found}
    return [(event, next(numbers[event]), start, end, warps) for event, start, end, warps in found]


def _extend(found: list[tuple[str, float, float, int]], event: str, timed: Timed, goes_on: bool) -> None:
    """One more piece of an event: it goes on, or another one begins."""
    start = found.pop()[1] if goes_on else timed.start
    found.append((event, start, timed.end, timed.step[-1]))
