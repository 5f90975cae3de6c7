# SPDX-License-Identifier: Apache-2.0
"""Right answers in other styles are right: an answer refused because it is written otherwise is as bad as a wrong one that passes.

They stand in right_NN.toml, as edits of the solution or whole; each is judged on the visible shapes and on hidden ones of its own.
"""
import tomllib
from pathlib import Path

import nbformat
import pytest
from support.answer_texts import few_hidden_shapes      # noqa: F401 - a fixture

from hopperlab.checking import check
from hopperlab.checking.exercise import PYTHON
from hopperlab.grading import generate, regions
from hopperlab.lessons import catalogue

ROOT = Path(__file__).resolve().parents[2]
EXERCISES = catalogue.every()
NOTEBOOKS = {path.name.split("_")[0]: path for path in generate.solutions(ROOT)}
KEY = "styles of others"


def entries():
    return [entry for path in sorted(Path(__file__).parent.glob("right_*.toml")) for entry in tomllib.loads(path.read_text(encoding="utf-8"))["right"]]


def right_answers():
    """Those in Python at once, those in CUDA thoroughly only."""
    return [pytest.param(entry, id=f"{entry['exercise']}-{entry['name']}",
                         marks=() if EXERCISES[entry["exercise"]].kind == PYTHON else pytest.mark.thorough) for entry in entries()]


def text_of(entry):
    """The right answer's text. An edit that does not apply is an error of the list."""
    if "answer" in entry:
        return entry["answer"]
    lesson, number = entry["exercise"].split(".")
    cells = generate.answers_of(nbformat.read(NOTEBOOKS[lesson], as_version=4))
    text = regions.solution_without_stubs(cells[f"answer-{lesson}-{number}"])
    for old, new in entry["replace"]:
        assert old in text, f"{entry['exercise']} {entry['name']}: the solution does not contain {old!r}"
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("entry", right_answers())
@pytest.mark.usefixtures("few_hidden_shapes")
@pytest.mark.sampled(every=12, ci=5)
def test_right_answer_in_another_style_is_right(entry):
    for hidden in (False, True):
        verdict = check.judge(EXERCISES[entry["exercise"]], text_of(entry), hidden=hidden, key=f"{KEY}: {entry['name']}" if hidden else "public")
        assert verdict.right, f"{entry['why']}: refused\n{verdict}"


@pytest.mark.parametrize("name", sorted({entry["exercise"] for entry in entries()}))
def test_there_are_three_styles_each(name):
    assert len({text_of(entry) for entry in entries() if entry["exercise"] == name}) >= 3
