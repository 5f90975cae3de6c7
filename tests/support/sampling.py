# SPDX-License-Identifier: Apache-2.0
"""Which cases of a test `make test` runs. `@pytest.mark.sampled(every=4)` or `(by="step")` stands on a parametrised test whose cases repeat
one path: some stay, the others get the marker `thorough`, which `make test` leaves out and `make test-all` runs. Without -m, all run.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

import pytest


def mark_thorough(items: Iterable[pytest.Item]) -> None:
    """Add `thorough` to every case of a sampled test but those that `kept` names."""
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            functions.setdefault(item.nodeid.split("[")[0], []).append(item)
    for cases in functions.values():
        how = cases[0].get_closest_marker("sampled").kwargs
        stay = kept([item.callspec.params for item in cases], **how)
        for number, item in enumerate(cases):
            if number not in stay:
                item.add_marker(pytest.mark.thorough)


def kept(cases: Sequence[dict], *, every: int = 0, by: str | Sequence[str] = ()) -> set[int]:
    """Numbers of the cases that stay. every: the first of each `every`. by: one for each value of these parameters (`mutation.lesson`: of an
    attribute); the first value keeps its first case, the second its second, and so on around, so that the other parameters vary too."""
    if bool(every) == bool(by):
        raise ValueError("sampled takes either every=N or by='a parameter'")
    if every:
        return set(range(0, len(cases), every))
    names = (by,) if isinstance(by, str) else tuple(by)
    groups: dict[str, list[int]] = {}
    for number, case in enumerate(cases):
        groups.setdefault(repr([_value(case, name) for name in names]), []).append(number)
    return {numbers[turn % len(numbers)] for turn, numbers in enumerate(groups.values())}


def _value(case: dict, name: str) -> object:
    first, *rest = name.split(".", 1)
    return attrgetter(rest[0])(case[first]) if rest else case[first]
