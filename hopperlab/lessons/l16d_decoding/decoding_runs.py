# SPDX-License-Identifier: Apache-2.0
"""Lesson 16d: decoding in the emulator: steps over small caches, behind the kernel that appends, the panel, and the check of the exercise."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...measure.launches import decoding as steps
from ...measure.launches.decoding import Choice
from ...measure.launches.decoding_plan import plan
from ...runtime.tables import text_table
from ...show import style
from .decoding_model import plan_picture
from .recorded import step_time

BLOCKS = 4                              # CTAs of what runs here
WAYS = {"in a line": 0, "1 a row": 1, "2 a row": 2, "4 a row": 4}


def _fresh() -> Any:
    """The emulator's array module, when everything launched before is over, so that launches are counted from here."""
    import hopperlab as hl

    hl.synchronize("emulator")
    return hl.array_module("emulator")


def _run(step: steps.Decoding, landing: str) -> tuple[bool, Any]:
    import hopperlab as hl

    with hl.emulate(schedule=landing, hazards="collect") as run, hl.Stream(backend="emulator") as stream:
        step(dependent=True)
        stream.synchronize()
    return step.right(), run


def run_decoding(lengths: Sequence[int] = (200, 70), page: int = 64, splits: int = 0, gather: int = 0, landing: str = "lazy", options: Sequence[str] = (),
                 blocks: int = BLOCKS,
                 **given: Any) -> tuple[bool, Any]:
    """(right, session) of a step in the emulator: 8 query heads over one of k and v, unless `given` (what measure's `operands` takes) says otherwise."""
    made = steps.operands(_fresh(), lengths, page=page, **given)
    return _run(steps.decode(made, Choice(gather=gather, splits=splits, blocks=blocks), options, "emulator"), landing)


def behind(lengths: Sequence[int] = (65, 100), page: int = 64, options: Sequence[str] = ()) -> steps.Decoding:
    """A step behind append.cu: the cache lacks its newest tokens, and the table the pages that they begin."""
    made = steps.operands(_fresh(), lengths, page=page)
    new: list[np.ndarray] = []
    fresh = np.zeros(len(lengths), np.int32)
    for pages in made.pages:
        new.append(np.stack([pages[made.table[i, (n - 1) // page], :, (n - 1) % page].copy() for i, n in enumerate(lengths)]))
        for i, n in enumerate(lengths):
            pages[made.table[i, (n - 1) // page], :, (n - 1) % page] = steps.NAN
    for i, n in enumerate(lengths):
        if n % page == 1:
            fresh[i], made.table[i, (n - 1) // page] = made.table[i, (n - 1) // page], 0
    return steps.appended(steps.decode(made, Choice(blocks=BLOCKS), options, "emulator"), new[0], new[1], fresh, "emulator")


def run_behind(landing: str = "lazy", options: Sequence[str] = (), lengths: Sequence[int] = (65, 100)) -> tuple[bool, Any]:
    """(right, session): append, decode and combine, each a dependent launch behind the one in front."""
    return _run(behind(lengths, options=options), landing)


def pages_table(length: int = 200) -> str:
    """A line for each page size and way to fetch it: whether the step is right, what is named, and how many copies it takes."""
    rows = []
    for page, gather in ((16, 0), (32, 0), (64, 0), (128, 0), (64, 1), (5, 1), (1, 1)):
        right, run = run_decoding((length,), page, gather=gather, blocks=1)
        counts = run.counters
        rows.append((page, "gather, cp.async" if gather else "boxes of a tensor map", counts["tma_loads"], counts["cp_async_requests"], "yes" if right else "no",
                     len(run.hazards)))
    return "\n".join(text_table("{:>12} {:22} {:>10} {:>18} {:>6} {:>8}", rows, ("keys a page", "fetched as", "TMA loads", "cp.async of warps", "right", "hazards")))


def launch_decoding(batch: int, length: int, page: int, splits: str, landing: str = "lazy") -> style.Picture:
    """The panel: a step in the emulator, each further sequence half as long as the one before; who reads what. splits: of WAYS."""
    lengths = [max(1, length >> i) for i in range(batch)]
    right, run = run_decoding(lengths, page, WAYS[splits], landing=landing, heads=16, kv_heads=2)
    _alone(lengths, page, WAYS[splits])
    made = plan(lengths, 2, BLOCKS, WAYS[splits])
    loads = run.counters["tma_loads"]
    told = f"result {'right' if right else 'WRONG'}, {run.hazards[0].kind if run.hazards else 'no hazard'}; {loads} boxes loaded, {made.slots} parts to combine, "
    told += f"balance {made.balance * made.blocks / BLOCKS:.2f}" + (f" ({made.blocks} of {BLOCKS} CTAs have work)" if made.blocks < BLOCKS else "")
    return plan_picture(lengths, 2, BLOCKS, WAYS[splits], told, step_time())


def _alone(lengths: Sequence[int], page: int, splits: int) -> None:
    """The step's first kernel by itself: on a GPU a panel repeats and times what is launched without a stream."""
    import hopperlab as hl

    step = steps.decode(steps.operands(_fresh(), lengths, 16, 2, page=page), Choice(splits=splits, blocks=BLOCKS), backend="emulator")
    with hl.emulate(hazards="collect"):
        step.launches[0]()


def check_splits(answer: Sequence[int] | None) -> str:
    """The lesson's exercise: pieces a row for [one sequence; 32 sequences; 17 sequences] of equal length, 8 KV heads and 132 SMs, so that at least
    nine of ten SMs always work."""
    if answer is None:
        return "Not answered yet: write three numbers, such as [4, 4, 4], then run the cell again."
    if len(answer) != 3 or any(not isinstance(count, int) or count < 1 for count in answer):
        return f"{answer!r} is not three numbers of at least 1."
    for sequences, count in zip((1, 32, 17), answer, strict=True):
        busy = _busy(sequences, count)
        if busy < 0.9:
            return f"Not yet: with {sequences} sequences and {count} pieces a row, {busy:.0%} of the SMs' time is spent reading."
        fewest = next(n for n in range(1, 200) if _busy(sequences, n) >= 0.9)
        if count > fewest:
            return f"Not yet: with {sequences} sequences {count} pieces a row are enough ({busy:.0%}), but fewer are too, and every piece leaves a part to combine."
    return "Right: as few pieces as keep nine of ten SMs at work."


def _busy(sequences: int, count: int, tiles: int = 4096) -> float:
    made = plan([64 * tiles] * sequences, 8, splits=count)
    return made.balance * made.blocks / 132
