# SPDX-License-Identifier: Apache-2.0
"""Reports: the same class gives the same bytes, nothing of hidden checks reaches a learner, and nothing a learner writes becomes a script or a formula."""
import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.classroom import PHASES, RING, hand_in, lesson, quick, right

from hopperlab.grading import grader, reports, reports_html
from hopperlab.grading.grader import Asked
from hopperlab.grading.learners import Learner
from hopperlab.grading.overrides import Override

SCRIPT = "<script>alert('x')</script>"
SECRET = "secret shape"                  # stands in each message of a hidden check (support/classroom.py)


def graded(folder: Path, **changes):
    return grader.grade(Asked(folder / "class", lesson(), folder / "out", workers=0, unsafe=True, work=quick, matches=lambda exercise,
                              answer: "PUBLIC" in answer, **changes))


@pytest.fixture
def classroom(tmp_path):
    hand_in(tmp_path / "class" / "ada", right())
    hand_in(tmp_path / "class" / "=cmd|' <img src=x onerror=alert(1)>", right() | {PHASES: right()[PHASES] + f"\n# WRONG {SCRIPT} PUBLIC"})
    hand_in(tmp_path / "class" / "cai", right() | {PHASES: right()[PHASES] + "\n# HALF", RING: right()[RING] + "\n// WRONG"})
    (tmp_path / "class" / "dan").mkdir()
    (tmp_path / "class" / "dan" / "04_mbarrier.ipynb").write_text("{")
    return tmp_path


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_the_same_submissions_give_the_same_bytes(classroom):
    def written(out):
        reports.write_all(*graded(classroom), classroom / out)
        return {path.relative_to(classroom / out).as_posix(): path.read_bytes() for path in (classroom / out).rglob("*") if path.is_file()}
    first = written("one")
    shutil.rmtree(classroom / "out")                              # all is graded anew
    again = written("two")
    timed = {"timing.json", "timing.csv"}
    assert first.keys() == again.keys() and {n for n in first if first[n] != again[n]} <= timed
    assert str(classroom).encode() not in b"".join(first.values()), "no place of this machine"


def test_a_warning_of_an_accepted_answer_is_in_the_reports_and_costs_nothing(tmp_path):
    for name, answers in (("ada", right()), ("bob", right() | {RING: right()[RING] + "\n// WRONG"})):
        hand_in(tmp_path / "class" / name, answers)

    def doubting(task):
        outcome = quick(task)
        for which in ("visible", "hidden"):
            outcome[which]["warnings"] = [f"unfenced-overwrite (warning): {which}, fold.cu:9"] if task["exercise"] == "04.2" else []
        return outcome
    report, timing = grader.grade(Asked(tmp_path / "class", lesson(), tmp_path / "out", workers=0, unsafe=True, work=doubting, matches=lambda exercise, answer: False))
    ada, bob = report.rows
    assert ada.points == ada.of and [e.notes for e in ada.exercises] == [(),
                                                                         ("It is accepted, and one warning is left:\nunfenced-overwrite (warning): visible, fold.cu:9",)]
    assert not any(e.notes for e in bob.exercises), "what is wrong is not accepted"
    reports.write_all(report, timing, tmp_path / "out")
    for page in ("findings.csv", "report.json", "learners/ada.html"):
        assert "visible, fold.cu:9" in (tmp_path / "out" / page).read_text(), page
    assert "one warning is left" not in (tmp_path / "out/learners/bob.html").read_text()


def test_nothing_of_a_hidden_check_reaches_a_learner(classroom):
    report, timing = graded(classroom)
    pages = reports_html.pages(report)
    assert SECRET in pages["index.html"] and SECRET in reports.findings(report)
    learners = {name: text for name, text in pages.items() if name.startswith("learners/")}
    assert len(learners) == 4 and not [name for name, text in learners.items() if SECRET in text]
    cai = learners["learners/cai.html"]
    assert "A hidden check failed: a value is wrong" in cai and "x[3] is 5, expected 6" in cai


