# SPDX-License-Identifier: Apache-2.0
"""Lesson 02: the pictures of its exercises say what the exercises' own references say."""

import numpy as np
import pytest

from hopperlab.hopper import swizzle
from hopperlab.lessons import catalogue, l02_banks_and_swizzles


def answer(name, shape, **constants):
    case = catalogue.find(name).case(np.random.default_rng(1), shape, **constants)
    return case.arguments, case.expected


@pytest.mark.parametrize("span", (128, 64, 32))
def test_column_lies_where_the_swizzle_puts_it(span):
    (start, piece, rows), expected = answer("02.1", 9, SPAN=span)
    assert l02_banks_and_swizzles.draw_swizzled_column(span, start, piece, rows).text.endswith(", ".join(map(str, expected)))
    assert expected[0] == swizzle.apply(start + 16 * piece, f"{span}B")


def test_the_matrices_of_a_corner_change_places_across_its_diagonal():
    words = l02_banks_and_swizzles.draw_turned_corner(64, y=0, x=1).text
    assert "d[1]: rows 8 to 15, piece 2; in the turned tile rows 16 to 23, piece 1" in words
    assert "d[2]: rows 0 to 7, piece 3; in the turned tile rows 24 to 31, piece 0" in words


@pytest.mark.parametrize("draw", (lambda: l02_banks_and_swizzles.draw_swizzled_column(64, 384, 1), lambda: l02_banks_and_swizzles.draw_turned_corner(32)))
def test_picture_is_deterministic_small_and_has_labels(draw):
    first, second = draw(), draw()
    assert first.png() == second.png() and len(first.png()) < 60_000
    assert all(axis.get_xlabel() for axis in first.figure.axes) and all(axis.get_title(loc="left") for axis in first.figure.axes)
