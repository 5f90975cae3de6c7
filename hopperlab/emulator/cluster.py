"""barrier.cluster: arrivals and generations of every resident cluster (PTX ISA 9.7.13.3)."""
from __future__ import annotations

import numpy as np

from . import reports
from .waits import Wait


class ClusterBarrier:
    """One barrier a cluster, for all of its threads that have not exited. Arriving and waiting are separate."""

    def __init__(self, machine):
        self.M = machine
        domains = machine.slots // machine.cluster
        self.arrived = np.zeros(domains, np.int64)
        self.generation = np.zeros(domains, np.int64)
        self.joined = np.full(machine.slots * machine.T, -1, np.int64)     # generation each thread has arrived in
        self.flipped = False
        self.remote: dict[int, dict[int, tuple]] = {}      # slot -> {column of a peer's warp: (epoch, instruction, thread)}
        self.begun = np.zeros(machine.slots, bool)         # CTAs of which some thread has waited for all of its cluster

    def note_remote(self, C, target: np.ndarray, slot: np.ndarray, index: int) -> None:
        """Lanes touch the shared memory of another CTA: that must happen before the other CTA ends."""
        away = np.flatnonzero(target != slot)
        clocks = self.M.clocks
        for lane in away[np.unique(target[away] * len(clocks.epoch) + (C.gids[away] >> 5), return_index=True)[1]].tolist():
            warp = int(C.gids[lane]) >> 5
            self.remote.setdefault(int(target[lane]), {})[warp % clocks.warps] = (int(clocks.epoch[warp]), index, int(C.gids[lane]))
            self.reach(int(C.gids[lane]), int(target[lane]), index)

    def reach(self, gid: int, target: int, index: int) -> None:
        """Thread `gid` reaches into the CTA in slot `target`, which must have begun: all of the cluster has waited for each other,
        or the thread knows something that the other CTA did."""
        M, clocks, slot = self.M, self.M.clocks, gid // self.M.T
        if target == slot or self.begun[slot] or M.shadow is None:
            return
        columns = target % M.cluster * M.warps + np.arange(M.warps)
        if not (clocks.K[clocks.row_of[gid]][:, columns] > 0).any():
            reports.unbegun_peer(M, index, gid, target % M.cluster)

    def cta_ends(self, slots: np.ndarray) -> None:
        """CTAs end: every remote access to them must be ordered before."""
        clocks = self.M.clocks
        for slot in slots.tolist():
            touched = self.remote.pop(slot, None)
            if not touched:
                continue
            gw = slot * self.M.warps + np.arange(self.M.warps)
            rows = clocks.primary(gw)
            known = clocks.past(np.concatenate([rows, rows + clocks.warps])).max(axis=0)
            for column, (epoch, index, gid) in touched.items():
                if known[column] < epoch:
                    reports.exited_peer(self.M, index, gid, slot % self.M.cluster)

    def reset(self, domains: np.ndarray) -> None:
        """New clusters: nobody has arrived."""
        self.arrived[domains] = 0
        self.begun.reshape(-1, self.M.cluster)[domains] = False
        for slot in [s for s in self.remote if s // self.M.cluster in set(domains.tolist())]:
            del self.remote[slot]

    def domain_of(self, C) -> np.ndarray:
        """Cluster of every lane."""
        return self.M.slot_of(C) // self.M.cluster

    def arrive(self, C, release: bool) -> None:
        """barrier.cluster.arrive by every lane of the cohort."""
        M, domain = self.M, self.domain_of(C)
        units = M.units(C)
        vec = M.clocks.publish(C, units)
        np.maximum.at(M.clocks.cluster, domain[units.starts], vec if release else M.clocks.finished(vec))
        self.joined[C.gids] = self.generation[domain]
        np.add.at(self.arrived, domain, 1)
        self._complete(np.unique(domain))
        M.progress += 1

    def _complete(self, domains: np.ndarray) -> None:
        M = self.M
        living = M.alive.reshape(len(self.arrived), -1).sum(axis=1)[domains]
        done = domains[(self.arrived[domains] >= living) & (self.arrived[domains] > 0)]
        if len(done):
            self.arrived[done] = 0
            self.generation[done] += 1
            self.flipped = True

    def threads_left(self, domains: np.ndarray) -> None:
        """Threads of these clusters exited: the others need not wait for them."""
        self._complete(domains[self.arrived[domains] > 0])

    def wait(self, C, acquire: bool) -> "ClusterWait":
        """barrier.cluster.wait: until the generation this thread arrived in is complete."""
        return ClusterWait(self.domain_of(C), np.where(acquire, 1, -1) * (self.joined[C.gids] + 1))

    def describe(self, domain: int) -> str:
        """State of a cluster's barrier for a learner."""
        living = int(self.M.alive.reshape(len(self.arrived), -1)[domain].sum())
        return f"cluster barrier: {int(self.arrived[domain])} of {living} threads have arrived"


class ClusterWait(Wait):
    """barrier.cluster.wait: keys are clusters, |extra| - 1 the generation joined (negative: .relaxed)."""

    retries = True

    def mask(self, M) -> np.ndarray:
        return M.cluster_barrier.generation[self.keys] >= np.abs(self.extra)

    def passed(self, M, C) -> None:
        units, acquires = M.units(C), int(self.extra[0]) > 0
        M.cluster_barrier.begun[np.unique(units.gw // M.warps)] = True
        vec = M.clocks.cluster[self.keys[units.starts]]
        M.clocks.learn(C, units, vec if acquires else M.clocks.finished(vec))
        if acquires:
            C.unsynced = True
            M.synced(C)