def test_a_learner_sees_nothing_of_others_and_no_flags(classroom):
    hand_in(classroom / "class" / "copycat", right() | {PHASES: right()[PHASES] + f"\n# WRONG {SCRIPT} PUBLIC"})
    report, _ = graded(classroom)
    page = reports_html.pages(report)["learners/copycat.html"]
    assert "same text as" in reports.findings(report) and "same text as" not in page and "cmd" not in page and "public solution" not in page


def test_what_learners_write_is_escaped_everywhere(classroom):
    report, _ = graded(classroom)
    for name, text in reports_html.pages(report).items():
        assert "<script" not in text and "<img" not in text, name
        assert "default-src 'none'" in text and "http" not in text.replace("http-equiv", ""), f"{name} must be whole by itself"
    assert "&lt;script&gt;" in reports_html.pages(report)["index.html"]
    for text in (reports.grades(report), reports.canvas(report), reports.moodle(report), reports.findings(report)):
        assert not [cell for row in csv.reader(io.StringIO(text)) for cell in row if cell[:1] in ("=", "+", "@")], "a spreadsheet must not run it"


def test_junit_is_well_formed_and_counts(classroom):
    found = ElementTree.fromstring(reports.junit(graded(classroom)[0]))
    suites = {suite.get("name"): suite for suite in found}
    assert suites["ada"].get("failures") == "0" and len(suites["ada"]) == 4 and suites["cai"].get("failures") == "3"
    assert "x[3] is 5" in suites["cai"].find("testcase[@name='check-04-2']/failure").text


def test_junit_takes_any_text(classroom):
    report, _ = graded(classroom)
    row = report.rows[0]
    odd = replace(report, rows=(replace(row, learner=Learner("a\x00\x1b\ufffe\ud800", "b")),))
    ElementTree.fromstring(reports.junit(odd).encode("utf-8"))


def test_grades_and_gradebooks_agree(classroom):
    report, _ = graded(classroom)
    grades = {row["learner"]: row for row in table(reports.grades(report))}
    assert grades["ada"]["points"] == grades["ada"]["of"] and grades["cai"]["04.1"] == "2" and "no notebook" in grades["dan"]["problems"]
    assert [row["Grade"] for row in table(reports.moodle(report))] == [row["points"] for row in grades.values()]
    canvas = table(reports.canvas(report))
    assert canvas[0]["Student"] == "Points Possible" and [row["hopperlab 04"] for row in canvas[1:]] == [row["points"] for row in grades.values()]


def test_a_decision_is_shown_to_the_learner_with_its_reason(classroom):
    report, _ = graded(classroom, overrides={("cai", "04.2"): Override(4, "a good idea"), ("cai", "hidden-04-1"): Override(0.5, "half of it")})
    page = reports_html.pages(report)["learners/cai.html"]
    assert "Decided by your teacher: a good idea" in page and "0.5 points by decision: half of it" in page and SECRET not in page


def test_report_json_holds_no_answers_and_no_key(classroom):
    report, _ = graded(classroom)
    text = json.dumps(reports.marks.as_data(report))
    assert "def phases" not in text and "__global__" not in text


def test_file_names_of_pages_are_plain_and_told_apart():
    names = reports_html.slugs(["Ada", "ada", "../../etc/passwd", "漢字", "Åsa"])
    assert len(set(names.values())) == 5 and all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for name in names.values())
    assert names["Åsa"] == "asa" and names["../../etc/passwd"] == "etc-passwd"


def test_pages_of_learners_who_left_are_removed(classroom):
    reports.write_all(*graded(classroom), classroom / "out")
    assert (classroom / "out" / "learners" / "ada.html").exists()
    shutil.rmtree(classroom / "class" / "ada")
    reports.write_all(*graded(classroom), classroom / "out")
    assert not (classroom / "out" / "learners" / "ada.html").exists()


def test_unsafe_is_said_in_the_report(classroom):
    report, _ = graded(classroom)
    pages = reports_html.pages(report)
    assert "Graded without isolation (--unsafe)" in pages["index.html"] and "Graded without isolation" in pages["learners/ada.html"]


def test_moodle_finds_the_columns_without_which_it_refuses_a_worksheet(classroom):
    head = next(csv.reader(io.StringIO(reports.moodle(graded(classroom)[0]))))
    assert {"Identifier", "Grade", "Last modified (grade)", "Feedback comments"} <= set(head)
