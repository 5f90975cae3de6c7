# SPDX-License-Identifier: Apache-2.0
"""Lesson 09: the drawing of its exercises keeps the rules that it shows."""
import pytest

from hopperlab.lessons import l09_multistage
from hopperlab.lessons.l09_multistage import exercise_figures


@pytest.mark.parametrize(("stages", "pending"), [(2, 1), (3, 0), (3, 1), (3, 2), (5, 2)])
def test_a_stage_is_loaded_after_it_was_handed_back_and_before_its_use(stages, pending):
    plan = exercise_figures.loop_plan(stages, pending, 11)
    for tile, slot, load, use, back in plan:
        assert slot == tile % stages and load < use == tile < back
    for one, after in zip(plan, plan[stages:]):
        assert one[4] == pytest.approx(after[2])


def test_a_ring_that_waits_for_itself_is_refused():
    with pytest.raises(ValueError, match="more than 2 stages"):
        exercise_figures.loop_plan(2, 2, 5)


def test_picture_has_labels_and_words():
    made = l09_multistage.draw_multistage(4, 2)
    axis = made.figure.axes[0]
    assert axis.get_xlabel() and axis.get_title(loc="left") + axis.get_title()
    assert len(made.text.splitlines()) > 2 and made.png().startswith(b"\x89PNG")
