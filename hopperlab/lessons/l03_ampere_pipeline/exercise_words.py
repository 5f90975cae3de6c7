# SPDX-License-Identifier: Apache-2.0
"""What is said of a wrong value of exercise 03.1: whether the wait is too early for its tile, or waits for more than it."""
from __future__ import annotations

from ...checking.value_words import Told, Wrong


def waits(wrong: Wrong) -> Told:
    """03.1: waits(tiles, copy_first)."""
    if len(wrong.path) != 1 or not isinstance(wrong.value, int):
        return Told()
    (tile,) = wrong.path
    committed = wrong.expected + tile + 1
    if wrong.value > wrong.expected:
        cause = f"groups committed so far: {committed}; the newest {wrong.value} may still be open, and tile {tile} is one of them"
    else:
        cause = f"safe, but groups committed so far: {committed}; {committed - max(wrong.value, 0)} of them must have landed, and tile {tile} needs {tile + 1}"
    return Told(f"the wait before tile {tile}", cause=cause)


WORDS = {"03.1": waits}
