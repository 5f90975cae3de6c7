# SPDX-License-Identifier: Apache-2.0
"""A class graded end to end: a right, a wrong and an attacking learner in the real sandbox; late rule, overrides, partial credit and regrading."""
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from support.classroom import PHASES, RING, ROOT, RUNNERS, STEM, hand_in, lesson, quick, right, solution

import nbformat
from hopperlab import cli
from hopperlab.cli import grading
from hopperlab.grading import edition, grade_task, grader, learners, marks, overrides, reports, sandbox
from hopperlab.grading.grader import Asked
from hopperlab.grading.submission_files import InputError
from hopperlab.grading.submissions import LateRule

needs_sandbox = pytest.mark.skipif(sandbox.kind() is None, reason="no sandbox (bubblewrap, podman or docker) works on this machine")
WRONG = right() | {PHASES: right()[PHASES] + "\n# WRONG"}
HALF = right() | {PHASES: right()[PHASES] + "\n# HALF"}


def asked(tmp_path, **changes):
    given = Asked(tmp_path / "class", lesson(), tmp_path / "out", workers=0, unsafe=True, work=quick, matches=lambda exercise, answer: False)
    return replace(given, **changes)


def rows(report):
    return {row.learner.key: row for row in report.rows}


@pytest.mark.thorough           # test_verdict.py has each verdict, test_attacks.py attacks; here a whole class
@needs_sandbox
def test_right_wrong_and_attack_in_the_sandbox(tmp_path):
    answers = right()
    hand_in(tmp_path / "class" / "ada", answers)
    hand_in(tmp_path / "class" / "bob", {PHASES: answers[PHASES].replace("outstanding == 0", "outstanding <= 16")})
    attack = "import functools\n\ndef phases(events):\n    import hopperlab.checking.check as check\n    check.judge = None\n"
    hand_in(tmp_path / "class" / "eve", {PHASES: attack, RING: answers[RING].replace("#include", '#include "/etc/passwd"\n#include', 1)})
    out = tmp_path / "out"
    words = ["grade", str(tmp_path / "class"), "--assignment", "04", "--out", str(out), "--workers", "2", "--course", str(ROOT)]
    assert cli.main(words) == 0
    report = json.loads((out / "report.json").read_text())
    assert report["isolation"] == sandbox.kind() and not report["unsafe"]
    by = {row["learner"]["key"]: row for row in report["rows"]}
    assert by["ada"]["points"] == by["ada"]["of"] == lesson().sheets[STEM].points
    assert by["bob"]["points"] == by["eve"]["points"] == 0
    bob, eve = ({e["exercise"]: e for e in by[name]["exercises"]} for name in ("bob", "eve"))
    assert bob["04.1"]["status"] == "wrong" and "expected" in bob["04.1"]["checks"][0]["findings"][0]["message"]
    assert bob["04.2"]["status"] == "not answered"
    assert "only the course's own headers" in eve["04.2"]["checks"][0]["findings"][0]["message"] and eve["04.1"]["status"] == "wrong"
    assert "No module named 'hopperlab'" in eve["04.1"]["checks"][0]["findings"][0]["message"], "where the answer runs, there is no package to patch"
    before = {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert cli.main(words) == 0
    assert {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()} == before, "same submissions, same bytes"


def test_without_isolation_nothing_is_graded_unless_told(tmp_path, monkeypatch, capsys):
    hand_in(tmp_path / "class" / "ada", right())
    monkeypatch.setattr(sandbox, "kind", lambda: None)
    words = ["grade", str(tmp_path / "class"), "--assignment", "04", "--out", str(tmp_path / "out"), "--course", str(ROOT)]
    assert cli.main(words) == 2
    assert "--unsafe" in capsys.readouterr().err and not (tmp_path / "out").exists()
    report, _ = grader.grade(asked(tmp_path))
    assert report.unsafe and "--unsafe" in report.isolation


@pytest.mark.parametrize("words, says", [
    (["nowhere"], "no such folder"), (["."], "no notebook"), ([".", "--assignment", "99"], "there is no assignment '99'"),
    ([".", "--deadline", "soon"], "--deadline soon"),
    ([".", "--late-penalty", "10"], "needs a --deadline"), ([".", "--deadline", "2026-01-01", "--late-penalty", "200"], "percent"),
    ([".", "--roster", "no.csv"], "no.csv"),
    ([".", "--workers", "0"], "at least 1"), ([".", "--assignment", "exercises/04_mbarrier.ipynb"], "no such notebook")])
def test_bad_input_is_exit_code_2_with_a_reason(tmp_path, monkeypatch, capsys, words, says):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["grade", *words, "--unsafe", "--course", str(ROOT)]) == 2
    assert says in capsys.readouterr().err


def test_a_learners_notebook_is_no_assignment(tmp_path):
    with pytest.raises(InputError, match="hidden checks are taken out"):
        edition.load(ROOT, str(hand_in(tmp_path, right())))


