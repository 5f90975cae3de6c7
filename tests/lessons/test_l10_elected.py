# SPDX-License-Identifier: Apache-2.0
"""Lesson 10: the two ways of choosing a thread, in the machine code and in the emulator."""
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.lessons.l10_warp_specialization import elected


def test_a_comparison_leaves_a_loop_around_the_load_and_an_election_does_not():
    by_comparison, by_election = (elected.issuing_lines(choice) for choice in elected.CHOICES)
    for lines in (by_comparison, by_election):
        assert sum("UTMALDG" in line for line in lines) == 1
    assert any("BRA.U.ANY" in line for line in by_comparison) and not any("BRA.U.ANY" in line for line in by_election)
    assert elected.elected_table().count("no loop") == 1


@pytest.mark.parametrize("choice", elected.CHOICES)
def test_both_are_right_and_clean(choice):
    x, out = np.arange(64 * 32, dtype=np.float32).reshape(64, 32), np.zeros(128, np.float32)
    kernel = hl.RawModule(code=elected.SOURCE, options=(f"-DCHOSEN={elected.CHOICES[choice]}",), backend="emulator").get_function("one_load")
    with hl.emulate(schedule="lazy", hazards="raise"):
        kernel((1,), (128,), (hl.TensorMap.tiled(x, box=(64, 32)), out), shared_mem=64 * 128)
    assert (out == x.ravel()[:128]).all()
