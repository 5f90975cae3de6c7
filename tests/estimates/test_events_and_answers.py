# SPDX-License-Identifier: Apache-2.0
"""What was timed on an H200 that nothing is fitted on, estimated now: events of a kernel, and right answers to exercises. docs/estimates.md says the figures."""
import json
import re

import numpy as np
import pytest

from benchmarks import answers_timed, timed_events


def test_events_of_drawn_launches_are_off_by_what_the_page_says():
    names = sorted(path.stem for path in timed_events.FOLDER.glob("*.json"))
    *_, product, k_block, stores, block = timed_events.judged(names)
    off = {line.split(":")[0]: int(re.search(r"(\d+)% off", line)[1]) for line in (product, k_block, stores, block)}
    assert off == {"first product": pytest.approx(10, abs=2), "k-block": pytest.approx(9, abs=2), "stores": pytest.approx(31, abs=4), "block": pytest.approx(7, abs=2)}


@pytest.mark.thorough
def test_answers_are_off_by_what_the_page_says():
    stored = json.loads((answers_timed.FOLDER / "h200.json").read_text(encoding="utf-8"))["rows"]
    rows = answers_timed.estimated(stored, "h200")
    assert len(rows) == len(stored) == 65 and np.mean([abs(row["estimated"] / row["us"] - 1) for row in rows]) < 0.11
    both = answers_timed.ratios(rows)
    assert len(both) == 46 and np.mean([abs(guessed / real - 1) for real, guessed in both]) < 0.045
    assert all((real >= answers_timed.LEAST) == (guessed >= answers_timed.LEAST) for real, guessed in both), "points are given as by a measurement"


def test_an_answer_that_is_gone_is_named():
    with pytest.raises(LookupError, match=r"09\.2 has no answer 'nobody' any more"):
        answers_timed.estimated([{"exercise": "09.2", "name": "nobody", "us": 1.0}], "h200")