def test_visible_and_hidden_checks_earn_their_points_separately(tmp_path):
    for name, answers in (("ada", right()), ("bob", WRONG), ("cai", HALF)):
        hand_in(tmp_path / "class" / name, answers)
    found = rows(grader.grade(asked(tmp_path))[0])
    first = {name: row.exercises[0] for name, row in found.items()}
    assert [(first[n].status, first[n].points) for n in ("ada", "bob", "cai")] == [("right", 3), ("wrong", 0), ("partly", 2)]
    assert found["cai"].points == found["cai"].of - 1


def test_points_need_nbval_and_the_verdict():
    cells = {"answer": "a", "visible": "v", "hidden": "h"}
    def outcome(visible=True, hidden=True, error="", **passed):
        return {"visible": {"right": visible}, "hidden": {"right": hidden}, "nbval": {"cells": {"a": True, "v": True} | passed, "error": error}}
    def credit(outcome):
        return tuple(marks.credited(outcome, cells).values())
    assert credit(outcome()) == (True, True)
    assert credit(outcome(v=False)) == (False, True) and credit(outcome(visible=False)) == (False, True)
    assert credit(outcome(hidden=False)) == (True, False)
    assert credit(outcome(a=False)) == credit(outcome(error="The notebook did not finish")) == credit(outcome() | {"nbval": None}) == (False, False)


def test_what_nbval_refuses_is_said_with_its_message(tmp_path):
    def refused(task):
        runners = replace(RUNNERS, nbval=lambda pristine, limits, unsafe: SimpleNamespace(
            cells={cell.id: not cell.id.startswith("check") for cell in pristine.cells}, error="", messages={"check-04-1": "outputs differ: <b>"}))
        return grade_task.perform(task, runners)
    hand_in(tmp_path / "class" / "ada", {PHASES: right()[PHASES]})
    first = rows(grader.grade(asked(tmp_path, work=refused))[0])["ada"].exercises[0]
    assert first.status == "partly" and first.points == 1
    assert first.checks[0].findings == (("nbval", "The answer is right by itself, but not in the notebook: outputs differ: <b>"),)


def test_late_points_are_lost_by_the_day_and_said(tmp_path):
    path = hand_in(tmp_path / "class" / "submitted" / "ada" / "04", right())
    (path.parent / "timestamp.txt").write_text("2026-11-05 12:00:00 UTC")
    late = LateRule(datetime(2026, 11, 3, 23, 59, tzinfo=UTC), 0.25)
    row = rows(grader.grade(asked(tmp_path, late=late))[0])["ada"]
    assert row.points == row.of / 2 and row.exercises[0].points == 1.5
    assert "2 days late: 1.5 of 3 points count" in row.exercises[0].notes and "late: 2 days" in row.exercises[0].flags


def test_overrides_replace_points_and_mistakes_in_them_are_refused(tmp_path):
    hand_in(tmp_path / "class" / "bob", WRONG)
    table = tmp_path / "overrides.csv"
    def graded(*lines):
        table.write_text("\n".join(["learner,exercise,points,reason", *lines]))
        return rows(grader.grade(asked(tmp_path, overrides=overrides.read(table), overrides_path=table))[0])["bob"]
    whole = graded("bob,04.1,2.5,nearly right")
    assert whole.exercises[0].points == 2.5 and whole.exercises[0].reason == "nearly right" and whole.exercises[0].computed == 0
    assert graded("bob,hidden-04-1,1,ok").exercises[0].points == 1
    for line, says in (("rob,04.1,1,", "no learner 'rob'"), ("bob,04.9,1,", "no exercise or cell"), ("bob,04.1,99,", "only 3"), ("bob,04.1,many,", "line 2"),
                       ("bob,04.1,-1,", "line 2"),
                       ("bob,04.1,nan,", "line 2")):
        with pytest.raises(InputError, match=says):
            graded(line)


