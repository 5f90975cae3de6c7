# SPDX-License-Identifier: Apache-2.0
"""Estimates of the product ladder's steps, alone and as `hopperlab ladder --estimate` lists them."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ..emulator import EmulatorError
from ..measure.launches import gemm
from ..runtime.errors import HopperlabError
from ..runtime.tables import text_table
from . import boards
from .estimating import Estimate, estimate_launch
from .readings import stored


def shape_of(text: str) -> tuple[int, int, int]:
    """'4096' or '4096x7168x2048' as (m, n, k). Raises ValueError for anything else."""
    parts = text.split("x")
    if len(parts) not in (1, 3) or not all(part.isdigit() and int(part) for part in parts):
        raise ValueError(f"{text!r} is no size: 4096, or 4096x7168x2048 (m x n x k)")
    m, n, k = (int(part) for part in (parts * 3 if len(parts) == 1 else parts))
    return m, n, k


def estimate_step(step: str, shape: Sequence[int], options: Sequence[str] = (), board: str | None = None) -> Estimate:
    """A step of the ladder on a product of m x n x k. Raises ValueError for a step that there is not, and what `estimate` raises."""
    if step not in gemm.LADDER:
        raise ValueError(f"no step {step!r}; the ladder has {', '.join(gemm.LADDER)}")
    m, n, k = shape
    a, b, c = np.zeros((m, k), np.uint16), np.zeros((n, k), np.uint16), np.zeros((m, n), np.uint16)
    found = estimate_launch(gemm.launch(step, a, b, c, options=options, backend="emulator"), board)
    return replace(found, kernel=f"{step} at {m}x{n}x{k}")


def told(size: int, steps: Iterable[str] = tuple(gemm.LADDER), board: str | None = None) -> list[str]:
    """Lines of the ladder at size cubed: estimated and, where there is one, recorded milliseconds. board: None for boards.default()."""
    table = boards.board(board)
    known = {record.kernel: record.ms for record in stored("ladder", table.name) if record.shape == (size,) * 3 and not record.note and record.grid}
    rows = []
    for step in steps:
        measured = known.get(step)
        try:
            found = estimate_step(step, (size,) * 3, board=table.name)
        except (HopperlabError, EmulatorError, ValueError) as problem:
            rows.append((step, "–", "", f"{measured:.3f}" if measured else "–", "", str(problem).splitlines()[0][:90]))
            continue
        error = f"{found.us / 1000 / measured - 1:+.0%}" if measured else ""
        rows.append((step, f"{found.us / 1000:.3f}", f"{found.low_us / 1000:.3f} to {found.high_us / 1000:.3f}", f"{measured:.3f}" if measured else "–",
                     error, found.bound))
    head = ("step", "estimated ms", "range", "recorded ms", "off by", "bound by")
    return [f"An estimate for {size} cubed on an {table.name.upper()}, by a model of the SM on what the emulator saw; recorded: measured on one.",
            *text_table("{:<*}  {:>*}  {:<*}  {:>*}  {:>*}  {}", rows, head)]
