# SPDX-License-Identifier: Apache-2.0
"""What a function of a learner returned, beside what it should: values of any depth and kind are compared or refused."""
import json

import pytest

from support.answer_texts import solution_cell

from hopperlab.checking import check, python_answers, python_child
from hopperlab.grading import regions
from hopperlab.lessons import catalogue


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


@pytest.mark.parametrize("printed", ['{"error": ""}', '{"values": [1], "error": ""}', '{"values": [1], "error": null}', "[]", "{}", '{"values": true}',
                                     '{"values": [1, 2]}'])
def test_what_holds_no_values_is_told_with_a_reason(printed):
    with pytest.raises(python_answers.AnswerFailed, match="f returned no values"):
        python_answers.values("f", printed, 1)


@pytest.mark.parametrize("name", ["04.1", "16.1"])
@pytest.mark.parametrize("words", ["", "it did not end"])
def test_an_answer_that_fails_is_wrong_whatever_it_says(name, words):
    def call(*_arguments):
        raise python_answers.AnswerFailed(words)
    exercise = catalogue.every()[name]
    verdict = check.judge(exercise, regions.solution_without_stubs(solution_cell(name)), call=call)
    assert not verdict.right and verdict.findings[0].step == "values"


@pytest.mark.parametrize("body", ["os.kill(os.getpid(), signal.SIGXCPU)", "try:\n        os.kill(os.getpid(), signal.SIGXCPU)\n    except Exception:\n        return 1"])
def test_an_answer_whose_time_is_over_is_told_so(body):
    """The signal that comes at the end of the processor time; an endless loop that catches every Exception is told the same."""
    with pytest.raises(python_answers.AnswerFailed, match=rf"^f did not return within {python_child.CPU_SECONDS} s\.$"):
        python_answers.run(f"import os, signal\n\n\ndef f():\n    {body}\n", "f", [()])


def test_who_goes_on_after_that_is_ended_a_second_later():
    limits, = python_answers.run("import resource\n\n\ndef f():\n    return list(resource.getrlimit(resource.RLIMIT_CPU))\n", "f", [()])
    assert limits == [python_child.CPU_SECONDS, python_child.CPU_SECONDS + 1]
