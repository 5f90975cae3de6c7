# SPDX-License-Identifier: Apache-2.0
"""The 43 claims that lesson 17 settles: what is said, what was measured, and a verdict that is computed from the data.

`settle(data)` gives a Finding for each claim; the functions behind it are in copies.py, shared.py, tensor.py and pipelines.py beside
this file. Change a recording and a verdict may change: nothing here is typed in.
"""
from __future__ import annotations

import textwrap
from collections.abc import Iterable

from . import copies, pipelines, shared, tensor
from .claim import FALSE, HOLDS, OPEN, Claim, Data, Finding
from .sources import source_of

NEEDED = ("micro", "variants", "copies", "tma_vs_cp_async", "stages", "bugs", "roles", "peers")


def claims() -> tuple[Claim, ...]:
    """Every claim, in order."""
    return (*copies.CLAIMS, *shared.CLAIMS, *tensor.CLAIMS, *pipelines.CLAIMS)


def settle(data: Data | None = None, numbers: Iterable[int] | None = None) -> dict[int, tuple[Claim, Finding]]:
    """Claim number -> (claim, finding), of all claims or of `numbers`."""
    data = data or Data()
    wanted = None if numbers is None else set(numbers)
    return {claim.number: (claim, claim.settle(data)) for claim in claims() if wanted is None or claim.number in wanted}


def report(data: Data | None = None, numbers: Iterable[int] | None = None, columns: int = 110) -> str:
    """The findings as text: number, claim, where it is said, figures, verdict and lesson; no line longer than `columns`."""
    lines = []
    for number, (claim, finding) in settle(data, numbers).items():
        for text, first, rest in ((claim.text, f"{number:2d}. ", 4), (f"({source_of(number)})", "    ", 5), (finding.figures, "    ", 4),
                                  (f"{finding.verdict}  (lesson\xa0{claim.lesson})", "    -> ", 7)):
            lines += textwrap.wrap(text, columns, initial_indent=first, subsequent_indent=rest * " ", break_long_words=False)
    return "\n".join(lines).replace("\xa0", " ")


def tally(data: Data | None = None) -> dict[str, int]:
    """How many claims hold, hold under a condition, do not hold, and cannot be settled."""
    counts = {HOLDS: 0, "holds when …": 0, FALSE: 0, OPEN: 0}
    for _, finding in settle(data).values():
        counts[finding.verdict if finding.verdict in counts else "holds when …"] += 1
    return counts
