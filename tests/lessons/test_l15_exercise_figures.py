# SPDX-License-Identifier: Apache-2.0
"""The drawings of the exercises of lesson 15 say what e4m3 does, and show no promotion of a k-block that is still being multiplied."""
import ml_dtypes
import numpy as np
import pytest

from hopperlab.lessons import l15_fp8_gemm
from hopperlab.lessons.l15_fp8_gemm import exercise_figures


def test_error_is_that_of_rounding_to_e4m3():
    x = np.random.default_rng(15).uniform(-12, np.log2(448), 2000)
    rounded = (2 ** x).astype(ml_dtypes.float8_e4m3fn).astype(float)
    assert exercise_figures.e4m3_error(2 ** x) == pytest.approx(np.abs(rounded / 2 ** x - 1))


def test_a_k_block_is_promoted_when_it_is_done_and_its_accumulator_is_free_for_the_next_but_one():
    lines = [line.split() for line in l15_fp8_gemm.draw_promotions(6).text.splitlines()[1:]]
    spans = {(line[2], int(line[-5])): (float(line[-3]), float(line[-1]), line[0]) for line in lines}
    for i in range(6):
        product, promotion = spans["multiplied", i], spans["promoted", i]
        assert product[1] <= promotion[0] and product[2] == promotion[2]
        if i + 1 < 6:
            assert spans["multiplied", i + 1][0] <= promotion[0] < spans["multiplied", i + 1][1]
        if i + 2 < 6:
            assert promotion[1] <= spans["multiplied", i + 2][0]


@pytest.mark.parametrize("picture", [l15_fp8_gemm.draw_e4m3_error, l15_fp8_gemm.draw_promotions])
def test_picture_has_labels_and_words(picture):
    made = picture()
    axis = made.figure.axes[0]
    assert axis.get_xlabel() and axis.get_title(loc="left") and made.text and made.png().startswith(b"\x89PNG")
