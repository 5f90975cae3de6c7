# SPDX-License-Identifier: Apache-2.0
"""Lesson 04's exercise: the learner's lines put into mbarrier/two_slots.cu, run under every schedule and judged in words.

Unanswered, it answers with a hint, so that Run All goes through.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...emulator.hazards.causes import causes_first
from ...measure.launches.operands import folded
from ...show.hazard_words import explain

PLACES = ("init", "before_load", "before_reads", "after_reads")
SCHEDULES = (("lazy", 0), ("eager", 0), ("random", 1), ("random", 2), ("random", 3))
TILES = 9


def check_two_slots(init: str | None, before_load: str | None, before_reads: str | None, after_reads: str | None) -> str:
    """Run the ring with the learner's four pieces of CUDA and say what is wrong with it, or that nothing is.

    The pieces stand for the lines `// ANSWER …` of the kernel. The emulator runs it first, under five landings; where there is a
    GPU, a worker process with a time limit runs it there as well.
    """
    answers = dict(zip(PLACES, (init, before_load, before_reads, after_reads)))
    missing = [place for place, text in answers.items() if text is None]
    if missing:
        return f"Not answered yet: {', '.join(missing)}. Each is one or two lines of CUDA."
    import hopperlab as hl

    source = hl.kernel_source("mbarrier/two_slots.cu")
    for place, text in answers.items():
        source = source.replace(f"// ANSWER {place}\n", text.strip() + "\n")
    try:
        trouble = _in_emulator(source)
    except (hl.CompileError, hl.NoteError) as error:
        return str(error)
    return trouble or _on_gpu(source)


def _arrays() -> tuple[np.ndarray, np.ndarray]:
    x = (np.arange(512 * TILES) * 7 % 101).astype(np.float32)
    return x, np.full_like(x, np.nan)


def _in_emulator(source: str) -> str:
    import hopperlab as hl

    kernel = hl.RawModule(code=source, name="two_slots.cu", backend="emulator").get_function("fold")
    for schedule, seed in SCHEDULES:
        x, y = _arrays()
        with hl.emulate(schedule=schedule, seed=seed, hazards="collect") as run:
            kernel((2,), (160,), (x, y, np.int32(TILES)))
        if run.hazards:
            worst = causes_first(run.hazards)[0]
            more = f"\n({len(run.hazards) - 1} more after this one)" if len(run.hazards) > 1 else ""
            return f"Not yet. The emulator, with copies landing {schedule}:\n{explain(worst)}{more}"
        if not (y == folded(x)).all():
            return f"No hazard, but {int((y != folded(x)).sum())} of {y.size} sums are wrong with copies landing {schedule}."
        if schedule == "lazy" and not _overlaps(run):
            return "Right, but never two copies on their way at once: the second slot is not used as one. Who waits too early?"
    return ""


def _overlaps(run: Any) -> bool:
    """True when some block had two loads between issue and landing at once."""
    under_way: dict[int, int] = {}
    for event in run.timeline:
        if event.what in ("issue cp", "land cp"):
            under_way[event.block] = under_way.get(event.block, 0) + (1 if event.what == "issue cp" else -1)
            if under_way[event.block] == 2:
                return True
    return False


def _on_gpu(source: str) -> str:
    import hopperlab as hl

    right = "Right: no hazard and the right sums however the copies land, with two copies on their way at once"
    if hl.backend() != "gpu":
        return right + "."
    xp = hl.array_module()
    x, y = _arrays()
    there = xp.asarray(y)
    kernel = hl.RawModule(code=source, name="two_slots.cu").get_function("fold")
    try:
        hl.run_isolated(kernel, (2,), (160,), (xp.asarray(x), there, np.int32(TILES)), timeout=10)
    except hl.IsolatedError as error:
        return f"{right}; but the GPU did not finish: {error}"
    return right + ("; the GPU agrees." if (hl.asnumpy(there) == folded(x)).all() else "; but the GPU's sums differ.")
