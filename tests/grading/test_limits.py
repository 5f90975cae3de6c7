# SPDX-License-Identifier: Apache-2.0
"""What a slow answer costs, what a full disk does, and what stands in reports: no place of the grader, no formula in any locale."""
import csv
import errno
import io
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import nbformat
import pytest
from support.classroom import PHASES, RING, ROOT, RUNNERS, hand_in, lesson, quick, right, slow, words
from support.patience import PATIENCE

from hopperlab import cli
from hopperlab.cli import grading
from hopperlab.grading import csv_cells, grade_child, grade_task, grader, nbval_run, overrides, reports, reports_html, results, sandbox, verdict
from hopperlab.grading.grader import Asked
from hopperlab.grading.results import DiskFull
from hopperlab.grading.sandbox import Limits
from hopperlab.grading.supervise import Completed


def task(**changes):
    return {"exercise": "04.1", "digest": "d", "answer": "", "constants": {}, "key": "public", "cells": {"answer": "a", "visible": "v", "hidden": "h"}, "unsafe": True,
            "notebook": "{}"} | changes


def graded(folder, work=quick, **changes):
    return grader.grade(Asked(folder / "class", lesson(), folder / "out", workers=0, unsafe=True, work=work, **({"matches": lambda exercise, answer: False} | changes)))


# --- time -------------------------------------------------------------------------------------------------------------
def ended(limit, asked):
    def judge(exercise, text, constants, key, hidden, limits, unsafe=False):
        asked.append((hidden, limits))
        return SimpleNamespace(right=False, findings=verdict.ended(verdict.Completed(-9, b"", b"", 1.0, limit))[0], limit=limit)
    return grade_task.Runners(judge, RUNNERS.nbval, Limits)


def test_what_runs_out_of_time_is_not_run_again_and_has_a_cells_time():
    asked = []
    outcome = grade_task.perform(task(), ended("time", asked))
    assert [hidden for hidden, _ in asked] == [False] and asked[0][1].seconds == Limits().cell_seconds < Limits().seconds
    assert not outcome["hidden"]["right"] and outcome["hidden"]["limit"] == "time" and outcome["nbval"] is None
    asked.clear()
    grade_task.perform(task(), ended("memory", asked))
    assert [hidden for hidden, _ in asked] == [False, True], "other limits say nothing about the hidden check"


@pytest.mark.thorough
@pytest.mark.skipif(sandbox.kind() is None, reason="no sandbox (bubblewrap, podman or docker) works on this machine")
@pytest.mark.parametrize("line", ["import time; time.sleep(600)", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
                                  "import threading; threading.Event().wait()"])
def test_an_answer_that_sleeps_or_stops_costs_one_cells_limit(line):
    seconds = 3.0 * PATIENCE
    real = replace(grade_task.sandboxed(False), limits=lambda: Limits(seconds=4 * seconds, cell_seconds=seconds))
    began = time.monotonic()
    outcome = grade_task.perform(task(answer=f"def phases(events):\n    {line}\n", unsafe=False), real)
    assert outcome["visible"]["limit"] == "time" and time.monotonic() - began < 1.9 * seconds


def timed_out(given):
    outcome = quick(given)
    if "SLOW" in given["answer"]:
        outcome["visible"] = {"right": False, "findings": [{"step": "limit", "message": "The answer did not finish within the time limit."}], "limit": "time"}
        outcome["hidden"] = grade_task.SKIPPED
    return outcome


def test_a_time_limit_has_its_line_in_the_summary_and_the_hidden_check_says_why(tmp_path):
    hand_in(tmp_path / "class" / "ada", right() | {PHASES: "# SLOW"})
    hand_in(tmp_path / "class" / "bob", right())
    report = graded(tmp_path, timed_out)[0]
    said = grading.summary(report, tmp_path / "index.html")
    assert "1 answer ran out of time: ada/04.1; --regrade ada/04.1 grades one again." in said
    hidden = report.rows[0].exercises[0].checks[1]
    assert "Not run, because the visible check ran out of time" in hidden.findings[0][1] and "took longer" in hidden.for_learner()[0][1]
    assert "out of time" not in grading.summary(graded(tmp_path, all_sheets=True, regrade=("ada",))[0], tmp_path / "index.html")


