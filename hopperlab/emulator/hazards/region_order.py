# SPDX-License-Identifier: Apache-2.0
"""Regions of shared memory that a copy reads or writes at once: which stamps of `order`, a SharedOrder (shared_order.py), must be ordered before it."""
from __future__ import annotations

from typing import Any

import numpy as np

from . import findings_memory
from .clocks import V
from .stamps import (
    LANE_MASK, R_EPOCH, R_LANE, R_MASK, R_SITE_MASK, W_COLUMN, W_COLUMN_MASK, W_EPOCH, W_LANE, W_SITE_MASK, WHOLE, byte_mask, pack_read)


def written_before(order: Any, gid: int, row: int, w0: int, unique: np.ndarray, first: np.ndarray, site: int, verb: str, fenced: bool) -> None:
    """A copy reads or writes words from `w0`: whoever wrote them (`unique` stamps, `first` of each: a word from w0 on) must be ordered before it (`fenced`: and by a
    proxy fence, if ordinary stores did)."""
    keep = unique != 0
    unique, first = unique[keep], first[keep]
    clocks = order.clocks
    column, lane, epoch = (unique >> W_COLUMN) & W_COLUMN_MASK, (unique >> W_LANE) & LANE_MASK, unique >> W_EPOCH
    generic = (column < clocks.wgmma0) | ((column >= clocks.cp0) & (column < clocks.written0))
    if (clocks.K[row, V].take(column) >= epoch).all() and not generic.any():            # the usual case: earlier copies, which are over
        return
    rows = np.full(len(unique), row)
    ok = clocks.ordered(clocks.K, rows, column, lane, epoch)
    ok |= clocks.own_access(np.full(len(unique), gid), column, lane, epoch)
    if clocks.relaxed and verb == "async write":            # one copy after another: that the first is over is enough
        ok |= (column >= clocks.bar0) & (clocks.K[rows, clocks.R, column] >= epoch)
    for k in np.flatnonzero(~ok):
        findings_memory.unordered(order.machine, verb, site, "write", int(unique[k] & W_SITE_MASK), int(column[k]), gid,
                                 int(w0 + first[k]) * 4, int(lane[k]), int(epoch[k]))
    if fenced:
        seen = clocks.ordered(clocks.K, rows, column, lane, epoch, fenced=True)
        for k in np.flatnonzero(ok & generic & ~seen):
            findings_memory.missing_fence(order.machine, site, int(unique[k] & W_SITE_MASK), gid, int(w0 + first[k]) * 4, verb)


def read_before(order: Any, gid: int, row: int, start: int, nbytes: int, site: int, fenced: bool) -> bool:
    """A copy writes bytes from `start`: whoever read them must be ordered before it (`fenced`: and by a proxy fence, if ordinary loads did). False where
    nobody has."""
    g0, g1, clocks = start >> 4, (start + nbytes + 15) >> 4, order.clocks
    newest = order.reads[order.readers0:, g0:g1].max(axis=1)
    if order.strong is not None:
        newest[:clocks.warps] = np.maximum(newest[:clocks.warps], order.strong[:, g0:g1].max(axis=1))
    columns = np.flatnonzero(newest >> R_MASK & byte_mask(start, nbytes))
    if not len(columns):
        return False
    stamps, columns = newest[columns], columns + order.readers0
    columns, stamps = _readers_of(order, columns, stamps, row, g0, g1)
    epoch, lane = stamps >> R_EPOCH, (stamps >> R_LANE) & LANE_MASK
    if columns[0] >= clocks.wgmma0 and (clocks.K[row, V].take(columns) >= epoch).all():       # the usual case: products and stores that are over
        return True
    rows = np.full(len(columns), row)
    ok = clocks.ordered(clocks.K, rows, columns, lane, epoch)
    if not ok.all():
        ok |= clocks.own_access(np.full(len(columns), gid), columns, lane, epoch)
        for k in np.flatnonzero(~ok):
            findings_memory.unordered(order.machine, "async write", site, "read", int(stamps[k] & R_SITE_MASK), int(columns[k]), gid,
                                     g0 * 16, int(lane[k]), int(epoch[k]))
    if fenced and order.unfenced and columns.min() < clocks.wgmma0:
        bad = ok & (columns < clocks.wgmma0) & ~clocks.ordered(clocks.K, rows, columns, lane, epoch, fenced=True)
        for k in np.flatnonzero(bad):
            findings_memory.unfenced_overwrite(order.machine, site, int(stamps[k] & R_SITE_MASK), gid, g0 * 16)
    return True


def _readers_of(order: Any, columns: np.ndarray, newest: np.ndarray, row: int, g0: int, g1: int) -> tuple[np.ndarray, np.ndarray]:
    """(columns, read stamps) that stand for all readers of granules g0..g1-1, of which `newest` are the newest: these alone where the holder `row` knows whole
    warps up to them, else every one, of lanes that share a granule too."""
    clocks = order.clocks
    apart = np.flatnonzero(clocks.K[row, V, columns] < newest >> R_EPOCH)
    if not len(apart):
        return columns, newest
    found: list[tuple[int, int]] = []
    for column in columns[apart].tolist():
        tables = [order.reads[column, g0:g1], *([order.strong[column, g0:g1]] if order.strong is not None and column < clocks.warps else [])]
        found += [(column, stamp) for stamp in np.unique(np.concatenate(tables)).tolist() if stamp]
    for table in order.lanes.tables:
        for stamp in np.unique(table[g0 * 4:g1 * 4]).tolist():
            column = stamp >> W_COLUMN & W_COLUMN_MASK
            if stamp and column in columns[apart]:
                found.append((column, int(pack_read(stamp >> W_EPOCH, stamp >> W_LANE & LANE_MASK, WHOLE, stamp & W_SITE_MASK))))
    more, stamps = np.array(found).T
    return np.concatenate([np.delete(columns, apart), more]), np.concatenate([np.delete(newest, apart), stamps])


def read_of_nothing(order: Any, gid: int, start: int, nbytes: int, site: int) -> None:
    """A first write, by a copy, to bytes that somebody has read already: that read came before its data."""
    w0, w1 = start >> 2, (start + nbytes + 3) >> 2
    granules = np.arange(w0 >> 2, (w1 + 3) >> 2)
    fresh = (order.writes[w0:w1].reshape(-1, 4) == 0).any(axis=1) if (w1 - w0) % 4 == 0 else np.ones(len(granules), bool)
    newest = order.reads[:, granules[fresh]].T
    hit = (newest >> R_MASK & byte_mask(start, nbytes)) != 0
    for other in np.unique(newest[hit] & R_SITE_MASK).tolist():
        where = np.nonzero(hit & (newest & R_SITE_MASK == other))[0][0]
        findings_memory.read_too_early(order.machine, site, other, gid, int(granules[fresh][where]) * 16)
