# SPDX-License-Identifier: Apache-2.0
"""Estimates of everything that was recorded and can be made again, beside the measurement: what accuracy.py stores, and the tables of docs/estimates.md."""
from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ..emulator import EmulatorError
from ..measure import recordings
from ..runtime.errors import HopperlabError
from ..runtime.tables import counted
from . import accuracy, estimating, recorded, sample
from .chip import simulate
from .clock import megahertz
from .boards import H200, Board
from .accuracy import Row
from .recorded import Case

MARKS = ("<!-- {0}: begin (hopperlab estimate --judge) -->", "<!-- {0}: end -->")


def judge(case: Case, board: Board = H200) -> Row | None:
    """A measurement's row; None for a record that cannot be made again. Raises what the emulator raises, and
    LaunchError where `hl.estimate` has none: a sample whose CTAs wait for others."""
    launch = case.make()
    if launch is None:
        return None
    planned, _kept = sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)
    run = simulate(estimating.sampled(planned, case.record.kernel), board)
    us = run.cycles / megahertz(run.busy, board) + board.number("launch_us")
    shape = "x".join(map(str, case.record.shape))
    return Row(case.name, case.recording, accuracy.family_of(run.busy), f"{case.recording} {shape} {case.record.dtype}", case.fitted, round(1000 * case.ms, 3),
               round(us, 3))


def judged(cases: Iterable[Case] | None = None, say: Callable[[str], object] = lambda line: None) -> Iterator[Row]:
    """Rows of all cases, each launch once; what fails is said and left out."""
    seen: dict[str, float] = {}
    for case in recorded.cases() if cases is None else cases:
        if case.name in seen:
            continue
        seen[case.name] = case.ms
        try:
            row = judge(case)
        except (HopperlabError, EmulatorError, ValueError) as problem:
            say(f"{case.name}: no estimate: {problem}")
            continue
        if row is not None:
            say(f"{row.name}: {row.measured:.1f} us measured, {row.estimated:.1f} estimated, {row.error:+.1%}")
            yield row


def pages() -> dict[str, str]:
    """The generated parts of docs/estimates.md, by the name between their marks."""
    head = "| measurements | count | mean error | nine of ten within | share within 12 % |\n|---|---|---|---|---|\n"
    lines = [f"| {name} | {count} | {mean:.1%} | {most:.1%} | {within:.0%} |" for name, count, mean, most, within in accuracy.table()]
    right, pairs = accuracy.ranking(row for row in accuracy.rows() if not row.fitted)
    ranked = (f"\n\nOf {counted(pairs, 'pair')} of held-out configurations (same recording, shape and type) whose times differ by more than 5 %, {right} are "
              f"ranked rightly: {right / max(1, pairs):.0%}.")
    constants = "\n".join(f"| `{name}` | {constant.value:g} | {constant.unit} | {constant.source} |" for name, constant in H200.constants.items())
    misses = "\n".join(f"| {_short(row.name)} | {row.measured:.1f} | {row.estimated:.1f} | {row.error:+.0%} |" for row in accuracy.worst())
    return {"errors": head + "\n".join(lines) + ranked, "constants": "| constant | value | unit | from |\n|---|---|---|---|\n" + constants,
            "misses": "| held-out measurement | measured, us | estimated, us | error |\n|---|---|---|---|\n" + misses}


def _short(name: str) -> str:
    return re.sub(r" bfloat16$", "", name.replace("|", "/"))


def into(text: str) -> str:
    """A page's text with its generated parts as they are now."""
    for name, part in pages().items():
        begin, end = (mark.format(name) for mark in MARKS)
        before, _begin, rest = text.partition(begin)
        _old, found, after = rest.partition(end)
        text = f"{before}{begin}\n{part}\n{end}{after}" if found else text
    return text


def write(page: Path | None = None) -> int:
    """Judge everything, store it, and bring the page up to date. Minutes. Returns how many measurements were judged."""
    found = list(judged(say=lambda line: print(line, file=sys.stderr)))
    accuracy.write(found)
    accuracy.rows.cache_clear()
    page = page or recordings.FOLDER.parent.parent / "docs" / "estimates.md"
    if page.is_file():
        page.write_text(into(page.read_text(encoding="utf-8")), encoding="utf-8")
    return len(found)
