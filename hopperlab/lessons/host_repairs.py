# SPDX-License-Identifier: Apache-2.0
"""Repairs of what a lesson breaks on the host: a Python function, such as one that makes a tensor map. They stand in a room's REPAIRS beside those of kernels
(repairs.py), and `%%repair` judges them the same way: an untouched cell says what is still wrong, and raises nothing.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

CELL = "repair.py"                  # what messages call the cell's lines


@dataclass(frozen=True)
class HostRepair:
    """One broken function.

    name: unique in its lesson. broken, reference: its lines as the learner finds them, and right; `hl` and `np` are there. function: its name.
    check: (function) -> '' where it is right, else what is wrong, after "Not repaired yet. ". right: what is said of a right one, after "Right: ".
    hint: one or two sentences, which do not give it away.
    """

    name: str
    function: str
    broken: str
    reference: str
    check: Callable[[Callable[..., Any]], str]
    right: str
    hint: str
    language: str = "python"

    def judge(self, lines: str) -> str:
        """One line that says that it is right, or what is wrong first. Raises SyntaxError for lines that are no Python."""
        import numpy as np

        import hopperlab as hl

        names: dict[str, Any] = {"hl": hl, "np": np}
        try:
            exec(compile(lines, CELL, "exec"), names)  # noqa: S102 - the learner's own lines, in the learner's own notebook
            made = names.get(self.function)
            wrong = self.check(made) if callable(made) else f"There is no function {self.function} in the cell."
        except SyntaxError:
            raise
        except Exception as problem:                            # whatever the learner's lines do
            wrong = f"{type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else ''}"
        return f"Not repaired yet. {wrong}" if wrong else f"Right: {self.right}"
