# SPDX-License-Identifier: Apache-2.0
"""What is said of a wrong value of exercise 09.1: which step, and which of its five numbers."""
from __future__ import annotations

from ...checking.value_words import Told, Wrong

NAMES = ("the slot", "the parity of the wait on full", "the tile whose slot is handed back", "the tile that is loaded", "the parity of the wait on empty")


def plan(wrong: Wrong) -> Told:
    """09.1: plan(tiles)."""
    if not wrong.path:
        return Told()
    step = f"step {wrong.path[0]}"
    return Told(f"{NAMES[wrong.path[1]]} in {step}" if len(wrong.path) == 2 else step)


WORDS = {"09.1": plan}