def test_warnings_about_whose_work_it_is_have_a_line_and_a_place_on_the_page(tmp_path):
    hand_in(tmp_path / "class" / "ada", right())
    hand_in(tmp_path / "class" / "mallory" / "submitted" / "ada" / "04", right())
    report = graded(tmp_path)[0]
    assert "1 thing to look at" in grading.summary(report, tmp_path / "index.html")
    pages = reports_html.pages(report)
    assert "Whose work is it?" in pages["index.html"] and not any("Whose work" in text for name, text in pages.items() if name != "index.html")
    assert reports.marks.as_data(report)["warnings"]


# --- disk -------------------------------------------------------------------------------------------------------------
class Full:
    """A disk with room for so many more files."""

    def __init__(self, monkeypatch, left):
        self.left = left
        real = results.os.fsync

        def fsync(descriptor):
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.ENOSPC, "No space left on device", "/srv/teacher/secret/report")
            real(descriptor)
        monkeypatch.setattr(results.os, "fsync", fsync)


@pytest.mark.parametrize("left", [0, 1, 3, 5, 9])
@pytest.mark.sampled(every=5)
def test_a_full_disk_has_its_own_exit_code_loses_nothing_and_is_gone_on_from(tmp_path, monkeypatch, capsys, left):
    log = tmp_path / "log"
    for name in ("ada", "bob", "cai"):
        hand_in(tmp_path / "class" / name, {PHASES: f"# log {log}\n# {name}", RING: ""})
    command = ["grade", str(tmp_path / "class"), "--assignment", "04", "--out", str(tmp_path / "out"), "--unsafe", "--course", str(ROOT)]
    monkeypatch.setattr(grader, "Asked", lambda *given, **named: replace(Asked(*given, **named), workers=0, work=slow))
    disk = Full(monkeypatch, left)
    assert cli.main(command) == 3
    said = capsys.readouterr().err
    assert "no space is left on the disk" in said and "same command again" in said and "Traceback" not in said
    kept = list((tmp_path / "out" / "results").rglob("*.json"))
    assert len(kept) == min(left, 3) and not list(tmp_path.rglob(".*.json.*")), "no half of a file"
    disk.left = 10_000
    assert cli.main(command) == 0
    assert all(words(log, "end")[path.stem] == 1 for path in kept), "what was kept is not graded again"
    assert len(list((tmp_path / "out" / "results").rglob("*.json"))) == 3


def no_room(given):
    raise OSError(errno.ENOSPC, "No space left on device", "/tmp/hl-x/notebook.ipynb")


@pytest.mark.parametrize("looks", [[100], [1 << 30, 100]])
def test_where_temporary_files_have_no_room_no_answer_is_wrong_for_it(monkeypatch, looks):
    """A disk that was full before nbval ran, or became so while it did, and kept its results from being written."""
    free = iter(looks)
    monkeypatch.setattr(nbval_run.shutil, "disk_usage", lambda folder: SimpleNamespace(free=next(free)))
    monkeypatch.setattr(nbval_run.supervise, "run", lambda *words, **limits: Completed(1, b"", b"", 0.1))
    task = grader.task_of(lesson(), "04.1", right()[PHASES], "", True)
    with pytest.raises(OSError) as full:
        nbval_run.run(nbformat.reads(task["notebook"], as_version=4), unsafe=True)
    assert full.value.errno == errno.ENOSPC
    outcome = grade_child.attempt(task, lambda given: nbval_raises(full.value))
    assert outcome["full"] == "/tmp" and "failed" in outcome


def nbval_raises(problem):
    raise problem


def test_a_worker_without_room_ends_the_run_too(tmp_path):
    hand_in(tmp_path / "class" / "ada", right())
    with pytest.raises(DiskFull, match="/tmp/hl-x"):
        graded(tmp_path, lambda given: grade_child.attempt(given, no_room))


# --- text -------------------------------------------------------------------------------------------------------------
def broken(given):
    return grade_child.failed(given, "grading raised FileNotFoundError: '/srv/teacher/course/exam/key.json'")


