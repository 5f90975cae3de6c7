# SPDX-License-Identifier: Apache-2.0
"""The marked regions of a solution notebook: `BEGIN SOLUTION` … `END SOLUTION`, and `BEGIN HIDDEN TESTS` … `END HIDDEN TESTS`.

The marks stand in comments of whatever the cell holds, Python or CUDA. Inside a solution a line that begins with `#>` or `//>` is
the learner's: it stays, without the mark, when the rest is taken out.
"""
from __future__ import annotations

import re

SOLUTION, HIDDEN = "SOLUTION", "HIDDEN TESTS"
STUB = re.compile(r"^(\s*)(?://|#)>(?: (.*)|)$")
ASKS = {"//": "// your code here", "#": "# your code here"}


class RegionError(ValueError):
    """A mark without its partner."""


def without_solutions(text: str) -> str:
    """The cell as a learner gets it: each solution replaced by its `//>` lines, or by one line that asks for code."""
    return _replaced(text, SOLUTION, _stub)


def without_hidden(text: str) -> str:
    """The cell without its hidden checks; where nothing else was in it, one comment says what the grader runs here."""
    left = _replaced(text, HIDDEN, lambda _inside, _mark: []).strip("\n")
    return left or "# Hidden checks: the grader tries other shapes and seeds here."


def has(text: str, region: str) -> bool:
    """True when the cell holds such a region."""
    return f"BEGIN {region}" in text


def solution_without_stubs(text: str) -> str:
    """A solution as somebody would hand it in: no marks, no `//>` lines."""
    lines = [line for line in text.split("\n") if not STUB.match(line)]
    return "\n".join(line for line in lines if f"BEGIN {SOLUTION}" not in line and f"END {SOLUTION}" not in line)


def _stub(inside: list[str], mark: str) -> list[str]:
    kept = [match for match in map(STUB.match, inside) if match]
    if kept:
        return [f"{match[1]}{match[2] or ''}".rstrip() for match in kept]
    first = next((line for line in inside if line.strip()), "")
    return [first[:len(first) - len(first.lstrip())] + ASKS[mark]]


def _replaced(text: str, region: str, replacement) -> str:
    kept: list[str] = []
    inside: list[str] | None = None
    mark = "#"
    for number, line in enumerate(text.split("\n"), 1):
        if f"BEGIN {region}" in line:
            if inside is not None:
                raise RegionError(f"line {number}: BEGIN {region} inside another one")
            inside, mark = [], "//" if line.lstrip().startswith("//") else "#"
        elif f"END {region}" in line:
            if inside is None:
                raise RegionError(f"line {number}: END {region} without a BEGIN")
            kept += replacement(inside, mark)
            inside = None
        else:
            (kept if inside is None else inside).append(line)
    if inside is not None:
        raise RegionError(f"BEGIN {region} is never ended")
    return "\n".join(kept)
