# SPDX-License-Identifier: Apache-2.0
"""barrier.cluster: arrivals and generations of every resident cluster (PTX ISA 9.7.13.3)."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .waits import Wait

if TYPE_CHECKING:
    from .cohort import Cohort


class ClusterBarrier:
    """One barrier a cluster, for all of its threads that have not exited. Arriving and waiting are separate."""

    def __init__(self, machine):
        self.M = machine
        domains = machine.slots // machine.cluster
        self.arrived = np.zeros(domains, np.int64)
        self.generation = np.zeros(domains, np.int64)
        self.joined = np.full(machine.slots * machine.T, -1, np.int64)     # generation each thread has arrived in
        self.owed = np.zeros(machine.slots * machine.T, bool)              # threads that have arrived and not waited yet
        self.flipped = self.in_use = False

    def reset(self, domains: np.ndarray) -> None:
        """New clusters: nobody has arrived."""
        self.arrived[domains] = 0
        self.owed.reshape(len(self.arrived), -1)[domains] = False

    def domain_of(self, C: Cohort) -> np.ndarray:
        """Cluster of every lane."""
        return self.M.slot_of(C) // self.M.cluster

    def arrive(self, C: Cohort, info: Any) -> None:
        """barrier.cluster.arrive by every lane of the cohort. One that has not waited for its last arrival does not count: what it does is undefined."""
        M, again = self.M, self.owed[C.gids]
        if again.any():
            M.tell.cluster_out_of_turn(int(C.gids[int(np.argmax(again))]), True, info.index)
            if again.all():
                return
            C = type(C)(C.gids[~again], None, C.pc)
        domain = self.domain_of(C)
        M.tell.cluster_arrived(C, domain, info.ordered)
        self.joined[C.gids] = self.generation[domain]
        self.owed[C.gids] = self.in_use = True
        np.add.at(self.arrived, domain, 1)
        self._complete(np.unique(domain))
        M.progress += 1

    def _complete(self, domains: np.ndarray) -> None:
        M = self.M
        living = M.alive.reshape(len(self.arrived), -1).sum(axis=1)[domains]
        done = domains[(self.arrived[domains] >= living) & (self.arrived[domains] > 0)]
        if len(done):
            M.tell.cluster_completed(done)
            self.arrived[done] = 0
            self.generation[done] += 1
            self.flipped = True

    def threads_left(self, C: Cohort) -> None:
        """Threads exited: the others need not wait for them, whether they had arrived or not."""
        domain = self.domain_of(C)
        counted = self.owed[C.gids] & (self.joined[C.gids] == self.generation[domain])
        np.subtract.at(self.arrived, domain[counted], 1)
        self._complete(np.unique(domain))

    def wait(self, C: Cohort, info: Any) -> "ClusterWait":
        """barrier.cluster.wait: until the generation this thread arrived in is complete; without an arrival, until the running one is, which waits for this thread."""
        domain, owed = self.domain_of(C), self.owed[C.gids]
        if not owed.all():
            self.M.tell.cluster_out_of_turn(int(C.gids[int(np.argmin(owed))]), False, info.index)
        generation = np.where(owed, self.joined[C.gids], self.generation[domain])
        return ClusterWait(domain, np.where(info.ordered, 1, -1) * (generation + 1))

    def describe(self, domain: int) -> str:
        """State of a cluster's barrier for a learner."""
        living = int(self.M.alive.reshape(len(self.arrived), -1)[domain].sum())
        return f"cluster barrier: {int(self.arrived[domain])} of {living} threads have arrived"


class ClusterWait(Wait):
    """barrier.cluster.wait: keys are clusters, |extra| - 1 the generation joined (negative: .relaxed)."""

    retries = True

    def mask(self, M: Any) -> np.ndarray:
        return M.cluster_barrier.generation[self.keys] >= np.abs(self.extra)

    def passed(self, M: Any, C: Cohort) -> None:
        M.cluster_barrier.owed[C.gids] = False
        M.tell.cluster_left(C, self.keys, int(self.extra[0]) > 0)
