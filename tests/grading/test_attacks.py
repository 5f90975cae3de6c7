# SPDX-License-Identifier: Apache-2.0
"""Attacks on grading: each is really made, is stopped where it should be, earns nothing, and leaves the machine as it was.

Answers stand in attacks/*.toml, notebooks in tests/support/attacks.py. An answer earns points only when the grader's own verdict is right
and nbval passed its check cell; here both are asked.
"""
import os
import re
import subprocess
from functools import cache

import pytest
from support import attacks
from support.classroom import notebook, right
from support.patience import PATIENCE

from hopperlab.grading import generate, nbval_run, sandbox, submissions, supervise, verdict

needs_sandbox = pytest.mark.skipif(sandbox.kind() is None, reason="no sandbox (bubblewrap, podman or docker) works on this machine")
ANSWERS = attacks.answers()
SMALL = {"cell_seconds": 3.0 * PATIENCE, "memory_bytes": 3 << 29, "processes": 48, "file_bytes": 4 << 20, "output_bytes": 1 << 20}
SECRET = "what only the grader may read"


@pytest.fixture
def canary(tmp_path):
    """A file of the grader that no attack may read, change, or put another beside."""
    file = tmp_path / "grader" / "secret.txt"
    file.parent.mkdir()
    file.write_text(SECRET)
    yield file
    assert file.read_text() == SECRET and list(file.parent.iterdir()) == [file]


@pytest.fixture
def before():
    """The children that this process had before the attack, of tests that ran here earlier."""
    return {process.pid for process in supervise.descendants(os.getpid())}


def nothing_left(attack: attacks.Answer, canary, before: set[int]) -> bool:
    """No process of the attack's own and no new child of this process runs on."""
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    mine = [process for process in supervise.descendants(os.getpid()) if process.pid not in before and supervise.resident_bytes(process)]
    return not mine and (not attack.leftover or attacks.written(attack.leftover, canary) not in running)


def test_there_are_many_attacks_and_each_has_a_name():
    names = [attack.name for attack in ANSWERS]
    assert len(names) == len(set(names)) and len(names) + len(attacks.CHANGES) + len(attacks.broken()) >= 80


@needs_sandbox
@pytest.mark.parametrize("attack", ANSWERS, ids=lambda attack: attack.name)
@pytest.mark.sampled(every=15)
def test_attack_is_stopped_and_the_verdict_is_not_right(attack, canary, before):
    text = attacks.written(attack.text, canary)
    found = verdict.verdict(attack.exercise, text, {}, "public", False, sandbox.Limits(seconds=attack.seconds * PATIENCE, **SMALL))
    assert not found.right
    assert found.findings[0].step in attack.stopped, found
    assert re.search(attack.says, str(found)), found
    for finding in found.findings:
        assert SECRET not in finding.message and "root:" not in finding.message, "a file of the machine came back"
        assert str(attacks.ROOT) not in finding.message or str(attacks.ROOT) in text, "a folder of the machine came back"
        assert len(finding.message) <= verdict.MOST_MESSAGE and "\x1b" not in finding.message
        finding.message.encode("utf-8")
    assert found.seconds < (attack.seconds + 5) * PATIENCE
    assert nothing_left(attack, canary, before)


@needs_sandbox
@pytest.mark.parametrize("attack", [attack for attack in ANSWERS if attack.notebook], ids=lambda attack: attack.name)
@pytest.mark.sampled(every=20)
def test_attack_in_the_notebook_is_contained_and_earns_nothing(attack, canary, before):
    made = small(attack.exercise, attacks.written(attack.text, canary))
    found = nbval_run.run(made, sandbox.Limits(seconds=20.0 * PATIENCE, **SMALL))
    if attack.refused:
        assert re.search(attack.refused, found.error) and not any(found.cells.values())
        return
    check = f"check-{attack.exercise.replace('.', '-')}"
    passed = found.cells[check] and verdict.verdict(attack.exercise, attacks.written(attack.text, canary), limits=sandbox.Limits(seconds=10.0 * PATIENCE, **SMALL)).right
    assert not passed, "an attack earned points"
    assert found.seconds < 30 * PATIENCE
    assert nothing_left(attack, canary, before)


