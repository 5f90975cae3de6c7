# SPDX-License-Identifier: Apache-2.0
"""Lanes of one warp that meet although they stand at different instructions: __syncwarp() in both branches of an if, for instance.

bar.warp.sync waits until all lanes that its mask names have executed a bar.warp.sync with the same mask; below sm_70 it had to be the same instruction
(PTX ISA 9.7.13.2). Lanes that wait at one block only meet in gates.py; compile/masks.py says which blocks may need this.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..compile import masks
from .cohort import Cohort

if TYPE_CHECKING:
    from ..compile.translated import Block

MET = "met"             # Cohort.resume of lanes that have met others elsewhere: their instruction is done


def meet(S: Any, others: np.ndarray | None = None) -> bool:
    """Let those lanes go on whose masks name nobody who is missing at all of these blocks together; True when there were any. `S` is the Scheduler; others: threads that have
    not ended and wait elsewhere, where that is known: then a mask that is not full may name lanes that have ended."""
    waiting = [(S.blocks[pc], C) for pc in S.converging if S.blocks[pc].apart for C in S.converging[pc]]
    if len({block.id for block, _ in waiting}) < 2:
        return False
    gids = np.concatenate([C.gids for _, C in waiting])
    named = np.concatenate([masks.named(C, block) for block, C in waiting])
    place = np.repeat(np.arange(len(waiting)), [C.n for _, C in waiting])
    go = np.zeros(len(gids), bool)
    for warp, mask in np.unique(np.stack([gids >> 5, named]), axis=1).T.tolist():
        here = (gids >> 5 == warp) & (named == mask)
        if len(np.unique(place[here])) > 1 and _complete(S, gids[here], warp, mask, others):
            go |= here
    if go.any():
        _go(S, [waiting[k] for k in np.unique(place[go]).tolist()], gids[go], named[go])
    return bool(go.any())


def _complete(S: Any, gids: np.ndarray, warp: int, mask: int, others: np.ndarray | None) -> bool:
    """Whether threads of a warp are all that its mask names, but for those that have ended."""
    if len(gids) == S.M.alive[warp]:
        return True
    missing = mask & ~int(np.bitwise_or.reduce(np.int64(1) << (gids & 31)))
    if others is not None:
        standing = others[others >> 5 == warp] & 31
        missing &= int(np.bitwise_or.reduce(np.int64(1) << standing)) if len(standing) else 0
    return not missing


def _go(S: Any, waiting: list[tuple[Block, Cohort]], gids: np.ndarray, named: np.ndarray) -> None:
    """Threads meet, each those that its mask names, and go on from where they stand."""
    order, last = np.argsort(gids), waiting[-1][0]
    U = Cohort(gids[order], None, last.id)  # type: ignore[arg-type]  # reads no registers
    S.M.tell.met_apart(U, [block for block, _ in waiting])
    last.gate.fn(S.M, U, last.gate.info, named[order].astype(np.uint32))
    for block, C in waiting:
        S.converging[block.id] = [c for c in S.converging[block.id] if c is not C]
        go = np.isin(C.gids, gids)
        if not go.all():
            C, rest = C.split(go, block.id, block.id, block.live_in, block.live_in)
            S.converging[block.id].append(rest)
        if not S.converging[block.id]:
            del S.converging[block.id]
        C.resume = MET
        S.enqueue(C)
