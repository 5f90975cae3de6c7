# SPDX-License-Identifier: Apache-2.0
"""setmaxnreg that is ignored, goes the wrong way, is not run by a whole warpgroup, or can never be satisfied (PTX ISA 9.7.19.5).

What a warp holds and who waits is machine/register_pool.py's.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.events import Listener
from ..machine.register_pool import RegisterWait
from .findings import divergent
from .findings_registers import setmaxnreg

if TYPE_CHECKING:
    from ..machine.cohort import Cohort
    from .clocks import Clocks
    from .findings import Watched


class RegisterBudget(Listener):
    """By warp: its latest setmaxnreg (`site`, -1: none), how many it has run, and the epoch of its clock at the latest."""

    def __init__(self, machine: Watched, clocks: Clocks) -> None:
        self.M, self.clocks, self.pool = machine, clocks, machine.registers
        warps = machine.slots * machine.warps
        self.site, self.runs, self.epoch = np.full(warps, -1, np.int64), np.zeros(warps, np.int64), np.zeros(warps, np.int64)

    def admitted(self, domains: np.ndarray, reused: np.ndarray) -> None:
        """New CTAs have run none."""
        for table, value in ((self.site, -1), (self.runs, 0), (self.epoch, 0)):
            table.reshape(self.M.slots, -1)[reused] = value

    def registers_asked(self, C: Cohort, index: int, direction: str, count: int) -> None:
        """Report setmaxnreg that is ignored, or that goes the wrong way."""
        M = self.M
        if self.pool.ignored:
            setmaxnreg(M, "setmaxnreg-ignored", index, int(C.gids[0]))
        warps = C.gids[::32] >> 5
        self._together(C, index, warps)
        if not self.pool.counts:
            return
        wrong = np.flatnonzero(self.pool.now[warps] < count if direction == "dec" else self.pool.now[warps] > count)
        if len(wrong):
            held = int(self.pool.now[warps[wrong[0]]])
            want = "at least" if direction == "dec" else "at most"
            before = int(self.site[warps[wrong[0]]])
            setmaxnreg(M, "setmaxnreg-wrong-way", index, int(warps[wrong[0]]) * 32, before if before >= 0 else None, count=count, held=held, want=want,
                       direction=direction, opposite="inc" if direction == "dec" else "dec", entry=self.pool.entry)

    def _together(self, C: Cohort, site: int, warps: np.ndarray) -> None:
        """All warps of a warpgroup run the same setmaxnreg, and meet before they run another (PTX ISA 9.7.19.5)."""
        M, clocks = self.M, self.clocks
        if M.warps % 4:
            return
        others = (warps - warps % M.warps % 4)[:, None] + np.arange(4)
        rows, mine = clocks.row_of[C.gids[::32]], self.runs[warps][:, None] + 1
        behind = (self.runs[others] > 0) & (self.runs[others] < mine - 1) & (others != warps[:, None])
        unmet = (self.runs[others] == mine - 1) & (mine > 1) & (others != warps[:, None])
        unmet &= clocks.K[rows[:, None], 0, others % clocks.warps] < self.epoch[others]
        ahead = (self.runs[others] == mine) & (self.site[others] != site)
        for bad, case in ((behind | unmet, "setmaxnreg-too-soon"), (ahead, "setmaxnreg-apart")):
            if bad.any():
                k, other = (int(v[0]) for v in np.nonzero(bad))
                setmaxnreg(M, case, site, int(warps[k]) * 32, int(self.site[others[k, other]]))

    def ctas_end(self, slots: np.ndarray) -> None:
        """CTAs end: no warpgroup ran setmaxnreg with some of its warps only."""
        M = self.M
        if not self.runs.any() or M.warps % 4:
            return
        runs = self.runs.reshape(M.slots, -1, 4)[slots]
        uneven = np.argwhere((runs != runs[:, :, :1]).any(axis=2))
        if len(uneven) and not M.findings.any_of("divergent-collective", "deadlock", "register-budget"):
            k, group = (int(v) for v in uneven[0])
            first = int(slots[k]) * M.warps + group * 4
            ran = [w for w in range(4) if runs[k, group, w] == runs[k, group].max()]
            left = ", ".join(str(group * 4 + w) for w in range(4) if w not in ran)
            divergent(M, "warps-did-not-run", int(self.site[first + ran[0]]), None, (first + ran[0]) * 32, warps=left)

    def registers_set(self, warps: np.ndarray, index: int, direction: str, count: int) -> None:
        """Warps have run a setmaxnreg."""
        self.site[warps] = index
        self.runs[warps] += 1
        self.epoch[warps] = self.clocks.epoch[warps]
        self.clocks.epoch[warps] += 1
        self.clocks.touched = True

    def stuck(self, waiting: list[tuple[Cohort, Any]], why: str) -> None:
        """Nothing can run: explain the warps that wait for registers nobody will give back."""
        M = self.M
        for C, wait in waiting:
            if type(wait) is RegisterWait:
                gid = int(C.gids[0])
                slot = gid // M.T
                given = self.site.reshape(M.slots, -1)[slot]
                other = next((int(s) for s in given if s >= 0), None)
                groups = -(-M.warps // 4)
                gave = (self.pool.now.reshape(M.slots, -1)[slot] < self.pool.entry)[:M.warps // 4 * 4].reshape(-1, 4)
                part = np.flatnonzero(gave.any(axis=1) & ~gave.all(axis=1))
                case = "setmaxnreg-nobody-gave" if other is None else "setmaxnreg-some-gave" if len(part) else "setmaxnreg-never"
                more = {"group": int(part[0])} if len(part) else {}
                setmaxnreg(M, case, wait.site, gid, other, state=wait.describe(M, C), entry=self.pool.entry, groups=groups,
                           total=self.pool.entry * groups, **more)
