# SPDX-License-Identifier: Apache-2.0
"""A kernel that is wrong, crashes or hangs costs its own process and is left out; the others go on."""
import pytest

from hopperlab.measure.recordings import Record
from hopperlab.measure.suites import attention, attention_fp8, fp8, ladder, prechecked
from hopperlab.measure.suites.race import WrongResult

MODULE = """
import sys, time

def check(name):
    if name == "hangs": time.sleep(3600)
    if name == "crashes": sys.exit("Segmentation fault")
    print(name + ": " + ("right" if name == "good" else "12% wrong"))
    return int(name != "good")
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    import os
    (tmp_path / "kernels_tried.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]))
    return "kernels_tried"


@pytest.mark.thorough
def test_only_what_is_right_in_its_own_process_goes_on(module, capfd):
    assert prechecked.right(module, ["good", "bad", "crashes"]) == {"good"}
    assert not prechecked.passes(module, "hangs", limit=2)
    told = capfd.readouterr()
    assert "bad: 12% wrong" in told.err and "crashes: Segmentation fault" in told.err and "hangs: not done in 2 s" in told.err
    assert not told.out                                     # which is for tables and JSON


def test_nothing_right_is_nothing_timed(module):
    with pytest.raises(WrongResult, match="kernels_tried: nothing is right on this GPU, so nothing was timed"):
        prechecked.right(module, ["bad"])


@pytest.mark.parametrize(("suite", "timed"), [(fp8, "_timed"), (attention, "_timed"), (attention_fp8, "_timed"), (ladder, "_timed")])
def test_a_suite_times_nothing_before_its_kernels_are_right(suite, timed, monkeypatch):
    def none(module, names, limit=60):
        asked.append((module, list(names)))
        raise WrongResult("nothing is right")
    asked = []
    monkeypatch.setattr(prechecked, "right", none)
    monkeypatch.setattr(suite, timed, lambda *given: pytest.fail("timed"))
    with pytest.raises(WrongResult):
        suite.measure(2)
    (name, names), = asked
    assert name == suite.__name__ and len(names) > 10 and callable(suite.check)


def test_attention_keeps_what_was_measured_cell_by_cell(monkeypatch):
    cells = attention.CELLS[:2]

    def records(cell, timed, kernel=None, last=None):
        return [Record("attention", kernel or "final", shape=(cell[2],), tflops=1.0, note="drawn" if kernel else "")]
    monkeypatch.setattr(prechecked, "right", lambda module, names: set(names))
    monkeypatch.setattr(attention, "CELLS", cells)
    monkeypatch.setattr(attention, "_timed", lambda cell, choices, rounds: None)
    monkeypatch.setattr(attention, "_records", records)
    kept = []
    found = attention.measure(3, lambda records: kept.append(len(records)))
    assert kept == [1, 2, 3, 4] and [record.kernel for record in found] == ["forward", "forward", "final", "final"]
