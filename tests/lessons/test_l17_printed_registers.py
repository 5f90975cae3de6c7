# SPDX-License-Identifier: Apache-2.0
"""Lesson 17: where each step of the printed setmaxnreg kernel fails, and that the last one runs clean whatever lands when."""
import pytest

import hopperlab as hl
from hopperlab.lessons.l17_claims_measured import printed_registers as printed

NAMES = list(printed.STEPS)


def test_the_printed_words_are_refused_by_the_assembler():
    with pytest.raises(hl.CompileError, match="Unknown modifier '.warpgroup'"):
        printed.run_registers(NAMES[0])


def test_what_ptxas_ignores_is_an_error():
    with pytest.raises(hl.NoteError, match="C7508"):
        printed.run_registers(NAMES[1])


@pytest.mark.parametrize("step, kind", [(NAMES[2], "divergent-collective"), (NAMES[3], "register-budget")])
def test_what_compiles_and_does_not_run(step, kind):
    right, run = printed.run_registers(step)
    assert not right and {hazard.kind for hazard in run.hazards} - {"deadlock"} == {kind}


@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
def test_the_last_step_is_right_and_clean(schedule):
    right, run = printed.run_registers(NAMES[4], schedule)
    assert right and not run.hazards and not run.warnings


def test_each_step_is_shown_with_its_message():
    text = printed.register_steps()
    for words in (*(f"{step}:" for step in NAMES),
                  "-> Unknown modifier '.warpgroup'", "C7508", "needs all 32 lanes", "18 of the pool's 504 are free",
                  "-> right: True; No hazard"):
        assert words in " ".join(text.split())
    assert "BOUNDS" in printed.REGISTERS and not any(name in printed.STEPS[NAMES[4]].code for name in ("BOUNDS", "_GIVES", "_TAKES"))