def leaking(given):
    outcome = quick(given)
    text = "Traceback: File \"/srv/teacher/venv/lib/python3.11/site-packages/numpy/x.py\", line 3; see /srv/course/hopperlab/check.py:7 (in /tmp/hl-abc/notebook.ipynb)"
    outcome["visible"] = {"right": False, "findings": [{"step": "values", "message": text}], "limit": ""}
    return outcome


@pytest.mark.parametrize("work", [broken, leaking])
def test_a_learners_page_shows_no_path_of_the_grader(tmp_path, work):
    hand_in(tmp_path / "class" / "ada", right())
    (tmp_path / "class" / "ada" / "z.ipynb").write_text("{")
    report = graded(tmp_path, work)[0]
    pages = reports_html.pages(report)
    page = pages["learners/ada.html"]
    for place in ("/srv/", "/tmp/", "teacher", "site-packages", str(tmp_path)):
        assert place not in page, place
    assert ("Not graded yet" in page and "key.json" in pages["index.html"]) if work is broken else "x.py" in page and "notebook.ipynb" in page


@pytest.mark.parametrize("text, left", [("a / b", "a / b"), ("x/y.py", "x/y.py"), ("https://x.org/srv/a", "https://x.org/srv/a"),
                                        ("#include </etc/x>", "#include </etc/x>"),
                                        ("'/srv/a b'", "'a b'"), ("/srv/ada", "ada"), ("(/opt/x.so)", "(x.so)")])
def test_paths_lose_their_folders_and_nothing_else(text, left):
    assert reports_html.no_places(text) == left


@pytest.mark.parametrize("text", ["at line 3:/opt/class/x.py", "ring.cu:12:/srv/a/ring.cu", "file:///media/t/class.ipynb", "/nix/store/a/x.py",
                                  "/workspace/course/a.py", "/export/u/a.cu(3)",
                                  "/gpfs/people/t/a.py", f"{sys.prefix}/lib/x.py"])
def test_wherever_a_path_stands_its_folders_go(text):
    assert "/" not in reports_html.no_places(text)


def test_an_empty_word_is_no_folder(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["grade", "", "--assignment", "04"])
    assert ended.value.code == 2 and "this is empty" in capsys.readouterr().err


NASTY = ["=1+1", "a;=cmd|' /C calc'!A1", "a\t=1", "a\n=1", "a; @x", "x|+1", " =1", "'=1", "''=1", "\uff1d1", "a;'-1", '";=1', "\t=1", "\r-1", "plain; text",
         "3 - 1", "it's", "a=b", "-", ";"]


@pytest.mark.parametrize("text", NASTY)
def test_no_cell_is_a_formula_whichever_separator_a_locale_takes(text):
    line = csv_cells.table(["x", "y"], [["first", text]])
    for separator in ",;\t|":
        for row in csv.reader(io.StringIO(line, newline=""), delimiter=separator):
            for cell in row:
                assert cell.strip(" \"\u00a0")[:1] not in {*"=+@-", "\uff1d"} or cell.strip() in ("",), (separator, row)
    assert list(csv.reader(io.StringIO(line, newline="")))[1][0] == "first"
    assert csv_cells.unshielded(csv_cells.shielded(text)) == text, "what overrides read is what was written"


def test_separators_of_other_locales_are_quoted():
    assert csv_cells.table(["a;b"], [["x;y"], ["x|y"], ["x y"], ["plain"], [2.50], [None], [1]]) == '"a;b"\n"x;y"\n"x|y"\n"x y"\nplain\n2.5\n\n1\n'


def test_a_learner_with_a_nasty_name_comes_back_from_to_grade(tmp_path):
    for number, key in enumerate(NASTY):
        (tmp_path / "o.csv").write_text(csv_cells.table(["learner", "exercise", "points"], [[key, "04.1", number]]))
        if key.strip() == key:
            assert overrides.read(tmp_path / "o.csv") == {(key, "04.1"): overrides.Override(number, "")}


@pytest.mark.parametrize("unsafe", [[], ["--unsafe"]])
def test_a_folder_that_does_not_exist_is_said_before_anything_else(tmp_path, monkeypatch, capsys, unsafe):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sandbox, "kind", lambda: None)
    assert cli.main(["grade", "/nope", *unsafe]) == 2
    assert "there is no such folder or file: /nope" in capsys.readouterr().err and not list(tmp_path.iterdir())
