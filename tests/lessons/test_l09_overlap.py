# SPDX-License-Identifier: Apache-2.0
"""Lesson 09: the ring's model against its own formula, tables from small recordings, the panel's launch, and the exercise's verdicts."""
import math
from pathlib import Path

import numpy as np
import pytest

from hopperlab import measure
from hopperlab.lessons import l09_multistage
from hopperlab.lessons.l09_multistage import jitter, overlap
from hopperlab.lessons.l09_multistage.overlap import Times
from hopperlab.measure.launches import variants
from hopperlab.measure.recordings import Record, Recording

HEADER = {"gpu": "G", "driver": "1", "cuda": "13.0", "date": "2026-01-01"}


def recording(*records):
    return Recording("r", HEADER, records)


def half(copy, multiply, tflops, stages=3):
    return Record("two_by_two", "k", (f"copy={copy}", f"multiply={multiply}", f"STAGES={stages}", "blocks_per_sm=2"), (64,) * 3, "bfloat16",
                  tflops=tflops, joules=2.0, watts=600.0, registers=100)


def four(a, b, c, d, stages=3):
    return [half(*pair, rate, stages) for pair, rate in zip(overlap.HALVES, (a, b, c, d), strict=True)]


def depth(stages, bk, tflops, size=64):
    return Record("depth", "multistage", (f"STAGES={stages}", f"BK={bk}"), (size,) * 3, "bfloat16", tflops=tflops, registers=90,
                  shared_bytes=stages * (512 * bk + 16))


def measured(latencies, wgmma=64.0):
    boxes = [Record("tma_latency", "tma_latency", ("HOW=tensor", "from=L2"), (rows, 128), "bfloat16", value=cycles, unit="cycles")
             for rows, cycles in latencies.items()]
    return recording(*boxes, Record("wgmma_rate", "wgmma_rate", ("N=128", "A=SS", "warpgroups=2"), (64, 128, 16), "bf16", value=wgmma, unit="cycles"))


def test_gains_of_the_halves_at_each_depth_and_at_the_best():
    told = overlap.halves_gains(recording(*four(100, 120, 150, 180), *four(80, 100, 200, 160, stages=6)))
    rows = told.split("\n")
    assert rows[1].startswith("3 stages, 2 blocks per SM") and [float(v) for v in rows[1].split()[-4:]] == [1.2, 1.5, 1.8, 1.0]
    assert [float(v) for v in rows[2].split()[-4:]] == [1.25, 2.5, 2.0, 0.64]
    assert [float(v) for v in rows[3].split()[-4:]] == [1.2, 2.0, 1.8, 0.75]


def test_a_missing_half_is_named():
    with pytest.raises(LookupError, match="wgmma"):
        overlap.halves_table(recording(*four(1, 2, 3, 4)[:3]))


def test_the_picture_of_the_halves_with_and_without_counts():
    counts = [Record("issue_slots", "gemm", (f"copy={c}", f"multiply={m}", "metric=smsp__inst_executed.sum"), value=v)
              for (c, m), v in zip(overlap.HALVES, (8e6, 6e6, 6e6, 4e6), strict=True)]
    halves = recording(*four(100, 120, 150, 190))
    assert "4.0 million" in l09_multistage.halves_chart(halves, recording(*counts)).text and l09_multistage.halves_chart(halves).png()[:4] == b"\x89PNG"


@pytest.mark.parametrize("in_flight", [0, 1, 2])
@pytest.mark.parametrize("times", [Times(600, 300, 500), Times(1200, 100, 500), Times(300, 200, 500), Times(900, 600, 500)], ids=str)
def test_the_plan_settles_at_the_formulas_rate(times, in_flight):
    for stages in range(in_flight + 1, 8):
        plan = overlap.ring_plan(stages, times, 120, in_flight)
        period = (plan[-1].start - plan[-61].start) / 60
        assert period == pytest.approx(times.product / overlap.busy_share(stages, times, in_flight))


