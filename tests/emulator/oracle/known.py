# SPDX-License-Identifier: Apache-2.0
"""Where the emulator is known to disagree with the rules today: what sets such programs aside, and the smallest program of each.

test_known_disagreements.py holds today's behaviour exactly, so that it fails when the emulator is mended: then the entry goes, and the
programs that it set aside are compared like all others.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .model import Verdict
from .programs import Arrive, Barrier, Init, Program, Wait, lanes


@dataclass(frozen=True)
class Known:
    """One disagreement. right: who is, with the section; applies(program, verdict): whether a program may show it; cases: (program, what the
    emulator names, as (kind, line, other line)), each under every schedule unless a schedule is given."""

    right: str
    applies: Callable[[Program, Verdict], bool]
    cases: tuple = ()


def _wait_behind_an_elected_arrival(program: Program, verdict: Verdict) -> bool:
    """A warp of which one lane arrives behind a branch while the others may already have gone on to a wait, in a program of which only some execution
    overruns a wait for the phase before the first."""
    elected = any(isinstance(step.op, Arrive) and step.lane is not None and any(isinstance(later.op, Wait) and later.lane is None for later in script[at:])
                  for warps in program.warps for script in warps for at, step in enumerate(script))
    kinds = {f.kind for f in verdict.may}
    first = {line for line, *_, step in program.steps() if isinstance(step.op, Wait) and step.op.phase < 0}
    overrun = {f.line for f in verdict.may if f.kind == "overrun"}
    return program.branches and verdict.clean and kinds <= {"overrun", "deadlock"} and bool(overrun) and overrun <= first and elected


_MEETS = lanes(Barrier(0, 2), Barrier(1, 2))
_WAITS, _TELLS = lanes(Init(1, 1), Init(2, 32), lane=0) + _MEETS + lanes(Wait(1, -1), Arrive(2)), _MEETS + lanes(Arrive(1), lane=0) + lanes(Wait(2, 0))
_PASSED_BY = Program(((_WAITS, _TELLS),), branches=True)
KNOWN: dict[str, Known] = {
    "moments of a warp": Known(
        "The model: the lane that arrives has not seen what the others of its warp have waited for (PTX ISA 8.9.1, program order is a thread's; 9.7.13.15.5, "
        "phases). The emulator keeps by warp, not by lane, which waits came before; the others run first, and what they have seen counts for the lane as well.",
        _wait_behind_an_elected_arrival, ((_PASSED_BY, ()),))}
"""By name."""


def set_aside(program: Program, verdict: Verdict, include=()) -> str | None:
    """The name of the known disagreement that a program may show and that is not included."""
    return next((name for name, known in KNOWN.items() if name not in include and known.applies(program, verdict)), None)
