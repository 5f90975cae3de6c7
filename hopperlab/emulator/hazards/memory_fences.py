# SPDX-License-Identifier: Apache-2.0
"""What fence and membar covered, for synchronising writes without .release that come after them: of every warp the latest fences, with the lanes that ran each.

A later write by one of these lanes, or by a thread that has met one of them since (writers that fence, a __syncthreads(), and one thread that raises the
flag), publishes what these lanes had made and learned. reference: PTX ISA 8.8 (release patterns)."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..machine.units import lane_masks
from .clocks import V, X
from .far_knowledge import codes_of, merge_known

if TYPE_CHECKING:
    from ..machine.cohort import Cohort
    from ..machine.units import Units
    from .clocks import Clocks
    from .far_knowledge import Known

KEPT = 4        # fences remembered of a warp: a flag may be raised by somebody who knows of an older one only


@dataclass
class Fence:
    """By the lanes of `mask` at `epoch` of their warp. known: also what these lanes did; before: (V, X) of their own warp's column without that."""

    mask: int
    epoch: int
    narrow: bool
    serial: int
    known: Known
    before: np.ndarray


class MemoryFences:
    """Fences by warp, oldest first."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.of: dict[int, list[Fence]] = {}
        clocks.lanes.holders.append(self._codes)

    def _codes(self) -> Iterable[np.ndarray]:
        for fences in self.of.values():
            yield from codes_of(self.clocks, (f.known for f in fences))
            for f in fences:
                yield f.before[1:]

    def forget(self, warps: Iterable[int]) -> None:
        """New warps have run none."""
        if self.of:
            for warp in warps:
                self.of.pop(warp, None)

    def ran(self, C: Cohort, units: Units, serials: list[int], known: list[Known], before: np.ndarray, narrow: bool) -> None:
        """The cohort has run a fence. known, before: by unit, as in Fence."""
        whole = self.clocks.whole(units)
        for k, (gw, mask) in enumerate(zip(units.gw.tolist(), lane_masks(C, units).tolist())):
            fences = self.of.setdefault(gw, [])
            fences.append(Fence(-1 if whole[k] else mask, int(self.clocks.epoch[gw]) - 1, narrow, serials[k], known[k], before[k]))
            del fences[:-KEPT]

    def covered(self, gw: int, warps: Iterable[int], lanes: int, row: np.ndarray, narrow: bool) -> Known | None:
        """What fences before an operation by `lanes` (a mask) of warp gw covered, of its own warp and of others among `warps` that it has met since: row
        is what it knows. narrow: fences of CTA scope count."""
        found: Known = {}
        times = self.clocks.lanes
        for warp in warps:
            column = warp % self.clocks.warps
            reached, code = int(row[V, column]), row[X, column:column + 1]
            for f in self.of.get(warp, ()):
                if f.narrow and not narrow:
                    continue
                met = f.mask if reached >= f.epoch else self._lanes(times.times(code)[0] >= f.epoch) & f.mask if code[0] else 0
                met |= lanes & f.mask if warp == gw else 0
                if met:
                    merge_known(self.clocks, found, f.known if met == f.mask else self._part(f, column, met))
        return found or None

    @staticmethod
    def _lanes(which: np.ndarray) -> int:
        return int((which.astype(np.int64) << np.arange(32)).sum())

    def _part(self, fence: Fence, column: int, lanes: int) -> Known:
        """What a fence covered, of its own warp only what some of its lanes did."""
        table = fence.known[fence.serial].copy()
        old, code = fence.before
        new = self.clocks.lanes.of_lanes(np.array([lanes & 0xFFFFFFFF]), np.array([fence.epoch]))
        table[V, column] = old
        table[X, column] = self.clocks.lanes.join(np.array([code]), new, np.array([old]))[0]
        return {**fence.known, fence.serial: table}
