# SPDX-License-Identifier: Apache-2.0
"""Where the emulator is known to disagree with the rules today: what sets such programs aside, and the smallest program of each.

test_known_disagreements.py holds today's behaviour exactly, so that it fails when the emulator is mended: then the entry goes, and the
programs that it set aside are compared like all others.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .model import Verdict
from .programs import Program


@dataclass(frozen=True)
class Known:
    """One disagreement. right: who is, with the section; applies(program, verdict): whether a program may show it; cases: (program, what the
    emulator names, as (kind, line, other line)), each under every schedule unless a schedule is given."""

    right: str
    applies: Callable[[Program, Verdict], bool]
    cases: tuple = ()


KNOWN: dict[str, Known] = {}
"""By name; none today."""


def set_aside(program: Program, verdict: Verdict, include=()) -> str | None:
    """The name of the known disagreement that a program may show and that is not included."""
    return next((name for name, known in KNOWN.items() if name not in include and known.applies(program, verdict)), None)
