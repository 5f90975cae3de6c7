# SPDX-License-Identifier: Apache-2.0
"""Fills the timeline of a launch with what was issued, landed, arrived, flipped, waited and woke. Listens only where tracing is on."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.events import Listener
from ..machine.in_flight import ArrivalOp, BarrierOp, CpAsyncOp, GroupOp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..machine.cohort import Cohort
    from ..machine.in_flight import Operation
    from ..machine.waits import Wait


class Tracer(Listener):
    """Records the events of one launch. waiting: warps that are parked."""

    def __init__(self, machine):
        self.M, self.timeline = machine, machine.session.timeline
        self.waiting = np.zeros(machine.slots * machine.warps, bool)

    def _record(self, kind: str, what: str, warps, index: int | None, details) -> None:
        M = self.M
        blocks = M.slot_cta[warps // M.warps]
        self.timeline.record(M.step, kind, what, blocks.tolist(), (warps % M.warps).tolist(), None if index is None else M.body[index], details)

    def _thread(self, kind: str, what: str, gid: int, index: int, detail: str = "") -> None:
        """An event of one thread."""
        self._record(kind, what, np.array([gid >> 5]), index, detail)

    def _threads(self, kind: str, what: str, gids: np.ndarray, index: int) -> None:
        """An event of every warp of these threads (sorted ids)."""
        warps = gids >> 5
        self._record(kind, what, warps[np.diff(warps, prepend=-1) != 0], index, "")

    def _named(self, ids: np.ndarray) -> list[str]:
        barriers = self.M.barriers
        return [f"mbarrier {barriers.offsets[b % barriers.capacity]:#x}" for b in ids.tolist()]

    # --- asynchronous operations ------------------------------------------------------------------------------------
    def issued(self, op: Operation) -> None:
        """An operation starts."""
        kind = type(op)
        if kind is CpAsyncOp:
            self._threads("issue", "issue cp.async", op.gids, op.index)
        elif kind is ArrivalOp:
            self._thread("issue", "issue arrival cp", int(op.gids[0]), op.index, f"{len(op.gids)} threads")
        elif kind is GroupOp:
            self._thread("issue", "issue store cp", op.gid, op.index)
        else:
            self._thread("issue", "issue cp", op.gid, op.index, f"{op.nbytes} bytes")

    def landed(self, op: Operation, pick: Any) -> None:
        """Its effect is there."""
        kind = type(op)
        if kind is CpAsyncOp:
            if len(op.gids[pick]):
                self._threads("land", "land cp.async", op.gids[pick], op.index)
        elif kind is ArrivalOp:
            self._thread("arrive", "arrive cp", int(op.gids[0]), op.index, f"{len(op.gids)} threads")
        elif kind is BarrierOp:
            self._thread("land", "land cp", op.gid, op.index, f"{op.nbytes} bytes")
        else:
            self._thread("land", "land store cp", op.gid, op.index)

    def source_read(self, op: GroupOp) -> None:
        """A store's source is free."""
        self._thread("land", "read store cp", op.gid, op.index)

    def product_started(self, warps: NDArray[Any], index: int) -> None:
        """wgmma."""
        self._record("issue", "issue wgmma", warps, index, "")

    def product_landed(self, warps: NDArray[Any], index: int) -> None:
        """wgmma."""
        self._record("land", "land wgmma", warps, index, "")

    # --- barriers ---------------------------------------------------------------------------------------------------
    def phases_completed(self, ids: np.ndarray, index: int | None, gid: int) -> None:
        """A phase of each of these mbarriers completes."""
        M = self.M
        self.timeline.record(M.step, "flip", "phase flips", M.slot_cta[ids // M.barriers.capacity].tolist(), [-1] * len(ids), None, self._named(ids))

    def arrived(self, C: Cohort, ids: np.ndarray, count: NDArray[Any], expect: NDArray[Any] | None, info: Any) -> None:
        """Arrivals on mbarriers, one event a warp (its first lane's barrier)."""
        units = self.M.units(C)
        details = self._named(ids[units.starts])
        if expect is not None:
            details = [f"{name} expects {n} bytes" for name, n in zip(details, expect[units.starts].tolist())]
        self._record("arrive", "arrive mbarrier", units.gw, info.index, details)

    # --- waiting ----------------------------------------------------------------------------------------------------
    def parked(self, C: Cohort, wait: Wait, index: int) -> None:
        """Warps are parked; those that were parked already are left out."""
        warps, first = np.unique(C.gids >> 5, return_index=True)
        new = ~self.waiting[warps]
        if new.any():
            self.waiting[warps[new]] = True
            self._record("wait", f"wait {self._what(index)}", warps[new], index, self._details(wait, first[new]))

    def passed(self, C: Cohort, wait: Wait, index: int) -> None:
        """Warps go on; those that had not been parked leave no event."""
        warps, first = np.unique(C.gids >> 5, return_index=True)
        woken = self.waiting[warps]
        if woken.any():
            self.waiting[warps[woken]] = False
            self._record("wake", f"wake {self._what(index)}", warps[woken], index, self._details(wait, first[woken]))

    def _what(self, index: int) -> str:
        instr = self.M.body[index]
        return "bar" if instr.op == "barrier" and "cluster" not in instr.mods else instr.op

    def _details(self, wait, first: np.ndarray):
        if not hasattr(wait, "can_time_out") or not wait.can_time_out:
            return ""
        return [f"{name} parity {p}" for name, p in zip(self._named(wait.keys[first]), wait.extra[first].tolist())]
