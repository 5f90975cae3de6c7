# SPDX-License-Identifier: Apache-2.0
"""From what each warp did (trace.py) to programs that sm.py runs: warps of a warpgroup that do the same become one actor, blocks become costs."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import trace as T
from .boards import Board
from .costs import Cost, price
from .trace import Step

if TYPE_CHECKING:
    from .sample import Sample

COMPUTE = 100        # (COMPUTE, Cost, warps)
PIECE = 256.0        # issue slots after which others get their turn


@dataclass
class Actor:
    """Warps that go together. slot: of their CTA among the sampled ones; first, warps: which of it; steps: entries of trace.py and COMPUTE, each with its warps last."""

    slot: int
    first: int
    warps: int
    steps: list[Step]


def programs(sample: Sample, board: Board) -> list[Actor]:
    """All actors of a sample."""
    pricer, width = Pricer(sample, board), sample.machine.warps
    actors = []
    for slot in range(len(sample.ctas)):
        traces = sample.trace.warps[slot * width:(slot + 1) * width]
        for first in range(0, width, 4):
            for start, merged in together(traces[first:first + 4]):
                actors.append(Actor(slot, first + start, max((n for _, n in merged), default=1), pricer.steps(merged)))
    return actors


def together(traces: list[list[Step]]) -> list[tuple[int, list[tuple[Step, int]]]]:
    """Traces of a warpgroup's warps as (first warp, entries with the number of warps that make each): one list where the shorter ones are parts of the longest."""
    longest = max(range(len(traces)), key=lambda k: len(traces[k]))
    counts = [1] * len(traces[longest])
    left = []
    for k, other in enumerate(traces):
        if k == longest:
            continue
        places = _inside(other, traces[longest])
        if places is None:
            left.append((k, [(entry, 1) for entry in other]))
            continue
        for place in places:
            counts[place] += 1
    return [(longest, list(zip(traces[longest], counts, strict=True))), *left]


def _inside(part: list[Step], whole: list[Step]) -> list[int] | None:
    """Where the entries of `part` stand in `whole`, in order; None where one of them does not."""
    places, at, end = [], 0, len(whole)
    for entry in part:
        key = entry[:3]
        while at < end and whole[at][:3] != key:
            at += 1
        if at == end:
            return None
        places.append(at)
        at += 1
    return places


class Pricer:
    """Costs of pieces of basic blocks, each worked out once."""

    def __init__(self, sample: Sample, board: Board):
        self.body, self.spans = sample.machine.body, sample.machine.translation.spans
        self.counts, self.board = sample.counts, board
        self._known: dict[tuple[int, int], Cost] = {}

    def piece(self, start: int, end: int) -> Cost:
        """Instructions from `start` to before `end`."""
        known = self._known.get((start, end))
        if known is None:
            runs = [i for i in self.body[start:end] if not (i.op == "wgmma" and i.mods[0] in ("mma_async", "wait_group"))]
            known = self._known[(start, end)] = price(runs, self.counts, self.board)
        return known

    def commits(self, start: int, end: int) -> int:
        """wgmma.commit_group among them."""
        return sum(i.op == "wgmma" and i.mods[0] == "commit_group" for i in self.body[start:end])

    def steps(self, merged: list[tuple[Step, int]]) -> list[Step]:
        """Entries as steps: what is computed before an event stands before it."""
        out: list[Step] = []
        at, end, warps = 0, 0, 1
        for entry, count in merged:
            if entry[0] == T.BLOCK:
                self._compute(out, at, end, warps)
                (at, end), warps = self.spans[entry[2]], count
                continue
            index = self._place(entry, at, end)
            self._compute(out, at, min(max(index, at), end), warps)
            at = min(max(index, at), end)
            out.append((*entry, count))
        self._compute(out, at, end, warps)
        return out

    def _place(self, entry: Step, at: int, end: int) -> int:
        """The instruction of an entry in the rest of its block; `end` for one that stands at the head of the next."""
        if entry[1] >= 0:
            return entry[1] if at <= entry[1] < end else end
        wanted = {T.COMMIT: ("commit_group",), T.GROUPS: ("wait_group", "wait_all", "read"), T.CLUSTER: ("arrive",)}.get(entry[0], ())
        return next((i.index for i in self.body[at:end] if i.op in ("cp", "barrier") and any(m in i.mods for m in wanted)), end)

    def _compute(self, out: list[Step], start: int, end: int, warps: int) -> None:
        if start >= end:
            return
        cost = self.piece(start, end)
        if cost.issue or cost.chain:
            last = out[-1] if out else None
            if last and last[0] == COMPUTE and last[2] == warps and last[1].issue + cost.issue < PIECE:
                out[-1] = (COMPUTE, last[1] + cost, warps)
            else:
                out.append((COMPUTE, cost, warps))
        for _ in range(self.commits(start, end)):
            out.append((T.COMMIT, -1, "wgmma", warps))
