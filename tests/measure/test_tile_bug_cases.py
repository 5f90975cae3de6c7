# SPDX-License-Identifier: Apache-2.0
"""The recorded bugs of lessons 06 and 08 as the GPU gets them: right without the bug, named with it (NumPy stands in for CuPy, in the emulator)."""

import dataclasses
import sys
import types

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.measure.suites import bugs

MAKERS = {"columns": bugs._columns, "one_tile": bugs._one_tile}
NAMED = {"BUG_TILE_AT_128": (True, set()), "BUG_TILE_AT_64": (True, {"misaligned"}), "BUG_DESCRIPTOR_SWIZZLE": (True, {"layout-mismatch"}),
         "BUG_READ_BEFORE_WAIT": (False, {"register-in-flight"})}
CASES = [case for case in bugs.CASES if case.kernel in MAKERS]


@pytest.fixture(autouse=True)
def numpy_for_cupy(monkeypatch):
    """Arrays of NumPy under CuPy's name, kernels in the emulator."""
    from hopperlab.runtime import backend

    stand_in = types.ModuleType("numpy")
    stand_in.__dict__.update({name: getattr(np, name) for name in ("arange", "empty", "asarray", "float32", "int32", "uint16")})
    monkeypatch.setitem(sys.modules, "cupy", stand_in)
    monkeypatch.setenv("HOPPERLAB_BACKEND", "emulator")
    backend._from_environment.cache_clear()
    yield
    backend._from_environment.cache_clear()


def launched(case):
    launch, out, wrong = MAKERS[case.kernel](case)
    out.view(np.uint8).fill(0xFF)
    with hl.emulate(hazards="collect") as run:
        launch()
    return bool(wrong().any()), {hazard.kind for hazard in run.hazards}


@pytest.mark.filterwarnings("ignore::hopperlab.PtxasWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.bug)
def test_the_bug_alone_makes_the_difference(case):
    assert launched(dataclasses.replace(case, size=min(case.size, 128), bug="NOT_A_BUG")) == (False, set())
    assert launched(dataclasses.replace(case, size=min(case.size, 128))) == NAMED[case.bug]


def test_the_cases_are_recorded_and_lost_contexts_known():
    assert {case.bug for case in CASES} == set(NAMED)
    for message in ("cudaErrorLaunchFailure: unspecified launch failure", "CUDA_ERROR_MISALIGNED_ADDRESS", "cudaErrorIllegalInstruction"):
        assert any(word in message.lower() for word in bugs.FATAL)
