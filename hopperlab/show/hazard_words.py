# SPDX-License-Identifier: Apache-2.0
"""Hazards in words that are the same wherever the notebook runs: file names without folders, lines, kinds, in order."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from typing import Any

from ..emulator.hazards import render


def hazards(run: Any) -> str:
    """The hazards of a run (`hl.emulate(...) as run`), sorted by file, line and kind: kind and both source lines, each pair of lines once; its
    warnings in one more line."""
    found, doubts = _places(run.hazards), _places(run.warnings)
    doubted = f"{len(doubts)} warning{'s' * (len(doubts) != 1)}: {'; '.join(doubts)}" if doubts else ""
    if not found:
        return f"No hazard, {doubted}" if doubts else "No hazard: every access is ordered, whatever the landing order."
    lines = [f"{len(found)} hazard{'s' * (len(found) != 1)} named:", *(f"- {one}" for one in found)]
    return "\n".join([*lines, doubted] if doubts else lines)


def _places(found: Sequence[Any]) -> list[str]:
    """Kind and lines of each, in the order of lines, what reads the same once."""
    return list(dict.fromkeys(f"{hazard.kind} at {place(hazard.where)}" + (f", against {place(hazard.other)}" if hazard.other else "")
                              for hazard in sorted(found, key=lambda hazard: hazard.sort_key())))


def place(site: Any) -> str:
    """A source position as `file.cu:line`, without the folder; 'an unknown line' where the compiler left none."""
    return f"{os.path.basename(site.file)}:{site.line}" if site is not None else "an unknown line"


def lines_named(run: Any, file: str) -> Sequence[int]:
    """The line numbers of `file` that the run's hazards name at either end, for marking in a listing."""
    named = {site.line for hazard in run.hazards for site in (hazard.where, hazard.other)
             if site is not None and os.path.basename(site.file) == os.path.basename(file)}
    return sorted(named)


def explain(hazard: Any) -> str:
    """One hazard in full, in lines of 100 characters, without folders in its file names: what happened, where, against what, and what to do."""
    text = render.words(hazard, folders=False)
    return "\n".join(textwrap.fill(line, 100, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False) for line in text.split("\n"))
