# SPDX-License-Identifier: Apache-2.0
"""Numbers that last as long as their block is being read: what stands behind a Python answer in the run that asks whether it reads each block once.

Runs in the answer's child process (fleeting.py appends its text to the answer's), so it imports nothing of this package.
"""
from collections.abc import Callable, Sequence
from typing import Any

WRONG_BY = 2.0                 # what is added to a number whose block has been left


class Reading:
    """Which block is being read, and which ones have been left."""

    def __init__(self) -> None:
        self.now: Any = None
        self.left: set[Any] = set()

    def here(self, block: Any) -> bool:
        """Whether a number of this block is still what it was. Reading one of another block leaves the block before."""
        if block in self.left:
            return False
        if self.now is not None and self.now != block:
            self.left.add(self.now)
        self.now = block
        return True


class Fleeting(float):
    """A number of a block, or a multiple of one. Comparing it, adding and subtracting read it; a comparison with an infinity asks only whether it is one.

    The largest of a block lasts: a running maximum is made of those.
    """

    reading: Reading
    block: Any
    lasts: bool
    __hash__ = float.__hash__

    def __neg__(self) -> "Fleeting":
        """No reading."""
        return self.alike(float.__neg__(self))

    def alike(self, value: float) -> "Fleeting":
        """Another number of the same place."""
        made = Fleeting(value)
        made.reading, made.block, made.lasts = self.reading, self.block, self.lasts
        return made

    def read(self) -> float:
        """What it is now."""
        value = float.__add__(self, 0.0)
        if self.lasts and self.block in self.reading.left or self.reading.here(self.block) or self.lasts:
            return value
        return value + WRONG_BY


def _plain(value: Any) -> Any:
    return value.read() if isinstance(value, Fleeting) else value


def _reads(name: str) -> Callable[..., Any]:
    def method(self: Fleeting, other: Any) -> Any:
        if not isinstance(other, Fleeting) and other in (float("inf"), float("-inf")):
            return getattr(float, name)(self, other)
        return getattr(float, name)(self.read(), _plain(other))
    return method


def _scales(name: str) -> Callable[..., Any]:
    def method(self: Fleeting, other: Any) -> Any:
        if isinstance(other, Fleeting):
            return getattr(float, name)(self.read(), other.read())
        made = getattr(float, name)(self, other)
        return self.alike(made) if type(made) is float else made
    return method


for _name in ("lt", "le", "gt", "ge", "eq", "ne", "add", "radd", "sub", "rsub"):
    setattr(Fleeting, f"__{_name}__", _reads(f"__{_name}__"))
for _name in ("mul", "rmul", "truediv"):
    setattr(Fleeting, f"__{_name}__", _scales(f"__{_name}__"))


def fleeting(numbers: Sequence[float], length: int) -> list[float]:
    """The same numbers, in blocks of so many. Each call reads anew."""
    if any(isinstance(number, Fleeting) for number in numbers):
        return list(numbers)                               # an answer that calls itself
    reading, made = Reading(), list[float]()
    for place, number in enumerate(numbers):
        block = numbers[place // length * length:][:length]
        one = Fleeting(number)
        one.reading, one.block, one.lasts = reading, place // length, number == max(block)
        made.append(one)
    return made


def given(function: Callable[..., Any], argument: int, length: int) -> Callable[..., Any]:
    """The function, called with its argument of this number in fleeting numbers."""
    def called(*arguments: Any) -> Any:
        return function(*arguments[:argument], fleeting(arguments[argument], length), *arguments[argument + 1:])
    return called
