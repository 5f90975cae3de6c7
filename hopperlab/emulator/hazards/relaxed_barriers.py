# SPDX-License-Identifier: Apache-2.0
"""Fences beside .relaxed arrivals and waits of barriers, which by themselves order no ordinary access.

A fence and a relaxed arrival behind it release what the fence covered; a relaxed wait and a fence behind it acquire what the barrier tells (PTX ISA 8.8, release
and acquire patterns; the example of 9.7.13.3, barrier.cluster).
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.cohort import Cohort
from ..machine.units import lane_masks

if TYPE_CHECKING:
    from ..machine.units import Units
    from .clocks import Clocks
    from .findings import Watched
    from .global_order import GlobalOrder

KEPT = 8             # relaxed waits remembered of a warp


class RelaxedBarriers:
    """waits: warp -> (lanes as a mask, whether of the scope of the cluster, what the barrier told) of relaxed waits that no fence came after."""

    def __init__(self, machine: Watched, clocks: Clocks, everywhere: GlobalOrder) -> None:
        self.M, self.clocks, self.everywhere = machine, clocks, everywhere
        self.waits: dict[int, list[tuple[int, bool, np.ndarray]]] = {}
        clocks.lanes.holders.append(lambda: (told[plane] for waits in self.waits.values() for _, _, told in waits for plane in clocks.lane_planes))

    def admitted(self, slots: np.ndarray) -> None:
        """New CTAs have waited for nothing."""
        if self.waits:
            for warp in (slots[:, None] * self.M.warps + np.arange(self.M.warps)).reshape(-1).tolist():
                self.waits.pop(warp, None)

    def told(self, C: Cohort, units: Units, vec: np.ndarray, wide: bool) -> np.ndarray:
        """What arrivals publish, of what their lanes know (`vec`, by unit). wide: of the scope of the cluster, for which fences of CTA scope do not count."""
        clocks, fences, warps = self.clocks, self.everywhere.fences, self.M.warps
        told = clocks.finished(vec)
        if not fences.of:
            return told
        whole, masks = clocks.whole(units), lane_masks(C, units)
        for k, gw in enumerate(units.gw.tolist()):
            first = gw // warps * warps
            known = fences.covered(gw, range(first, first + warps), -1 if whole[k] else int(masks[k]), vec[k], not wide)
            own: Any = (known or {}).get(int(self.everywhere.serial[gw // clocks.warps]))
            if own is not None:
                more = np.zeros_like(told[k])
                more[:clocks.paired, :own.shape[1]], more[clocks.paired:, :own.shape[1]] = own, own[0]
                told[k] = clocks.join(told[k], more)
        return told

    def waited(self, C: Cohort, units: Units, vec: np.ndarray, wide: bool) -> None:
        """Relaxed waits: a fence may follow, and then these lanes know what the barrier tells (`vec`, by unit)."""
        for k, (gw, mask) in enumerate(zip(units.gw.tolist(), lane_masks(C, units).tolist(), strict=True)):
            waits = self.waits.setdefault(gw, [])
            waits.append((int(mask), wide, vec[k].copy()))
            del waits[:-KEPT]

    def fenced(self, C: Cohort, narrow: bool) -> None:
        """A fence by these lanes (narrow: of CTA scope)."""
        if not self.waits:
            return
        units = self.M.units(C)
        for gw, ran in zip(units.gw.tolist(), lane_masks(C, units).tolist(), strict=True):
            left = []
            for mask, wide, vec in self.waits.get(gw, ()):
                here = 0 if wide and narrow else mask & int(ran)
                if here:
                    lanes = Cohort(32 * gw + np.flatnonzero(here >> np.arange(32) & 1), None, 0)  # type: ignore[arg-type]  # reads no registers
                    wider = np.pad(vec, [(0, 0), (0, self.clocks.columns - vec.shape[-1])])       # barriers may have been added meanwhile
                    self.clocks.learn(lanes, self.M.units(lanes), wider[None])
                if mask & ~here:
                    left.append((mask & ~here, wide, vec))
            self.waits[gw] = left
