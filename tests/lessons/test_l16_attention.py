# SPDX-License-Identifier: Apache-2.0
"""Lesson 16: runs are right, turns and overlaps are what the lesson says, blocks are counted as the kernel multiplies them, every planted bug is named."""
from itertools import pairwise

import numpy as np
import pytest

from hopperlab import measure
from hopperlab.lessons.l16_attention import attention_charts, attention_panels
from hopperlab.measure.launches import attention as launches_attention
from hopperlab.runtime.library import load_kernel
from hopperlab.runtime.sass.sass import sass
from hopperlab.show import style

GAP = "\n                "
V_EARLY = (f"wgmma_wait_group<0>();{GAP}trace.end(VALUES, j + 1);{GAP}hand_back(&v_empty[before]);",
           f"hand_back(&v_empty[before]);{GAP}wgmma_wait_group<0>();{GAP}trace.end(VALUES, j + 1);")
RECORDED = measure.load("attention")


def test_turns_and_overlaps_of_the_steps():
    found = {step: attention_panels.run_attention(step, (128,), (384,)) for step in ("two_consumers", "pingpong", "overlapped")}
    assert all(run.right and not run.run.hazards for run in found.values())
    counts = {step: attention_panels.overlaps(run) for step, run in found.items()}
    assert counts["two_consumers"] == {"blocks": 12, "scores together": 6, "under the other": 0, "under its own": 0}
    assert counts["pingpong"] == {"blocks": 12, "scores together": 0, "under the other": 6, "under its own": 0}
    assert counts["overlapped"] == {"blocks": 12, "scores together": 0, "under the other": 6, "under its own": 10}


def test_spans_are_whole_products():
    found = attention_panels.run_attention("overlapped", (128,), (256,))
    spans = attention_panels.attention_spans(found)
    for consumer in (1, 2):
        for kind in attention_panels.ROWS:
            own = [s for s in spans if s.row == f"consumer {consumer}: {kind}" and s.kind == kind]
            assert len(own) == 4 and all(a.end <= b.start for a, b in pairwise(own))
    picture = attention_panels.attention_timeline(found, "heading", below="a line")
    assert picture.text.startswith("heading\n  consumer 1: scores: ") and "  a line" in picture.text and "waits" in picture.text


@pytest.mark.parametrize("place", ["emulator", None])
def test_a_wrong_result_is_not_right(place):
    found = attention_panels.run_attention("overlapped", (67,), (131,), heads=2, causal=True, place=place)
    assert found.right and found.error <= found.bound
    found.lse = False
    assert not found.right
    found.lse, found.error = True, float("nan")
    assert not found.right


@pytest.mark.parametrize(("old", "new", "kinds", "right"), [
    (f"hand_back(&v_empty[before]);{GAP}scale_rows(out, scales);", "hand_back(&v_empty[before]);", set(), False),
    (*V_EARLY, {"overwrite-in-flight"}, True),
    (f"wgmma_wait_group<1>();{GAP}trace.end(SCORES, j);{GAP}hand_back(&k_empty[ring.slot]);",
     f"hand_back(&k_empty[ring.slot]);{GAP}wgmma_wait_group<1>();{GAP}trace.end(SCORES, j);", set(), True),
    (f"under the softmax of this one{GAP}next_turn();", "", {"deadlock"}, False),
], ids=["no rescale", "v too early", "k too early", "no turn"])
@pytest.mark.sampled(every=2)
def test_planted_bugs(old, new, kinds, right):
    found = attention_panels.run_attention(k_lengths=(384,), changes=[(old, new)])
    assert {hazard.kind for hazard in found.run.hazards} == kinds and found.right == right


@pytest.mark.parametrize("landing", ["eager", "random"])
def test_the_early_slot_is_named_under_every_schedule(landing):
    found = attention_panels.run_attention(k_lengths=(384,), changes=[V_EARLY], landing=landing)
    assert {hazard.kind for hazard in found.run.hazards} == {"overwrite-in-flight"}


@pytest.mark.parametrize(("queries", "keys", "causal", "consumers"), [(256, 256, False, 2), (256, 256, True, 2), (300, 100, True, 2), (100, 300, True, 2),
                                                                      (1, 1, True, 2),
                                                                      (200, 200, True, 3)])
def test_every_warpgroup_multiplies_the_blocks_it_sees(queries, keys, causal, consumers):
    found = attention_panels.run_attention("persistent", (queries,), (keys,), causal=causal, consumers=consumers)
    assert found.right and attention_charts.counted_blocks(found, 64) == sum(attention_charts.key_blocks(queries, keys, bm=64, causal=causal))


def test_balance_and_roofs():
    assert attention_charts.cycles(64) == (1024, 1024) and attention_charts.share_by_turns(64) == 0.5
    assert attention_charts.cycles(256)[0] == 4 * attention_charts.cycles(64)[0]
    assert "64      1024          1024" in attention_charts.balance_table()
    picture = attention_charts.exponential_roofline(RECORDED, measure.load("ceilings"))
    assert isinstance(picture, style.Picture) and "head size 128" in picture.text and "cuBLAS" in picture.text


