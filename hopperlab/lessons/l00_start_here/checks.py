# SPDX-License-Identifier: Apache-2.0
"""Check of lesson 00's small exercise: three arithmetic intensities. An unanswered one is answered with a hint, so that Run All goes through."""
from __future__ import annotations

from collections.abc import Mapping

from ..given import no_number

INTENSITIES = {"axpy": 2 / 12, "sum": 1 / 2, "thin product": 2 * 8192 * 8192 * 16 / (2 * (8192 * 8192 + 8192 * 16 + 8192 * 16))}


def check_intensities(answers: Mapping[str, float | None]) -> str:
    """Lesson 00: three arithmetic intensities in FLOP per byte, right within 3 % (two digits are enough)."""
    lines = []
    for name, right in INTENSITIES.items():
        given = answers.get(name)
        if given is None:
            lines.append(f"{name}: not answered yet")
        elif wrong_form := no_number(given):
            lines.append(f"{name}: {wrong_form}")
        elif abs(given - right) <= 0.03 * right:
            lines.append(f"{name}: right; memory is its ceiling")
        else:
            lines.append(f"{name}: {given:.4g} FLOP/byte is not it; count the additions and multiplications, and each byte read or written once")
    return "\n".join(lines)
