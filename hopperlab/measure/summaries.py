# SPDX-License-Identifier: Apache-2.0
"""The one way in which many ratios become one: geometric mean, least, most, over how many cells, and what was left out.

README, `hopperlab bench` and the story of the ladder all summarise with `summary`; no cell is merged with another or passed over in silence.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, quantiles

from .recordings import Record


TURNED = "NN"                   # note of records on a B that is stored k x n (cuBLAS's NN layout)


@dataclass(frozen=True)
class Summary:
    """Of ratios of speeds. mean: geometric; least, most: of the cells; count: of the cells that count; left_out: names of those that do not."""

    mean: float
    least: float
    most: float
    count: int
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        cells = f"{self.mean:.3f} ({self.least:.3f} to {self.most:.3f}) over {self.count} cell{'' if self.count == 1 else 's'}"
        return cells + (f"; left out: {', '.join(self.left_out)}" if self.left_out else "")


def summary(cells: Mapping[str, float | None] | Sequence[float]) -> Summary:
    """Of ratios by the names of their cells, or of plain ratios, each a cell. A cell whose ratio is None is left out, and named.

    The geometric mean is the one that does not depend on which side is the peer. Raises ValueError when nothing is left to count.
    """
    named = dict(cells) if isinstance(cells, Mapping) else {str(i): ratio for i, ratio in enumerate(cells)}
    ratios = [ratio for ratio in named.values() if ratio is not None]
    if not ratios:
        raise ValueError("there is no ratio to summarise")
    return Summary(geometric_mean(ratios), min(ratios), max(ratios), len(ratios), tuple(name for name, ratio in named.items() if ratio is None))


def cell(record: Record) -> str:
    """A record's shape, data type and options, which tell it from all others of its kernel."""
    return " ".join(filter(None, ("x".join(map(str, record.shape)), record.dtype, *record.options)))


def of_records(records: Iterable[Record]) -> Summary:
    """Of the ratios of all these records, each a cell of its own; those that were not measured beside a peer are left out, by name.

    Raises ValueError when two records are of one cell: then they are of several modes, peers or kernels, which do not go into one summary.
    """
    found: dict[str, float | None] = {}
    for record in records:
        name = cell(record)
        if name in found:
            raise ValueError(f"two records of {record.kernel} at {name}: summarise one kernel, mode and peer at a time")
        found[name] = record.ratio
    return summary(found)


@dataclass(frozen=True)
class Spread:
    """Of many records: their summary; the quartiles of the ratios; how many are 1 or more; the worst, worst first."""

    summary: Summary
    quartiles: tuple[float, float, float]
    not_slower: int
    worst: tuple[Record, ...]


def spread(records: Iterable[Record], worst: int = 5) -> Spread:
    """`of_records`, and how the ratios spread. Raises ValueError where two records are of one cell, or fewer than two have a ratio."""
    found = list(records)
    one = of_records(found)
    ranked = sorted((record.ratio, i) for i, record in enumerate(found) if record.ratio is not None)
    ratios = [ratio for ratio, _ in ranked]
    if len(ratios) < 2:
        raise ValueError("quartiles need two ratios or more")
    low, middle, high = quantiles(ratios, n=4)
    return Spread(one, (low, middle, high), sum(ratio >= 1 for ratio in ratios), tuple(found[i] for _, i in ranked[:worst]))


def by_size(records: Iterable[Record], size: Callable[[Record], float], base: int) -> dict[int, Summary]:
    """Records in classes of sizes that end at powers of `base`: least size of the class -> the summary of its ratios. Records without a ratio are passed over."""
    classes: dict[int, list[float]] = {}
    for record in records:
        if record.ratio is not None:
            power = 1
            while power * base <= size(record):
                power *= base
            classes.setdefault(power, []).append(record.ratio)
    return {least: summary(classes[least]) for least in sorted(classes)}


def place(record: Record) -> str:
    """A record's shape, and what it says in words of it, such as its mask: '4x1024x32x64 causal'."""
    return " ".join(("x".join(map(str, record.shape)), *(option for option in record.options if "=" not in option)))


def family(record: Record) -> str:
    """The family of a record's peer: 'cuBLAS' of 'cuBLAS (torch TN)'; empty without a peer."""
    return (record.peer or "").split(" (")[0]


Contestant = tuple[str, str, str, str, str]                 # suite, kernel, note, mode, family of the peer


def contestants(records: Iterable[Record]) -> dict[Contestant, list[Record]]:
    """Records by what was timed and beside whom. The note tells variants of one kernel apart; a peer beside itself is nobody."""
    found: dict[Contestant, list[Record]] = {}
    for record in records:
        rival = family(record)
        if record.ratio is not None and rival != record.kernel and rival not in record.options:
            found.setdefault((record.suite, record.kernel, record.note, record.mode, rival), []).append(record)
    return found


def faster_of_notes(records: Iterable[Record]) -> list[Record]:
    """Of each shape and mode the fastest record, whatever its note: a kernel in the better of its layouts, as a peer is taken. Records without ms are passed over."""
    found: dict[tuple, Record] = {}
    for record in records:
        key = record.kernel, record.shape, record.dtype, record.mode, family(record)
        if record.ms and (key not in found or record.ms < (found[key].ms or 0)):
            found[key] = record
    return list(found.values())
