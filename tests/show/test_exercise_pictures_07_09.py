"""The drawings of the exercises of lessons 07 and 09 keep the rules that they show."""
from itertools import pairwise

import pytest

from hopperlab import show
from hopperlab.show import exercise_pictures_07, exercise_pictures_09


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_a_slot_is_written_again_only_when_it_has_been_read(slots):
    plan = exercise_pictures_07.store_plan(slots, 9)
    assert [slot for _, slot, _, _ in plan] == [tile % slots for tile in range(9)]
    for one, after in zip(plan, plan[slots:]):
        assert one[3] <= after[2]
    for one, after in pairwise(plan):
        assert one[2] < after[2] and one[3] < after[3]      # one tile is written at a time, and one is read


def test_without_a_slot_there_is_no_plan():
    with pytest.raises(ValueError, match="at least one"):
        exercise_pictures_07.store_plan(0, 3)


@pytest.mark.parametrize(("stages", "pending"), [(2, 1), (3, 0), (3, 1), (3, 2), (5, 2)])
def test_a_stage_is_loaded_after_it_was_handed_back_and_before_its_use(stages, pending):
    plan = exercise_pictures_09.loop_plan(stages, pending, 11)
    for tile, slot, load, use, back in plan:
        assert slot == tile % stages and load < use == tile < back
    for one, after in zip(plan, plan[stages:]):
        assert one[4] == pytest.approx(after[2])


def test_a_ring_that_waits_for_itself_is_refused():
    with pytest.raises(ValueError, match="more than 2 stages"):
        exercise_pictures_09.loop_plan(2, 2, 5)


@pytest.mark.parametrize("picture", [lambda: show.draw_store_slots(3), lambda: show.draw_split_k(2), lambda: show.draw_split_k(1),
                                     lambda: show.draw_multistage(4, 2)])
def test_picture_has_labels_and_words(picture):
    made = picture()
    axis = made.figure.axes[0]
    assert axis.get_xlabel() and axis.get_title(loc="left") + axis.get_title()
    assert len(made.text.splitlines()) > 2 and made.png().startswith(b"\x89PNG")


def test_the_block_that_arrives_last_finishes_the_tile():
    text = show.draw_split_k(3).text
    assert text.count("reads C, stores y") == 1 and "block z = 1: reads C, stores y" in text
