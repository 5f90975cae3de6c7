# SPDX-License-Identifier: Apache-2.0
"""Lesson 16b: runs are right and planted bugs are named, the order of additions is one that never waits in a ring, tables read a recording or say that there is
none, and the exercise answers in words."""
import pytest

from hopperlab.lessons.l16b_backward import backward_charts, backward_panels, exercise_figures
from hopperlab.lessons.l16b_backward.repairs import REPAIRS
from hopperlab.measure.launches import attention_backward
from hopperlab.measure.recordings import Record, Recording
from hopperlab.measure.suites import backward
from hopperlab.show import style


@pytest.mark.parametrize("place", ["emulator", None])
def test_a_run_is_right_and_a_wrong_result_is_not(place):
    found = backward_panels.run_backward(length=67, heads=2, causal=True, place=place)
    assert found.right and 0 < found.worst
    found.worst = float("inf")
    assert not found.right


@pytest.mark.parametrize("repair", REPAIRS, ids=lambda repair: repair.name)
@pytest.mark.sampled(every=2)
def test_what_the_lesson_breaks_is_named(repair):
    begin = {"order": ("ordered", 320), "slot": ("overlapped", 500)}[repair.name]
    for changes in ((), repair.bug):
        found = backward_panels.run_backward(*begin, landing="random", seed=1, changes=changes)
        assert {hazard.kind for hazard in found.run.hazards} == ({"overwrite-in-flight"} if changes else set())


@pytest.mark.thorough           # tests/kernels/test_attention_backward.py compares the bits of five landing orders
def test_an_order_gives_the_same_bits():
    assert backward_panels.distinct_results("ordered") == 1 < backward_panels.distinct_results("bulk")


@pytest.mark.parametrize("consumers, step", [(1, "one_warpgroup"), (2, "overlapped")])
def test_products_of_every_consumer_are_seen(consumers, step):
    found = backward_panels.run_backward(step, 256)
    spans = backward_panels.product_spans(found)
    assert {s.row for s in spans if s.row.startswith("consumer")} == {f"consumer {c}: {name}" for c in range(1, consumers + 1) for name in ("s", "dp", "dv", "dq", "dk")}
    assert any(s.kind == "adds dq" for s in spans) == (found.choice.dq == "bulk") and all(s.start < s.end for s in spans)
    mine = {s.kind: s for s in reversed(spans) if s.row.startswith("consumer 1")}
    assert mine["s"].end <= mine["dv"].start and mine["dp"].end <= mine["dq"].start < mine["dk"].start


@pytest.mark.thorough
def test_the_panel_says_what_ran():
    picture = backward_panels.launch_backward(64, "yes", "ordered", 192)
    assert "right, no hazard" in picture.text and "2 blocks of 128 keys, 2 of 128 queries" in picture.text


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dq", ["bulk", "ordered"])
def test_everybody_adds_once_and_in_order_one_at_a_time(dq, causal):
    rows = backward_charts.order(5, 10, 128, 64, causal, dq)
    assert [sorted(m for _, m in row) for row in rows] == [list(range(2 * n if causal else 0, 10)) for n in range(5)]
    for m in range(10):
        steps = [step for row in rows for step, at in row if at == m]
        assert dq == "bulk" and not causal or len(set(steps)) == len(steps)
    if dq == "ordered":                                          # whoever is waited for has a smaller number
        last = [row[-1][0] for row in rows]
        assert last == sorted(last, reverse=causal)


def test_pictures_have_words():
    for picture in (backward_charts.adds_map(512, 128, True), backward_panels.backward_order(128), exercise_figures.draw_row(),
                    exercise_figures.draw_starts_of_products()):
        assert isinstance(picture, style.Picture) and len(picture.text) > 60
    assert "keys 1:  .  .  0  1" in backward_charts.adds_map(256, 128, True).text


def test_registers_and_cycles():
    rows = [line.split() for line in backward_charts.registers_table().splitlines()[1:]]
    assert [row[3:] for row in rows][:2] == [["64", "224", "192", "160", "240"], ["128", "208", "192", "192", "240"]]
    assert backward_charts.balance_table_backward().splitlines()[-1].split() == ["128", "2048", "5120", "1024"]


