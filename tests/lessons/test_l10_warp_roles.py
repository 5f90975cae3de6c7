# SPDX-License-Identifier: Apache-2.0
"""Lesson 10: tables and timelines in words, loads counted in flight, the panel's launch, planted bugs, and the exercise's verdicts."""
import pytest

from hopperlab import measure
from hopperlab.lessons import l09_multistage, l10_warp_specialization
from hopperlab.lessons.l10_warp_specialization import warp_roles
from hopperlab.measure import timelines
from hopperlab.measure.launches import launch, variants
from hopperlab.measure.recordings import Record, Recording
from hopperlab.measure.timelines import KernelTimeline, Mark

GOOD = {"threads": 384, "rows of C": 128, "stage bytes": 32768, "full arrivals": 1, "empty arrivals": 2, "consumer registers": 232}


def recording(rates, size=4096):
    """rates: stages -> (none, warp, group, waiting)."""
    records = [Record("roles", "cuBLAS", (), (size,) * 3, "bfloat16", tflops=800.0)]
    for stages, values in rates.items():
        tags = (("multistage", ()), ("producer_warp", ("PRODUCER_WARPS=1",)), ("producer_warp", ("PRODUCER_WARPS=4",)),
                ("producer_warp", ("PRODUCER_WARPS=1", "WAIT_FOR_OWN_LOAD=1")))
        records += [Record("roles", kernel, (f"STAGES={stages}", *more), (size,) * 3, "bfloat16", tflops=rate)
                    for (kernel, more), rate in zip(tags, values, strict=True)]
    return Recording("variants", {"gpu": "G", "driver": "1", "cuda": "13.0", "date": "2026-01-01"}, tuple(records))


RATES = recording({3: (200.0, 180.0, 100.0, 150.0), 4: (100.0, 110.0, 120.0, 55.0)})


def test_gains_by_depth_and_at_the_best():
    rows = warp_roles.roles_gains(RATES).split("\n")[2:]
    assert [row.split()[-2:] for row in rows] == [["0.90", "0.50"], ["1.10", "1.20"], ["0.90", "0.60"]]
    assert rows[2].startswith("4096³, each at its best")


def test_what_waiting_for_ones_own_loads_costs():
    told = warp_roles.own_load_cost(RATES).split("\n")
    assert told[2].startswith("4 stages: the producer runs ahead 110") and told[2].endswith("55 TFLOP/s, 0.50 of it")


def test_the_chart_has_a_line_a_role():
    text = l10_warp_specialization.roles_chart(RATES).text
    assert all(name in text for name in (*l10_warp_specialization.ROLES, warp_roles.WAITING, "cuBLAS")) and "3 | 200 | 180 | 100 | 150 | 800" in text


ROWS = [Mark(0, 0, 1, "wait", 0, 0.0, 30.0), Mark(0, 0, 1, "issue", 0, 40.0, 40.0), Mark(0, 0, 1, "issue", 1, 60.0, 60.0),
        Mark(0, 4, 1, "wait", 0, 10.0, 20.0), Mark(0, 4, 1, "mma", 0, 20.0, 50.0), Mark(0, 4, 1, "mma", 1, 60.0, 100.0), Mark(0, 4, 1, "store", 0, 100.0, 110.0),
        Mark(0, 8, 1, "mma", 0, 20.0, 70.0), Mark(0, 8, 1, "mma", 1, 70.0, 100.0)]


def test_time_by_warp_adds_up_spans_of_a_warps_own_life():
    told = warp_roles.time_by_warp(KernelTimeline(ROWS, unit="ns", source="S")).split("\n")
    assert told == ["S", "warp  0, producer: wait 50 % of 60 ns", "warp  4, consumer: wait 10 %, mma 70 %, store 10 % of 100 ns",
                    "warp  8, consumer: mma 100 % of 80 ns"]
    assert warp_roles.waiting_share(KernelTimeline(ROWS)) == pytest.approx(50.0)
    with pytest.raises(ValueError, match=r"blocks \[0\]"):
        warp_roles.time_by_warp(KernelTimeline(ROWS), block=3)


def test_the_share_of_waiting_is_no_more_exact_than_marks_are():
    share = warp_roles.waiting_share(timelines.load())
    assert isinstance(share, int) and 0 < share < 100


