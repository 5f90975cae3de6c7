# SPDX-License-Identifier: Apache-2.0
"""Atomics of CTA scope on words of global memory that several blocks update: each is atomic for its own block alone.

Two atomics of which one does not include the other's thread in its scope are no morally strong pair, so that they race unless something orders
them (PTX ISA 8.7, 8.9.5). Looked at only in kernels that have such an atomic; global_order.py keeps the stamps.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import findings_memory
from .global_words import COLUMN, SERIAL, words_at

if TYPE_CHECKING:
    from .findings import Watched
    from .global_order import GlobalOrder
    from .global_words import Stamped


def sites(machine: Watched) -> frozenset[int]:
    """Atomics of CTA scope that may update global memory (by instruction)."""
    return frozenset(i.index for i in machine.body if i.op in ("atom", "red") and "cta" in i.mods and not any(m.startswith("shared") for m in i.mods))


def check(order: GlobalOrder, gids: np.ndarray, allocation: Stamped, offset: np.ndarray, info: Any, narrow: frozenset[int]) -> None:
    """Threads are about to update words. narrow: the atomics of CTA scope."""
    M, words = order.M, allocation.stamps
    at = words_at(offset, info.nbytes)[0].reshape(len(gids), -1)[:, 0]
    if info.index in narrow and len(gids) > 1:                       # blocks that run this very instruction together
        by = np.argsort(at, kind="stable")
        apart = np.flatnonzero((at[by][1:] == at[by][:-1]) & (gids[by][1:] // M.T != gids[by][:-1] // M.T))
        for k in by[apart[:1]].tolist():
            findings_memory.narrow_atomics(M, info.index, info.index, int(gids[k]), allocation, int(offset[k]))
    if words is not None and words.who is not None:
        _check_last(order, gids, allocation, offset, at, info.index, narrow)


def _check_last(order: GlobalOrder, gids: np.ndarray, allocation: Stamped, offset: np.ndarray, at: np.ndarray, site: int, narrow: frozenset[int]) -> None:
    """The latest update of each word, by an earlier instruction."""
    M, clocks, warp = order.M, order.clocks, gids >> 5
    who, when = allocation.stamps.who[at], allocation.stamps.when[at]  # type: ignore[union-attr]
    others = narrow if site not in narrow else [i.index for i in M.body if i.op in ("atom", "red")]
    bad = (who != 0) & ~order.foreign(who) & np.isin(when & 0xFFFFF, list(others))
    bad &= (who >> SERIAL != order.serial[warp // clocks.warps]) | ((who >> COLUMN & 0xFFFF) // M.warps != warp % clocks.warps // M.warps)
    if bad.any():
        bad &= ~order._ordered(gids, who, when, P_needed=False)
    for k in np.flatnonzero(bad)[:1].tolist():
        findings_memory.narrow_atomics(M, site, int(when[k] & 0xFFFFF), int(gids[k]), allocation, int(offset[k]))
