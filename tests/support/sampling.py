# SPDX-License-Identifier: Apache-2.0
"""Which cases of a test `make test` runs. `@pytest.mark.sampled(every=4)` or `(by="step")` stands on a parametrised test whose cases repeat
one path: some stay, the others get the marker `thorough`, which `make test` leaves out and `make test-all` runs. Without -m, all run.

Cases that differ only in the emulator's schedule are sampled without being asked: of each, one schedule stays, by turns.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

import pytest


ORDERS = ("schedule", "landing")        # parameters that say in which order the emulator lets things happen
SCHEDULE = (*ORDERS, "seed")


def mark_thorough(items: Iterable[pytest.Item]) -> None:
    """Add `thorough` to every case of a sampled test, or of one with schedules, but those that stay."""
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") or not _parameters(item).keys().isdisjoint(ORDERS):
            functions.setdefault(item.nodeid.split("[")[0], []).append(item)
    for turn, cases in enumerate(functions.values()):
        marker, parameters = cases[0].get_closest_marker("sampled"), [_parameters(item) for item in cases]
        stay = kept(parameters, **marker.kwargs) if marker else one_schedule_each(parameters, turn)
        for number, item in enumerate(cases):
            if number not in stay:
                item.add_marker(pytest.mark.thorough)


def _parameters(item: pytest.Item) -> dict:
    return item.callspec.params if hasattr(item, "callspec") else {}


def kept(cases: Sequence[dict], *, every: int = 0, by: str | Sequence[str] = ()) -> set[int]:
    """Numbers of the cases that stay. every: the first of each `every`. by: one for each value of these parameters (`mutation.lesson`: of an
    attribute); the first value keeps its first case, the second its second, and so on around, so that the other parameters vary too."""
    if bool(every) == bool(by):
        raise ValueError("sampled takes either every=N or by='a parameter'")
    if every:
        return set(range(0, len(cases), every))
    names = (by,) if isinstance(by, str) else tuple(by)
    return _one_of_each([repr([_value(case, name) for name in names]) for case in cases])


def one_schedule_each(cases: Sequence[dict], first: int = 0) -> set[int]:
    """Numbers of the cases that stay of a test with schedules: of those that are alike but for it one, the `first` of the first, and so on around."""
    return _one_of_each([repr({name: value for name, value in case.items() if name not in SCHEDULE}) for case in cases], first)


def _one_of_each(kinds: Sequence[str], first: int = 0) -> set[int]:
    groups: dict[str, list[int]] = {}
    for number, kind in enumerate(kinds):
        groups.setdefault(kind, []).append(number)
    return {numbers[turn % len(numbers)] for turn, numbers in enumerate(groups.values(), first)}


def _value(case: dict, name: str) -> object:
    first, *rest = name.split(".", 1)
    return attrgetter(rest[0])(case[first]) if rest else case[first]
