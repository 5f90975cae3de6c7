# SPDX-License-Identifier: Apache-2.0
"""Lesson 01: the pictures of its exercises say what latency and pace make."""

import pytest

from hopperlab.lessons import l01_feeding_the_tensor_core


def test_tiles_ahead_follow_from_latency_and_pace():
    assert "4 are on their way" in l01_feeding_the_tensor_core.draw_tiles_ahead(800, 200).text
    assert "5 are on their way" in l01_feeding_the_tensor_core.draw_tiles_ahead(801, 200).text


def test_a_tile_is_put_down_after_its_load_and_multiplied_after_a_barrier():
    words = l01_feeding_the_tensor_core.draw_register_buffer(tiles=3).text
    for line in ("registers: load tile 1 from 3 to 5", "buffer 1: put down tile 1 from 5 to 5.9", "__syncthreads(): barrier from 6 to 6",
                 "buffer 1: multiply tile 1 from 6 to 8"):
        assert line in words


@pytest.mark.parametrize("draw", (lambda: l01_feeding_the_tensor_core.draw_tiles_ahead(800, 200), l01_feeding_the_tensor_core.draw_register_buffer))
def test_picture_is_deterministic_small_and_has_labels(draw):
    first, second = draw(), draw()
    assert first.png() == second.png() and len(first.png()) < 60_000
    assert all(axis.get_xlabel() for axis in first.figure.axes) and all(axis.get_title(loc="left") for axis in first.figure.axes)
