# SPDX-License-Identifier: Apache-2.0
"""Clusters: what barrier.cluster makes known, and whether the CTAs that others reach into have begun and not ended. PTX ISA 9.7.13.3."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..machine.events import Listener
from . import findings_barriers

if TYPE_CHECKING:
    from ..machine.cohort import Cohort
    from .checks_mbarrier import BarrierChecks
    from .clocks import Clocks
    from .findings import Watched
    from .relaxed_barriers import RelaxedBarriers


class ClusterOrder(Listener):
    """remote: slot -> {column of a peer's warp: (epoch, instruction, thread)} of the latest accesses from afar; begun: CTAs of which some thread has
    waited for all of its cluster."""

    def __init__(self, machine: Watched, clocks: Clocks, barriers: BarrierChecks, relaxed: RelaxedBarriers) -> None:
        self.M, self.clocks, self.barriers, self.relaxed = machine, clocks, barriers, relaxed
        self.remote: dict[int, dict[int, tuple[int, int, int]]] = {}
        self.begun = np.zeros(machine.slots, bool)

    def admitted(self, domains: np.ndarray, reused: np.ndarray) -> None:
        """New clusters: nobody has reached into them."""
        if len(reused):
            self.begun[reused] = False
            for slot in [s for s in self.remote if s in set(reused.tolist())]:
                del self.remote[slot]

    def cluster_arrived(self, C: Cohort, domain: np.ndarray, release: bool) -> None:
        """A release, unless it is .relaxed and no fence stands before it."""
        clocks, units = self.clocks, self.M.units(C)
        vec = clocks.publish(C, units)
        clocks.join_at(clocks.cluster, domain[units.starts], vec if release else self.relaxed.told(C, units, vec, True))

    def cluster_completed(self, domains: np.ndarray) -> None:
        """What came before the arrivals of this phase is what its waiters learn, and nothing of the next."""
        self.clocks.cluster_done[domains] = self.clocks.cluster[domains]
        self.clocks.cluster[domains] = 0

    def cluster_out_of_turn(self, gid: int, again: bool, index: int) -> None:
        """Arrivals and waits of a thread take turns."""
        findings_barriers.cluster_out_of_turn(self.M, index, gid, again)

    def cluster_left(self, C: Cohort, domain: np.ndarray, acquire: bool) -> None:
        """An acquire, and a sync of the warp."""
        clocks, units = self.clocks, self.M.units(C)
        self.begun[np.unique(units.gw // self.M.warps)] = True
        vec = clocks.cluster_done[domain[units.starts]]
        clocks.learn(C, units, vec if acquire else clocks.finished(vec))
        if not acquire:
            self.relaxed.waited(C, units, vec, True)
        else:
            C.unsynced = False
            clocks.warp_sync(C, units)

    # --- other CTAs' shared memory ----------------------------------------------------------------------------------
    def remote_touched(self, C: Cohort, target: np.ndarray, slot: np.ndarray, index: int) -> None:
        """Lanes touch the shared memory of another CTA: that must happen before the other CTA ends."""
        away = np.flatnonzero(target != slot)
        clocks = self.clocks
        for lane in away[np.unique(target[away] * len(clocks.epoch) + (C.gids[away] >> 5), return_index=True)[1]].tolist():
            warp = int(C.gids[lane]) >> 5
            self.remote.setdefault(int(target[lane]), {})[warp % clocks.warps] = (int(clocks.epoch[warp]), index, int(C.gids[lane]))
            self.multicast_reached(int(C.gids[lane]), int(target[lane]), index)

    def multicast_reached(self, gid: int, target: int, index: int) -> None:
        """Thread `gid` reaches into the CTA in slot `target`, which must have begun: all of the cluster has waited for each other,
        or the thread knows something that the other CTA did."""
        M, clocks, slot = self.M, self.clocks, gid // self.M.T
        if target == slot or self.begun[slot]:
            return
        columns = target % M.cluster * M.warps + np.arange(M.warps)
        if not (clocks.K[clocks.row_of[gid]][:, columns] > 0).any():
            findings_barriers.unbegun_peer(M, index, gid, target % M.cluster)

    def peer_gone(self, gid: int, rank: int, index: int) -> None:
        """There is nobody any more."""
        findings_barriers.exited_peer(self.M, index, gid, rank)

    def ctas_end(self, slots: np.ndarray) -> None:
        """Every remote access to them must be ordered before."""
        clocks = self.clocks
        for slot in slots.tolist():
            touched = self.remote.pop(slot, None)
            if not touched:
                continue
            gw = slot * self.M.warps + np.arange(self.M.warps)
            known = clocks.past(clocks.rows.of_warps(gw)).max(axis=0)
            # bytes that arrived tell that they were sent
            known[:clocks.warps] = np.maximum(known[:clocks.warps], self.barriers.moments.newest(gw))
            for column, (epoch, index, gid) in touched.items():
                if known[column] < epoch:
                    findings_barriers.exited_peer(self.M, index, gid, slot % self.M.cluster)
