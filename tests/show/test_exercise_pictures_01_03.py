"""The pictures of the exercises to lessons 01 to 03 say what the exercises' own references say."""

import numpy as np
import pytest

from hopperlab import show
from hopperlab.grading import exercise
from hopperlab.hopper import swizzle


def answer(name, shape, **constants):
    case = exercise.find(name).case(np.random.default_rng(1), shape, **constants)
    return case.arguments, case.expected


def test_tiles_ahead_follow_from_latency_and_pace():
    assert "4 are on their way" in show.draw_tiles_ahead(800, 200).text
    assert "5 are on their way" in show.draw_tiles_ahead(801, 200).text


def test_a_tile_is_put_down_after_its_load_and_multiplied_after_a_barrier():
    words = show.draw_register_buffer(tiles=3).text
    for line in ("registers: load tile 1 from 3 to 5", "buffer 1: put down tile 1 from 5 to 5.9", "__syncthreads(): barrier from 6 to 6",
                 "buffer 1: multiply tile 1 from 6 to 8"):
        assert line in words


@pytest.mark.parametrize("span", (128, 64, 32))
def test_column_lies_where_the_swizzle_puts_it(span):
    (start, piece, rows), expected = answer("02.1", 9, SPAN=span)
    assert show.draw_swizzled_column(span, start, piece, rows).text.endswith(", ".join(map(str, expected)))
    assert expected[0] == swizzle.apply(start + 16 * piece, f"{span}B")


def test_the_matrices_of_a_corner_change_places_across_its_diagonal():
    words = show.draw_turned_corner(64, y=0, x=1).text
    assert "d[1]: rows 8 to 15, piece 2; in the turned tile rows 16 to 23, piece 1" in words
    assert "d[2]: rows 0 to 7, piece 3; in the turned tile rows 24 to 31, piece 0" in words


@pytest.mark.parametrize("stages", (2, 3, 4))
def test_groups_that_may_be_open_are_as_many_as_the_wait_says(stages):
    _, expected = answer("03.1", (6, False), STAGES=stages)
    turns = show.draw_groups(stages, 6).text.split("\n")[1:]
    assert [turn.count("may still be on its way") for turn in turns] == expected


def test_more_stages_end_earlier():
    words = show.draw_ring_depths((2, 4), tiles=7, latency=3).text
    assert "2 stages: slot 0: multiply tile 6 from 21.0 to 22.0" in words and "4 stages: slot 2: multiply tile 6 from 9.0 to 10.0" in words


@pytest.mark.parametrize("draw", (lambda: show.draw_tiles_ahead(800, 200), lambda: show.draw_swizzled_column(64, 384, 1), lambda: show.draw_turned_corner(32),
                                  lambda: show.draw_groups(3, 5), lambda: show.draw_ring_depths((2, 3)), show.draw_register_buffer))
def test_picture_is_deterministic_small_and_has_labels(draw):
    first, second = draw(), draw()
    assert first.png() == second.png() and len(first.png()) < 60_000
    assert all(axis.get_xlabel() for axis in first.figure.axes) and all(axis.get_title(loc="left") for axis in first.figure.axes)
