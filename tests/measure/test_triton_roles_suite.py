# SPDX-License-Identifier: Apache-2.0
"""The suite `triton_roles` without Triton or a GPU: its cases, and what comes of a process that finishes, fails, gives up or hangs."""
import json
import subprocess
import sys

import pytest

from hopperlab.measure.suites import triton_roles


def test_every_case_has_its_twin_and_a_name_of_its_own():
    every = list(triton_roles.cases())
    assert len({case.name for case in every}) == len(every)
    assert [triton_roles.case_of(case.name) for case in every] == every
    asked = {(case.kernel, case.tile, case.stages) for case in every if case.roles}
    assert asked == {(case.kernel, case.tile, case.stages) for case in every if not case.roles and case.warps == 4} and asked
    assert all(case.warps == 4 for case in every if case.roles)


CASE = triton_roles.Case("product", (64, 64, 64), 3, 4, True)


def process(monkeypatch, text: str) -> None:
    """A Python process with this text in place of a case's."""
    real = subprocess.Popen
    monkeypatch.setattr(triton_roles.subprocess, "Popen", lambda command, **more: real([sys.executable, "-c", text], **more))


def test_what_a_process_measured_is_a_record(monkeypatch):
    fields = {"outcome": "right", "tflops": 500.0, "block": [384]}
    begin = "import sys; print('a word of Triton'); print('ready', flush=True); sys.stdin.readline(); print('more'); "
    process(monkeypatch, f"{begin}print({json.dumps(json.dumps(fields))})")
    found = triton_roles.record(CASE, 3)
    assert (found.outcome, found.tflops, found.block, found.options) == ("right", 500.0, (384,), ("tile=64x64x64", "num_stages=3", "num_warps=4", "warp_specialize=1"))


@pytest.mark.parametrize(("text", "outcome", "note"), [
    ("raise RuntimeError('PassManager::run failed')", "not compiled", "RuntimeError: PassManager::run failed"),
    ("print('ready', flush=True); input(); raise RuntimeError('CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure')", "launch failure", "the CUDA context was lost"),
    ("print('ready', flush=True); input(); raise ValueError('else')", "failed", "ValueError: else"),
    ("print('ready', flush=True); import time; time.sleep(60)", "hang", "ended by its time limit of 1 s")])
def test_a_kernel_that_fails_is_an_outcome(monkeypatch, text, outcome, note):
    process(monkeypatch, text)
    found = triton_roles.record(CASE, 3, 1)
    assert (found.outcome, found.note) == (outcome, note)


def test_a_process_that_does_not_start_is_ended(monkeypatch):
    monkeypatch.setattr(triton_roles, "START", 0.5)
    process(monkeypatch, "import time; time.sleep(60)")
    assert triton_roles.record(CASE, 3).outcome == "not compiled"


def test_what_there_is_is_kept_after_each_case(monkeypatch):
    monkeypatch.setattr(triton_roles, "record", lambda case, rounds: case.name)
    kept = []
    assert triton_roles.measure(2, keep=kept.append) == [case.name for case in triton_roles.cases()] == kept[-1] and len(kept) == len(kept[-1])
