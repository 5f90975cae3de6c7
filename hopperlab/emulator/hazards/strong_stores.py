# SPDX-License-Identifier: Apache-2.0
"""Volatile, relaxed and releasing stores to shared memory: they race with no thread's access, but have written, and are of the generic proxy.

A copy or a wgmma is no strong operation (PTX ISA 8.7, 9.7.9.25), so one beside such a store is a race as beside any other store; and one that comes after it needs a
fence.proxy.async between the two (8.6, 9.7.13.4). Nothing is kept in kernels without such a store.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from . import findings_memory
from .stamps import LANE_MASK, MIXED, NEVER, W_COLUMN, W_COLUMN_MASK, W_EPOCH, W_LANE, W_SITE_MASK, WHOLE, pack_write

ROWS = 16            # of A, that each warp of a warpgroup reads
FOUR = np.arange(4)


class StrongStores:
    """stamps: of each word, the newest such store (None before the first); over: what `writes` said of the word then, so that a later write of any other sort
    takes its place."""

    def __init__(self, order: Any) -> None:
        self.order = order                              # SharedOrder, whose part this is
        self.stamps: np.ndarray | None = None
        self.over: np.ndarray | None = None

    def store(self, gids: np.ndarray, flat: np.ndarray, nbytes: int, site: int) -> None:
        """Lanes store `nbytes` at `flat`."""
        order, clocks = self.order, self.order.clocks
        if self.stamps is None or self.over is None:
            self.stamps, self.over = np.zeros_like(order.writes), np.zeros_like(order.writes)
        self._beside(gids, flat, nbytes, site)
        warp = gids >> 5
        stamp = pack_write(clocks.epoch[warp], warp % clocks.warps, gids & 31, site)
        for word in range(max(1, nbytes >> 2)):
            at = (flat >> 2) + word
            self.stamps[at], self.over[at] = stamp, order.writes[at]

    def _beside(self, gids: np.ndarray, flat: np.ndarray, nbytes: int, site: int) -> None:
        """Is a copy or a wgmma that reads or writes there over?"""
        order, clocks = self.order, self.order.clocks
        at, old = order._stamps(flat, nbytes)
        copied = (old != MIXED) & ((old >> W_COLUMN) & W_COLUMN_MASK >= clocks.wgmma0) & (old >> W_EPOCH < NEVER)
        if copied.any():
            order._check_writer(gids, at, np.where(copied, old, 0), site, "write")
        order._check_readers(order.reads, gids, flat >> 4, WHOLE if nbytes >= 16 else ((1 << nbytes) - 1) << (flat & 15), site, "write", clocks.wgmma0)
        if order.outgoing.copies:
            order.outgoing.written(gids, flat, nbytes, site, "write")

    def reset(self, slots: np.ndarray) -> None:
        """Shared memory of new CTAs has no history."""
        if self.stamps is not None:
            self.stamps.reshape(-1, self.order.words)[slots] = 0

    def fed(self, site: Any, at: np.ndarray, gid: int, flat: int, others: bool = False) -> None:
        """Instruction `site` reads words `at`: has anybody written them? others: by an ordinary store, an atomic or a copy."""
        order = self.order
        if site in order.fed:
            return
        if others or self.stamps is not None and self.stamps[at].any():
            order.fed.add(site)
        else:
            order.unfed.setdefault(site, (gid, flat))

    def read(self, known: np.ndarray, row: int, first: int, end: int, gid: int, site: int) -> None:
        """A copy reads words first..end-1, for thread `gid` that knows known[row]."""
        if self.stamps is not None:
            self._check(known, row, np.arange(first, end), gid, site)

    def _check(self, known: np.ndarray, row: int, at: np.ndarray, gid: int, site: int) -> None:
        if self.stamps is None or self.over is None:
            return
        at = at[(self.stamps[at] != 0) & (self.over[at] == self.order.writes[at])]
        stamps, first = np.unique(self.stamps[at], return_index=True)
        if not len(stamps):
            return
        clocks, rows = self.order.clocks, np.full(len(stamps), row)
        column, lane, epoch = (stamps >> W_COLUMN) & W_COLUMN_MASK, (stamps >> W_LANE) & LANE_MASK, stamps >> W_EPOCH
        before = clocks.ordered(known, rows, column, lane, epoch) | clocks.own_access(np.full(len(stamps), gid), column, lane, epoch)
        for k in np.flatnonzero(~before).tolist():
            findings_memory.unordered(self.order.machine, "async read", site, "write", int(stamps[k] & W_SITE_MASK), int(column[k]), gid, int(at[first[k]]) * 4,
                                      int(lane[k]), int(epoch[k]))
        for k in np.flatnonzero(before & ~clocks.ordered(known, rows, column, lane, epoch, fenced=True)).tolist():
            findings_memory.missing_fence(self.order.machine, site, int(stamps[k] & W_SITE_MASK), gid, int(at[first[k]]) * 4, "async read")

    def operands(self, known: np.ndarray, issue: Any, quarter: np.ndarray, granule: np.ndarray, gids: np.ndarray, site: int) -> None:
        """Each warp reads the granules of B, and of A those of its rows."""
        if self.stamps is None:
            return
        a, reader = issue.granules[0], np.full(granule.shape[1], -1)
        if a is not None:
            reader[:a[0].size] = np.arange(a.shape[1]).repeat(a.shape[2]) // ROWS
        for k, (operation, own) in enumerate(zip(issue.group_of.tolist(), quarter.tolist())):
            mine = granule[operation][(reader == -1) | (reader == own)]
            self._check(known, k, (mine[:, None] * 4 + FOUR).reshape(-1), int(gids[k]), site)
