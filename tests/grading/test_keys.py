# SPDX-License-Identifier: Apache-2.0
"""The key of an edition cannot be guessed, what is drawn from it cannot be told without it, and a table of the notebook's cases earns nothing."""
import hashlib
import json

import nbformat
import numpy as np
import pytest
from support.classroom import ROOT, RUNNERS

from hopperlab import cli
from hopperlab.checking import check, exercise
from hopperlab.checking.exercise import PUBLIC
from hopperlab.grading import assign, edition, grade_task, keys, likeness
from hopperlab.grading.submission_files import InputError
from hopperlab.lessons import catalogue

KEYS = ("0f4b1d8a6c2e97530b1d4f6a8c0e2d57", "9d3c5b7a1e8f60427c5a3b9d1f0e8c64")
PYTHON = [name for name, asked in catalogue.every().items() if asked.kind == exercise.PYTHON]


def test_new_keys_are_random_and_long():
    made = {keys.new() for _ in range(50)}
    assert len(made) == 50 and all(keys.bits(key) == keys.BITS and keys.check(key) == key for key in made)


@pytest.mark.parametrize("key", ["", "  ", PUBLIC, "k", "autumn term", "0123456789abcdef", "a" * 40, "00" * 16, "0" * 31 + "1", "correct horse battery", "12345678" * 3,
                                 KEYS[0][:-1], KEYS[0][:18], "q2Zr7-VnXw8_tLkP0sYdE"])
def test_short_keys_are_refused_and_the_message_says_what_to_do(tmp_path, key):
    with pytest.raises(assign.AssignError, match="key") as refused:
        assign.write(ROOT, tmp_path / "new", key, ["04"])
    assert "leave --key out" in str(refused.value) and not (tmp_path / "new").exists()


@pytest.mark.parametrize("key", [KEYS[0], KEYS[0].upper(), "q2Zr7-VnXw8_tLkP0sYdEa", "6oikTPEzc755roVG47Dt7g=="])
def test_long_keys_are_taken(key):
    assert keys.check(key) == key


@pytest.mark.parametrize("key", ["0123456789abcdef" * 2, "fedcba98765432100123456789abcdef", "00112233445566778899aabbccddeeff",
                                 "31415926535897932384626433832795", "password" * 8,
                                 "the quick brown fox jumps over the lazy dog", "seven long words that nobody else would put in this order",
                                 "GPU-Programming-Course-Autumn-2026", "qwertyuiopasdfghjklzxcvbnm1234567890", "0f9A" * 16])
def test_long_keys_that_a_person_thought_of_are_refused(key):
    with pytest.raises(keys.WeakKey, match="128"):
        keys.check(key)


def test_no_random_key_is_refused():
    for _ in range(2000):
        keys.check(keys.new())


def test_without_a_key_each_edition_has_one_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(assign, "executed", lambda notebook, name: notebook)
    made = []
    for name in ("one", "two"):
        assert cli.main(["assign", "04", "--out", str(tmp_path / name), "--course", str(ROOT)]) == 0
        facts = tmp_path / name / "instructor" / "edition.json"
        made.append(json.loads(facts.read_text())["key"])
        assert facts.stat().st_mode & 0o077 == 0, "only its owner may read the key"
    assert made[0] != made[1] and all(keys.bits(key) == 128 for key in made)


@pytest.mark.thorough
def test_the_kernel_of_assign_is_spoken_to_over_no_network(tmp_path, capfd):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(
        "from ipykernel.kernelapp import IPKernelApp\nprint(IPKernelApp.instance().transport)", id="a")])
    made = assign.executed(notebook, "x.ipynb")
    assert made.cells[0].outputs[0].text == "ipc\n"
    assert "TCP" not in capfd.readouterr().err


# --- what is drawn ----------------------------------------------------------------------------------------------------
def test_draws_need_the_key_itself():
    """The unsalted digest of earlier versions, which a list of words is searched with, says nothing; other keys draw other things."""
    first, again, other = (exercise.random(key, "04.2", "edition").integers(1 << 62, size=4) for key in (KEYS[0], KEYS[0], KEYS[1]))
    unsalted = np.random.default_rng(np.frombuffer(hashlib.sha256("\n".join((KEYS[0], "04.2", "edition")).encode()).digest(), np.uint32)).integers(1 << 62, size=4)
    assert (first == again).all() and not (first == other).any() and not (first == unsalted).any()


def test_words_of_a_draw_are_kept_apart():
    one, two = (exercise.random(KEYS[0], *words).integers(1 << 62, size=4) for words in (("a\nb", "c"), ("a", "b\nc")))
    assert not (one == two).any()


def test_the_courses_own_edition_draws_what_it_always_drew():
    assert exercise.random(PUBLIC, "04.2", (1, 1)).integers(1 << 30) == np.random.default_rng(
        np.frombuffer(hashlib.sha256(b"public\n04.2\n(1, 1)").digest(), np.uint32)).integers(1 << 30)


