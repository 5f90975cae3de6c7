# SPDX-License-Identifier: Apache-2.0
"""How far estimates were from measurements: judged/BOARD.json, and what follows from it. Everything that is said of errors is computed here.

A row: name, recording, family, fitted, measured and estimated (us). `hopperlab estimate --judge --board BOARD` writes them anew.
"""
from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .clock import Busy

JUDGED = Path(__file__).with_name("judged")
FAMILIES = ("products by wgmma", "products by mma.sync", "attention", "copies and other kernels")
LANES = "kernels whose lanes move their own data"          # benchmarks/kernels_of_others: written and measured apart from this work, on an H200
DIFFERENT = 0.05     # pairs of configurations whose times differ by more are ranked
UNKNOWN = 0.5        # taken where nothing was measured


@dataclass(frozen=True)
class Family:
    """Errors of a family's held-out measurements, as shares of the measured time: mean, and what nine of ten are within; within: share of them within 12 %."""

    name: str
    count: int
    mean: float
    most: float
    within: float


@dataclass(frozen=True)
class Row:
    """One measurement and its estimate, in microseconds. group: shape and suite, inside which configurations are ranked."""

    name: str
    recording: str
    family: str
    group: str
    fitted: bool
    measured: float
    estimated: float

    @property
    def error(self) -> float:
        """Of the estimate, as a share of the measured time; positive: too slow."""
        return self.estimated / self.measured - 1


def family_of(busy: Busy) -> str:
    """Where a kernel belongs, by the units that it uses."""
    if busy.wgmma > 0.02:
        return "attention" if busy.special > 0.02 else "products by wgmma"
    return "products by mma.sync" if busy.mma > 0.02 else "copies and other kernels"


@cache
def rows(board: str) -> tuple[Row, ...]:
    """What was judged of a board; nothing where nothing was."""
    path = JUDGED / f"{board}.json"
    return tuple(Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))["rows"]) if path.is_file() else ()


def write(found: Iterable[Row], path: Path) -> None:
    """Store rows, one per line."""
    lines = ",\n".join(json.dumps(row.__dict__) for row in found)
    path.write_text('{"rows": [\n' + lines + "\n]}\n", encoding="utf-8")


def summary(name: str, judged: Sequence[Row]) -> Family:
    """Of these rows."""
    errors = sorted(abs(row.error) for row in judged)
    if not errors:
        return Family(name, 0, UNKNOWN, UNKNOWN, 0.0)
    nine = errors[min(len(errors) - 1, int(0.9 * len(errors)))]
    return Family(name, len(errors), sum(errors) / len(errors), nine, sum(error <= 0.12 for error in errors) / len(errors))


def measured(family: str, board: str) -> Family:
    """The held-out rows of a family; of LANES those of an H200 for either board."""
    if family == LANES:
        return summary(family, rows("lanes"))
    return summary(family, [row for row in rows(board) if row.family == family and not row.fitted])


def ranking(judged: Iterable[Row]) -> tuple[int, int]:
    """(pairs that are ranked rightly, pairs): of configurations of one group whose measured times differ by more than DIFFERENT."""
    groups: dict[str, list[Row]] = {}
    for row in judged:
        groups.setdefault(row.group, []).append(row)
    right = total = 0
    for group in groups.values():
        for one, other in combinations(group, 2):
            if abs(one.measured / other.measured - 1) > DIFFERENT and abs(other.measured / one.measured - 1) > DIFFERENT:
                total += 1
                right += (one.measured < other.measured) == (one.estimated < other.estimated)
    return right, total


def table(judged: Sequence[Row]) -> list[tuple[Any, ...]]:
    """(what, measurements, mean error, nine of ten within, share within 12 %) for families, recordings, and all, held-out and fitted apart."""
    held = [row for row in judged if not row.fitted]
    parts = [(f"{name}, held out", [r for r in held if r.family == name]) for name in FAMILIES]
    parts += [(f"recording `{name}`, held out", [r for r in held if r.recording == name]) for name in sorted({r.recording for r in held})]
    parts += [("all held out", held), ("all fitted", [r for r in judged if r.fitted])]
    return [(name, s.count, s.mean, s.most, s.within) for name, part in parts if part for s in [summary(name, part)]]


def worst(board: str, count: int = 10) -> list[Row]:
    """The held-out rows that are furthest off."""
    return sorted((row for row in rows(board) if not row.fitted), key=lambda row: -abs(row.error))[:count]
