# SPDX-License-Identifier: Apache-2.0
"""Flags between blocks that are polled without acquiring, and no fence before what they announce is read.

The order of accesses takes such a reader to know what the writer published (global_order.py), as it does in practice. The PTX memory model asks for
a fence after the volatile or relaxed read (8.8, acquire patterns), and where there is none this is a warning. far_knowledge.py remembers which reads have had
theirs. Atomics are asked only where they take a lock in a loop, and what is known inside a cluster, or of other launches, is not looked at.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.events import Listener
from .findings import in_array
from .global_words import COLUMN, LANE, SERIAL, SYNC, words_at
from .kinds import Kind

if TYPE_CHECKING:
    from ..machine.cohort import Cohort
    from .findings import Watched
    from .global_order import GlobalOrder
    from .global_words import Part


class FlagFences(Listener):
    """Hears ordinary reads of global memory."""

    def __init__(self, machine: Watched, everywhere: GlobalOrder) -> None:
        self.M, self.everywhere = machine, everywhere

    def global_read(self, C: Cohort, address: np.ndarray, parts: list[Part], info: Any) -> None:
        """Is what another cluster wrote known by more than a look at its flag?"""
        order = self.everywhere
        if info.volatile or not order.far.open:
            return
        for allocation, where, offset in parts:
            if allocation.stamps is None or allocation.stamps.who is None:
                continue
            gids = C.gids if where is None else C.gids[where]
            at, _ = words_at(np.broadcast_to(offset, gids.shape), info.nbytes)
            who, when = allocation.stamps.who[at], allocation.stamps.when[at]
            gids = np.broadcast_to(gids if at.ndim == 1 else gids[:, None], at.shape)
            far = (who != 0) & (who >> SYNC & 1 == 0) & (who >> SERIAL != order.serial[(gids >> 5) // order.clocks.warps]) & ~order.foreign(who)
            if far.any():
                self._look(gids[far], allocation, at[far], who[far], when[far] >> 20, info.index)

    def _look(self, gids: np.ndarray, allocation: Any, at: np.ndarray, who: np.ndarray, epoch: np.ndarray, site: int) -> None:
        order = self.everywhere
        domain = (gids >> 5) // order.clocks.warps
        for d, serial in np.unique(np.stack([domain, who >> SERIAL], axis=1), axis=0).tolist():
            if d not in order.far.events:
                continue
            pick = np.flatnonzero((domain == d) & (who >> SERIAL == serial))
            bad, poll = order.far.unfenced(gids[pick], d, serial, who[pick] >> COLUMN & 0xFFFF, who[pick] >> LANE & 31, epoch[pick])
            if bad.any():
                k = int(pick[np.flatnonzero(bad)[0]])
                self.M.findings.add("flag-unfenced", poll, site, int(gids[k]), **in_array(allocation, int(at[k]) * 4))


def listeners(machine: Watched, everywhere: GlobalOrder) -> list[Listener]:
    """One, where it is wanted and the kernel may look at flags without acquiring."""
    if machine.session.levels[Kind.UNFENCED_FLAG] == "off":
        return []
    looks = any(i.op == "atom" or i.op == "ld" and {"volatile", "relaxed", "mmio"} & set(i.mods) for i in machine.body)
    return [FlagFences(machine, everywhere)] if looks else []
