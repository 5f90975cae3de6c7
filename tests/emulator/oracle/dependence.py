# SPDX-License-Identifier: Apache-2.0
"""Which operations can disturb each other: the objects that a step touches, and those that an agent may still touch."""
from __future__ import annotations

from .programs import Arrive, Barrier, BulkCopy, BulkLoad, CpArrive, Poll, Raise, SyncWarp, Wait


def objects(agent, step) -> frozenset:
    """What a step touches that others may touch: ('m', CTA, mbarrier), ('f', flag), ('b', CTA, named barrier), ('c',): the cluster's, ('w', warp)."""
    op = step.op
    if isinstance(op, (Arrive, CpArrive)):
        return frozenset([("m", agent.cta if getattr(op, "cta", None) is None else op.cta, op.bar)])
    if isinstance(op, Wait):
        return frozenset([("m", agent.cta, op.bar)])
    if isinstance(op, BulkLoad):
        return frozenset(("m", cta, op.bar) for cta in (op.ctas or (agent.cta,)))
    if isinstance(op, BulkCopy):
        return frozenset([("m", op.cta, op.bar)])
    if isinstance(op, (Raise, Poll)):
        return frozenset([("f", op.flag)])
    if not step.op.collective:
        return frozenset()
    end = ("b", agent.cta, op.id) if isinstance(op, Barrier) else ("c",)        # who stands there is released by the others who come
    return frozenset([("w", agent.warp), *([] if isinstance(op, SyncWarp) else [end])])


def remaining(agent, ctas: int) -> list[frozenset]:
    """For each place of an agent's script, what it may still touch from there on."""
    sets, whole = [frozenset()], frozenset([("c",)] if ctas > 1 else [])       # to end also counts at the cluster barrier
    for _, step in reversed(agent.script):
        whole |= objects(agent, step)
        sets.append(whole)
    return sets[::-1]
