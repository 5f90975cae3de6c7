# SPDX-License-Identifier: Apache-2.0
"""Estimates of everything that was recorded and can be made again, beside the measurement: what accuracy.py stores, and the tables of docs/estimates.md."""
from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..emulator import EmulatorError
from ..measure import recordings
from ..runtime.errors import HopperlabError
from ..runtime.tables import counted
from . import accuracy, boards, estimating, recorded, sample
from .chip import simulate
from .clock import megahertz
from .boards import Board
from .accuracy import Row
from .recorded import Case

if TYPE_CHECKING:
    from .sample import Sample

MARKS = ("<!-- {0}: begin (hopperlab estimate --judge) -->", "<!-- {0}: end -->")


def judge(case: Case, board: Board) -> Row | None:
    """A measurement's row; None for a record that cannot be made again. Raises what the emulator raises, and
    LaunchError where `hl.estimate` has none: a sample whose CTAs wait for others."""
    launch = case.make()
    if launch is None:
        return None
    planned, _kept = sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)
    return row(case, estimating.sampled(planned, case.record.kernel), board)


def row(case: Case, found: Sample, board: Board) -> Row:
    """The row of a measurement whose launch was sampled."""
    run = simulate(found, board)
    us = run.cycles / megahertz(run.busy, board, run.cycles) + board.number("launch_us")
    shape = "x".join(map(str, case.record.shape))
    return Row(case.name, case.recording, accuracy.family_of(run.busy), f"{case.recording} {shape} {case.record.dtype}", case.fitted, round(1000 * case.ms, 3),
               round(us, 3))


def judged(board: Board, cases: Iterable[Case] | None = None, say: Callable[[str], object] = lambda line: None) -> Iterator[Row]:
    """Rows of all cases, each launch once; what fails is said and left out."""
    seen: dict[str, float] = {}
    for case in recorded.cases(board=board.name) if cases is None else cases:
        if case.name in seen:
            continue
        seen[case.name] = case.ms
        try:
            found = judge(case, board)
        except (HopperlabError, EmulatorError, ValueError) as problem:
            say(f"{case.name}: no estimate: {problem}")
            continue
        if found is not None:
            say(f"{found.name}: {found.measured:.1f} us measured, {found.estimated:.1f} estimated, {found.error:+.1%}")
            yield found


def pages() -> dict[str, str]:
    """The generated parts of docs/estimates.md, by the name between their marks."""
    return {"errors": _errors(), "misses": _misses(), "constants": _constants()}


def _errors() -> str:
    known = {name: {what: cells for what, *cells in accuracy.table(accuracy.rows(name))} for name in boards.TITLES}
    titles = " | ".join(f"{name.upper()} | mean error | nine of ten within | share within 12 %" for name in known)
    lines = [f"| measurements | {titles} |", "|---|" + "---|" * 4 * len(known)]
    for what in dict.fromkeys(what for table in known.values() for what in table):
        cells = [_cells(*table[what]) if what in table else "– | – | – | –" for table in known.values()]
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n\n" + " ".join(_ranked(name) for name in known)


def _cells(count: int, mean: float, most: float, within: float) -> str:
    return f"{count} | {mean:.1%} | {most:.1%} | {within:.0%}"


def _ranked(name: str) -> str:
    right, pairs = accuracy.ranking(row for row in accuracy.rows(name) if not row.fitted)
    return (f"{name.upper()}: of {counted(pairs, 'pair')} of held-out configurations (same recording, shape and type) whose times differ by more than 5 %, {right} "
            f"are ranked rightly: {right / max(1, pairs):.0%}.")


def _misses() -> str:
    lines = ["| board | held-out measurement | measured, us | estimated, us | error |", "|---|---|---|---|---|"]
    lines += [f"| {name.upper()} | {_short(row.name)} | {row.measured:.1f} | {row.estimated:.1f} | {row.error:+.0%} |"
              for name in boards.TITLES for row in accuracy.worst(name)]
    return "\n".join(lines)


def _constants() -> str:
    first, *others = map(boards.board, boards.TITLES)
    lines = [f"| constant | {' | '.join(b.name.upper() for b in (first, *others))} | unit | from |", "|---|" + "---|" * (3 + len(others))]
    for name, constant in first.constants.items():
        values = " | ".join(f"{b.number(name):.4g}" for b in (first, *others))
        moved = "".join(f"; {b.name.upper()}: {b.constants[name].source}" for b in others if boards.own(name, b.name))
        lines.append(f"| `{name}` | {values} | {constant.unit} | {constant.source}{moved} |")
    return "\n".join(lines)


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


def write(board: str, page: Path | None = None) -> int:
    """Judge everything that was recorded on a board, store it, and bring the page up to date. Minutes. Returns how many measurements were judged."""
    found = list(judged(boards.board(board), say=lambda line: print(line, file=sys.stderr)))
    accuracy.write(found, accuracy.JUDGED / f"{board}.json")
    accuracy.rows.cache_clear()
    page = page or recordings.FOLDER.parent.parent / "docs" / "estimates.md"
    if page.is_file():
        page.write_text(into(page.read_text(encoding="utf-8")), encoding="utf-8")
    return len(found)