@pytest.mark.parametrize("way", attention_charts.WAYS_TO_SHARE)
def test_tiles_are_shared_out_each_once(way):
    blocks = attention_charts.key_blocks(1024, 1024) * 3
    shared = attention_charts.shared_out(blocks, 5, way)
    assert sorted(round(end - start - 1) for cta in shared for start, end in cta) == sorted(blocks)
    assert all(a[1] <= b[0] for cta in shared for a, b in pairwise(cta))


def test_longest_first_ends_earliest_and_an_unknown_way_is_named():
    blocks = attention_charts.key_blocks(16384, 16384) * 16
    ends = {way: max(cta[-1][1] for cta in attention_charts.shared_out(blocks, 132, way)) for way in attention_charts.WAYS_TO_SHARE}
    assert min(ends, key=ends.__getitem__) == "drawn, longest first"
    assert "103 %" in attention_charts.sharing_table([(16384, 1)])
    with pytest.raises(ValueError, match="no way"):
        attention_charts.shared_out(blocks, 132, "by luck")


def test_what_was_recorded_is_told():
    table = attention_charts.attention_table(RECORDED)
    assert RECORDED.source in table and "30 cells" in table and len(table.splitlines()) == 10
    assert len(attention_charts.steps_of(RECORDED, "full")) == len(launches_attention.STEPS) + 1
    assert all(step in attention_charts.attention_steps(RECORDED) for step in (*launches_attention.STEPS, "final"))
    assert attention_charts.last_over_first(RECORDED) > 0
    assert "causal, head size 256" in attention_charts.attention_chart(RECORDED).text
    designs = attention_charts.attention_designs(RECORDED).splitlines()
    assert len(designs) == 2 + len(attention_charts.DESIGNS) and all(int(line.split()[-1]) > 0 for line in designs[2:])


def test_the_map_counts_every_block():
    assert "15 blocks whole, 6 blocks masked in part, 15 blocks left out" in attention_charts.causal_map(768, 768).text


@pytest.mark.parametrize("step", list(launches_attention.STEPS))
@pytest.mark.sampled(every=2)
def test_the_panel_launches_every_step(step):
    picture = attention_panels.launch_attention(64, 192, "yes", 64, step)
    assert "right, no hazard" in picture.text and "left out" in picture.text and RECORDED.source in picture.text


def test_the_panel_says_what_does_not_fit():
    with pytest.raises(ValueError, match="more than the 232448 bytes"):
        attention_panels.launch_attention(256, 64, "no", 128, "overlapped")


def merged(factor=lambda old, now: np.exp(old - now), sums=True, o=True):
    def merge(left, right):
        most = np.maximum(left[0], right[0])
        now = np.where(np.isinf(most), 0, most)
        f = [factor(part[0], now) for part in (left, right)]
        total = f[0] * left[1] + f[1] * right[1] if sums else left[1] + right[1]
        return most, total, f[0][:, None] * left[2] + f[1][:, None] * right[2] if o else left[2] + right[2]
    return merge


def with_nan(left, right):
    most = np.maximum(left[0], right[0])
    f = [np.exp(part[0] - most) for part in (left, right)]
    return most, f[0] * left[1] + f[1] * right[1], f[0][:, None] * left[2] + f[1][:, None] * right[2]


@pytest.mark.parametrize(("merge", "says"), [
    (merged(), "Right"), (lambda left, right: None, "Not answered yet"), (lambda left, right: left[0], "return three arrays"),
    (lambda left, right: left, "the maximum is not"), (merged(sums=False), "each belongs to its own maximum"), (merged(o=False), "the same factors"),
    (merged(lambda old, now: np.exp(now - old)), "by which factor"), (with_nan, "nan"),
    (merged(lambda old, now: np.exp(old) / np.exp(now)), "Not yet, with large scores")])
def test_the_exercise_in_words(merge, says):
    assert says in attention_panels.check_merge(merge)


@pytest.mark.parametrize("marks, told", [((), ["product", "wait", "exponential"]), (("-DHOPPERLAB_TRACE",), ["product", "wait", "exponential", "wait"])])
def test_ptxas_leaves_the_wait_for_the_values_behind_the_softmax_with_marks_alone(marks, told):
    step = launches_attention.STEPS["overlapped"]
    kernel = load_kernel(step.SOURCE, "attention", (*step.options(128, False), *marks), backend="emulator")
    code = sass(kernel)
    loop = min((loop for loop in code.loops if any("HGMMA" in code.instructions[i].opcode for i in loop)), key=len)
    known = {"HGMMA": "product", "WARPGROUP.DEPBAR": "wait", "MUFU.EX2": "exponential"}
    order = [name for i in loop for opcode, name in known.items() if code.instructions[i].opcode.startswith(opcode)]
    assert [name for k, name in enumerate(order) if not k or name != order[k - 1]] == told, "lesson 16 says where the wait is"
