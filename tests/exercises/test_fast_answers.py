# SPDX-License-Identifier: Apache-2.0
"""Exercises that ask for speed: the solutions reach it, right answers that are slow do not, and are told why in numbers.

These stand in slow.toml, as edits of the solution or whole; `says` is what the message must contain (a regular expression).
"""
import re
import tomllib

import pytest
from support.answer_texts import ROOT, edited, english_left, entries, solution_cell

import hopperlab as hl
from hopperlab.checking import check
from hopperlab.checking.exercise import ExerciseError
from hopperlab.grading import generate, regions
from hopperlab.lessons import catalogue

FAST = {name: exercise for name, exercise in catalogue.every().items() if exercise.speed}
LINES = {"09.2": "the course's own answer at m, n, k = 2048, 2048, 2048", "10.2": "the course's own answer at m, n, k = 2048, 2048, 2048",
         "13.2": "the course's own answer at m, n, k = 2048, 2048, 2048", "14.2": "lesson 14's kernel `final` at m, n, k = 4096, 4096, 4096"}
WRONG = ("wgmma_wait_group<PENDING>();", "wgmma_wait_group<0>();")


def solved(name):
    return regions.solution_without_stubs(solution_cell(name))


def test_these_exercises_ask_for_speed():
    assert FAST.keys() == LINES.keys()
    for name, exercise in FAST.items():
        assert exercise.speed_of(exercise.setting({})).least == 0.8, "less room than the estimate's error would punish right answers for it"
        assert f"at least 0.8 of the speed of {LINES[name]}" in str(exercise.speed_of(exercise.setting({})))


@pytest.mark.parametrize("name", FAST)
def test_solution_is_fast_enough(name):
    verdict = check.judge(FAST[name], solved(name), fast=True)
    assert str(verdict) == f"{name} is fast enough: at least 0.8 of the speed of {LINES[name]}, estimated for an H200 (no measurement)"
    assert re.fullmatch(rf"{name}: by the estimate it takes [\d.]+ us on an H200 at .* takes [\d.]+ us: [\d.]+ of that speed\.", verdict.beside)
    assert english_left(f"{verdict}\n{verdict.beside}", name) == []


@pytest.mark.parametrize("entry", entries("slow.toml", "slow"))
def test_a_slow_answer_is_right_and_is_told_why_it_is_slow(entry):
    verdict = check.judge(FAST[entry["exercise"]], edited(entry), fast=True)
    assert [finding.step for finding in verdict.findings] == ["speed"], f"{entry['why']}\n{verdict}"
    assert str(verdict).startswith(f"{entry['exercise']} is right. ") and re.search(entry["says"], str(verdict)), f"expected {entry['says']!r} in:\n{verdict}"
    assert english_left(str(verdict), entry["exercise"]) == [], "runtime/strings/zh/exercises.toml lacks a translation"


def test_small_tiles_without_roles_are_right_and_slow():
    answers = tomllib.loads((ROOT / "tests/exercises/right_14.toml").read_text(encoding="utf-8"))["right"]
    verdict = check.judge(FAST["14.2"], next(one["answer"] for one in answers if one["name"] == "no-roles-64-x-64"), fast=True)
    assert re.search(r"kernel `final` takes [\d.]+ us: 0\.[45]\d\d of that speed, .*\nIt is bound by the L2, \d\d% busy\.", str(verdict))


@pytest.mark.parametrize("name", FAST)
@pytest.mark.sampled(every=2)
def test_in_another_edition_the_edited_solution_is_fast_enough(name):
    setting = FAST[name].edition("autumn")
    assert check.judge(FAST[name], regions.solution_without_stubs(generate.with_constants(FAST[name], solution_cell(name), setting)), setting, fast=True).right


def test_what_is_not_right_is_said_first():
    verdict = check.judge(FAST["09.2"], solved("09.2").replace(*WRONG), fast=True)
    assert str(verdict).startswith("09.2 is not right yet. ") and "speed" not in str(verdict)


def test_the_line_is_the_same_for_every_fast_answer_and_its_times_stand_beside_it(capsys):
    hl.backend(), capsys.readouterr()                   # where kernels run is told once in a process
    printed = []
    for text in (solved("09.2"), solved("09.2").replace("        __syncwarp();", "        __syncwarp(); __syncwarp();")):
        catalogue.check("09.2", text, STAGES=3, PENDING=1, fast=True)
        printed.append(capsys.readouterr())
    assert len({one.out for one in printed}) == 1 and all(one.err.startswith("09.2: by the estimate it takes ") for one in printed)


@pytest.mark.parametrize("name", ["09.1", "08.2"])
def test_where_no_speed_is_asked_for_fast_is_an_error(name):
    with pytest.raises(ExerciseError, match=f"exercise {name} asks for no speed: leave fast=True out"):
        catalogue.check(name, solved(name), fast=True)
