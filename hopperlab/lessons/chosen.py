# SPDX-License-Identifier: Apache-2.0
"""Questions that are answered by the letters of the right lines, before the lesson's own words: is there an answer, and does it name lines that exist?"""
from __future__ import annotations

from collections.abc import Collection

BETWEEN = " ,;"                     # what may stand between letters: 'a, b' is 'ab'


def unreadable(letters: Collection[str] | None, lines: Collection[str]) -> str:
    """What is said of an answer that cannot be judged: none yet, or a letter that is not among `lines`; '' for any other."""
    if letters is None:
        return "Not answered yet: write the letters, such as 'ab', then run the cell again."
    unknown = sorted(set("".join(letters)) - set(lines) - set(BETWEEN))
    return f"There is no line {unknown[0]!r}; there are {', '.join(lines)}." if unknown else ""
