# SPDX-License-Identifier: Apache-2.0
"""Lesson 17: which steps of the printed pipeline compile, which are right, and which keep a copy in flight."""
import pytest

import hopperlab as hl
from hopperlab.lessons.l17_claims_measured import printed_pipeline as printed

NAMES = list(printed.STEPS)


@pytest.mark.parametrize("step, words", [(NAMES[0], "constructor"), (NAMES[1], "conversion")])
def test_what_does_not_compile_says_why(step, words):
    pipeline, wait = printed.STEPS[step]
    said = printed.refusal(printed.SOURCE.replace("PIPELINE", pipeline).replace("WAIT", wait))
    assert words in said and "pipeline<thread_scope_block>" in said.replace("cuda::", "") and "_ZN" not in said and "__4" not in said
    with pytest.raises(hl.CompileError):
        printed.run_step(step)


@pytest.mark.parametrize("step, right, in_flight, kinds", [(NAMES[2], True, 0, set()), (NAMES[3], False, 1, {"read-before-arrival"}), (NAMES[4], True, 1, set())])
def test_what_compiles(step, right, in_flight, kinds):
    ran = printed.run_step(step)
    assert (ran.right, ran.in_flight, {hazard.kind for hazard in ran.run.hazards}) == (right, in_flight, kinds)


def test_the_shape_of_claim_28_is_refused_by_the_assembler():
    assert printed.refusal(printed.WGMMA) == "Unknown modifier '.m128n128k128'"
    assert printed.refusal('extern "C" __global__ void nothing() {}') == ""
