# SPDX-License-Identifier: Apache-2.0
"""Exercises on the GPU: every published solution is right there too, and the grader's verdict with `gpu=True` runs it there."""
from pathlib import Path

import nbformat
import pytest

from hopperlab.checking import check, exercise
from hopperlab.lessons import catalogue
from hopperlab.grading import generate, regions, sandbox, verdict

ROOT = Path(__file__).resolve().parents[2]
CUDA = [name for name, asked in catalogue.every().items() if asked.kind == exercise.CUDA]


def solution(name):
    lesson, number = name.split(".")
    path = next(path for path in generate.solutions(ROOT) if path.name.startswith(f"{lesson}_"))
    return regions.solution_without_stubs(generate.answers_of(nbformat.read(path, as_version=4))[f"answer-{lesson}-{number}"])


@pytest.mark.parametrize("name", CUDA)
def test_solution_is_right_on_the_gpu(name):
    found = check.judge(catalogue.find(name), solution(name), hidden=True, gpu=True)
    assert found.right, str(found)


@pytest.mark.parametrize("name", ["04.2", "08.2"])
def test_verdict_runs_the_answer_on_the_gpu(name):
    if sandbox.kind() is None:
        pytest.skip("no sandbox on this machine")
    assert verdict.verdict(name, solution(name), gpu=True).right


def test_an_answer_that_hangs_on_the_gpu_costs_its_worker(monkeypatch):
    monkeypatch.setattr(check, "GPU_SECONDS", 3)
    trials = check._Trials(catalogue.find("04.2"), solution("04.2").split("\n", 1)[1].replace("mbarrier_arrive(&empty", "(void)(&empty"), [(9, 2)],
                           {"STAGES": 4}, "public", True)
    import hopperlab as hl
    trials.module = hl.RawModule(code=trials.text, name="ring.cu", backend="emulator", strict=True)
    found = trials._on_gpu((9, 2))
    assert found and "did not finish" in found[0].message
