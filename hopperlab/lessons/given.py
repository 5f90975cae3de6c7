# SPDX-License-Identifier: Apache-2.0
"""What a learner puts into a lesson's small exercise, as the check can use it: whole numbers and functions that return them.

Anything else is told in a sentence instead of a traceback: a check that is `told` returns it. Right numbers of another type (NumPy's, 2.0) are as good as int.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from numbers import Integral, Real
from typing import Any, ParamSpec


class Unfit(ValueError):
    """An answer of a kind that the exercise cannot use; the message is for the learner."""


Asked = ParamSpec("Asked")


def told(check: Callable[Asked, str]) -> Callable[Asked, str]:
    """The check, which returns what is Unfit in its answers as its one sentence."""
    @wraps(check)
    def tells(*args: Asked.args, **kwargs: Asked.kwargs) -> str:
        try:
            return check(*args, **kwargs)
        except Unfit as unfit:
            return str(unfit)
    return tells


def whole(name: str, value: object) -> int:
    """The whole number that `value` is. name: what the exercise calls it. Raises Unfit for anything else, text included."""
    if isinstance(value, Integral) or isinstance(value, Real) and float(value).is_integer():
        return int(value)
    raise Unfit(f"{name} is {value!r}, and a whole number is asked for.")


def wholes(answers: Mapping[str, Any], names: Iterable[str]) -> dict[str, int | None]:
    """Each of `names` with its whole number, None where it is not answered yet."""
    return {name: None if answers.get(name) is None else whole(name, answers[name]) for name in names}


def function(name: str, value: object, form: str) -> Callable[..., int]:
    """`value`, whose calls return whole numbers; they raise Unfit where it raises or returns something else. form: how it may be written."""
    if not callable(value):
        raise Unfit(f"{name} is {value!r}, and a function is asked for ({form}).")

    def called(*arguments: int) -> int:
        call = f"{name}({', '.join(map(str, arguments))})"
        try:
            found = value(*arguments)
        except Exception as error:                              # whatever the answer raises is what the learner is told
            raise Unfit(f"{call} raised {type(error).__name__}: {error}") from error
        if isinstance(found, Integral) or isinstance(found, Real) and float(found).is_integer():
            return int(found)
        raise Unfit(f"{call} returned {found!r}, and a whole number is asked for.")

    return called


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
