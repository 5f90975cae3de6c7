# SPDX-License-Identifier: Apache-2.0
"""Numbers that last while their block is being read: what is read again later is another number, what is carried on is not."""
import math

import numpy as np
import pytest

from hopperlab.checking import check, fleeting_numbers
from hopperlab.checking.fleeting import Fleeting
from hopperlab.lessons import catalogue

NUMBERS = [3.0, -1.0, 2.0, 5.0, -math.inf, 4.0, 1.0]


def made(length=2):
    return fleeting_numbers.fleeting(NUMBERS, length)


def test_a_block_can_be_read_as_often_as_one_likes_while_no_other_one_is():
    numbers = made()
    assert [number - 0.0 for number in numbers[:2] * 2] == [3, -1, 3, -1]
    assert numbers[0] > numbers[1] and max(numbers[:2]) == 3 and sorted(numbers[:2])[0] == -1


def test_numbers_of_a_block_that_has_been_left_are_others_and_its_largest_stays():
    numbers = made()
    assert (numbers[1] - 0.0, numbers[2] - 0.0) == (-1, 2)
    assert numbers[1] - 0.0 == -1 + fleeting_numbers.WRONG_BY and numbers[0] - 0.0 == 3


def test_multiples_go_with_their_number_and_are_no_reading():
    scaled = [0.5 * number for number in made()]
    assert [number - 0.0 for number in scaled[2:4]] == [1, 2.5]
    assert [number - 0.0 for number in scaled[:2]] == [1.5, -0.5], "no block was left by being scaled"
    assert scaled[2] - 0.0 == 1 + fleeting_numbers.WRONG_BY and 0.0 - (-scaled[3]) == 2.5


def test_asking_for_infinities_reads_nothing():
    numbers = made()
    assert [number == -math.inf for number in numbers] == [False] * 4 + [True, False, False]
    assert [number > -np.inf for number in numbers].count(True) == 6 and numbers[1] - 0.0 == -1


def test_a_function_that_calls_itself_reads_on():
    def twice(numbers, depth=0):
        return wrapped(numbers, 1) if depth == 0 else [number - 0.0 for number in numbers]
    wrapped = fleeting_numbers.given(twice, 0, 2)
    assert wrapped(NUMBERS) == NUMBERS


def test_numbers_are_floats_to_everybody_else():
    assert np.array(made()).tolist() == NUMBERS and math.fsum(made()[:4]) == 9 and all(isinstance(number, float) for number in made())


@pytest.mark.parametrize("total, right", [("total * factor + sum(terms)", True),
                                          ("sum(math.exp(SCALE * s - high) for b in met for s in scores[4 * b:4 * b + 4])", False)])
def test_sums_are_carried_or_made_anew(total, right):
    answer = f"""
import math

BLOCK = 4
SCALE = 0.5


def online(scores, values, order):
    steps, most, total, out, met = [], -math.inf, 0.0, 0.0, []
    for block in order:
        met.append(block)
        here = scores[4 * block:4 * block + 4]
        high = max(most, max(SCALE * s for s in here))
        if high == -math.inf:
            steps.append([high, 0.0, 0.0])
            continue
        factor, terms = math.exp(most - high), [math.exp(SCALE * s - high) for s in here]
        total, most = {total}, high
        out = out * factor + sum(t * v for t, v in zip(terms, values[4 * block:]))
        steps.append([most, factor, total])
    return [steps, out / total if total else 0.0]
"""
    for hidden in (False, True):
        verdict = check.judge(catalogue.every()["16.1"], answer, hidden=hidden)
        assert verdict.right == right, str(verdict)
        assert right or verdict.findings[0].step == "mechanism"


def test_lines_of_an_answer_keep_their_numbers():
    text = Fleeting(0, 4, "").text("def f(x):\n    return x", "f")
    assert text.startswith("def f(x):\n    return x\n")
