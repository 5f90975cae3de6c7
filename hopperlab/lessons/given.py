# SPDX-License-Identifier: Apache-2.0
"""What a learner wrote into the cell of a small exercise, before its check computes with it: a wrong form is told in a sentence, not by a traceback."""
from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any


def no_number(given: Any) -> str:
    """'' for a number (of Python, NumPy, fractions), else what to write instead."""
    if isinstance(given, Real) and not isinstance(given, bool):
        return ""
    if isinstance(given, str):
        return f"{given!r} is a text: write the number without quotes"
    return f"{given!r} is no number"


def no_whole_numbers(given: Any, count: int) -> str:
    """'' for a sequence of `count` whole numbers, else what to write instead."""
    if isinstance(given, Sequence) and not isinstance(given, str) and len(given) == count and not any(no_number(one) or one != int(one) for one in given):
        return ""
    return f"{given!r} is not {count} whole numbers: write them in brackets, with commas between them"
