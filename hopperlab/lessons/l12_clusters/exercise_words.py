# SPDX-License-Identifier: Apache-2.0
"""What is said of a wrong value of exercise 12.1: of which rank, which of its five numbers; masks in binary."""
from __future__ import annotations

from ...checking.value_words import Told, Wrong, binary

NAMES = ("the mask of its part of A", "the mask of its part of B", "the arrivals of its empty barrier", "the bytes that its full barrier expects",
         "the bytes that it asks of the L2")


def shares(wrong: Wrong) -> Told:
    """12.1: shares(rows, cols)."""
    if not wrong.path:
        return Told()
    rank = f"rank {wrong.path[0]} (row {wrong.path[0] % wrong.arguments[0]}, column {wrong.path[0] // wrong.arguments[0]})"
    if len(wrong.path) < 2:
        return Told(rank)
    return Told(f"{NAMES[wrong.path[1]]}, {rank}", binary if wrong.path[1] < 2 else repr)


WORDS = {"12.1": shares}
