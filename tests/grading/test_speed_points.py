# SPDX-License-Identifier: Apache-2.0
"""Points for speed: a right answer that is slow keeps its others, its reason is in the feedback, and one that is not right is not timed."""
import copy
from types import SimpleNamespace

import nbformat
import pytest
from support.answer_texts import ROOT, edited, entries, solution_cell

from hopperlab.checking.exercise import ExerciseError
from hopperlab.grading import edition, generate, grade_task, grader, marks, regions, reports, reports_html, sandbox, verdict
from hopperlab.grading.learners import Learner
from hopperlab.grading.submission_files import InputError
from hopperlab.grading.submissions import Submission
from hopperlab.lessons import catalogue

needs_sandbox = pytest.mark.skipif(sandbox.kind() is None, reason="no sandbox (bubblewrap, podman or docker) works on this machine")
SLOW_WORDS = "It is not fast enough yet: by the estimate it takes 80.0 us"
CELLS = {"answer": "answer-09-2", "visible": "check-09-2", "hidden": "hidden-09-2", "fast": "fast-09-2"}


@pytest.fixture(scope="module")
def lesson():
    return edition.load(ROOT, "09")


def answer():
    return regions.solution_without_stubs(solution_cell("09.2"))


def runners(asked):
    """Graders that look for the words WRONG and SLOW in an answer; asked: gets what ran, verdicts by kind and the cells of notebooks."""
    def judged(exercise, text, constants, key, hidden, limits, unsafe=False, fast=False):
        asked.append("fast" if fast else "hidden" if hidden else "visible")
        step = "values" if "WRONG" in text else "speed" if fast and "SLOW" in text else ""
        return SimpleNamespace(right=not step, findings=(SimpleNamespace(step=step, message=SLOW_WORDS),) if step else (), limit="")

    def ran(notebook, limits, unsafe=False):
        asked.append([cell.id for cell in notebook.cells])
        return SimpleNamespace(cells={cell.id: True for cell in notebook.cells}, error="", messages={})
    return grade_task.Runners(judged, ran, lambda: None)


def graded(lesson, text):
    """What ran, and the exercise of a learner who hands in this answer to 09.2 alone."""
    asked = []
    task = grader.task_of(lesson, "09.2", text, lesson.digest("09.2"), unsafe=True)
    assert task["cells"] == CELLS
    outcome = grade_task.perform(task, runners(asked))
    handed_in = Submission(Learner("ada", "Ada"), "ada/09_multistage.ipynb", "09_multistage", answers={"answer-09-2": text})
    report = marks.report([handed_in], lesson, {("ada", "09.2"): outcome}, {}, isolation="none", version="0", all_sheets=False, matches=lambda *_: False)
    return asked, report, report.rows[0].exercises[1]


def test_the_speed_point_is_a_part_of_its_own(lesson):
    sheet = lesson.sheets["09_multistage"]
    assert {part.kind: part.points for part in sheet.parts if part.exercise == "09.2"} == {"check": 5, "hidden": 2, "fast": 1}
    assert lesson.constants["09.2"] == {"STAGES": 3, "PENDING": 1}


def test_a_fast_answer_has_all_points(lesson):
    asked, _, found = graded(lesson, answer())
    assert asked[:3] == ["visible", "hidden", "fast"] and "fast-09-2" in asked[3]
    assert found.status == "right" and found.points == found.of == 8


def test_a_slow_answer_keeps_its_other_points_and_is_told_why(lesson):
    asked, report, found = graded(lesson, answer() + "// SLOW")
    assert "check-09-2" in asked[3] and "fast-09-2" not in asked[3], "a cell that fails anyway could only take the others' time"
    assert found.status == "partly" and found.points == 7 and found.correct
    assert [(check.kind, check.passed) for check in found.checks] == [("check", True), ("hidden", True), ("fast", False)]
    assert found.checks[2].for_learner() == (("speed", SLOW_WORDS),)
    page = reports_html.pages(report)["learners/ada.html"]
    assert SLOW_WORDS in page and "Speed, estimated: 0 of 1" in page and "fast-09-2,fast,partly,0,1" in reports.findings(report)


def test_a_wrong_answer_is_not_timed(lesson):
    asked, _, found = graded(lesson, answer() + "// WRONG")
    assert asked == ["visible", "hidden"] and found.points == 0 and not found.correct
    assert found.checks[2].findings == (("speed", "Its speed was not estimated, because the answer is not right yet."),)


def test_what_nbval_refuses_is_said_of_the_cell_itself():
    outcome = {which: {"right": True, "findings": [], "limit": ""} for which in ("visible", "hidden", "fast")}
    outcome["nbval"] = {"cells": {"answer-09-2": True, "check-09-2": True, "fast-09-2": False}, "error": "", "messages": {"visible": "", "fast": "took too long"}}
    assert grade_task.credited(outcome, CELLS) == {"visible": True, "hidden": True, "fast": False}
    assert marks._findings(outcome, "fast") == (("nbval", "The answer is right by itself, but not in the notebook: took too long"),)


def test_a_class_of_its_own_has_its_constants_in_the_cell_of_speed():
    key = "9f86d081884c7d659a2feaa0c55ad015"
    made = generate.with_edition(nbformat.read(ROOT / "solutions" / "09_multistage.ipynb", as_version=4), key)
    chosen = catalogue.find("09.2").edition(key)
    assert chosen != {"STAGES": 3, "PENDING": 1}
    (cell,) = (cell for cell in generate.exercise_notebook(made).cells if cell.id == "fast-09-2")
    assert cell.source == f'hl.check("09.2", gemm, STAGES={chosen["STAGES"]}, PENDING={chosen["PENDING"]}, fast=True)' and cell.outputs


def test_a_cell_of_speed_where_none_is_asked_for_is_refused(tmp_path):
    made = nbformat.read(ROOT / "solutions" / "04_mbarrier.ipynb", as_version=4)
    cell = copy.deepcopy(next(cell for cell in made.cells if cell.id == "check-04-2"))
    cell.id = "fast-04-2"
    made.cells.append(cell)
    nbformat.write(made, tmp_path / "04_mbarrier.ipynb")
    with pytest.raises(InputError, match="04.2 has a cell of speed, and asks for no speed"):
        edition.load(ROOT, str(tmp_path / "04_mbarrier.ipynb"))
    with pytest.raises(ExerciseError, match="asks for no speed"):
        verdict.verdict("04.2", "", unsafe=True, fast=True)


@needs_sandbox
@pytest.mark.parametrize("slow", [False, True], ids=["fast", "slow"])
def test_the_verdict_on_speed_comes_out_of_the_sandbox(slow):
    (entry,) = (one.values[0] for one in entries("slow.toml", "slow") if one.values[0]["exercise"] == "09.2")
    found = verdict.verdict("09.2", edited(entry) if slow else answer(), key=grade_task.GRADERS, fast=True)
    assert found.right != slow and [finding.step for finding in found.findings] == ["speed"] * slow
    assert not slow or "of that speed, and at least 0.8 is asked for" in found.findings[0].message


@needs_sandbox
@pytest.mark.thorough
def test_a_slow_answer_is_graded_in_the_sandbox(lesson):
    (entry,) = (one.values[0] for one in entries("slow.toml", "slow") if one.values[0]["exercise"] == "09.2")
    for text, earned in ((edited(entry), (True, True, False)), (answer(), (True, True, True))):
        outcome = grade_task.perform(grader.task_of(lesson, "09.2", text, "", unsafe=False))
        assert tuple(grade_task.credited(outcome, CELLS).values()) == earned