def test_cells_for_a_person_are_reported_with_their_rubric_and_merged_from_overrides(tmp_path):
    made = nbformat.from_dict(json.loads(nbformat.writes(solution())))
    task = nbformat.v4.new_markdown_cell("Explain why.\n=== BEGIN MARK SCHEME ===\n2 points for the phase\n=== END MARK SCHEME ===", id="why")
    task.metadata.nbgrader = {"grade": False, "solution": False, "task": True, "points": 2, "grade_id": "why", "locked": False, "schema_version": 3}
    essay = nbformat.v4.new_markdown_cell("Your words", id="essay")
    essay.metadata.nbgrader = {"grade": True, "solution": True, "task": False, "points": 4, "grade_id": "essay", "locked": False, "schema_version": 3}
    made.cells += [task, essay]
    (tmp_path / "set").mkdir()
    nbformat.write(made, tmp_path / "set" / f"{STEM}.ipynb")
    handed = nbformat.from_dict(json.loads(nbformat.writes(made)))
    handed.cells[-1].source = "Because of the parity."
    (tmp_path / "class" / "ada").mkdir(parents=True)
    nbformat.write(handed, tmp_path / "class" / "ada" / f"{STEM}.ipynb")
    given = asked(tmp_path, edition=edition.load(ROOT, str(tmp_path / "set" / f"{STEM}.ipynb")))
    row = rows(grader.grade(given)[0])["ada"]
    assert [(m.cell, m.points, m.of) for m in row.manual] == [("why", None, 2), ("essay", None, 4)] and row.open == 2
    assert row.manual[0].rubric == "2 points for the phase" and row.manual[1].text == "Because of the parity."
    filled = reports.to_grade(grader.grade(given)[0]).replace("ada,essay,,", "ada,essay,3,good")
    (tmp_path / "copy.csv").write_text(filled)
    given = replace(given, overrides=overrides.read(tmp_path / "copy.csv"))
    again = rows(grader.grade(given)[0])["ada"]
    assert again.open == 1 and again.points == row.points + 3
    assert "ada,essay,3,good" in reports.to_grade(grader.grade(given)[0]), "what was decided stays in it"
    words = ["grade", str(given.submissions), "--out", str(given.out), "--overrides", str(given.out / "to-grade.csv"), "--course", str(ROOT)]
    assert cli.main(words) == 2


def test_regrading_runs_the_answer_again(tmp_path):
    log = tmp_path / "log"
    hand_in(tmp_path / "class" / "ada", right() | {PHASES: f"# log {log}\n"} | {RING: f"%%cuda ring\n# log {log}\n"})
    from support.classroom import slow
    given = asked(tmp_path, work=slow)
    for regrade, count in (((), 2), ((), 2), (("ada/04.1",), 3), (("ada",), 5)):
        grader.grade(replace(given, regrade=regrade))
        assert log.read_text().count("end") == count
    with pytest.raises(InputError, match="LEARNER/EXERCISE"):
        grader.grade(replace(given, regrade=("nobody/04.1",)))


def test_equal_answers_are_graded_once_and_flagged(tmp_path):
    for name in ("ada", "bob"):
        hand_in(tmp_path / "class" / name, right())
    found = rows(grader.grade(asked(tmp_path))[0])
    assert "same text as bob" in found["ada"].exercises[0].flags
    assert len(list((tmp_path / "out" / "results").rglob("*.json"))) == 2


def test_a_published_solution_is_flagged(tmp_path):
    hand_in(tmp_path / "class" / "ada", right())
    found = rows(grader.grade(asked(tmp_path, matches=None))[0])
    assert any("matches the public solution" in e.flags for e in found["ada"].exercises)


def test_roster_lists_who_handed_nothing_in(tmp_path):
    hand_in(tmp_path / "class" / "ada", right())
    (tmp_path / "roster.csv").write_text("id,name\nada,Ada Lovelace\ncb,Charles Babbage\n")
    found = rows(grader.grade(asked(tmp_path, roster=learners.roster(tmp_path / "roster.csv")))[0])
    assert found["cb"].points == 0 and {e.status for e in found["cb"].exercises} == {"not handed in"} and found["ada"].learner.name == "Ada Lovelace"


def test_right_answers_are_ranked_with_the_editions_constants(tmp_path):
    @dataclass(frozen=True)
    class Row:
        learner: str
        ratio: float
    asked_for = {}

    def rank(answers, constants, progress):
        asked_for.update(answers=answers, constants=constants)
        return [Row(learner, 1.0) for learner in answers]
    for name, answers in (("ada", right()), ("bob", right() | {RING: right()[RING] + "// WRONG"})):
        hand_in(tmp_path / "class" / name, answers)
    report, timing = grader.grade(asked(tmp_path))
    with_board = grading.ranked(report, lesson(), SimpleNamespace(EXERCISE="04.2", rank=rank))
    assert list(asked_for["answers"]) == ["ada"] and asked_for["constants"] == lesson().constants["04.2"]
    assert with_board.leaderboard == ({"learner": "ada", "ratio": 1.0},)
    files = {path.name for path in reports.write_all(with_board, timing, tmp_path / "out")}
    assert "leaderboard.csv" in files and "Leaderboard" in (tmp_path / "out" / "index.html").read_text()
    assert not grading.ranked(report, lesson(), SimpleNamespace(EXERCISE="14.2", rank=rank)).leaderboard


def test_progress_is_one_line_on_a_terminal_and_few_lines_elsewhere():
    import io
    for terminal, lines in ((False, 11), (True, 1)):
        stream = io.StringIO()
        stream.isatty = lambda terminal=terminal: terminal
        with grading._Bar(stream) as bar:
            for done in range(201):
                bar.tell(done, 200)
        assert stream.getvalue().count("\n") == lines and "200/200" in stream.getvalue()
