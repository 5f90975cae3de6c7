# SPDX-License-Identifier: Apache-2.0
"""Answers whose values are right though the mechanism asked for carries nothing are refused; right ones in other styles are not.

bypasses_NN.toml: `says` is what the refusal must contain (a regular expression): what was bypassed, and what to do instead. styles_NN.toml: right answers.
Both are edits of the solution, or whole.
"""
import re
from collections import Counter

import pytest
from support import answer_texts
from support.answer_texts import few_hidden_shapes      # noqa: F401 - a fixture

from hopperlab.checking import check
from hopperlab.checking.exercise import PYTHON
from hopperlab.lessons import catalogue

EXERCISES = catalogue.every()
BYPASSES, STYLES = answer_texts.entries("bypasses_*.toml", "bypass"), answer_texts.entries("styles_*.toml", "style")
FOLLOWED = sorted({param.values[0]["exercise"] for param in [*BYPASSES, *STYLES]})
KEY = "a grader's own key of some length"
PYTHONS = [name for name, exercise in EXERCISES.items() if exercise.kind == PYTHON]


@pytest.mark.parametrize("entry", BYPASSES)
@pytest.mark.sampled(every=18)
def test_bypass_is_refused_and_the_message_names_it(entry):
    verdict = check.judge(EXERCISES[entry["exercise"]], answer_texts.edited(entry))
    assert not verdict.right, f"{entry['name']}: not noticed"
    assert re.search(entry["says"], str(verdict)), f"expected {entry['says']!r} in:\n{verdict}"
    assert answer_texts.english_left(str(verdict), entry["exercise"]) == [], "runtime/strings/zh/exercises.toml lacks a translation"


@pytest.mark.parametrize("hidden", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["visible", "hidden"])
@pytest.mark.parametrize("entry", STYLES)
@pytest.mark.sampled(every=38, ci=2)
@pytest.mark.usefixtures("few_hidden_shapes")
def test_right_answer_in_another_style_is_right(entry, hidden):
    verdict = check.judge(EXERCISES[entry["exercise"]], answer_texts.edited(entry), hidden=hidden, key=f"{KEY}: {entry['name']}")
    assert verdict.right, str(verdict)


LONG = [name for name, exercise in EXERCISES.items() if exercise.long]
ROUNDS = {"07.1": lambda shape: shape[0] / shape[1], "10.1": lambda shape: shape[0] / shape[1],
          "13.2": lambda shape: -(-shape[0] // 64) * -(-shape[1] // 64) / shape[3]}
"""Rounds of a block: numbers, tiles and tiles of 64 x 64, shared out among blocks; of the others the last number of a shape."""


@pytest.mark.parametrize("name", LONG)
def test_one_hidden_shape_is_longer_than_all_that_are_drawn(name):
    """By nearly twice as many rounds, for whatever key."""
    rounds = ROUNDS.get(name, lambda shape: shape[-1])
    for key in ("public", KEY):
        *drawn, long = check._shapes(EXERCISES[name], key, True)
        assert len(drawn) == check.HIDDEN_SHAPES - 1 and rounds(long) > 1.9 * max(map(rounds, [*drawn, *EXERCISES[name].shapes]))
        assert long not in check._shapes(EXERCISES[name], key, False)


def test_a_pipeline_that_stops_after_a_few_rounds_is_found_out_where_nobody_sees_the_shapes():
    """It waits for all copies from the ninth tile on; the shapes of the notebook have eight tiles at most."""
    assert {"03.2", "09.2", "10.2", "12.2", "15.2"} < set(LONG)
    right = answer_texts.edited({"exercise": "03.2", "name": "late", "replace": []})
    wait = "        cp_async_wait_group<STAGES - 2>();"
    assert wait in right
    late = right.replace(wait, "        if (t < 8) cp_async_wait_group<STAGES - 2>(); else cp_async_wait_group<0>();")
    assert check.judge(EXERCISES["03.2"], late).right
    verdict = check.judge(EXERCISES["03.2"], late, hidden=True, key=KEY)
    assert not verdict.right and "it waits for more than the next tile" in str(verdict)


def test_three_of_each():
    bypasses, styles = (Counter(param.values[0]["exercise"] for param in params) for params in (BYPASSES, STYLES))
    for name in FOLLOWED:
        assert styles[name] >= 3, name
        assert bypasses[name] >= 3 or EXERCISES[name].kind == PYTHON, name


@pytest.mark.parametrize("name", PYTHONS)
@pytest.mark.sampled(every=2)
def test_a_table_of_the_public_cases_earns_nothing(name):
    """It is right where everybody sees the cases, and nowhere else."""
    exercise = EXERCISES[name]
    constants = exercise.setting({})
    cases = [exercise.case(check.random("public", name, shape), shape, **constants) for shape in exercise.shapes]
    known = {repr(listed(case.arguments)): listed(case.expected) for case in cases}
    text = f"inf = float('inf')\nKNOWN = {known!r}\n\n\ndef {exercise.name}(*given):\n    return KNOWN.get(repr(list(given)), [])\n"
    assert check.judge(exercise, text).right
    assert not check.judge(exercise, text, hidden=True).right
    assert not check.judge(exercise, text, key=KEY).right
    assert not check.judge(exercise, text, key=KEY, hidden=True).right


@pytest.mark.parametrize("name", PYTHONS)
@pytest.mark.sampled(every=4)
def test_values_that_claim_to_be_equal_or_are_looked_for_in_frames_are_not_right(name):
    function = EXERCISES[name].name
    claims = f"class Any(list):\n    def __eq__(self, other):\n        return True\n\n\ndef {function}(*given):\n    return Any()\n"
    looks = (f"def {function}(*given):\n    import sys\n    frame = sys._getframe()\n    while frame:\n        for place in (frame.f_locals, frame.f_globals):\n"
             "            for word in ('expected', 'case', 'cases'):\n                if word in place:\n                    return getattr(place[word], "
             "'expected', place[word])\n"
             "        frame = frame.f_back\n    return None\n")
    prints = (f"def {function}(*given):\n    import os\n    for channel in range(1, 20):\n        try:\n            os.write(channel, b'\\n{{\"values\": "
              f"[[]], \"right\": true}}\\n')\n"
              "        except OSError:\n            pass\n    os._exit(0)\n")
    lies = (f"class Number(float):\n    def tolist(self):\n        return self\n\n    def __sub__(self, other):\n        return 0.0\n    __rsub__ = "
            f"__sub__\n\n    def __eq__(self, other):\n"
            f"        return True\n    __hash__ = None\n\n\ndef {function}(*given):\n    return Number(1)\n")
    for text in (claims, looks, prints, lies):
        verdict = check.judge(EXERCISES[name], text)
        assert not verdict.right and verdict.findings[0].step == "values", str(verdict)


def listed(value):
    """As JSON hands it over: tuples become lists."""
    return [listed(one) for one in value] if isinstance(value, (list, tuple)) else value
