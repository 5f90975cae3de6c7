# SPDX-License-Identifier: Apache-2.0
"""Running a Python answer in a child process that returns data, and comparing what it returned.

The child gets the answer's text and the arguments as JSON and prints the values as JSON; nothing of the answer runs in this process.
`run` uses a plain child with limits; a grader passes the same text through its sandbox (sandbox.py).
"""
from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .value_words import Words, Wrong, sentence

SECONDS = 20
MOST_OUTPUT = 1_000_000
CHILD = Path(__file__).with_name("python_child.py")


class AnswerFailed(Exception):
    """The answer raised, did not end, or returned what is no plain data."""


def run(text: str, name: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Call the function `name` of the answer once for each tuple of arguments; returns the values. Raises AnswerFailed."""
    try:
        done = subprocess.run(command(), input=request(text, name, arguments), capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise AnswerFailed(f"{name} did not return within {SECONDS} s.") from None
    return values(name, done.stdout, len(arguments))


def command() -> list[str]:
    """The child's command line."""
    return [sys.executable, "-I", "-B", str(CHILD)]


def request(text: str, name: str, arguments: Sequence[tuple[Any, ...]]) -> str:
    """What the child reads from standard input."""
    return json.dumps({"text": text, "name": name, "arguments": [list(given) for given in arguments]})


def values(name: str, printed: str, count: int) -> list[Any]:
    """What the child's standard output says: the values, or AnswerFailed with the reason."""
    try:
        answer = json.loads(printed[:MOST_OUTPUT].strip().rpartition("\n")[2])
    except (ValueError, RecursionError):
        raise AnswerFailed(f"{name} ended without returning values.") from None
    if not isinstance(answer, dict) or "error" in answer:
        said = str(answer.get("error") or "") if isinstance(answer, dict) else ""
        raise AnswerFailed(said[:2000] or f"{name} returned no values.")
    found = answer.get("values")
    if not isinstance(found, list) or len(found) != count:
        raise AnswerFailed(f"{name} returned no values.")
    return found


def first_wrong(value: Any, expected: Any, tolerance: float = 0.0, path: tuple[int, ...] = ()) -> Wrong | None:
    """The first place where two values of plain data differ, or None when they agree. Lists of different lengths differ as a whole."""
    if isinstance(expected, (list, tuple)):
        if not isinstance(value, list) or len(value) != len(expected):
            return Wrong(path, value, expected)
        pairs = enumerate(zip(value, expected))
        return next(filter(None, (first_wrong(a, b, tolerance, (*path, i)) for i, (a, b) in pairs)), None)
    number = isinstance(expected, (int, float)) and not isinstance(expected, bool)
    if number and isinstance(value, (int, float)) and not isinstance(value, bool):
        if value == expected or tolerance and _close(value, expected, tolerance):
            return None
    elif type(value) is type(expected) and value == expected:
        return None
    return Wrong(path, value, expected)


def difference(value: Any, expected: Any, tolerance: float = 0.0, words: Words | None = None, arguments: tuple[Any, ...] = (),
               setting: Mapping[str, Any] | None = None) -> str:
    """Where two values of plain data differ first, in words that follow the call ('returned …, expected …'); '' when they agree.

    words: how the exercise names its places (value_words.py), given the call's arguments and the exercise's constants.
    """
    wrong = first_wrong(value, expected, tolerance)
    return sentence(replace(wrong, arguments=arguments, setting=setting or {}), words) if wrong else ""


def _close(value: float, expected: float, tolerance: float) -> bool:
    try:
        return math.isfinite(value) and abs(value - expected) <= tolerance * max(1.0, abs(expected))
    except OverflowError:                                # an integer too large for a float
        return False

