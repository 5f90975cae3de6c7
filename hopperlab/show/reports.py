"""Hazards and launches in words that are the same wherever the notebook runs: file names without folders, lines, kinds, in order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def hazards(run: Any) -> str:
    """The hazards of a run (`hl.emulate(...) as run`), sorted by file, line and kind: kind, both source lines, and the message."""
    found = sorted(run.hazards, key=lambda hazard: hazard.sort_key())
    if not found:
        return "No hazard: every access is ordered, whatever the landing order."
    lines = [f"{len(found)} hazard{'s' if len(found) > 1 else ''} named:"]
    for hazard in found:
        lines.append(f"- {hazard.kind} at {place(hazard.where)}" + (f", against {place(hazard.other)}" if hazard.other else ""))
    return "\n".join(lines)


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
    text = str(hazard)
    for site in (hazard.where, hazard.other):
        if site is not None and os.path.dirname(site.file):
            text = text.replace(site.file, os.path.basename(site.file))
    return "\n".join(textwrap.fill(line, 100, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False) for line in text.split("\n"))


@contextmanager
def kindest_place() -> Iterator[Any]:
    """Launches inside the block run on the GPU where there is one; else in the emulator with every copy landing at once and hazards kept quiet."""
    import hopperlab as hl

    if hl.backend() == "gpu":
        yield None
        return
    with hl.emulate(schedule="eager", hazards="collect") as run:
        yield run


def doctor() -> str:
    """What `hopperlab doctor` prints on this machine, with folders left out of its paths (stored outputs name no machine's folders)."""
    done = subprocess.run([sys.executable, "-m", "hopperlab", "doctor"], capture_output=True, text=True, check=False)
    return re.sub(r"(?:/[\w.-]+)+/(?=[\w.-])", "…/", done.stdout + done.stderr).rstrip()
