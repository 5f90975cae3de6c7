# SPDX-License-Identifier: Apache-2.0
"""What the texts of exercises say of the cases that are drawn holds for every key, and what a case must tell apart it does."""
import numpy as np
import pytest

from hopperlab.checking.exercise import random
from hopperlab.lessons import catalogue
from hopperlab.lessons.l16d_decoding.exercises import MOST, busiest

EXERCISES = catalogue.every()
KEYS = [f"key {number}" for number in range(40)]


def cases(name, count=1, **constants):
    exercise = EXERCISES[name]
    setting = exercise.setting(constants)
    for key in KEYS:
        rng = random(key, name, "hidden shapes")
        for shape in [exercise.draw(rng) for _ in range(count)]:
            yield shape, exercise.case(random(key, name, shape), shape, **setting)


@pytest.mark.parametrize("LARGEST", [448, 240, 224])
def test_no_quotient_is_beyond_the_largest(LARGEST):
    """As the text of 15.1 says. Rounded twice, max / (max / 448) may be more than 448."""
    block = EXERCISES["15.1"].setting({})["BLOCK"]
    for _shape, case in cases("15.1", LARGEST=LARGEST):
        values = np.array(case.arguments[0])
        for number, (scale, _codes, _error) in enumerate(case.expected):
            assert np.abs(values[block * number:block * (number + 1)] / scale).max() <= LARGEST


def test_a_row_alone_is_best_cut_into_as_many_pieces_as_are_tried():
    setting = EXERCISES["16d.1"].setting({})
    alone = [case.arguments[0] for (rows, _), case in cases("16d.1", 4) if rows == 1 and case.arguments[0][0] >= MOST]
    assert len(alone) > 40
    assert all(busiest(tiles, MOST, **setting) < min(busiest(tiles, n, **setting) for n in range(1, MOST)) for tiles in alone)


def test_maxima_of_one_row_are_farther_apart_than_exponentials_reach():
    """A weight relative to anything but the largest maximum overflows somewhere; and several parts of most rows weigh something."""
    reached, weighs = 0, []
    for shape in [(9,), (13, 4), (7, 7, 7)] * len(KEYS):
        case = EXERCISES["16d.2"].case(random(KEYS[len(weighs) % len(KEYS)], "16d.2", shape), shape, **EXERCISES["16d.2"].setting({}))
        given = {}
        case.run(lambda _name, _grid, _block, args, given=given, **_more: given.update(most=args[1], starts=args[3]))
        for a, b in zip(given["starts"], given["starts"][1:], strict=False):
            seen = given["most"][a:b][np.isfinite(given["most"][a:b])]
            reached += seen.max() - seen.min() > 128
            weighs.append(int((seen > seen.max() - 20).sum()))
    assert reached > 0.9 * len(weighs) and np.mean(weighs) > 2