def recorded():
    made, cell = [], {"shape": (4, 4096, 16, 128), "dtype": "bfloat16", "ratio_min": 0.9, "ratio_max": 1.1, "peer": "cuDNN", "peer_value": 400.0, "ms": 1.0,
                      "ms_min": 0.9, "ms_max": 1.1}
    chosen = attention_backward.Backward().named
    for mask in ("full", "causal"):
        for name, tflops, ratio in (("two_consumers", 200.0, 0.5), ("final", 420.0, 1.05), ("ordered", 380.0, 0.95), ("cuDNN", 400.0, 1.0)):
            made.append(Record("backward", name, ("D=128", mask, *(chosen if name in ("final", "ordered") else ())), tflops=tflops, ratio=ratio, **cell))
        made.append(Record("backward", "backward", ("D=128", mask), tflops=500.0, ratio=1.2, note="bulk", **cell))
    made += [Record("backward", "part", ("D=128", "full", "attention_backward"), (4, 4096, 16, 128), "bfloat16", ms=0.5, ms_min=0.4, ms_max=0.6),
             Record("backward", "accuracy", ("D=128", "causal", "ordered", "dq"), (1, 2048, 16, 128), "bfloat16", value=1e-3, value_max=2e-2,
                    unit="of the results' root mean square"),
             Record("backward", "bits", ("D=128", "full", "DQ=bulk"), (1, 4096, 16, 128), "bfloat16", value=20.0, unit="of 20 runs differ")]
    header = {"gpu": "a stand-in", "driver": "0", "cuda": "0", "date": "never"}
    return Recording("backward", header, tuple(made))


def test_tables_read_what_was_recorded():
    found = recorded()
    table = backward_charts.backward_table(found).splitlines()
    assert table[2].split() == ["128", "full", "4096", "420", "380", "400", "-", "-", "1.050", "0.950"] and len(table) == 4
    steps = backward_charts.steps_table(found)
    assert "200 (0.50)" in steps and "420 (1.05)" in steps and "500" not in steps
    assert "500.0" in backward_charts.parts_table(found) and "1.00e-03" in backward_charts.accuracy_table(found) and ("20 of 20 runs "
                                                                                                                      "differ") in backward_charts.bits_table(found)
    assert isinstance(backward_charts.backward_chart(found), style.Picture)
    forward = Recording("attention", found.header, (Record("attention", "final", ("D=128", "full"), (4, 4096, 16, 128), "bfloat16", tflops=630.0),))
    assert backward_charts.times_as_long(found, forward) == 3.75
    with pytest.raises(LookupError, match="heads of 64"):
        backward_charts.times_as_long(found, forward, d=64)
    assert backward.shown(found.records, ((128, False, 4096),)).endswith("part D=128 full attention_backward: 500.0 us")


def test_without_a_recording_one_line_says_how_to_make_it():
    for made in (backward_charts.backward_table(None), backward_charts.steps_table(None), repr(backward_charts.backward_chart(None)), backward_charts.parts_table(None),
                 backward_charts.accuracy_table(None), backward_charts.bits_table(None)):
        assert "hopperlab bench backward" in made


@pytest.mark.parametrize("answer, says", [
    (None, "Not answered yet"), (dict(s=None, dp=None, dv=None, dk=None, dq=None), "Not answered yet"), (dict(s=""), "five products"),
    (dict(s="", dp="", dv="s dp", dk="s dp", dq="s dp"), "dv can start without dp"), (dict(s="", dp="", dv="s", dk="s", dq="s dp"), "dk is made of dp"),
    (dict(s="", dp="", dv="s", dk="s dp", dq="s, dp dv"), "dq can start without dv"), (dict(s="", dp="", dv="s", dk="s dp", dq="x"), "x is no product"),
    (dict(s="", dp="", dv="s", dk="dp s", dq="s,dp"), "Right")])
def test_the_exercise_answers_in_words(answer, says):
    assert says in backward_panels.check_waits(answer)
