# SPDX-License-Identifier: Apache-2.0
"""Operands of wgmma in shared memory: what each warp of a warpgroup reads must be written, known to that warp, and visible to the async proxy.

All four warps read B; of A in shared memory warp w reads rows 16 w to 16 w + 15, those of its part of D.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import findings_memory
from .clocks import P, V
from .stamps import LANE_MASK, W_COLUMN, W_COLUMN_MASK, W_EPOCH, W_LANE, W_SITE_MASK, WHOLE, pack_read

if TYPE_CHECKING:
    from .shared_order import SharedOrder

ROWS = 16                          # of A, by warp


def wgmma_reads(order: SharedOrder, known: np.ndarray, issue: Any, quarter: np.ndarray, gids: np.ndarray, column: np.ndarray) -> None:
    """Warpgroups read the granules of a wgmma (`issue`, ops/wgmma.py). By warp: what it knows (planes of clocks.py), its place in the warpgroup, its first
    thread; by operation: the column of its reads."""
    a, b = issue.granules
    count, site = len(issue.group_ids), issue.info.index
    granule, split = b.reshape(count, -1), 0
    if a is not None:
        split = a[0].size
        granule = np.concatenate([a.reshape(count, -1), granule], axis=1)
    words = granule[:, :, None] << 2
    at = words + np.arange(4) if order.plain_writes[granule[:, 0] // order.granules].any() else words
    order.strong_stores.operands(known, issue, quarter, granule, gids, site)
    stamps = order.writes.take(at)
    starts = [0, split] if split else [0]
    reader = np.full(granule.shape[1], -1)                          # which warp reads a granule (-1: all do)
    uniform = all((stamps[:, a:b] == stamps[:, a:a + 1, :1]).all() for a, b in zip(starts, [*starts[1:], None]))
    if uniform and (stamps[:, starts, :1] >= 0).all():                # a negative stamp says that bytes have their own
        stamps, at, reader = stamps[:, starts, :1], at[:, starts, :1], reader[starts]         # the usual case: one copy wrote each whole tile
    elif a is not None:
        reader[:split] = np.arange(a.shape[1]).repeat(a.shape[2]) // ROWS
    if order.parts is not None and (stamps < 0).any():
        own = np.where((stamps < 0)[..., None], order.parts[(at << 2)[..., None] + np.arange(4)], stamps[..., None])
        stamps, at = own.reshape(*stamps.shape[:2], -1), np.repeat(at, 4, axis=2)
    clocks, writer = order.clocks, (stamps >> W_COLUMN) & W_COLUMN_MASK
    unknown = _unknown(order, known, issue.group_of, quarter, reader, stamps, writer, stamps != 0, False)
    _report(order, unknown, at, stamps, gids, site, False)
    generic = ((writer < clocks.wgmma0) | ((writer >= clocks.cp0) & (writer < clocks.written0))) & (stamps != 0)
    if generic.any():
        generic[tuple(unknown[:, 1:].T)] = False
        _report(order, _unknown(order, known, issue.group_of, quarter, reader, stamps, writer, generic, True), at, stamps, gids, site, True)
    marks = granule + column[:, None] * order.reads.shape[1]
    order.reads.reshape(-1)[marks] = pack_read(issue.number[issue.first], 0, WHOLE, site)[:, None]


def _unknown(order: SharedOrder, known: np.ndarray, group_of: np.ndarray, quarter: np.ndarray, reader: np.ndarray, stamps: np.ndarray, writer: np.ndarray,
             asked: np.ndarray, fenced: bool) -> np.ndarray:
    """(n, 4): warp, and place in `stamps`, of writes among those `asked` for that a warp reads and that are not ordered before it (fenced: or not visible to the
    async proxy)."""
    epoch, whole = stamps >> W_EPOCH, known[:, P if fenced else V]
    if stamps.shape[1] <= 2:
        doubtful = np.zeros(stamps.shape, bool)
        late = whole[np.arange(len(whole))[:, None, None], writer[group_of]] < epoch[group_of]
        if late.any():
            np.logical_or.at(doubtful, group_of, late)
            doubtful &= asked
    else:
        least = np.full((len(stamps), whole.shape[1]), np.iinfo(np.int32).max)
        np.minimum.at(least, group_of, whole)                      # up to when all four warps know as wholes
        doubtful = asked & (least[np.arange(len(stamps))[:, None, None], writer] < epoch)
    if not doubtful.any():
        return np.zeros((0, 4), np.int64)
    found = []
    for warp, (operation, own) in enumerate(zip(group_of.tolist(), quarter.tolist())):
        mine = doubtful[operation] & ((reader == -1) | (reader == own))[:, None]
        granule, word = np.nonzero(mine)
        if len(granule):
            lane = (stamps[operation, granule, word] >> W_LANE) & LANE_MASK
            ok = order.clocks.ordered(known, np.full(len(granule), warp), writer[operation, granule, word], lane, epoch[operation, granule, word], fenced)
            found.append(np.stack([np.full(len(granule), v) if np.ndim(v) == 0 else v for v in (warp, operation, granule, word)], axis=1)[~ok])
    return np.concatenate(found) if found else np.zeros((0, 4), np.int64)


def _report(order: SharedOrder, unknown: np.ndarray, at: np.ndarray, stamps: np.ndarray, gids: np.ndarray, site: int, fence: bool) -> None:
    """One report for each instruction that wrote."""
    if not len(unknown):
        return
    places = tuple(unknown[:, 1:].T)
    sites = stamps[places] & W_SITE_MASK
    for other in np.unique(sites).tolist():
        k = int(np.flatnonzero(sites == other)[0])
        gid, stamp, place = int(gids[unknown[k, 0]]), int(stamps[places][k]), int(at[places][k]) * 4
        if fence:
            findings_memory.missing_fence(order.machine, site, other, gid, place)
        else:
            findings_memory.unordered(order.machine, "async read", site, "write", other, (stamp >> W_COLUMN) & W_COLUMN_MASK, gid, place,
                                      stamp >> W_LANE & LANE_MASK, stamp >> W_EPOCH)
