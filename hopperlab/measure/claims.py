"""The 43 claims that lesson 17 settles: what is said, what was measured, and a verdict that is computed from the data.

`settle(data)` gives a Finding for each claim; the functions behind it are in claims_copies.py, claims_shared.py, claims_tensor.py and
claims_pipelines.py. Change a recording and a verdict may change: nothing here is typed in.
"""
from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from . import recordings
from .recordings import Record, Recording

HOLDS, FALSE, OPEN = "holds", "does not hold", "no experiment can settle it"
NEEDED = ("micro", "variants", "copies", "tma_vs_cp_async", "stages", "bugs", "roles", "peers")


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


def claims() -> tuple[Claim, ...]:
    """Every claim, in order."""
    from . import claims_copies, claims_pipelines, claims_shared, claims_tensor
    return (*claims_copies.CLAIMS, *claims_shared.CLAIMS, *claims_tensor.CLAIMS, *claims_pipelines.CLAIMS)


def settle(data: Data | None = None, numbers: Iterable[int] | None = None) -> dict[int, tuple[Claim, Finding]]:
    """Claim number -> (claim, finding), of all claims or of `numbers`."""
    data = data or Data()
    wanted = None if numbers is None else set(numbers)
    return {claim.number: (claim, claim.settle(data)) for claim in claims() if wanted is None or claim.number in wanted}


def report(data: Data | None = None, numbers: Iterable[int] | None = None, columns: int = 110) -> str:
    """The findings as text: number, claim, figures, verdict and lesson; no line longer than `columns`."""
    lines = []
    for number, (claim, finding) in settle(data, numbers).items():
        for text, first, rest in ((claim.text, f"{number:2d}. ", 4), (finding.figures, "    ", 4),
                                  (f"{finding.verdict}  (lesson\xa0{claim.lesson})", "    -> ", 7)):
            lines += textwrap.wrap(text, columns, initial_indent=first, subsequent_indent=rest * " ", break_long_words=False)
    return "\n".join(lines).replace("\xa0", " ")


def tally(data: Data | None = None) -> dict[str, int]:
    """How many claims hold, hold under a condition, do not hold, and cannot be settled."""
    counts = {HOLDS: 0, "holds when …": 0, FALSE: 0, OPEN: 0}
    for _, finding in settle(data).values():
        counts[finding.verdict if finding.verdict in counts else "holds when …"] += 1
    return counts