def small(exercise: str, text: str):
    """The pristine notebook with one exercise only, without its picture."""
    made = notebook({f"answer-{exercise.replace('.', '-')}": text})
    made.cells = [cell for cell in made.cells if cell.id == "setup" or cell.id.endswith(exercise.replace(".", "-")) and not cell.id.startswith("picture")]
    return made


@pytest.mark.parametrize("attack", [attack for attack in ANSWERS if attack.stopped == ("form",)], ids=lambda attack: attack.name)
def test_refused_answers_start_nothing(attack, canary, monkeypatch):
    monkeypatch.setattr(nbval_run.supervise, "run", None)
    monkeypatch.setattr(sandbox, "required", lambda unsafe=False: "bubblewrap")
    found = nbval_run.run(small(attack.exercise, attacks.written(attack.text, canary)))
    assert "was not tried" in found.error and not any(found.cells.values())
    assert not verdict.verdict(attack.exercise, attacks.written(attack.text, canary)).right


# --- notebooks --------------------------------------------------------------------------------------------------------
@cache
def judged(exercise: str, text: str) -> bool:
    return verdict.verdict(exercise, text, limits=sandbox.Limits(seconds=20.0 * PATIENCE, **SMALL)).right


@needs_sandbox
@pytest.mark.parametrize("change", attacks.CHANGES, ids=lambda change: change.__name__)
def test_a_changed_notebook_only_brings_its_answers(change):
    """What runs is the pristine notebook with the texts of answer cells in it; without right answers there are no points."""
    got = submissions.taken(attacks.changed(change))
    pristine = notebook({})
    runs = generate.with_answers(pristine, got.answers)
    assert [cell.id for cell in runs.cells] == [cell.id for cell in pristine.cells]
    for cell, original in zip(runs.cells, pristine.cells, strict=True):
        assert cell.source == original.source or (generate.role(cell) or ("",))[0] == generate.ANSWER
        assert {k: v for k, v in cell.items() if k != "source"} == {k: v for k, v in original.items() if k != "source"}
    assert runs.metadata == pristine.metadata
    for cell in runs.cells:
        role = generate.role(cell)
        if role and role[0] == generate.ANSWER:
            assert not judged(role[1], cell.source)


@pytest.mark.parametrize("name", attacks.broken())
def test_a_file_that_is_no_notebook_is_refused(name):
    with pytest.raises(submissions.SubmissionError) as refused:
        submissions.taken(attacks.broken()[name])
    assert len(str(refused.value)) < 500


def test_a_notebook_that_only_looks_right_to_nbval_earns_nothing():
    """Points need both: nbval's pass and the grader's own verdict."""
    from hopperlab.grading import grade_task
    cells = {"answer": "a", "visible": "c", "hidden": "h"}
    wrong, right_ = {"right": False, "findings": [], "limit": ""}, {"right": True, "findings": [], "limit": ""}
    passed = {"cells": {"a": True, "c": True, "h": True}, "error": ""}
    assert not any(grade_task.credited({"visible": wrong, "hidden": wrong, "nbval": passed}, cells).values())
    assert not any(grade_task.credited({"visible": right_, "hidden": right_, "nbval": {"cells": {}, "error": "The notebook printed more than the limit."}},
                                       cells).values())
    assert all(grade_task.credited({"visible": right_, "hidden": right_, "nbval": passed}, cells).values())


# --- the twin: what is no attack passes -------------------------------------------------------------------------------
@needs_sandbox
@pytest.mark.thorough
def test_right_answers_are_right_in_both_places():
    made = generate.with_answers(notebook({}), right())
    found = nbval_run.run(made, sandbox.Limits(seconds=100.0 * PATIENCE))
    assert all(found.cells.values()) and not found.error and not found.messages, found
    for cell, text in right().items():
        name = generate.role({"id": cell})[1]
        for hidden in (False, True):
            assert verdict.verdict(name, text, {}, "a key", hidden).right
