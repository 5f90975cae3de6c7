# SPDX-License-Identifier: Apache-2.0
"""What a parked cohort waits for. Each Wait is lane-aligned with its cohort and can be cut down to some of its lanes.

mask(M): lanes that may go on. passed(M, C): what going on changes and says. describe(M): for the deadlock report.
`retries`: waking re-runs the instruction (no side effects); otherwise the Wait itself is resumed.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..isa.value import Value
    from .cohort import Cohort


class SpuriousFalse:
    """Resume marker: a try_wait whose time limit passed, or a collective that goes on with a partial warp."""


class Wait:
    """Base: waits on `keys`, one a lane."""

    can_time_out = False
    retries = False

    def __init__(self, keys: np.ndarray, extra=None):
        self.keys, self.extra = keys, extra

    def subset(self, index: np.ndarray) -> "Wait":
        """The same wait for some of its lanes."""
        extra = self.extra[index] if getattr(self.extra, "ndim", 0) else self.extra
        return type(self)(self.keys[index], extra)

    def mask(self, M: Any) -> np.ndarray:
        """Lanes that may go on."""
        raise AssertionError("abstract")

    def may_pass(self, M: Any) -> bool:
        """True when some lane may go on."""
        return bool(self.mask(M).any())

    def passed(self, M: Any, C: Cohort) -> None:
        """What going on changes, and says."""

    def value(self, M: Any) -> Value:
        """What the instruction returns to lanes that go on (if it returns anything)."""
        return np.bool_(True)


class MbarrierWait(Wait):
    """mbarrier.try_wait: keys are barrier ids, extra the parity of the phase waited for, site the instruction."""

    can_time_out = True
    retries = True

    def __init__(self, keys: np.ndarray, extra, site: int):
        super().__init__(keys, extra)
        self.site = site

    def subset(self, index: np.ndarray) -> "MbarrierWait":
        return MbarrierWait(self.keys[index], self.extra[index], self.site)

    def mask(self, M: Any) -> np.ndarray:
        """The phase with that parity is complete when the current phase's parity differs."""
        return (M.barriers.phase[self.keys] & 1) != self.extra

    def passed(self, M: Any, C: Cohort) -> None:
        M.tell.phase_seen(C, self.keys, M.translation.ops[self.site].info)


class DoubtfulWait(MbarrierWait):
    """One whose answer the program takes both ways: lanes `no` go on at once with the answer no (doubts.py)."""

    def __init__(self, keys: np.ndarray, extra, site: int, no: np.ndarray):
        super().__init__(keys, extra, site)
        self.no = no

    def subset(self, index: np.ndarray) -> "DoubtfulWait":
        return DoubtfulWait(self.keys[index], self.extra[index], self.site, self.no[index])

    def mask(self, M: Any) -> np.ndarray:
        complete: np.ndarray = super().mask(M)
        return complete | self.no

    def passed(self, M: Any, C: Cohort) -> None:
        M.barriers.doubts.answered(M, C, self.keys, self.no, self.site)
        told = ~self.no & M.barriers.doubts.told(M, C, self.keys, M.translation.ops[self.site].info)
        C.polled |= bool(self.no.any())
        if told.all():
            super().passed(M, C)
        elif told.any():
            yes = np.flatnonzero(told)
            self.subset(yes).passed_on(M, type(C)(C.gids[yes], None, C.pc))  # type: ignore[arg-type]  # reads no registers

    def passed_on(self, M: Any, C: Cohort) -> None:
        """Lanes that were answered yes."""
        super().passed(M, C)

    def value(self, M: Any) -> Value:
        return ~self.no


class NamedWait(Wait):
    """bar.sync: keys are slot * 16 + id, extra the generation joined."""

    def mask(self, M: Any) -> np.ndarray:
        return M.named.generation[self.keys] != self.extra

    def passed(self, M: Any, C: Cohort) -> None:
        M.tell.named_left(C, self.keys)


class VoteWait(NamedWait):
    """bar.red: what `column` of the barrier's votes says is the instruction's result."""

    def __init__(self, keys: np.ndarray, extra, column: int):
        super().__init__(keys, extra)
        self.column = column

    def subset(self, index: np.ndarray) -> "VoteWait":
        return VoteWait(self.keys[index], self.extra[index], self.column)

    def value(self, M: Any) -> np.ndarray:
        votes = M.named.result[self.keys, self.column]
        return votes.astype(np.uint32) if self.column == 0 else votes != 0


class WgmmaWait(Wait):
    """wgmma.wait_group: keys are global warp ids of the lanes, extra the group number that must be complete."""

    retries = True

    def mask(self, M: Any) -> np.ndarray:
        return M.wgmma_started(self.keys) >= self.extra

    def passed(self, M: Any, C: Cohort) -> None:
        M.finish_wgmma(C, self.keys, self.extra)


class GridWait(Wait):
    """griddepcontrol.wait of a launch beside others: until the grids in front of it are over. keys are the lanes' threads."""

    retries = True

    def mask(self, M: Any) -> np.ndarray:
        return np.full(len(self.keys), M.grid.front_over())

    def passed(self, M: Any, C: Cohort) -> None:
        M.grid.has_waited(C.gids)
        M.tell.grids_waited(C)


class GivesWay(Wait):
    """griddepcontrol.launch_dependents of a launch beside others: under a lazy schedule the dependents go first. keys are the lanes' threads."""

    retries = True

    def mask(self, M: Any) -> np.ndarray:
        return np.full(len(self.keys), M.grid.goes_on)


class ConvergeWait:
    """Lanes at a collective whose warp is not whole (only the deadlock report uses it)."""

    can_time_out = False
