# SPDX-License-Identifier: Apache-2.0
"""Barriers of a CTA, collectives and fences: what they make known to whom."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.events import Listener
from .checks_named import NamedChecks
from .parts import parts

if TYPE_CHECKING:
    from ..isa.value import Value
    from ..machine.cohort import Cohort
    from .checks_mbarrier import BarrierChecks
    from .clocks import Clocks
    from .findings import Watched
    from .global_order import GlobalOrder
    from .relaxed_barriers import RelaxedBarriers
    from .shared_order import SharedOrder


class SyncOrder(Listener):
    """Hears warp-level syncs, named barriers and fences. barriers: the BarrierChecks of mbarriers; named: what can be wrong with a named barrier."""

    def __init__(self, machine: Watched, clocks: Clocks, shared: SharedOrder, everywhere: GlobalOrder, barriers: BarrierChecks,
                 relaxed: RelaxedBarriers) -> None:
        self.M, self.clocks, self.shared, self.everywhere, self.barriers, self.relaxed = machine, clocks, shared, everywhere, barriers, relaxed
        self.named = NamedChecks(machine, clocks, machine.slots * 16)
        self.masks: Any = None                          # by lane, of the masked collective that runs

    def admitted(self, domains: np.ndarray, reused: np.ndarray) -> None:
        """New CTAs know nothing."""
        if len(reused):
            self.clocks.reset_domains(np.unique(reused // self.M.cluster))
            self.shared.reset_slots(reused)
            self.named.reset_slots(reused)
            self.barriers.moments.reset_slots(self.M.slots, reused)
            self.relaxed.admitted(reused)
        self.everywhere.admit(domains)

    def named_lanes_met(self, C: Cohort, index: int, mask: Value) -> None:
        """The next warp_synced is of those lanes of each warp that name the same mask."""
        self.masks = mask if getattr(mask, "ndim", 0) else None

    def warp_synced(self, C: Cohort) -> None:
        """A converged collective orders memory inside its warps."""
        masks, self.masks = self.masks, None
        if C.unsynced:
            C.unsynced = False
            if masks is None:
                self.clocks.warp_sync(C, self.M.units(C))
            else:
                self.clocks.warp_sync(*parts(self.M, C, masks)[:2])

    # --- named barriers ---------------------------------------------------------------------------------------------
    def named_arrived(self, C: Cohort, keys: np.ndarray, threads: np.ndarray, info: Any) -> None:
        """A release."""
        part, units, mine = parts(self.M, C, keys)
        vec = self.clocks.publish(part, units)
        self.clocks.join_at(self.clocks.named, mine, vec)
        self.named.arriving(C, keys, threads, info)
        past = self.barriers.moments.known(part, units)
        self.named.taking_turns(part, units, mine, self.barriers.in_time(vec, past), int(threads.max()), info.index)
        if self.M.barriers.offsets:
            self.barriers.moments.arrive(mine, past)

    def named_completed(self, keys: np.ndarray) -> None:
        """What all who arrived have published is what the others will learn."""
        clocks = self.clocks
        self.named.completing(keys)
        clocks.named_done[keys] = clocks.join(clocks.named_done[keys], clocks.named[keys])
        clocks.named[keys] = 0
        if self.M.barriers.offsets:
            self.barriers.moments.complete(keys)

    def named_left(self, C: Cohort, keys: np.ndarray) -> None:
        """An acquire, and a sync of the warp."""
        part, units, mine = parts(self.M, C, keys)
        rows = self.clocks.learn(part, units, self.clocks.named_done[mine])
        if self.M.barriers.offsets:
            self.barriers.moments.learn(rows, self.barriers.moments.met_done[mine])
        C.unsynced = False
        self.clocks.warp_sync(part, units)

    def ctas_end(self, slots: np.ndarray) -> None:
        """Arrivals that nobody took."""
        if self.M.named.in_use:
            self.named.cta_ends(slots)

    # --- fences -----------------------------------------------------------------------------------------------------
    def memory_fenced(self, C: Cohort, narrow: bool, system: bool) -> None:
        """Later synchronising writes publish what these threads have made and learned so far, and what relaxed waits of barriers told is theirs."""
        self.relaxed.fenced(C, narrow)
        self.everywhere.fence(C, narrow)

    def grids_waited(self, C: Cohort) -> None:
        """These threads know what the grids in front of this one wrote."""
        self.everywhere.waited(C)

    def proxy_fenced(self, C: Cohort, space: str) -> None:
        """Generic accesses so far become visible to the async proxy."""
        self.clocks.proxy_fence(C, self.M.units(C), space)
        if not space.startswith("shared"):
            self.everywhere.proxy_fence(C)

    def inits_fenced(self, C: Cohort) -> None:
        """The barriers that these threads initialised may be published by a relaxed cluster barrier."""
        if self.M.cluster > 1:
            self.barriers.init_fenced(C)

    def maps_released(self, C: Cohort) -> None:
        """Tensor maps that these threads changed."""
        self.everywhere.maps.release(C)

    def maps_acquired(self, C: Cohort, address: np.ndarray) -> None:
        """Tensor maps that these threads are about to use."""
        self.everywhere.maps.acquire(C, address)
