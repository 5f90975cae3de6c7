# SPDX-License-Identifier: Apache-2.0
"""Whether a Python answer reads each block of an argument once: a second run in which a block's numbers become others as soon as those of another block are read.

What is summed up anew from all that has been met finds other numbers there; what carries its sums does not.
"""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NUMBERS = Path(__file__).with_name("fleeting_numbers.py")


@dataclass(frozen=True)
class Fleeting:
    """argument: its number; length: of a block; says: what a result that came out wrong means, in words that go on after 'In a second run'."""

    argument: int
    length: int
    says: str

    def text(self, answer: str, name: str) -> str:
        """The answer's text with its function wrapped. The lines before keep their numbers."""
        source = NUMBERS.read_text(encoding="utf-8")
        return f"{answer}\n__fleeting = {{}}\nexec({source!r}, __fleeting)\n{name} = __fleeting['given']({name}, {self.argument}, {self.length})\n"