def cases(name, key):
    asked = catalogue.find(name)
    return [asked.case(exercise.random(key, name, shape), shape, **asked.setting({})) for shape in check._shapes(asked, key, False)]


@pytest.mark.parametrize("name", PYTHON)
@pytest.mark.parametrize("key", [*KEYS, grade_task.GRADERS])
def test_a_table_of_the_notebooks_cases_is_not_right_for_graders_and_the_solution_is(name, key):
    asked = catalogue.find(name)
    table = {repr(list(case.arguments)): case.expected for case in cases(name, PUBLIC)}

    def known(text, function, arguments):
        return [table.get(repr(list(given))) for given in arguments]
    solution = likeness.public(ROOT, name)[0]
    assert check.judge(asked, solution, call=known).right, "the table is right about what the notebook shows"
    assert not check.judge(asked, solution, key=key, call=known).right
    drawn = [repr(list(case.arguments)) for case in cases(name, key)]
    assert len(drawn) == len(asked.shapes) and not set(drawn) & set(table), "not one case is known"


@pytest.mark.parametrize("name", PYTHON)
@pytest.mark.sampled(every=4)
def test_a_solution_is_right_on_what_any_key_draws(name):
    for key in (*KEYS, grade_task.GRADERS):
        found = check.judge(catalogue.find(name), likeness.public(ROOT, name)[0], key=key)
        assert found.right, (key, str(found))


@pytest.mark.parametrize("key, visible", [(KEYS[0], KEYS[0]), (PUBLIC, grade_task.GRADERS)])
def test_the_grader_draws_the_visible_inputs_by_the_editions_key(key, visible):
    seen = []

    def verdict(exercise, text, constants, key, hidden, limits, unsafe=False):
        seen.append((key, hidden))
        return RUNNERS.verdict(exercise, text, constants, key, hidden, limits, unsafe)
    task = {"exercise": "04.1", "digest": "d", "answer": "", "constants": {}, "key": key, "cells": {"answer": "a", "visible": "v", "hidden": "h"}, "unsafe": True,
            "notebook": nbformat.writes(nbformat.v4.new_notebook())}
    grade_task.perform(task, grade_task.Runners(verdict, RUNNERS.nbval, RUNNERS.limits))
    assert seen == [(visible, False), (key, True)]


# --- editions that were made before -----------------------------------------------------------------------------------
@pytest.fixture
def earlier(tmp_path, monkeypatch):
    """An edition as earlier versions wrote it: no version, and a key of words."""
    monkeypatch.setattr(assign, "executed", lambda notebook, name: notebook)
    made = assign.write(ROOT, tmp_path / "autumn", KEYS[0], ["04"])
    path = made.instructor / assign.EDITION
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({"key": "autumn term", "exercises": facts["exercises"]}))
    notebook = made.instructor / "solutions" / "04_mbarrier.ipynb"
    notebook.write_text(notebook.read_text().replace(KEYS[0], "autumn term"))
    return made, facts["exercises"]


def test_an_earlier_edition_is_refused_with_what_to_do_and_rekeyed_it_is_taken(earlier, tmp_path, capsys):
    made, chosen = earlier
    learners = {path: path.read_bytes() for path in made.learners.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match="hopperlab assign --rekey"):
        edition.load(ROOT, str(tmp_path / "autumn"))
    assert cli.main(["assign", "--rekey", str(tmp_path / "autumn")]) == 0 and "new key" in capsys.readouterr().out
    loaded = edition.load(ROOT, str(tmp_path / "autumn"))
    assert keys.bits(loaded.key) == 128 and {name: dict(values) for name, values in loaded.constants.items()} == chosen
    assert learners == {path: path.read_bytes() for path in made.learners.rglob("*") if path.is_file()}, "what learners have stays"
    text = (made.instructor / "solutions" / "04_mbarrier.ipynb").read_text()
    assert "autumn term" not in text and loaded.key in text


def test_a_weak_key_put_into_edition_json_by_hand_is_refused(earlier, tmp_path):
    path = earlier[0].instructor / assign.EDITION
    path.write_text(json.dumps({"version": keys.VERSION, "key": "autumn", "exercises": earlier[1]}))
    with pytest.raises(InputError, match="can be found by trying.*--rekey"):
        edition.load(ROOT, str(tmp_path / "autumn"))
    path.write_text(json.dumps({"version": 7, "key": KEYS[0], "exercises": {}}))
    with pytest.raises(InputError, match="version 7"):
        edition.load(ROOT, str(tmp_path / "autumn"))


@pytest.mark.parametrize("words, says", [(["04"], "--out is needed"), (["--rekey", "nowhere"], "no edition")])
def test_bad_command_lines_of_assign(tmp_path, monkeypatch, capsys, words, says):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["assign", *words, "--course", str(ROOT)]) == 2 and says in capsys.readouterr().err
