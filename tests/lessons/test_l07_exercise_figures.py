# SPDX-License-Identifier: Apache-2.0
"""Lesson 07: the drawings of its exercises keep the rules that they show."""
from itertools import pairwise

import pytest

from hopperlab.lessons import l07_tma_stores
from hopperlab.lessons.l07_tma_stores import exercise_figures


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_a_slot_is_written_again_only_when_it_has_been_read(slots):
    plan = exercise_figures.store_plan(slots, 9)
    assert [slot for _, slot, _, _ in plan] == [tile % slots for tile in range(9)]
    for one, after in zip(plan, plan[slots:]):
        assert one[3] <= after[2]
    for one, after in pairwise(plan):
        assert one[2] < after[2] and one[3] < after[3]      # one tile is written at a time, and one is read


def test_without_a_slot_there_is_no_plan():
    with pytest.raises(ValueError, match="at least one"):
        exercise_figures.store_plan(0, 3)


@pytest.mark.parametrize("picture", [lambda: l07_tma_stores.draw_store_slots(3), lambda: l07_tma_stores.draw_split_k(2), lambda: l07_tma_stores.draw_split_k(1)])
def test_picture_has_labels_and_words(picture):
    made = picture()
    axis = made.figure.axes[0]
    assert axis.get_xlabel() and axis.get_title(loc="left") + axis.get_title()
    assert len(made.text.splitlines()) > 2 and made.png().startswith(b"\x89PNG")


def test_the_block_that_arrives_last_finishes_the_tile():
    text = l07_tma_stores.draw_split_k(3).text
    assert text.count("reads C, stores y") == 1 and "block z = 1: reads C, stores y" in text
