# SPDX-License-Identifier: Apache-2.0
"""Flags in shared memory that somebody may look at before they have their first value: shared memory begins with what was there before.

Volatile, relaxed and acquiring loads race with no strong store (shared_order.py), so the order that matters here is that of each word's first store
alone, strong or ordinary (the constructor of a cuda::semaphore).
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.events import Listener
from .findings import shared
from .shared_order import words_of
from .stamps import LANE_MASK, NEVER, R_LANE, R_MASK, R_SITE_MASK, W_COLUMN, W_COLUMN_MASK, W_EPOCH, W_LANE, W_SITE_MASK, WHOLE, pack_write

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..machine.cohort import Cohort
    from .clocks import Clocks
    from .findings import Watched
    from .shared_order import SharedOrder

STRONG = frozenset(("volatile", "relaxed", "mmio", "acquire"))


class FlagStarts(Listener):
    """Hears strong accesses to shared memory before whoever learns from them."""

    def __init__(self, machine: Watched, clocks: Clocks, memory: SharedOrder) -> None:
        self.M, self.clocks, self.memory = machine, clocks, memory
        self.first: np.ndarray | None = None            # stamp of the first store to each word that nobody had written

    def admitted(self, domains: np.ndarray, reused: np.ndarray) -> None:
        """Shared memory of new CTAs has no history."""
        if self.first is not None and len(reused):
            self.first.reshape(-1, self.memory.words)[reused] = 0

    def shared_read(self, C: Cohort, flat: np.ndarray, info: Any) -> None:
        """Has the flag its first value by now, whoever was quick?"""
        if not info.volatile or self.first is None:
            return
        clocks, at = self.clocks, words_of(flat, info.nbytes)
        stamps = self.first[at]
        stamps = np.where((stamps > 0) & ((stamps >> W_COLUMN) & W_COLUMN_MASK < clocks.wgmma0) & (stamps >> W_EPOCH < NEVER) & ~np.isin(stamps & W_SITE_MASK,
                list(self.memory.atomics)), stamps, 0)
        if not stamps.any():
            return
        gids = C.gids if at.ndim == 1 else np.broadcast_to(C.gids[:, None], at.shape)
        column, lane, epoch = (stamps >> W_COLUMN) & W_COLUMN_MASK, (stamps >> W_LANE) & LANE_MASK, stamps >> W_EPOCH
        bad = (stamps != 0) & ~clocks.ordered(clocks.K, clocks.row_of[gids], column, lane, epoch) & ~clocks.own_access(gids, column, lane, epoch)
        if bad.any():
            k = tuple(int(axis[0]) for axis in np.nonzero(bad))
            self._tell(info.index, int(stamps[k] & W_SITE_MASK), int(gids[k]), int(at[k]) * 4)

    def shared_written(self, C: Cohort, flat: np.ndarray, info: Any, value: Callable[..., Any]) -> None:
        """The first value: has anybody looked before?"""
        if self.first is None:
            self.first = np.zeros(len(self.memory.writes), np.int64)
        at, warp = words_of(flat, info.nbytes), C.gids >> 5
        fresh = (self.first[at] == 0) & (self.memory.writes[at] == 0)
        if not fresh.any():
            return
        if info.volatile and self.memory.strong is not None:
            self._looked(C, flat, fresh if fresh.ndim == 1 else fresh.any(axis=1), info)
        stamp = pack_write(self.clocks.epoch[warp], warp % self.clocks.warps, C.gids & 31, info.index)
        self.first[at] = np.where(fresh, stamp if at.ndim == 1 else stamp[:, None], self.first[at])

    def _looked(self, C: Cohort, flat: np.ndarray, fresh: np.ndarray, info: Any) -> None:
        stamps = self.memory.strong.take(flat >> 4, axis=1)  # type: ignore[union-attr]  # there are such reads
        mask = WHOLE if info.nbytes >= 16 else ((1 << info.nbytes) - 1) << (flat & 15)
        own = (np.arange(len(stamps))[:, None] == (C.gids >> 5) % self.clocks.warps) & ((stamps >> R_LANE) & LANE_MASK == C.gids & 31)
        bad = fresh & ((stamps >> R_MASK) & mask & WHOLE != 0) & ~own
        if bad.any():
            column, k = (int(axis[0]) for axis in np.nonzero(bad))
            gid = int(C.gids[k]) >> 5
            reader = (gid - gid % self.clocks.warps + column) * 32 + int(stamps[column, k] >> R_LANE & LANE_MASK)
            self._tell(int(stamps[column, k] & R_SITE_MASK), info.index, reader, int(flat[k]))

    def _tell(self, site: int, other: int, gid: int, flat: int) -> None:
        self.M.findings.add("flag-not-begun", site, other, gid, **shared(self.M, flat))


def listeners(machine: Watched, clocks: Clocks, memory: SharedOrder) -> list[Listener]:
    """One, where the kernel has strong loads that may be of shared memory."""
    strong = any(i.op == "ld" and STRONG.intersection(i.mods) and "global" not in i.mods for i in machine.body)
    return [FlagStarts(machine, clocks, memory)] if strong else []
