"""setmaxnreg: the registers of a CTA as one pool that warps give to and take from (PTX ISA 9.7.19.5).

Measured on an H200: with R0 registers a thread at entry, the sum over warpgroups is at most R0 times their number, without
slack; setmaxnreg.inc blocks until the pool has enough. R0 and whether ptxas ignores setmaxnreg (C7508) come from the
compiler's report; without one (foreign PTX) nothing is checked.
"""
from __future__ import annotations

import numpy as np

from . import reports_misuse as reports
from .waits import Wait


class RegisterPool:
    """Registers a thread of every warp; `budget`: what all warps of a CTA may hold together."""

    def __init__(self, machine):
        self.M = machine
        self.entry = -(-(getattr(machine.info, "registers", 0) or 0) // 8) * 8        # registers are given out in eights
        notes = getattr(machine.info, "notes", ()) or ()
        self.ignored = any(getattr(note, "code", "") == "C7508" for note in notes)
        self.counts = self.entry > 0 and not self.ignored
        self.budget = self.entry * machine.warps
        self.now = np.full(machine.slots * machine.warps, self.entry, np.int64)
        self.site = np.full(machine.slots * machine.warps, -1, np.int64)
        self.runs = np.zeros(machine.slots * machine.warps, np.int64)          # setmaxnreg instructions, by warp
        self.epoch = np.zeros(machine.slots * machine.warps, np.int64)         # of the warp's clock when it ran the latest

    def reset_slots(self, slots: np.ndarray) -> None:
        """New CTAs start with the registers of the launch."""
        for table, value in ((self.now, self.entry), (self.site, -1), (self.runs, 0), (self.epoch, 0)):
            table.reshape(self.M.slots, -1)[slots] = value

    def check(self, C, site: int, direction: str, count: int) -> None:
        """Report setmaxnreg that is ignored, or that goes the wrong way."""
        M = self.M
        if self.ignored:
            reports.registers(M, site, int(C.gids[0]), "does nothing: ptxas ignores setmaxnreg in this kernel (note C7508), because it does "
                              "not know the registers at entry. Give the kernel __launch_bounds__(threads, 1).")
        warps = C.gids[::32] >> 5
        self._together(C, site, warps)
        if not self.counts:
            return
        wrong = np.flatnonzero(self.now[warps] < count if direction == "dec" else self.now[warps] > count)
        if len(wrong):
            held = int(self.now[warps[wrong[0]]])
            want = "at least" if direction == "dec" else "at most"
            before = int(self.site[warps[wrong[0]]])
            reports.registers(M, site, int(warps[wrong[0]]) * 32, f"asks for {count} registers while the warp has {held}: setmaxnreg.{direction} "
                              f"needs {want} as many as it names before it runs, otherwise it is undefined. Use setmaxnreg."
                              f"{'inc' if direction == 'dec' else 'dec'}, or another count (ptxas gave this kernel {self.entry} at entry).",
                              before if before >= 0 else None)

    def _together(self, C, site: int, warps: np.ndarray) -> None:
        """All warps of a warpgroup run the same setmaxnreg, and meet before they run another (PTX ISA 9.7.19.5)."""
        M, clocks = self.M, self.M.clocks
        if M.warps % 4:
            return
        others = (warps - warps % M.warps % 4)[:, None] + np.arange(4)
        rows, mine = clocks.row_of[C.gids[::32]], self.runs[warps][:, None] + 1
        behind = (self.runs[others] > 0) & (self.runs[others] < mine - 1) & (others != warps[:, None])
        unmet = (self.runs[others] == mine - 1) & (mine > 1) & (others != warps[:, None])
        unmet &= clocks.K[rows[:, None], 0, others % clocks.warps] < self.epoch[others]
        ahead = (self.runs[others] == mine) & (self.site[others] != site)
        for bad, why in ((behind | unmet, "runs again in one warp before the other warps of its warpgroup are known to have run the last one: put a "
                          "bar.sync of the warpgroup between two setmaxnreg"),
                         (ahead, "is not the one that other warps of its warpgroup ran: all four warps run the same instruction, so move it "
                          "out of the branch")):
            if bad.any():
                k, other = (int(v[0]) for v in np.nonzero(bad))
                reports.registers(M, site, int(warps[k]) * 32, why + ".", int(self.site[others[k, other]]))

    def cta_ends(self, slots: np.ndarray) -> None:
        """CTAs end: no warpgroup ran setmaxnreg with some of its warps only."""
        M = self.M
        if not self.runs.any() or M.warps % 4:
            return
        runs = self.runs.reshape(M.slots, -1, 4)[slots]
        uneven = np.argwhere((runs != runs[:, :, :1]).any(axis=2))
        if len(uneven) and not any(h.kind in ("divergent-collective", "deadlock", "register-budget") for h in M.hazards):
            k, group = (int(v) for v in uneven[0])
            first = int(slots[k]) * M.warps + group * 4
            ran = [w for w in range(4) if runs[k, group, w] == runs[k, group].max()]
            left = ", ".join(str(group * 4 + w) for w in range(4) if w not in ran)
            reports.divergent(M, int(self.site[first + ran[0]]), None, (first + ran[0]) * 32, f"warp {left} of the block did not run it")

    def set(self, warps: np.ndarray, count: int, site: int) -> None:
        """The warps now hold `count` registers a thread."""
        if (self.now[warps] > count).any():
            self.M.named.flipped = True           # wakes whoever waits for registers
        self.now[warps], self.site[warps] = count, site
        self.runs[warps] += 1
        self.epoch[warps] = self.M.clocks.epoch[warps]
        self.M.clocks.epoch[warps] += 1
        self.M.clocks.touched = True
        self.M.progress += 1

    def free(self, slots: np.ndarray) -> np.ndarray:
        """Registers (times 32 threads) that nobody holds, by slot."""
        return self.budget - self.now.reshape(self.M.slots, -1)[slots].sum(axis=1)

    def stuck(self) -> None:
        """Nothing can run: explain the warps that wait for registers nobody will give back."""
        M = self.M
        for C, wait in M.scheduler.parked:
            if type(wait) is RegisterWait:
                gid = int(C.gids[0])
                slot = gid // M.T
                given = self.site.reshape(M.slots, -1)[slot]
                other = next((int(s) for s in given if s >= 0), None)
                reports.registers(M, wait.site, gid, f"can never be satisfied: {wait.describe(M, C)}. The counts of all warpgroups together "
                                  f"may be at most {self.entry} (at entry) times {-(-M.warps // 4)} warpgroups = "
                                  f"{self.entry * -(-M.warps // 4)}: lower some of them, for example 40, 232, 232.", other)


class RegisterWait(Wait):
    """setmaxnreg.inc: keys are global warp ids of the lanes, extra the registers wanted, site the instruction."""

    retries = True

    def __init__(self, keys: np.ndarray, extra: int, site: int):
        super().__init__(keys, extra)
        self.site = site

    def subset(self, index: np.ndarray) -> "RegisterWait":
        return RegisterWait(self.keys[index], self.extra, self.site)

    def mask(self, M) -> np.ndarray:
        """Warps are served in order while the pool lasts."""
        warps = self.keys[::32]
        need = np.maximum(self.extra - M.registers.now[warps], 0)
        slots, first = np.unique(warps // M.warps, return_index=True)
        total = np.cumsum(need)
        before = np.repeat(total[first] - need[first], np.diff(np.append(first, len(warps))))
        free = np.repeat(M.registers.free(slots), np.diff(np.append(first, len(warps))))
        return np.repeat((total - before <= free) | (need == 0), 32)

    def passed(self, M, C) -> None:
        M.counting.add("setmaxnreg_inc", C.n // 32, self.site)
        M.counting.peak_registers = max(M.counting.peak_registers, int(self.extra))
        M.registers.set(C.gids[::32] >> 5, self.extra, self.site)

    def describe(self, M, C) -> str:
        """The state of the pool for a learner."""
        slot = int(C.gids[0]) // M.T
        held = M.registers.now.reshape(M.slots, -1)[slot]
        groups = [sorted(set(held[k:k + 4].tolist())) for k in range(0, M.warps, 4)]
        shown = ", ".join(" or ".join(map(str, group)) for group in groups)
        return (f"warps want {self.extra} registers a thread, the warpgroups hold {shown} now, and "
                f"{int(M.registers.free(np.array([slot]))[0]) // 4} of the pool's {M.registers.budget // 4} are free")
