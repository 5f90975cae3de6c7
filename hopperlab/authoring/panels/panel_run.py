# SPDX-License-Identifier: Apache-2.0
"""`python -m hopperlab.authoring panels`: the outcomes of many panels, several at once, and what is said of them meanwhile."""

from __future__ import annotations

import concurrent.futures
import math
import multiprocessing
import os
import sys
import time
from pathlib import Path

from ...runtime.progress import Bar
from . import panel_cells, panel_grids, panel_outcomes
from .panel_outcomes import Panel, PanelError

FORM = "{desc} |{bar}| {n_fmt} of {total_fmt} panels"


def run(lessons: list[str] | None = None, seconds: float | None = None, jobs: int | None = None, folder: Path = panel_outcomes.FOLDER) -> int:
    """Compute the panels of these lessons (all when none is named), those with the fewest settings first, within `seconds`; 1 when one failed."""
    until = time.time() + (seconds or math.inf)
    try:
        open_ = [panel for panel in panel_cells.cells(lessons) if panel_outcomes.usable(panel, folder) is None]
    except FileNotFoundError as problem:
        print(problem, file=sys.stderr)
        return 1
    there = len(list(panel_cells.cells(lessons))) - len(open_)
    bar, failed, complete = Bar(FORM, len(open_) + there, done=there), 0, there
    workers = min(jobs or os.cpu_count() or 1, max(1, len(open_)))
    # Each in a process of its own that asks for the emulator, whatever this machine has: a panel's picture comes from there.
    with concurrent.futures.ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _emulator) as pool:
        sizes = dict(zip((panel.name for panel in open_), pool.map(_size, open_), strict=True))
        for done in concurrent.futures.as_completed([pool.submit(_compute, panel, folder, until) for panel in sorted(open_, key=lambda panel: sizes[panel.name])]):
            try:
                name, panel, took = done.result()
            except PanelError as problem:
                failed += 1
                print(problem, file=sys.stderr, flush=True)
                continue
            complete += panel.complete
            if took:
                bar.tell(complete, _words(name, panel, took))
    bar.close()
    print(f"{complete} of {len(open_) + there} panels have every setting" + (f", {failed} failed" if failed else "") + f" ({folder})")
    return 1 if failed else 0


def _emulator() -> None:
    os.environ["HOPPERLAB_BACKEND"] = "emulator"


def _compute(panel: panel_cells.PanelCell, folder: Path, until: float) -> tuple[str, Panel, float]:
    """In a worker: the panel's name, what there is of it, and the seconds that took (0 where no time was left to begin)."""
    began = time.time()
    if began >= until:
        return panel.name, Panel("", [], -1), 0.0
    return panel.name, panel_outcomes.compute(panel, folder, until), time.time() - began


def _size(panel: panel_cells.PanelCell) -> int:
    """In a worker: how many settings the panel's grid has; for a panel whose cells fail, the most that it may have."""
    try:
        return panel_grids.size(panel_grids.grid(panel.name, panel_cells.load(panel)[1]))
    except Exception:                   # computing it says what is wrong
        return panel_grids.MOST


def _words(name: str, panel: Panel, took: float) -> str:
    refused = sum(not one.picture for one in panel.outcomes.values())
    state = f"{panel.settings} settings" if panel.complete else f"{len(panel.outcomes)} of {panel.settings} settings so far"
    return f"{name}: {state}, {refused} not launched, {took:.0f} s"
