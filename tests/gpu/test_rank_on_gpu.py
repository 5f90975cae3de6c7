# SPDX-License-Identifier: Apache-2.0
"""The leaderboard's worker on a GPU: the published solution is timed, a wrong one and one that hangs are not."""
import re
from pathlib import Path

import nbformat
import pytest

from hopperlab.grading import generate, rank, regions

ROOT = Path(__file__).resolve().parents[2]
SHAPES = [(512, 768, 264), (1024, 1024, 1024)]


def solution():
    notebook = nbformat.read(ROOT / "solutions" / "14_beat_cublas.ipynb", as_version=4)
    return regions.solution_without_stubs(generate.answers_of(notebook)["answer-14-2"])


@pytest.mark.timeout(240)
def test_a_right_answer_is_timed_and_wrong_ones_say_why():
    right = solution()
    answers = {"right": right, "other-alpha": right.replace("ALPHA = 2", "ALPHA = 3"), "short": right.replace("(k + BK - 1) / BK", "k / BK"),
               "hangs": right.replace("mbarrier_init(&full[s], 1);", "mbarrier_init(&full[s], 2);")}
    assert len(set(answers.values())) == len(answers)
    rows = {found.learner: found for found in rank.rank(answers, SHAPES, rounds=3, seconds=40.0)}
    assert rows["right"].problem == "" and rows["right"].ratio > 0 and rows["right"].tflops > 0
    for name in ("other-alpha", "short"):
        assert re.search("of the elements are wrong", rows[name].problem), rows[name]
    assert "did not finish" in rows["hangs"].problem
