# SPDX-License-Identifier: Apache-2.0
"""What a CUDA answer left in its outputs, beside what should stand there: the first wrong element, and what the wrong ones have in common.

Before a run every output holds poison, so that an element which nobody wrote is told from a NaN that somebody did.
"""
from __future__ import annotations

import re
from typing import Any

import numpy as np

from . import whence
from .exercise import Case

NEVER = {2: 0x7FE5, 4: 0x7FE5_A5A5, 8: 0x7FFD_A5A5_A5A5_A5A5}
"""By the bytes of a float: a quiet NaN that no arithmetic makes, of float16 and of bfloat16 alike."""


def poisoned(case: Case) -> Case:
    """The case, its outputs filled with poison."""
    for name, array in case.outputs.items():
        if name not in case.kept:
            poison(array)
    return case


def poison(array: np.ndarray) -> None:
    """Fill an output, so that an element that nobody writes is noticed: a NaN of its own (a plain one in 8 bits), or the largest integer."""
    array[...] = _never(array.dtype)


def _never(dtype: Any) -> Any:
    """What an output of this type holds before anybody has written it."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iub":
        return np.iinfo(dtype).max
    bits = NEVER.get(dtype.itemsize)
    return np.array(np.nan).astype(dtype)[()] if bits is None else np.array([bits], f"u{dtype.itemsize}").view(dtype)[0]


def complaint(case: Case, where: str) -> str:
    """What is said of the first output that is not as expected, or ''. where: of the run, in parentheses."""
    for name, array in case.outputs.items():
        expected = np.asarray(case.expected[name])
        got = np.asarray(array)
        if got.shape != expected.shape:
            return f"{name} has shape {got.shape}, expected {expected.shape} {where}."
        with np.errstate(invalid="ignore"):
            wide, right = _wide(got), _wide(expected)
            close = _near(wide, right, case.tolerance)
        wrong = np.flatnonzero(~(close | (wide == right) | (np.isnan(wide) & np.isnan(right)))) if wide.dtype.kind == "f" else np.flatnonzero(wide != right)
        if len(wrong):
            index = tuple(int(i) for i in np.unravel_index(int(wrong[0]), got.shape))
            shown = "never written" if _is_poison(got, index) else f"{_plain(got[index])}"
            return (f"{name}[{', '.join(map(str, index))}] is {shown}, expected {_plain(expected[index])}; "
                    f"{len(wrong)} of {got.size} elements are wrong {where}." + (_mistake(case, name, wide) or whence.words(name, wide, right)))
    return ""


def _mistake(case: Case, name: str, got: np.ndarray) -> str:
    """The sentence, with a space before it, of the known mistake that gives just this output; '' for another one."""
    with np.errstate(invalid="ignore"):
        return next((f" {cause}." for cause, known in case.mistaken.items()
                     if name in known and _near(got, _wide(np.asarray(known[name])), case.tolerance).all()), "")


def _near(got: np.ndarray, right: np.ndarray, tolerance: float) -> np.ndarray:
    return np.asarray(np.abs(got - right) <= tolerance * np.maximum(1, np.abs(right)))


def _wide(array: np.ndarray) -> np.ndarray:
    return array if array.dtype.kind in "iub" else array.astype(np.float64)


def _is_poison(got: np.ndarray, index: tuple[int, ...]) -> bool:
    return bool(got[index].tobytes() == np.array(_never(got.dtype), got.dtype).tobytes())


def _plain(value: Any) -> str:
    return re.sub(r"\.0$", "", f"{float(value):.7g}") if np.asarray(value).dtype.kind not in "iub" else str(int(value))
