# SPDX-License-Identifier: Apache-2.0
"""Lanes of one warp that meet although they stand at different instructions: __syncwarp(), or a shuffle, in both branches of an if, for instance.

bar.warp.sync waits until all lanes that its mask names have executed a bar.warp.sync with the same mask; shfl, vote, match and redux the same, with the same qualifiers
too; below sm_70 it had to be the same instruction (PTX ISA 9.7.13.2, 9.7.9.6). Lanes that wait at one block only meet in gates.py; compile/masks.py
says which blocks may need this.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..compile import masks
from .cohort import Cohort
from .gate_values import as_wanted, deliver, sources

if TYPE_CHECKING:
    from ..compile.translated import Block

MET = "met"             # Cohort.resume of lanes that have met others elsewhere: their instruction is done


def meet(S: Any, others: np.ndarray | None = None) -> bool:
    """Let those lanes go on whose masks name nobody who is missing at all of these blocks together; True when there were any. `S` is the Scheduler;
    others: threads that have not ended and wait elsewhere, where that is known: then a mask that is not full may name lanes that have ended."""
    kinds = sorted({S.blocks[pc].apart for pc in S.converging} - {""})
    return any(_meet(S, [(S.blocks[pc], C) for pc in S.converging if S.blocks[pc].apart == kind for C in S.converging[pc]], others) for kind in kinds)


def _meet(S: Any, waiting: list[tuple[Block, Cohort]], others: np.ndarray | None) -> bool:
    """The same of instructions of one kind, at which these wait."""
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
        _go(S, [waiting[k] for k in np.unique(place[go]).tolist()], gids[go])
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


def _go(S: Any, waiting: list[tuple[Block, Cohort]], gids: np.ndarray) -> None:
    """Threads meet, each those that its mask names, and go on from where they stand, each with its own registers."""
    blocks, going, args = [block for block, _ in waiting], [np.isin(C.gids, gids) for _, C in waiting], []
    for (block, C), go in zip(waiting, going):
        args.append([np.broadcast_to(value, C.n)[go] for value in as_wanted(block, sources(S, C, block))])
    lanes = np.concatenate([C.gids[go] for (_, C), go in zip(waiting, going)])
    order, all_results = np.argsort(lanes), max(blocks, key=lambda block: len(block.gate_dsts))
    U, gate = Cohort(lanes[order], None, all_results.id), all_results.gate  # type: ignore[arg-type]  # reads no registers
    S.M.tell.met_apart(U, blocks)
    found: Any = gate.fn(S.M, U, gate.info, *(np.concatenate(values)[order] for values in zip(*args)))  # type: ignore[union-attr]  # such blocks have one
    results = found if type(found) is tuple else (found,)
    for (block, C), go in zip(waiting, going):
        S.converging[block.id] = [c for c in S.converging[block.id] if c is not C]
        if not go.all():
            C, rest = C.split(go, block.id, block.id, block.live_in, block.live_in)
            S.converging[block.id].append(rest)
        if not S.converging[block.id]:
            del S.converging[block.id]
        where = np.searchsorted(U.gids, C.gids)
        deliver(S, C, block, tuple(r if r is None or not r.ndim else r[where] for r in results))
        C.resume = MET
        S.enqueue(C)
