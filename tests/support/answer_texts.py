# SPDX-License-Identifier: Apache-2.0
"""Texts of answers for tests: the solutions' own, and those that a .toml file of tests/exercises gives as edits of them or whole."""
from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest

from hopperlab.authoring.editions import translation
from hopperlab.checking import check
from hopperlab.grading import generate, regions
from hopperlab.runtime.language import say

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = re.compile(r"(?:\b[a-z][a-z']*\b ){3,}[a-z']+")
REPORT = re.compile(r"\b(?:a hazard|stopped it|as written) ?[^\n]*:\n")


@cache
def solution_cell(name: str) -> str:
    """The solution's answer cell of an exercise, marks and all."""
    lesson, number = name.split(".")
    path = next(path for path in generate.solutions(ROOT) if path.name.startswith(f"{lesson}_"))
    return generate.answers_of(nbformat.read(path, as_version=4))[f"answer-{lesson}-{number}"]


def edited(entry: dict[str, Any]) -> str:
    """The text of an entry. An edit that does not apply is an error of the list."""
    if "answer" in entry:
        return entry["answer"]
    text = regions.solution_without_stubs(solution_cell(entry["exercise"]))
    for old, new in entry["replace"]:
        assert old in text, f"{entry['exercise']} {entry['name']}: the solution does not contain {old!r}"
        text = text.replace(old, new)
    return text


def entries(pattern: str, table: str) -> list[Any]:
    """A pytest parameter for each entry of the files tests/exercises/`pattern`."""
    return [pytest.param(entry, id=f"{entry['exercise']}-{entry['name']}") for path in sorted((ROOT / "tests/exercises").glob(pattern))
            for entry in tomllib.loads(path.read_text(encoding="utf-8"))[table]]


@pytest.fixture
def few_hidden_shapes(monkeypatch):
    """Two hidden shapes a judgement, for answers that are judged beside the published solution, which is judged on all of them; a key of its own for
    each answer draws each its own two."""
    monkeypatch.setattr(check, "HIDDEN_SHAPES", 2)


@cache
def translated(exercise: str, root: Path = ROOT) -> bool:
    """Whether the text of an exercise is there in Chinese."""
    (path,) = (root / "solutions" / "sources").glob(f"{exercise.split('.')[0]}_*.md")
    return not any(cell.text.startswith(f"## {exercise} ") for cell in translation.status(path, "zh").missing)


def english_left(verdict: str, exercise: str) -> list[str]:
    """Four words and more of English that stay in the Chinese of a verdict. Not asked of exercises whose text nobody has translated yet, nor of what other programs
    say: hazards, the compiler's text, Python's exceptions."""
    if not translated(exercise):
        return []
    own = verdict[:found.end()] if (found := REPORT.search(verdict) or re.search("does not compile:\n", verdict)) else verdict
    return SENTENCE.findall(re.sub(r" 抛出 .*", "", say(own, "zh")))
