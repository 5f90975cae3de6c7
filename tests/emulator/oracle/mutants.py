# SPDX-License-Identifier: Apache-2.0
"""What mutations make of a program: each synchronisation dropped, or weakened."""
from __future__ import annotations

from dataclasses import replace

from .programs import Arrive, Barrier, BulkWait, ClusterArrive, ClusterWait, CpWait, Init, Program, Raise, Step, Wait


def mutants(program: Program):
    """(what was done, line, mutant): each synchronisation dropped, and each that can be weakened weakened."""
    yield from _without_a_meeting(program)
    for line, *_, step in program.steps():
        if step.op.sync:
            yield f"dropped {step}", line, program.without(line)
        for new in weaker(step.op):
            yield f"{step} became {new}", line, program.with_step(line, Step(new, step.lane))


def _without_a_meeting(program: Program):
    """Barriers that all who take part leave out: the n-th one of each CTA's named barrier, or of the cluster."""
    places = {}
    for line, cta, warp, _, step in program.steps():
        op = step.op
        if isinstance(op, (Barrier, ClusterArrive, ClusterWait)):
            kind = ("cluster", type(op)) if op.collective and not isinstance(op, Barrier) else (cta, op.id)
            mine = [k for k, lines_ in places.items() if k[:2] == kind and (cta, warp) in lines_]
            places.setdefault((*kind, len(mine)), {})[cta, warp] = line
    for key, lines_ in places.items():
        if key[:2] == ("cluster", ClusterWait):
            continue
        gone = [*lines_.values(), *(places.get(("cluster", ClusterWait, key[2]), {}).values() if key[0] == "cluster" else ())]
        mutant = program
        for line in sorted(gone, reverse=True):
            mutant = mutant.without(line)
        if any(mutant.warps):
            yield f"dropped a barrier everywhere (lines {sorted(gone)})", min(gone), mutant


def weaker(op):
    """Weaker forms of an operation."""
    if isinstance(op, Arrive) and op.expect:
        yield replace(op, expect=op.expect // 2)
    if isinstance(op, (BulkWait, CpWait)):
        yield replace(op, pending=op.pending + 1)
    if isinstance(op, Raise) and op.release:
        yield replace(op, release=False)
    if isinstance(op, Init) and op.count > 1:
        yield replace(op, count=op.count - 1)
    if isinstance(op, Wait):
        yield replace(op, phase=op.phase - 1)
