# SPDX-License-Identifier: Apache-2.0
"""Lesson 16's recorded timelines: intervals are added up rightly, and the recorded blocks show what the steps are there for."""
import pytest

from hopperlab.lessons import l16_attention
from hopperlab.lessons.l16_attention import attention_on_gpu as measured
from hopperlab.measure.timelines import Mark


def test_intervals():
    assert measured.covered([(3, 4), (0, 2), (1, 3)]) == [(0, 4)]
    assert measured.length([(0, 1), (0.5, 2), (3, 4)]) == 3
    assert measured.shared([(0, 2), (5, 6)], [(1, 5.5)]) == 1.5


def test_shares_of_a_made_up_block():
    marks = [Mark(0, 4, 0, "scores", 1, 0, 2), Mark(0, 4, 0, "softmax", 1, 2, 6), Mark(0, 8, 0, "scores", 1, 2, 4), Mark(0, 8, 0, "softmax", 1, 6, 8)]
    assert measured.shares(marks) == {"products": 0.5, "softmax": 0.75, "both": 0.25, "softmax alone": 0.5}


@pytest.mark.parametrize("step", measured.RECORDED)
def test_recorded_blocks_are_whole(step):
    found = measured.load(step)
    assert (found.place, found.unit, found.dropped, found.open) == ("gpu", "ns", 0, 0) and found.source.startswith("recorded on NVIDIA H")
    for warp in (4, 8):
        for event in ("scores", "values", "softmax"):
            own = [row for row in found.of(event) if row.warp == warp]
            assert sorted(row.id for row in own) == list(range(16)) and all(row.end > row.start for row in own)


def test_overlap_leaves_the_least_time_without_a_product():
    """What the steps are for, measured: two consumers at random, turns, and overlap inside a warpgroup."""
    alone = {step: measured.shares(measured.load(step))["softmax alone"] for step in measured.RECORDED}
    assert alone["overlapped"] < alone["pingpong"] and alone["overlapped"] < alone["two_consumers"]


def test_the_picture_says_what_it_shows():
    picture = l16_attention.attention_measured()
    assert all(step in picture.text for step in measured.RECORDED) and "% of the time" in picture.text and "recorded on NVIDIA H" in picture.text
