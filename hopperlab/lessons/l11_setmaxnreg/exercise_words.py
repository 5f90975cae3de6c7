# SPDX-License-Identifier: Apache-2.0
"""What is said of a wrong value of exercise 11.1: whose registers."""
from __future__ import annotations

from ...checking.value_words import Told, Wrong

NAMES = ("the registers at entry", "the producer's registers", "a consumer's registers")


def budget(wrong: Wrong) -> Told:
    """11.1: budget(consumers, rows, cols)."""
    if wrong.path:
        named = wrong.path[0] == 0 and wrong.expected == 256 and wrong.value in (255, 248)
        return Told(NAMES[wrong.path[0]], cause="code can name 255 of them, and the hardware hands out 256" if named else "")
    return Told(cause="the tile does not fit") if wrong.expected is None else Told(cause="the tile does fit" if wrong.value is None else "")


WORDS = {"11.1": budget}
