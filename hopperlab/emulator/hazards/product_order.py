# SPDX-License-Identifier: Apache-2.0
"""wgmma and mma.sync: what a wgmma's warps know when it starts, which shared memory it reads, and what wait_group makes known."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.events import Listener
from . import checks_wgmma, findings_registers, uninitialised
from .clocks import X
from .moments import MOMENT
from .operand_order import wgmma_reads

if TYPE_CHECKING:
    from ..machine.cohort import Cohort
    from .checks_mbarrier import BarrierChecks
    from .checks_wgmma import TileMarks
    from .clocks import Clocks
    from .findings import Watched
    from .shared_order import SharedOrder


class ProductOrder(Listener):
    """Hears products. shared: SharedOrder; marks: TileMarks; unwritten: instructions that add to registers which nothing sets; begun: by warpgroup, what
    had happened before its latest products."""

    def __init__(self, machine: Watched, clocks: Clocks, shared: SharedOrder, marks: TileMarks, barriers: BarrierChecks) -> None:
        self.M, self.clocks, self.shared, self.marks, self.barriers = machine, clocks, shared, marks, barriers
        self.begun = np.zeros((machine.slots * machine.wgmma_groups, 2, clocks.warps), np.int32)
        self.begun_at = np.zeros(machine.slots * machine.warps, np.int32)       # epoch of each warp
        self.fragments = np.zeros(machine.slots * machine.wgmma_groups, bool)   # A or metadata of the latest product came from registers
        clocks.lanes.holders.append(lambda: [self.begun[:, X]])
        self.unwritten = machine.translation.once("accumulators nobody sets", lambda t: uninitialised.accumulators(t.function, t.ops))

    def multiplied(self, C: Cohort, index: int, what: str, warps: int) -> None:
        """mma.sync: its C must be set."""
        if index in self.unwritten:
            findings_registers.unwritten_accumulator(self.M, index, int(C.gids[0]), "C")

    def wgmma_issued(self, C: Cohort, issue: Any) -> None:
        """Descriptors and tiles, an accumulator that is set (a first product may also replace it), and the order of what it reads."""
        index = issue.info.index
        checks_wgmma.check(self.marks, C, issue)
        if index in self.unwritten and not issue.registers[self.unwritten[index]].ndim and issue.keep.any():
            findings_registers.unwritten_accumulator(self.M, index, int(C.gids[0]), "D")
        self._order(C, issue)

    def finished(self) -> None:
        """Rows of tiles that no product has read."""
        self.marks.strides.finish()

    def admitted(self, domains: np.ndarray, reused: np.ndarray) -> None:
        """New CTAs have begun nothing."""
        if len(reused):
            self.begun.reshape(self.M.slots, self.M.wgmma_groups, -1)[reused] = 0
            self.begun_at.reshape(self.M.slots, -1)[reused] = 0
            self.fragments.reshape(self.M.slots, -1)[reused] = False

    def _order(self, C: Cohort, issue: Any) -> None:
        """What each of the four warps knows, and which granules the operation reads. That they meet at the first wgmma of a run was measured and is
        promised nowhere: it is an order of moments, and no order of accesses."""
        M, clocks, units = self.M, self.clocks, self.M.units(C)
        vec = clocks.publish(C, units)
        if (clocks.learned[units.gw] >= self.begun_at[units.gw]).any():         # else nothing has happened since but products
            clocks.join_at(self.begun, issue.groups, vec[:, :2, :clocks.warps], MOMENT)
            self.begun_at[units.gw] = clocks.epoch[units.gw]
        self.fragments[issue.groups] = issue.granules[0] is None or issue.info.selector is not None
        column = clocks.wgmma0 + issue.group_ids % (M.wgmma_groups * M.cluster)
        wgmma_reads(self.shared, vec, issue, units.gw % M.warps % 4, C.gids[units.starts], column)

    def products_waited(self, C: Cohort, done: np.ndarray) -> None:
        """wait_group: the reads of the groups, by all four warps, are over. So are the loads of A's fragments, or of a sparse A's metadata: their values went
        through the product."""
        M, clocks, units = self.M, self.clocks, self.M.units(C)
        groups = units.gw // M.warps * M.wgmma_groups + units.gw % M.warps // 4
        rows = clocks.reach(C, units, clocks.wgmma0 + groups % (M.wgmma_groups * M.cluster), done)
        self.barriers.moments.learn(rows, self.begun[groups])           # not an order of accesses, but one of moments
        if self.fragments[groups].any():
            known = np.zeros((len(groups), *clocks.K.shape[1:]), clocks.K.dtype)
            known[:, :2, :clocks.warps] = self.begun[groups] * self.fragments[groups, None, None]
            clocks.learn(C, units, known)
        if C.unsynced:
            C.unsynced = False
            clocks.warp_sync(C, units)
