# SPDX-License-Identifier: Apache-2.0
"""Lesson 03: the pictures of its exercises say what the exercises' own references say."""

import numpy as np
import pytest

from hopperlab.lessons import catalogue, l03_ampere_pipeline


def answer(name, shape, **constants):
    case = catalogue.find(name).case(np.random.default_rng(1), shape, **constants)
    return case.arguments, case.expected


@pytest.mark.parametrize("stages", (2, 3, 4))
def test_groups_that_may_be_open_are_as_many_as_the_wait_says(stages):
    _, expected = answer("03.1", (6, False), STAGES=stages)
    turns = l03_ampere_pipeline.draw_groups(stages, 6).text.split("\n")[1:]
    assert [turn.count("may still be on its way") for turn in turns] == expected


def test_more_stages_end_earlier():
    words = l03_ampere_pipeline.draw_ring_depths((2, 4), tiles=7, latency=3).text
    assert "2 stages: slot 0: multiply tile 6 from 21.0 to 22.0" in words and "4 stages: slot 2: multiply tile 6 from 9.0 to 10.0" in words


@pytest.mark.parametrize("draw", (lambda: l03_ampere_pipeline.draw_groups(3, 5), lambda: l03_ampere_pipeline.draw_ring_depths((2, 3))))
def test_picture_is_deterministic_small_and_has_labels(draw):
    first, second = draw(), draw()
    assert first.png() == second.png() and len(first.png()) < 60_000
    assert all(axis.get_xlabel() for axis in first.figure.axes) and all(axis.get_title(loc="left") for axis in first.figure.axes)
