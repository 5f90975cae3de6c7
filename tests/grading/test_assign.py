# SPDX-License-Identifier: Apache-2.0
"""A class's edition: constants differ from the course's own, the same key gives the same files, and copies of the published solution are flagged."""
import json
from pathlib import Path

import nbformat
import pytest

from hopperlab.grading import assign, generate, pristine, regions
from hopperlab.checking import check
from hopperlab.lessons import catalogue

KEY = "3f1c9a72e05b4d8896ab07cd21e4f65a"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def edition(tmp_path_factory):
    return assign.write(ROOT, tmp_path_factory.mktemp("class") / "out", KEY, ["04"])


@pytest.mark.thorough
def test_constants_and_texts_are_those_of_the_key(edition):
    facts = json.loads((edition.instructor / assign.EDITION).read_text())
    assert facts["key"] == KEY
    stages = facts["exercises"]["04.2"]["STAGES"]
    assert stages != catalogue.find("04.2").constants["STAGES"][0]
    notebook = nbformat.read(edition.learners / "04_mbarrier.ipynb", as_version=4)
    cells = {cell.id: cell.source for cell in notebook.cells}
    assert pristine.constants_of(cells["check-04-2"]) == {"STAGES": stages}
    assert f"STAGES = {stages}" in cells["answer-04-2"]


@pytest.mark.thorough
def test_learners_get_no_solution_no_hidden_check_and_no_key(edition):
    for path in edition.learners.rglob("*.ipynb"):
        text = path.read_text()
        assert KEY not in text and "BEGIN HIDDEN" not in text and "BEGIN SOLUTION" not in text
    solution = (edition.instructor / "solutions" / "04_mbarrier.ipynb").read_text()
    assert KEY in solution and "BEGIN SOLUTION" in solution


@pytest.mark.thorough
def test_stored_outputs_are_those_of_the_keyed_solution(edition):
    notebook = nbformat.read(edition.learners / generate.PRISTINE / "04_mbarrier.ipynb", as_version=4)
    check_cell = next(cell for cell in notebook.cells if cell.id == "check-04-2")
    assert check_cell.outputs[0].text.startswith("04.2 is right: ")


def test_published_solution_does_not_pass_and_is_flagged(edition):
    facts = json.loads((edition.instructor / assign.EDITION).read_text())
    published = generate.answers_of(nbformat.read(ROOT / "solutions" / "04_mbarrier.ipynb", as_version=4))["answer-04-2"]
    answer = regions.solution_without_stubs(published)
    asked = catalogue.find("04.2")
    assert not check.judge(asked, answer, facts["exercises"]["04.2"], key=facts["key"]).right
    assert assign.matches_public(ROOT, "04.2", answer)
    keyed = generate.edited(asked, answer, facts["key"])
    assert check.judge(asked, keyed, facts["exercises"]["04.2"], key=facts["key"]).right
    renamed = keyed.replace("sum", "total") + "\n// my own work\n"
    assert assign.matches_public(ROOT, "04.2", renamed)


def test_another_answer_is_not_flagged():
    skeleton = generate.answers_of(nbformat.read(ROOT / "exercises" / "04_mbarrier.ipynb", as_version=4))["answer-04-2"]
    assert not assign.matches_public(ROOT, "04.2", skeleton)


@pytest.mark.parametrize("key, lessons, says", [("", ["04"], "key"), ("public", ["04"], "key"), (KEY, ["77"], "77")])
def test_bad_input_is_an_error(tmp_path, key, lessons, says):
    with pytest.raises(assign.AssignError, match=says):
        assign.write(ROOT, tmp_path / "new", key, lessons)


def test_a_folder_that_holds_something_is_left_alone(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(assign.AssignError, match="not an empty folder"):
        assign.write(ROOT, tmp_path, KEY, ["04"])
    assert (tmp_path / "file").read_text() == "mine"


def test_same_key_same_constants_and_at_least_one_differs_from_the_public_one():
    for asked in catalogue.every().values():
        for key in ("a", "b", "c", "d"):
            chosen = asked.edition(key)
            assert chosen == asked.edition(key)
            assert not asked.constants or chosen != asked.setting({})