def test_nothing_in_the_plan_happens_before_it_can():
    plan = overlap.ring_plan(3, Times(700, 300, 400), 12)
    for i, tile in enumerate(plan):
        assert tile.slot == i % 3 and tile.landed >= tile.issued + 700 and tile.start >= tile.landed and tile.end == tile.start + 400
        assert i < 3 or tile.issued >= plan[i - 3].end                 # the slot's last product is over
        assert i == 0 or (tile.landed >= plan[i - 1].landed + 300 and tile.start >= plan[i - 1].end)


@pytest.mark.parametrize(("times", "in_flight", "enough"), [
    (Times(500, 100, 500), 1, 2), (Times(501, 100, 500), 1, 3), (Times(1000, 100, 500), 1, 3), (Times(1001, 100, 500), 1, 4),
    (Times(600, 100, 500), 2, 4), (Times(500, 100, 500), 0, 2), (Times(501, 100, 500), 0, 3)])
def test_enough_stages(times, in_flight, enough):
    assert overlap.enough_stages(times, in_flight) == enough
    assert overlap.busy_share(enough, times, in_flight) == 1 > overlap.busy_share(enough - 1, times, in_flight) if enough - 1 > in_flight else True


def test_the_table_prints_ratios_from_which_its_stages_follow():
    """4.008 printed as 4.00 would ask for one stage fewer than the table says."""
    rows = [line.split() for line in overlap.overlap_table(measure.load("micro")).split("\n")[2:]]
    assert len(rows) == 6
    for _, _, _, _, ratio, stages, *_ in rows:
        assert math.ceil(1 + float(ratio)) == int(stages)


def test_what_no_ring_can_do_is_refused():
    with pytest.raises(ValueError, match="more stages cannot help"):
        overlap.enough_stages(Times(600, 501, 500))
    for stages, in_flight in ((1, 1), (2, 2), (2, -1)):
        with pytest.raises(ValueError, match="products in flight"):
            overlap.ring_plan(stages, Times(600, 300, 500), 4, in_flight)


def test_times_of_a_stage_come_from_the_box_of_its_size():
    micro = measured({64: 400.0, 128: 600.0, 256: 900.0})
    assert overlap.stage_times(micro, 64) == Times(600.0, 300.0, 512.0)
    assert overlap.stage_times(micro, 32) == Times(400.0, 150.0, 256.0)
    with pytest.raises(LookupError, match="from memory"):
        overlap.stage_times(micro, 64, "memory")


def test_the_depth_table_says_what_fits_beside_each_other():
    table = overlap.depth_table(recording(depth(2, 64, 100.0), depth(3, 64, 150.0), depth(4, 64, 120.0), depth(3, 32, 70.0)), 64).split("\n")
    assert [row.split() for row in table[2:]] == [["2", "64", "KiB", "2", "100"], ["3", "96", "KiB", "2", "150", "1.50"], ["4", "128", "KiB", "1", "120", "0.80"]]
    assert "BK 32" in overlap.depth_chart(recording(depth(2, 64, 100.0), depth(3, 32, 70.0)), 64).text


def test_the_panels_launch_runs_the_kernel_and_labels_what_was_recorded():
    told = l09_multistage.launch_multistage(3, 64, "lazy", recording(depth(3, 64, 614.0, 4096))).text
    assert "result right, no hazard" in told and "2 blocks per SM; recorded on an H200: 614" in told and "copy 7" in told
    assert "not recorded" in l09_multistage.launch_multistage(2, 128, "eager").text
    with pytest.raises(ValueError, match="a block can have 232448"):
        l09_multistage.launch_multistage(8, 64, "lazy")


@pytest.mark.parametrize("bug", ["BUG_EARLY_RELEASE", "BUG_WAIT_AFTER_LOOP"])
@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_planted_bugs_are_named_under_every_schedule(bug, schedule):
    _, run, _ = l09_multistage.run_product(variants.multistage, schedule=schedule, options=(f"-D{bug}=1",))
    assert {hazard.kind for hazard in run.hazards} == {"overwrite-in-flight"}


