# SPDX-License-Identifier: Apache-2.0
"""What a function of a learner returned, beside what it should: values of any depth and kind are compared or refused."""
import json

import pytest

from hopperlab.checking import python_answers


@pytest.mark.parametrize("depth", [1, 100, *range(900, 1000, 7), 5000, 100_000])
def test_values_of_any_depth_are_compared_or_refused(depth):
    printed = json.dumps({"values": ["X"]}).replace('"X"', "[" * depth + "]" * depth)
    try:
        value, = python_answers.values("f", printed, 1)
    except python_answers.AnswerFailed as failed:
        assert "without returning values" in str(failed)
    else:
        assert python_answers.difference(value, 1).startswith("returned ")


@pytest.mark.parametrize("value, expected, tolerance", [(10**400, 1.0, 0.1), (10**400, 1, 0), (float("nan"), 1.0, 0.5), (float("inf"), 1.0, 0.5), (True, 1, 0),
                                                        (1, True, 0),
                                                        ("1", 1, 0), (None, 0, 0), ([], 0, 0), (0, [], 0), ([1, [2]], [1, 2], 0)])
def test_values_that_are_not_the_expected_ones(value, expected, tolerance):
    assert python_answers.difference(value, expected, tolerance)
