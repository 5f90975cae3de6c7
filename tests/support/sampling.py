# SPDX-License-Identifier: Apache-2.0
"""Which cases of a test run. `@pytest.mark.sampled(every=4)` or `(by="step")` stands on a parametrised test whose cases repeat one path: some stay,
the others get the marker `thorough`, which `make test` leaves out and `make test-all` runs. `sampled(every=1)`: all stay; `thin=False`:
all that were asked for.

Without being asked, of cases that differ only in the emulator's schedule one stays for `make test` and two for `make test-all`, by turns, and of
the cases that would stay of a test in ROOMS every sixteenth stays for `make test`, of fewer than sixteen one. `make test-all`, which is what CI
runs, takes all, but of cases that repeat a path: of tests of kernels, which a GPU's run of the suite has whole, every fourth (not where they
differ in what is broken: `ci=1`), and with `ci=3` every third. Where a turn begins is the test's name's: a test more or less changes nothing for the
others. Every case of all tests runs with --every-case, and where TEST_ARGS say what runs.
"""
from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from operator import attrgetter
from pathlib import Path

import pytest


TESTS = Path(__file__).resolve().parents[1]
ORDERS = ("schedule", "landing")        # parameters that say in which order the emulator lets things happen
SCHEDULE = (*ORDERS, "seed")
ROOMS = ("emulator", "kernels", "lessons")      # folders with many cases of one path, most of which lessons and exercises take, too
EVERY = 16                              # of the cases of a test there
WHOLE_ON_GPU, CI_EVERY = "kernels", 4   # of the cases of this room that do not stay `make test-all` takes one in so many


def mark_thorough(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Add `thorough` to every case that does not stay for `make test`. Returns those that only --every-case runs."""
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        if _parameters(item):
            functions.setdefault(item.nodeid.split("[")[0], []).append(item)
    left_out: list[pytest.Item] = []
    for name, cases in functions.items():
        turn = turn_of(name)
        marker, parameters = cases[0].get_closest_marker("sampled"), [_parameters(item) for item in cases]
        asked = dict(marker.kwargs) if marker else {}
        thin, on_gpu = asked.pop("thin", asked.get("every") != 1), cases[0].path.is_relative_to(TESTS / WHOLE_ON_GPU)
        one_in = asked.pop("ci", CI_EVERY if thin and on_gpu else 1)
        runs = stay = set(range(len(cases)))
        if not parameters[0].keys().isdisjoint(ORDERS):
            stay, second = (schedule_each(parameters, turn + more) for more in (0, 1))
            runs = stay | second
        runs = set(sorted(runs)[turn % min(one_in, len(runs))::one_in])
        if asked:
            stay = kept(parameters, **asked)
        if any(cases[0].path.is_relative_to(TESTS / room) for room in ROOMS) and stay and thin:
            stay = set(sorted(stay)[turn % min(EVERY, len(stay))::EVERY])
        stay = {number for number in stay if not cases[number].get_closest_marker("thorough")}
        for number, item in enumerate(cases):
            if number not in stay:
                item.add_marker(pytest.mark.thorough)
        left_out += [item for number, item in enumerate(cases) if number not in runs | stay]
    return left_out


def turn_of(name: str) -> int:
    """Where a test's turns begin, by its name."""
    return zlib.crc32(name.rpartition("/")[2].encode())


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


def schedule_each(cases: Sequence[dict], first: int = 0) -> set[int]:
    """Of cases that are alike but for the schedule, one: the numbers of the `first` of the first such kind, of the next of the second, and so on around."""
    return _one_of_each([repr({name: value for name, value in case.items() if name not in SCHEDULE}) for case in cases], first)


def _one_of_each(kinds: Sequence[str], first: int = 0) -> set[int]:
    groups: dict[str, list[int]] = {}
    for number, kind in enumerate(kinds):
        groups.setdefault(kind, []).append(number)
    return {numbers[turn % len(numbers)] for turn, numbers in enumerate(groups.values(), first)}


def _value(case: dict, name: str) -> object:
    first, *rest = name.split(".", 1)
    return attrgetter(rest[0])(case[first]) if rest else case[first]