@pytest.mark.parametrize(("answer", "words"), [
    ((None, None, None), "Not answered"), ((2, lambda i: i - 2, 3), "Right"), ((2, lambda i: i - 1, 3), "overwrite-in-flight"),
    ((2, lambda i: i - 1, 3), "Even with 5 stages, which were tried before your 3: Not safe."),
    ((2, lambda i: i - 2, 2), "too shallow"), ((2, lambda i: i - 2, 4), "not the fewest"), ((1, lambda i: i - 1, 2), "two were asked for"),
    ((2, lambda i: i - 3, 4), "handed back earlier"), ((2, lambda i: i // 2, 3), "as far behind"), ((2, lambda i: i + 1, 3), "none to come"),
    ((9, lambda i: i - 9, 6), "0 to 7")])
@pytest.mark.sampled(every=3)
def test_the_exercise_names_what_is_wrong(answer, words):
    assert words in l09_multistage.check_later_release(*answer)


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("times", [Times(600, 300, 500), Times(1500, 200, 400), Times(300, 450, 500)], ids=str)
def test_a_ring_whose_loads_are_alike_is_the_plan(stages, times):
    """The same starts as ring_plan, and in steady state its share."""
    loads = np.full(40, times.load)
    plan = overlap.ring_plan(stages, times, 40)
    assert jitter.busy_with(loads, stages, times) == pytest.approx(times.product * 20 / (plan[39].end - plan[19].end))
    assert jitter.busy_with(np.full(400, times.load), stages, times) == pytest.approx(overlap.busy_share(stages, times), rel=0.02)


def test_late_loads_cost_what_quick_ones_do_not_give_back():
    """The same mean, spread out: never busier, and less busy where the mean is just enough."""
    times = Times(1000, 100, 500)
    spread = jitter.Spread(500, 1000, 1500)
    drawn = spread.draw(4000)
    assert drawn.min() >= 500 and drawn.max() <= 1500 and abs(drawn.mean() - 1000) < 15 and abs((drawn < 1000).mean() - 0.5) < 0.03
    for stages in (2, 3, 4):
        assert jitter.busy_with(drawn, stages, times) <= jitter.busy_with(np.full(4000, 1000.0), stages, times) + 0.01
    assert jitter.busy_with(np.full(4000, 1000.0), 3, times) == pytest.approx(1) and jitter.busy_with(drawn, 3, times) < 0.97


def test_the_lesson_tells_the_mean_from_the_late_ones_as_the_model_does():
    """Per cent busy with 2, 3 and 4 stages, tiles of BK 64 from memory: each load at the mean of the drawn ones, and each with its own time."""
    micro = measure.load("micro")
    times, drawn = overlap.stage_times(micro, 64, "memory"), jitter.load_spread(micro, 64, "memory").draw(jitter.TILES)
    shares = [[round(100 * jitter.busy_with(loads, stages, times)) for stages in (2, 3, 4)] for loads in (np.full(jitter.TILES, drawn.mean()), drawn)]
    text = (Path(__file__).parents[2] / "notebooks" / "sources" / "09_multistage.md").read_text(encoding="utf-8")
    assert f"take {round(drawn.mean(), -1):.0f} in the mean" in text and shares[0][0] == shares[1][0]
    assert f"are the {shares[0][0]} % of the table" in text and f"= {shares[0][1]} % of the time" in text
    assert shares[0][2] == 100 and f"they reach {shares[1][1]} and {shares[1][2]} %" in text


def test_the_spread_is_of_the_recorded_stage():
    micro = measure.load("micro")
    record = next(r for r in micro.where(suite="tma_latency") if {"HOW=tensor", "from=memory"} <= set(r.options) and r.shape == (128, 128))
    assert jitter.load_spread(micro, 64, "memory") == (record.value_min, record.value, record.value_max)
    with pytest.raises(LookupError):
        jitter.load_spread(micro, 48, "memory")
    assert jitter.jitter_table(micro).count("memory") == 2
