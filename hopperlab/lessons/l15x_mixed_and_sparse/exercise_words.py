# SPDX-License-Identifier: Apache-2.0
"""What is said of a wrong value of exercise 15x.1: the word of which lane, in hexadecimal, and what was mixed up."""
from __future__ import annotations

from ...checking.value_words import Told, Wrong
from .exercises import metadata_words


def word(value: object) -> str:
    """All eight digits of a word; what is no whole number as Python writes it."""
    return f"{value:#010x}" if isinstance(value, int) and not isinstance(value, bool) else repr(value)


def _reversed(half: int) -> int:
    """The eight places of a half in the opposite order."""
    return sum((half >> 2 * i & 3) << 2 * (7 - i) for i in range(8))


def words(wrong: Wrong) -> Told:
    """15x.1: words(places)."""
    if not wrong.path:
        return Told()
    (lane,), (places,), value = wrong.path, wrong.arguments, wrong.value
    right = metadata_words(places, wrong.setting["FIRST"])
    low, high = wrong.expected & 0xFFFF, wrong.expected >> 16
    causes = {high | low << 16: "row g stands in the high half, and it should stand in the low one",
              _reversed(low) | _reversed(high) << 16: "in a half, the first stored number has the lowest two bits"}
    causes.update({other: f"that is the word of lane {number}" for number, other in enumerate(right) if other != wrong.expected})
    return Told(f"the word of lane {lane} (g = {lane // 4}, q = {lane % 4})", word, causes.get(value, "") if isinstance(value, int) else "")


WORDS = {"15x.1": words}
