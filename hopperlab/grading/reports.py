# SPDX-License-Identifier: Apache-2.0
"""A graded class on disk: CSV, JSON, JUnit XML, sheets for Canvas and Moodle, and the pages of reports_html.py.

All of it is a function of the Report alone: no dates, no durations, no places of this machine. Times stand in timing.json and timing.csv.
"""
from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from . import marks, reports_html
from .csv_cells import cell, table
from .marks import Report, Row
from .results import write

SEVERAL = "; "
NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_all(report: Report, timing: Mapping[str, Any], out: Path) -> list[Path]:
    """Write every report below `out`; returns the files, the teacher's page first."""
    texts = {
        **reports_html.pages(report),
        "grades.csv": grades(report), "findings.csv": findings(report), "report.json": json.dumps(marks.as_data(report), indent=1, ensure_ascii=False) + "\n",
        "junit.xml": junit(report), "gradebook-canvas.csv": canvas(report), "gradebook-moodle.csv": moodle(report), "to-grade.csv": to_grade(report),
        "groups.csv": groups(report),
        "timing.json": json.dumps(timing, indent=1) + "\n", "timing.csv": timing_table(timing),
    }
    if report.leaderboard:
        texts["leaderboard.csv"] = table(list(report.leaderboard[0]), ([row.get(name, "") for name in report.leaderboard[0]] for row in report.leaderboard))
    for name, text in texts.items():
        write(out / name, text)
    for old in (out / "learners").glob("*.html"):
        if f"learners/{old.name}" not in texts:
            old.unlink()
    return [out / name for name in texts]


def grades(report: Report) -> str:
    """One line a learner: points by exercise and cell, their sum, and whether somebody still has to grade something."""
    manual = _manual(report)
    headers = ["learner", "name", *(name for name, _, _ in report.exercises), *manual, "points", "of", "to be graded", "days late", "files", "problems"]

    def line(row: Row) -> list[Any]:
        by_cell = {item.cell: item.points for item in row.manual}
        problems = [f"{s.path or 'no file'}: {s.error}" for s in row.files if s.error]
        return [row.learner.key, row.learner.name, *(e.points for e in row.exercises), *(by_cell.get(name) for name in manual), row.points, row.of, row.open,
                max((s.days_late for s in row.files), default=0), SEVERAL.join(s.path for s in row.files if s.path), SEVERAL.join(problems)]
    return table(headers, map(line, report.rows))


def _manual(report: Report) -> list[str]:
    return list(dict.fromkeys(item.cell for row in report.rows for item in row.manual))


def groups(report: Report) -> str:
    """One line a group of learners whose answers to an exercise are equal, and in what."""
    return table(["exercise", "equal", "learners", "names"], ([g.exercise, g.what, len(g.learners), SEVERAL.join(g.learners)] for g in report.groups))


def findings(report: Report) -> str:
    """One line a check cell: what it earned, what failed and why, and flags. The teacher's: it tells what hidden checks found."""
    rows = [[row.learner.key, e.exercise, c.cell, c.kind, e.status, c.points, c.of, c.passed, c.findings[0][0] if c.findings else "",
             SEVERAL.join(message for _, message in c.findings), SEVERAL.join(e.flags), SEVERAL.join(e.notes)]
            for row in report.rows for e in row.exercises for c in e.checks]
    return table(["learner", "exercise", "cell", "kind", "status", "points", "of", "passed", "step", "message", "flags", "notes"], rows)


def to_grade(report: Report) -> str:
    """What a person grades, in the form of an overrides file, with what is decided already: for a copy that is filled in and given to --overrides."""
    rows = [[row.learner.key, item.cell, item.points, item.reason, item.of, item.rubric] for row in report.rows for item in row.manual]
    return table(["learner", "exercise", "points", "reason", "of", "rubric"], rows)


def timing_table(timing: Mapping[str, Any]) -> str:
    """Seconds by answer."""
    rows = [[*name.rpartition("/")[::2], found.get("verdicts"), found.get("nbval"), round(sum(found.values()), 3)] for name, found in timing["answers"].items()]
    return table(["learner", "exercise", "verdicts_s", "nbval_s", "total_s"], rows)


def canvas(report: Report) -> str:
    """A gradebook that Canvas imports: its own columns first, then one assignment; a second line holds the points possible."""
    name = f"hopperlab {', '.join(stem.split('_')[0] for stem in report.sheets)}"
    rows: list[list[Any]] = [["Points Possible", "", "", "", "", report.of]]
    for row in report.rows:
        facts = row.learner.facts
        rows.append([row.learner.name, facts.get("id", row.learner.key), facts.get("number", ""), facts.get("login", ""), facts.get("section", ""), row.points])
    return table(["Student", "ID", "SIS User ID", "SIS Login ID", "Section", name], rows)


def moodle(report: Report) -> str:
    """A grading worksheet that Moodle takes: Identifier ('Participant 123'), points and feedback. It refuses one without a column of when it was graded,
    which is empty here: Moodle then keeps a grade that it has already, unless it is told to take older ones too."""
    rows = []
    for row in report.rows:
        facts = row.learner.facts
        identifier = facts.get("id", row.learner.key)
        identifier = f"Participant {identifier}" if identifier.isdigit() else identifier
        said = [f"{e.exercise}: {e.points:g} of {e.of:g}" for e in row.exercises]
        rows.append([identifier, row.learner.name, facts.get("number", ""), facts.get("email", ""), row.points, row.of, "", SEVERAL.join(said)])
    return table(["Identifier", "Full name", "ID number", "Email address", "Grade", "Maximum Grade", "Last modified (grade)", "Feedback comments"], rows)


def junit(report: Report) -> str:
    """One test suite a learner, one test case a check cell; a cell that earned nothing is a failure, one that was not graded an error."""
    top = ElementTree.Element("testsuites", name="hopperlab grade")
    for row in report.rows:
        checks = [(e, c) for e in row.exercises for c in e.checks]
        suite = ElementTree.SubElement(top, "testsuite", name=_xml(row.learner.key), tests=str(len(checks)),
                                       failures=str(sum(not c.passed and e.status != "not graded" for e, c in checks)),
                                       errors=str(sum(e.status == "not graded" for e, _ in checks)))
        for exercise, check in checks:
            case = ElementTree.SubElement(suite, "testcase", classname=_xml(f"{row.learner.key}.{exercise.exercise}"), name=check.cell)
            if not check.passed:
                what = ElementTree.SubElement(case, "error" if exercise.status == "not graded" else "failure", message=exercise.status)
                what.text = _xml("\n".join(message for _, message in check.findings) or exercise.status)
    ElementTree.indent(top, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(top, encoding="unicode") + "\n"


def _xml(text: str) -> str:
    return NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


__all__ = ["canvas", "cell", "findings", "grades", "groups", "junit", "moodle", "timing_table", "to_grade", "write_all"]
