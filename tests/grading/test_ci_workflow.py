# SPDX-License-Identifier: Apache-2.0
"""The workflow that a class copies (docs/grade-in-ci.yml): its commands are the program's own, and its last step says and fails what it should."""
import argparse
import os
import shlex
import subprocess
import sys

import pytest
import yaml
from support.classroom import PHASES, ROOT, STEM, hand_in, lesson, quick, right

from hopperlab.cli import grading
from hopperlab.grading import grader, reports
from hopperlab.grading.grader import Asked

WORKFLOW = yaml.safe_load((ROOT / "docs" / "grade-in-ci.yml").read_text(encoding="utf-8"))
STEPS = {step.get("name", ""): step for step in WORKFLOW["jobs"]["grade"]["steps"]}


def test_the_command_is_one_that_the_program_takes():
    words = [os.path.expandvars(word) for word in shlex.split(STEPS["Grade"]["run"].replace("$NOTEBOOK", WORKFLOW["env"]["NOTEBOOK"]).replace("$LESSON",
            WORKFLOW["env"]["LESSON"]))]
    parser = argparse.ArgumentParser()
    grading.arguments(parser)
    given = parser.parse_args(words[2:])
    assert words[:2] == ["hopperlab", "grade"] and (ROOT / "exercises" / given.submissions).is_file()
    assert given.assignment in given.submissions.name and str(given.out) == "report"


@pytest.mark.parametrize("word, code", [("", 0), ("WRONG", 1), ("HALF", 1)])
def test_the_last_step_says_the_points_and_fails_where_something_is_wrong(tmp_path, word, code):
    path = hand_in(tmp_path, right() | {PHASES: f"# {word}\n{right()[PHASES]}"}, f"{STEM}.ipynb")
    report, timing = grader.grade(Asked(path, lesson(), tmp_path / "report", workers=0, unsafe=True, work=quick, matches=lambda exercise, answer: False))
    reports.write_all(report, timing, tmp_path / "report")
    step = next(step for step in STEPS.values() if step.get("shell") == "python")
    done = subprocess.run([sys.executable, "-c", step["run"]], cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")})
    assert done.returncode == code, done.stderr
    assert f"{report.rows[0].points:g} of {report.rows[0].of:g} points" in done.stdout and (tmp_path / "summary").read_text() == done.stdout
