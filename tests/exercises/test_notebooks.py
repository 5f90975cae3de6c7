# SPDX-License-Identifier: Apache-2.0
"""The exercise notebooks: made of the solutions without drift, complete in form, and judged by nbval as hl.check judges them."""
import re
from pathlib import Path

import nbformat
import pytest

from hopperlab.lessons import catalogue
from hopperlab.grading import generate, regions

ROOT = Path(__file__).resolve().parents[2]
LESSONS = [f"{number:02d}" for number in range(1, 17)]
SOLUTIONS = generate.solutions(ROOT)
PARTS = ("**Why it matters.**", "**Your task.**", "Expected length", "point", "<details><summary>Hint 1</summary>", "<details><summary>Hint 2</summary>")


def test_exercises_are_what_the_solutions_make():
    assert generate.drift(ROOT) == []


def test_every_lesson_has_two_exercises():
    have = {lesson: [name for name in catalogue.every() if name.startswith(lesson + ".")] for lesson in LESSONS}
    assert {lesson: len(names) for lesson, names in have.items() if len(names) < 2} == {}


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_notebook_holds_answer_check_hidden_check_and_picture_of_each_exercise(path):
    notebook = nbformat.read(path, as_version=4)
    lesson = path.name.split("_")[0]
    cells = {cell.id: cell for cell in notebook.cells}
    for name in (n for n in catalogue.every() if n.startswith(lesson + ".")):
        tail = name.replace(".", "-")
        answer, visible, hidden = (cells[f"{kind}-{tail}"] for kind in ("answer", "check", "hidden"))
        assert f"picture-{tail}" in cells
        assert regions.has(answer.source, regions.SOLUTION) and regions.has(hidden.source, regions.HIDDEN)
        assert answer.metadata.nbgrader.solution and not answer.metadata.nbgrader.grade
        assert visible.metadata.nbgrader.points >= 1 and hidden.metadata.nbgrader.points >= 1
        assert f'hl.check("{name}"' in visible.source and f'hl.check("{name}"' in hidden.source and 'hidden="public"' in hidden.source
        fast = [cells[f"fast-{tail}"]] if catalogue.find(name).speed else []
        assert (f"fast-{tail}" in cells) == bool(fast)
        for cell in fast:
            assert cell.metadata.nbgrader.points >= 1 and cell.source == f"{visible.source[:-1]}, fast=True)"
        for constant, values in catalogue.find(name).constants.items():
            for cell in (answer, visible, hidden, *fast):
                assert re.search(rf"\b{constant}\s*=\s*{re.escape(repr(values[0]))}(?![\w.])", cell.source), f"{cell.id} must name {constant} = {values[0]!r}"


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_text_of_each_exercise_is_complete(path):
    notebook = nbformat.read(path, as_version=4)
    texts: dict[str, str] = {}
    current = None
    for cell in notebook.cells:
        found = re.match(r"##\s+(\d\d[a-z]?\.\d+) ·", cell.source) if cell.cell_type == "markdown" else None
        current = found[1] if found else current
        if current and cell.cell_type == "markdown":
            texts[current] = texts.get(current, "") + cell.source
    lesson = path.name.split("_")[0]
    assert sorted(texts) == [n for n in catalogue.every() if n.startswith(lesson + ".")]
    for name, text in texts.items():
        assert [part for part in PARTS if part not in text] == [], name
        for constant, values in catalogue.find(name).constants.items():
            assert re.search(rf"\b{constant} = {re.escape(repr(values[0]))}(?![\w.])", text), f"the text of {name} must name {constant} = {values[0]!r}"


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_stored_counts_outputs_and_metadata(path):
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    for cell in code:
        assert not [o for o in cell.outputs if o.output_type == "error"], cell.id
        role = generate.role(cell)
        if role and role[0] == "check":
            assert "".join(o.get("text", "") for o in cell.outputs).startswith(f"{role[1]} is right: ")
            assert "nbval-ignore-output" not in cell.metadata.get("tags", [])
        if role and role[0] == "fast":
            assert [o.text.startswith(f"{role[1]} is fast enough: ") for o in cell.outputs] == [True] and "nbval-ignore-output" not in cell.metadata.get("tags", [])
