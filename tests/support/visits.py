# SPDX-License-Identifier: Apache-2.0
"""What a run of the suite has visited: kernels launched, compared cells of lessons run, exercises whose solution was judged, folders of tests.

`pytest --visits` (make test, make test-all) fails when something that the course has was visited by no test that passed. Visits travel
in the tests' reports, so that they also arrive from xdist's workers.
"""
from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
KINDS = ("kernel", "compared cell", "exercise", "test folder")
ELSEWHERE = ("gpu", "ui")           # folders whose tests need a Hopper GPU or a browser; .ci/run demands the browser

_now: set[tuple[str, str]] = set()


def visit(kind: str, name: str) -> None:
    """Say that the running test visits something: a kind of KINDS and its name."""
    assert kind in KINDS, kind
    _now.add((kind, name))


def begin() -> None:
    """A test begins: nothing is visited yet."""
    _now.clear()


def made() -> list[tuple[str, str]]:
    """What the running test has visited."""
    return sorted(_now)


def watch_launches():
    """The context in which every launch of a kernel file of the course counts as a visit, in the emulator or on a GPU, alone or beside other grids."""
    from hopperlab.runtime import uses

    def heard(kind: str, what) -> None:
        if kind == uses.LAUNCHED and what[0] is not None and "/" in what[0].name:
            visit("kernel", what[0].name)
    return uses.telling(heard)


@cache
def everything() -> dict[str, set[str]]:
    """What there is to visit, by kind."""
    from hopperlab.authoring.notebooks import build
    from hopperlab.lessons import catalogue
    from hopperlab.runtime.compile.toolchain import KERNELS
    return {"kernel": {path.relative_to(KERNELS).as_posix() for path in KERNELS.rglob("*.cu")},
            "compared cell": {f"{path.stem}: {cell}" for path in build.lesson_sources() for cell in compared_cells(path)},
            "exercise": set(catalogue.every()),
            "test folder": {path.parent.relative_to(TESTS).parts[0] for path in TESTS.glob("*/**/test_*.py")} - set(ELSEWHERE)}


def compared_cells(source: Path) -> list[str]:
    """Ids of the cells of a lesson that nbval compares, as its stored notebook has them."""
    import nbformat
    from hopperlab.authoring.notebooks import build
    notebook = nbformat.from_dict(json.loads(build.notebook_path(source).read_text(encoding="utf-8")))
    return [cell.id for cell in build.code_cells(notebook) if "nbval-ignore-output" not in cell.metadata.get("tags", [])]


def made_by(reports: Iterable) -> set[tuple[str, str]]:
    """What the tests that passed have visited, by their reports."""
    passed = [report for report in reports if report.when == "call" and report.passed]
    folders = {("test folder", report.nodeid.split("/")[1]) for report in passed if report.nodeid.count("/") > 1}
    return folders | {tuple(pair) for report in passed for name, pairs in report.user_properties if name == "visits" for pair in pairs}


def missing(reports: Iterable) -> dict[str, list[str]]:
    """What no test that passed has visited, by kind; kinds of which all was visited are left out."""
    seen = made_by(reports)
    left = {kind: sorted(name for name in names if (kind, name) not in seen) for kind, names in everything().items()}
    return {kind: names for kind, names in left.items() if names}


def told(reports: Iterable) -> Iterator[str]:
    """Lines for the end of the run: how much was visited, and the names of what was not."""
    there, left = everything(), missing(reports)
    yield "visited: " + ", ".join(f"{len(names) - len(left.get(kind, ()))} of {len(names)} {kind}s" for kind, names in there.items())
    yield from (f"NOT VISITED by any test that passed, {kind}: {', '.join(names)}" for kind, names in left.items())
