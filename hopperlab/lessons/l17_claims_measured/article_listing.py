# SPDX-License-Identifier: Apache-2.0
"""Lesson 17: the findings on the claims, and the listing from an article with any of its repairs: runs, what is left, and the check."""
from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...emulator.hazards.causes import causes_first
from ...measure.claims import claims
from ...measure.launches.article import REPAIRS, article
from ...show import style


def claims_report(numbers: Iterable[int] | None = None) -> str:
    """What was found on each claim (all, or those of `numbers`), from the recordings: figures, verdict, lesson."""
    return claims.report(numbers=numbers)


def verdicts() -> str:
    """Every claim's number and its verdict, one per line; computed from the recordings."""
    return "\n".join(f"{number:2d}  {finding.verdict}" for number, (_, finding) in claims.settle().items())


def verdict_chart() -> style.Picture:
    """How many claims hold, hold under a condition, do not hold, and cannot be settled."""
    counts = claims.tally()
    figure, (axis,) = style.new_figure(2.3)
    colours = (style.GREEN, style.ORANGE, style.VERMILION, style.FAINT)
    axis.barh(range(len(counts)), list(counts.values()), color=colours, height=0.65)
    axis.set_yticks(range(len(counts)), list(counts))
    axis.invert_yaxis()
    for row, count in enumerate(counts.values()):
        axis.text(count + 0.2, row, str(count), va="center", fontsize=10, color=style.INK)
    axis.set_xlim(0, max(counts.values()) * 1.12)
    axis.set_xlabel("claims")
    style.title(axis, f"{sum(counts.values())} claims, settled")
    return style.Picture(figure, "\n".join(f"{name}: {count}" for name, count in counts.items()))


def run_article(repairs: Sequence[str] = (), schedule: str = "lazy", k: int = 512) -> tuple[bool, Any]:
    """(right, session) of the listing with these repairs in the emulator, on small integers."""
    from ml_dtypes import bfloat16

    import hopperlab as hl

    random = np.random.default_rng(17)
    a, b = (random.integers(-2, 3, (64, k)).astype(bfloat16) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    with warnings.catch_warnings():                             # ptxas mends the missing wgmma.fence and says so
        warnings.simplefilter("ignore")
        launch = article(a, b, c, repairs, backend="emulator")
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        launch()
    return bool((c == a.astype(np.float32) @ b.astype(np.float32).T).all()), run


def loads_in_flight(run: Any) -> int:
    """The most copies into shared memory that were under way at once: what a pipeline is for."""
    flying = most = 0
    for event in run.timeline:
        flying += {"issue cp": 1, "land cp": -1}.get(event.what, 0)
        most = max(most, flying)
    return most


def remaining(repairs: Sequence[str]) -> str:
    """What is still wrong with these repairs in the lazy schedule: the result and the loads in flight, and on a second line the hazards."""
    right, run = run_article(repairs)
    kinds = ", ".join(sorted({hazard.kind for hazard in run.hazards})) or "no hazard"
    return f"right: {right}; at most {loads_in_flight(run)} loads in flight\n    {kinds}"


def check_repairs(repairs: Sequence[str] | None) -> str:
    """Lesson 17's exercise: the fewest repairs that make the listing right, clean under every schedule, and a pipeline again."""
    if repairs is None:
        return f"Not answered yet: choose from {', '.join(REPAIRS)}, then run the cell again."
    unknown = sorted(set(repairs) - set(REPAIRS))
    if unknown:
        return f"There is no repair {', '.join(unknown)}; choose from {', '.join(REPAIRS)}."
    for schedule in ("lazy", "eager", "random"):
        right, run = run_article(repairs, schedule)
        if run.hazards:
            from ...show.hazard_words import explain
            return f"Not yet ({schedule}): {len(run.hazards)} hazards. The first:\n{explain(causes_first(run.hazards)[0])}"
        if not right:
            return f"Not yet ({schedule}): no hazard, and a wrong product."
    most = loads_in_flight(run_article(repairs)[1])
    if most < 4:
        return f"Right, and no pipeline: at most {most} loads are under way at once, those of one stage. Who waits for what he has just asked for?"
    return f"Right: clean under every schedule, and {most} loads are under way at once."
