# SPDX-License-Identifier: Apache-2.0
"""What a message says of the first wrong value that a Python answer returned: where it stands, both numbers, and what they have to do with each other.

An exercise may name its places and likely causes: a room's exercise_words.py gives a function from Wrong to Told for each (lessons/catalogue.py finds it).
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_SHOWN = 120           # characters of one value
MOST_ITEMS = 6             # of a list among the arguments that are all shown


@dataclass(frozen=True)
class Wrong:
    """The first wrong value. path: its indices in what was returned; setting: the exercise's constants."""

    path: tuple[int, ...]
    value: Any
    expected: Any
    arguments: tuple[Any, ...] = ()
    setting: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Told:
    """What an exercise knows of a place: its name, how a number there is written, and why this value may have come out."""

    place: str = ""
    written: Callable[[Any], str] = repr
    cause: str = ""


Words = Callable[[Wrong], Told]


def call(name: str, arguments: Sequence[Any]) -> str:
    """The call as a message shows it; of long lists only the first items and how many there are."""
    return f"{name}({', '.join(map(_argument, arguments))})"


def _argument(value: Any) -> str:
    if isinstance(value, (list, tuple)) and len(value) > MOST_ITEMS:
        return f"[{', '.join(map(_item, value[:2]))}, … {len(value)} in all]"
    return repr(value)


def _item(value: Any) -> str:
    """One of a long list, itself cut where it is one."""
    return f"[{', '.join(map(repr, value[:2]))}, …]" if isinstance(value, (list, tuple)) and len(value) > MOST_ITEMS else repr(value)


def sentence(wrong: Wrong, words: Words | None = None) -> str:
    """'returned 1024 (0x400) at [0], the start address, expected 64 (0x40): …': follows the call."""
    told = words(wrong) if words else Told()
    at = "".join(f"[{index}]" for index in wrong.path)
    where = (f" at {at}" if at else "") + (f", {told.place}" if told.place else "")
    if isinstance(wrong.expected, (list, tuple)):
        count = f"{_values(len(wrong.value))}, " if isinstance(wrong.value, list) else ""
        return f"returned {count}{short(wrong.value)}{where}, expected {_values(len(wrong.expected))} like {short(list(wrong.expected))}"
    value, expected = (told.written(number) if _number(number) else short(number) for number in (wrong.value, wrong.expected))
    cause = told.cause or factor(wrong.value, wrong.expected)
    return f"returned {value}{where}, expected {expected}" + (f": {cause}" if cause else "")


def factor(value: Any, expected: Any) -> str:
    """What two whole numbers say by themselves: one is the other times an element's bytes, or times 16."""
    if not all(_number(number) and isinstance(number, int) and number > 0 for number in (value, expected)) or min(value, expected) < 16:
        return ""
    for times, unit in ((16, "units of 16 bytes"), (2, "elements of 2 bytes"), (4, "elements of 4 bytes"), (8, "elements of 8 bytes")):
        if value == times * expected:
            return f"{times} times as much; bytes where {unit} are asked for, perhaps"
        if expected == times * value:
            return f"{times} times too little; {unit} where bytes are asked for, perhaps"
    return ""


def hexadecimal(value: Any) -> str:
    """'0x428e (17038)'; what is no whole number as Python writes it."""
    return f"{value:#x} ({value})" if isinstance(value, int) and not isinstance(value, bool) else repr(value)


def binary(value: Any) -> str:
    """'0b101 (5)', for masks; what is no whole number as Python writes it."""
    return f"{value:#b} ({value})" if isinstance(value, int) and not isinstance(value, bool) else repr(value)


def short(value: Any) -> str:
    """A value as Python writes it, cut where it is long."""
    try:
        text = repr(value)
    except RecursionError:
        return "lists nested too deeply to be shown"
    return text if len(text) < MOST_SHOWN else text[:MOST_SHOWN - 3] + "…"


def _values(count: int) -> str:
    return f"{count} value{'s' if count != 1 else ''}"


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
