# SPDX-License-Identifier: Apache-2.0
"""Registers of wgmma: computed before the warp's last wgmma.fence, and not touched while a wgmma owns them (PTX ISA 9.7.15.7.1).

Which registers matter is compile/register_times.py's, and so is their time; what the compiler moved behind a fence that the
source puts after the write is silent.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.events import Listener
from ..machine.fence_counts import SITE_BITS, SITE_MASK
from . import findings_barriers, findings_registers

if TYPE_CHECKING:
    from ..machine.cohort import Cohort
    from ..ptx.ir import Instr, Site
    from .findings import Watched


class RegisterTimes(Listener):
    """latest: by warp, instruction and group of its latest wgmma; started: the group of each watched wgmma by warp, newest; told: wgmma whose
    missing fence was reported; fences: how many wgmma.fence each warp had run when it came to a wgmma last."""

    def __init__(self, machine: Watched) -> None:
        self.M = machine
        self.watched = machine.translation.times.watched
        self.told: set[int] = set()
        self.started: dict[int, np.ndarray] = {}
        self.latest = np.zeros((2, machine.slots * machine.warps), np.int64)
        self.fences: dict[int, np.ndarray] = {}

    def admitted(self, domains: np.ndarray, reused: np.ndarray) -> None:
        """New CTAs have issued nothing."""
        for table in (self.latest[0], self.latest[1], *self.started.values(), *self.fences.values()):
            table.reshape(self.M.slots, -1)[reused] = 0

    def wgmma_issued(self, C: Cohort, issue: Any) -> None:
        """Each warp has run wgmma.fence before its first one."""
        site, warps = issue.info.index, issue.gw
        self.latest[0, warps], self.latest[1, warps] = site, issue.number
        if site not in self.told and not self.M.fences.count[warps].all():
            self.told.add(site)
            findings_registers.no_first_fence(self.M, site, int(warps[int(np.argmin(self.M.fences.count[warps]))]) * 32)
        if site in self.watched:
            table = self.started.setdefault(site, np.zeros(len(self.M.fences.count), np.int64))
            table[warps] = issue.number

    def operands_taken(self, C: Cohort, index: int, scale: np.ndarray, d_times: tuple[np.ndarray, ...], a_times: tuple[np.ndarray, ...],
                       metadata_times: tuple[np.ndarray, ...] = ()) -> None:
        """None of the registers may have been computed since the warp's last wgmma.fence."""
        M = self.M
        base, warps = M.fences.base(C) >> SITE_BITS, np.unique(C.gids >> 5)
        before = self.fences.setdefault(index, np.zeros(len(M.fences.count), np.int64))
        again = bool((before[warps] == M.fences.count[warps]).any())             # without a fence since it was here, so that none was moved past
        before[warps] = M.fences.count[warps]
        for what, times, read in (("an accumulator register", d_times, scale), ("a register of its A fragment", a_times, np.True_),
                                  ("the register of its metadata", metadata_times, np.True_)):
            for time in times:
                late = ((time >> SITE_BITS) == base) & read
                if late.any():
                    lane = int(np.flatnonzero(np.broadcast_to(late, C.n))[0])
                    writer = int(time if not time.ndim else time[lane]) & SITE_MASK
                    if not again and _moved(M, writer, index):
                        continue
                    self.told.add(index)
                    findings_registers.missing_wgmma_fence(M, index, writer, int(C.gids[lane]), what)

    def accumulator_used(self, C: Cohort, index: int) -> None:
        """Before wait_group."""
        gid = int(C.gids[0])
        findings_registers.register_in_flight(self.M, index, gid, int(self.latest[0, gid >> 5]))

    def accumulator_replaced(self, C: Cohort, index: int, old: Any) -> None:
        """The register may hold no accumulator in flight, of any lane."""
        if hasattr(old, "lane_groups"):
            warps, number = old.lane_groups()
            busy = number > self.M.wgmma_done[warps]
            if busy.any():
                gid = int(C.gids[int(np.argmax(busy))])
                findings_registers.result_overwritten(self.M, index, int(self.latest[0, gid >> 5]), gid)

    def operand_replaced(self, C: Cohort, index: int, products: tuple[int, ...], what: str) -> None:
        """None of the products that the register belongs to may be in flight."""
        for product in products:
            started = self.started.get(product)
            if started is None:
                continue
            warps = C.gids >> 5
            busy = started[warps] > self.M.wgmma_done[warps]
            if busy.any():
                {"A": findings_registers.fragment_overwritten, "metadata": findings_registers.metadata_overwritten, "D": findings_registers.result_overwritten}[what](
                    self.M, index, product, int(C.gids[int(np.argmax(busy))]))

    def ctas_end(self, slots: np.ndarray) -> None:
        """Every wgmma of theirs has been waited for."""
        M = self.M
        late = np.flatnonzero(self.latest[1].reshape(M.slots, -1)[slots] > M.wgmma_done.reshape(M.slots, -1)[slots])
        if len(late):
            warp = int(slots[late[0] // M.warps]) * M.warps + int(late[0]) % M.warps
            findings_barriers.exit_in_flight(M, int(self.latest[0, warp]), warp * 32, "wgmma")


def _moved(M: Watched, writer: int, product: int) -> bool:
    """True when the source writes the register before a fence and the compiler emitted the write behind it: NVRTC moves register
    arithmetic across inline assembly, and ptxas then puts a fence of its own (C7519). Not the author's error."""
    for i in M.body[:writer]:
        if i.op == "wgmma" and i.mods[0] == "fence":
            if _precedes(M.body[writer].site, i.site) and _precedes(i.site, M.body[product].site) and not _ended(M, i, writer, product):
                return True
    return False


def _ended(M: Watched, fence: Instr, writer: int, product: int) -> bool:
    """True when products of another pass of an unrolled loop lie between a fence and the write: their commit_group, which the source has behind the product."""
    return any(i.op == "wgmma" and i.mods[0] == "commit_group" and not (_precedes(fence.site, i.site) and _precedes(i.site, M.body[product].site))
               for i in M.body[fence.index + 1:writer])


def _precedes(one: Site | None, other: Site | None) -> bool:
    """True when source position `one` is known to stand before `other`: inline frames are compared from the kernel inwards."""
    if one is None or other is None:
        return False
    for a, b in zip(one.chain, other.chain):
        if (a.file, a.line, a.column) != (b.file, b.line, b.column):
            return a.file == b.file and (a.line, a.column) < (b.line, b.column)
    return False
