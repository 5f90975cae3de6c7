# SPDX-License-Identifier: Apache-2.0
"""What a claim is: a sentence, the function that settles it from the recordings, and the words of a verdict.

The claims themselves are in copies.py, shared.py, tensor.py and pipelines.py; claims.py puts them together.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .. import recordings
from ..recordings import Record, Recording

HOLDS, FALSE, OPEN = "holds", "does not hold", "no experiment can settle it"


def when(condition: str) -> str:
    """The verdict between the others: the claim holds under a condition."""
    return f"holds when {condition}"


@dataclass(frozen=True)
class Finding:
    """What was found: the figures in a sentence, and the verdict."""

    figures: str
    verdict: str


@dataclass(frozen=True)
class Claim:
    """A claim in our own words, the lesson that shows why, and the function that settles it from Data."""

    number: int
    text: str
    lesson: str
    settle: Callable[[Data], Finding]


@dataclass
class Data:
    """The recordings, each loaded at first use; `given` replaces some (tests change the data to see a verdict change)."""

    given: dict[str, Recording] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Recording:
        if name not in self.given:
            self.given[name] = recordings.load(name)
        return self.given[name]

    def find(self, name: str, kernel: str, *options: str, **fields: object) -> Record:
        """The record of recording `name` with that kernel, all of these options and fields. Raises LookupError for none or several."""
        found = self.all(name, kernel, *options, **fields)
        if len(found) != 1:
            raise LookupError(f"{name} has {len(found)} records of {kernel} with {options} and {fields}, not one")
        return found[0]

    def all(self, name: str, kernel: str, *options: str, **fields: object) -> list[Record]:
        """All such records."""
        return [r for r in self[name] if r.kernel == kernel and set(options) <= set(r.options)
                and all(getattr(r, key) == value for key, value in fields.items())]

    def value(self, name: str, kernel: str, *options: str, **fields: object) -> float:
        """The measured value of `find`: its value, or TFLOP/s, or GB/s."""
        record = self.find(name, kernel, *options, **fields)
        return next(v for v in (record.value, record.tflops, record.gb_s) if v is not None)
