# SPDX-License-Identifier: Apache-2.0
"""The suite `triton_roles` without Triton or a GPU: its cases, and what comes of a process that finishes, fails, gives up or hangs."""
import json
import subprocess

import pytest

from hopperlab.measure.suites import triton_roles


def test_every_case_has_its_twin_and_a_name_of_its_own():
    every = list(triton_roles.cases())
    assert len({case.name for case in every}) == len(every)
    assert [triton_roles.case_of(case.name) for case in every] == every
    asked = {(case.kernel, case.tile, case.stages) for case in every if case.roles}
    assert asked == {(case.kernel, case.tile, case.stages) for case in every if not case.roles and case.warps == 4} and asked
    assert all(case.warps == 4 for case in every if case.roles)


def said(monkeypatch, code: int, out: str = "", err: str = "") -> None:
    monkeypatch.setattr(triton_roles.subprocess, "run", lambda command, **more: subprocess.CompletedProcess(command, code, out, err))


CASE = triton_roles.Case("product", (64, 64, 64), 3, 4, True)


def test_what_a_process_measured_is_a_record(monkeypatch):
    said(monkeypatch, 0, "a word of Triton's\n" + json.dumps({"outcome": "right", "tflops": 500.0, "block": [384]}))
    found = triton_roles.record(CASE, 3)
    assert (found.outcome, found.tflops, found.block, found.options) == ("right", 500.0, (384,), ("tile=64x64x64", "num_stages=3", "num_warps=4", "warp_specialize=1"))


@pytest.mark.parametrize(("err", "outcome"), [("CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure", "launch failure"),
                                              ("RuntimeError: PassManager::run failed", "not compiled")])
def test_a_kernel_that_fails_is_an_outcome(monkeypatch, err, outcome):
    said(monkeypatch, 1, err=err)
    assert triton_roles.record(CASE, 3).outcome == outcome


def test_another_failure_is_raised(monkeypatch):
    said(monkeypatch, 1, err="ModuleNotFoundError: No module named 'triton'")
    with pytest.raises(RuntimeError, match="product:64x64x64:3:4:1: .*No module named 'triton'"):
        triton_roles.record(CASE, 3)


def test_a_hang_is_an_outcome(monkeypatch):
    def late(command, **more):
        raise subprocess.TimeoutExpired(command, more["timeout"])
    monkeypatch.setattr(triton_roles.subprocess, "run", late)
    assert triton_roles.record(CASE, 3, 5).outcome == "hang"