def test_what_marks_cost_is_told_by_the_starts_of_products():
    found = timelines.load()
    told = warp_roles.cost_of_marks(found, measure.load("variants"))
    starts = [row.start for row in found if (row.block, row.warp, row.event) == (0, 4, "mma")]
    rate = measure.load("variants").one(suite="roles", kernel="warp_specialized", options=("STAGES=4",), shape=(4096,) * 3).tflops
    marked, free = (starts[-1] - starts[0]) / (len(starts) - 1), 2 * 128 * 128 * 64 * 132 / (rate * 1e12) * 1e9
    assert told.startswith(f"a k-block takes {marked:.0f} ns here") and told.endswith(f"{free:.0f} ns: {marked / free:.2f} times as long")


def test_lead_counts_tiles_that_the_slowest_consumer_has_not_done():
    assert warp_roles.lead(KernelTimeline(ROWS)) == 2
    early = [row for row in ROWS if row.warp != 8]
    assert warp_roles.lead(KernelTimeline(early)) == 1                      # warp 4 was done with tile 0 when tile 1 was issued


@pytest.mark.parametrize("k", [128, 512])
def test_the_producer_is_never_further_ahead_than_the_ring(k):
    found = l10_warp_specialization.trace_roles(k)
    assert len(found.of("issue")) == k // 64 and l10_warp_specialization.lead(found) == min(4, k // 64)


@pytest.mark.parametrize(("stages", "options", "most"), [(4, (), 4), (2, (), 2), (4, (warp_roles.OWN_LOAD,), 1)])
def test_tiles_on_way(stages, options, most):
    right, run, _ = l09_multistage.run_product(variants.producer_warp, stages=stages, options=options)
    assert right and not run.hazards and l10_warp_specialization.tiles_on_way(run) == most


def test_the_panels_launch_runs_the_chosen_roles():
    told = l10_warp_specialization.launch_warp_roles(warp_roles.GROUP, 4, "no", "lazy", RATES).text
    assert "result right, no hazard" in told and "at most 4 tile(s)" in told and "384 threads" in told and "recorded on an H200: 120" in told
    held = l10_warp_specialization.launch_warp_roles(warp_roles.WARP, 4, "yes", "lazy", RATES).text
    assert "at most 1 tile(s)" in held and "recorded on an H200: 55" in held
    assert "not recorded" in l10_warp_specialization.launch_warp_roles(warp_roles.GROUP, 3, "yes", "eager", RATES).text
    with pytest.raises(ValueError, match="no producer"):
        l10_warp_specialization.launch_warp_roles(warp_roles.NONE, 3, "yes", "lazy")


@pytest.mark.parametrize(("bug", "kinds"), [("BUG_PRODUCER_LEAVES", {"deadlock"}), ("BUG_ARRIVE_PER_THREAD", {"barrier-misuse", "deadlock"})])
def test_planted_bugs_are_named(bug, kinds):
    _, run, _ = l09_multistage.run_product(launch.warp_specialized, options=(f"-D{bug}=1",))
    assert {hazard.kind for hazard in run.hazards} == kinds


def test_instructions_with_and_without_roles():
    records = [Record("instructions", kernel, ("step=k-tile", f"class={kind}"), value=value, unit="warp instructions")
               for kernel, both in (("cp_async_mma", (900, 300)), ("multistage", (700, 50)), ("warp_specialized", (600, 50)))
               for kind, value in zip(("all", "tensor"), both, strict=True)]
    told = l10_warp_specialization.role_instructions(Recording("micro", {}, tuple(records)))
    assert "no roles    700 in all,   50" in told and "PTX instructions" in told


def test_one_consumer_works_with_its_numbers():
    right, run = warp_roles.run_roles(warp_roles.FIRST)
    assert right and not run.hazards and run.counters["peak_registers"] == 256


@pytest.mark.parametrize(("change", "words"), [
    ({}, "Right"), ({"threads": None}, "Not answered yet: threads"), ({"threads": 256}, "not three warpgroups"), ({"rows of C": 64}, "64 rows each"),
    ({"empty arrivals": 1}, "Not yet"), ({"empty arrivals": 3}, "deadlock"), ({"full arrivals": 2}, "deadlock"), ({"stage bytes": 24576}, "never announced"),
    ({"consumer registers": 240}, "waits for ever"), ({"consumer registers": 160}, "fewer than the 168 at entry"), ({"consumer registers": 250}, "multiples of 8")])
@pytest.mark.sampled(every=3)
def test_the_exercise_names_what_is_wrong(change, words):
    assert words in l10_warp_specialization.check_second_consumer({**GOOD, **change})
