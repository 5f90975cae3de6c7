# SPDX-License-Identifier: Apache-2.0
"""The drawings of the exercises of lesson 16 keep the rules that they show."""
from math import exp

import pytest

from hopperlab.lessons import l16_attention
from hopperlab.lessons.l16_attention import exercise_figures


def test_factors_of_all_blocks_together_lead_from_the_first_maximum_to_the_last():
    steps = exercise_figures.running([1.0, 2.0, 5.0, 0.0, 3.0, 4.0, 7.0], 2)
    assert [most for most, _ in steps] == [2, 5, 5, 7] and steps[0][1] == 0
    product = 1.0
    for _, factor in steps[1:]:
        product *= factor
    assert product == pytest.approx(exp(2 - 7))


def test_the_output_is_rescaled_only_when_no_product_adds_to_it():
    lines = [line for line in l16_attention.draw_attention_turns(5).text.splitlines() if " from " in line]
    times = {kind: [tuple(map(float, line.rsplit(" from ")[1].split(" to "))) for line in lines if kind in line] for kind in ("product with V", "softmax", "rescale")}
    assert [len(spans) for spans in times.values()] == [5, 5, 4]
    for start, end in times["rescale"]:
        assert all(after <= start or before >= end for before, after in times["product with V"])
    for product, softmax in zip(times["product with V"], times["softmax"][1:]):
        assert softmax[0] < product[1] and product[0] < softmax[1]


@pytest.mark.parametrize("picture", [lambda: l16_attention.draw_running_maximum([1.0, 2.0, 0.5], 2), lambda: l16_attention.draw_attention_turns(1),
                                     l16_attention.draw_attention_turns])
def test_picture_has_labels_and_words(picture):
    made = picture()
    axis = made.figure.axes[0]
    assert axis.get_xlabel() and axis.get_title(loc="left") and len(made.text.splitlines()) > 2 and made.png().startswith(b"\x89PNG")
