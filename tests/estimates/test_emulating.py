# SPDX-License-Identifier: Apache-2.0
"""`hl.emulate(clock=...)`: each instruction and each asynchronous operation of a launch has an estimated start and end, and what depends on what stands in order."""
import itertools

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.estimates import emulating, launch_times, timed
from hopperlab.estimates.estimating import estimate_launch
from hopperlab.measure.launches import attention, gemm, variants
from hopperlab.measure.launches.launch import warp_specialized


def product(make, m=128, n=128, k=512, **choices):
    return make(np.zeros((m, k), np.uint16), np.zeros((n, k), np.uint16), np.zeros((m, n), np.uint16), backend="emulator", **choices)


@pytest.fixture(scope="module")
def roles():
    """Eight k-blocks of a producer and two consumers, four slots."""
    launch = product(warp_specialized)
    with hl.emulate(clock="h200") as run:
        launch()
    return run, launch


def test_a_block_with_a_clock_is_the_same_run_and_knows_its_estimate(roles):
    run, launch = roles
    with hl.emulate() as without:
        launch()
    assert without.clock is None and dict(without.counters) == dict(run.counters) and len(without.timeline) == len(run.timeline)
    (times,) = run.clock
    assert times.estimate == estimate_launch(launch, "h200") and times.blocks == [0]
    assert times.cycles == pytest.approx(times.estimate.cycles), "one CTA, simulated to its end"
    assert str(times).startswith("gemm: an estimated ") and "no measurement" in str(times) and "mean error" in times.source


def test_every_step_that_was_recorded_has_a_start_and_an_end(roles):
    times = roles[0].clock[0]
    spans = times.spans()
    assert {span.what for span in spans} >= {"compute", "mbarrier wait", "issue load", "issue wgmma", "wgmma wait", "load", "wgmma"}
    assert all(0 <= span.start <= span.read <= span.end or not span.engine for span in spans) and all(span.start <= span.end for span in spans)
    counters = roles[0].counters
    assert sum(span.what == "load" for span in spans) == counters["tma_loads"] == 16
    assert sum(span.what == "wgmma" for span in spans) == counters["wgmma"] == 64
    assert {span.engine for span in spans if span.what in timed.ENGINES} == {True}
    assert all(span.line and span.file == "warp_specialized.cu" for span in spans if span.what in ("load", "wgmma"))


def test_a_warp_does_one_thing_after_the_other(roles):
    spans = [span for span in roles[0].clock[0].spans() if not span.engine]
    for warp in {span.warp for span in spans}:
        own = [span for span in spans if span.warp == warp]
        assert all(before.end <= after.start + 1e-6 for before, after in itertools.pairwise(own)), warp


def test_products_wait_for_what_they_multiply_and_loads_for_room(roles):
    """The n-th k-block is multiplied when its two boxes are there, and slot n is loaded anew when both consumers have waited for its products."""
    spans = roles[0].clock[0].spans()
    loads = sorted((span for span in spans if span.what == "load"), key=lambda span: span.start)
    landed = [max(loads[2 * n].end, loads[2 * n + 1].end) for n in range(8)]
    for first in (4, 8):
        products = [span for span in spans if span.what == "wgmma" and span.warp == first]
        waits = [span for span in spans if span.what == "wgmma wait" and span.warp == first]
        assert len(products) == 32
        assert all(products[4 * n].start > landed[n] for n in range(8))
        assert all(loads[2 * (n + 4)].start > waits[n].end for n in range(4))
    tensor = sorted((span for span in spans if span.what == "wgmma"), key=lambda span: span.start)
    assert all(before.end <= after.start + 1e-6 for before, after in itertools.pairwise(tensor)), "the tensor core does one product at a time"


def test_instructions_share_the_time_between_two_events(roles):
    run, launch = roles
    times = run.clock[0]
    instructions = list(times.instructions())
    assert {span.opcode for span in instructions} <= {instr.opcode for instr in launch.kernel.module.program.function(launch.kernel.mangled).body} | {""}
    assert len(instructions) > 4 * len(times.spans()) and all(span.start <= span.end for span in instructions)
    assert max(span.end for span in instructions) == pytest.approx(max(span.end for span in times.spans()))
    for warp in (4, 8):
        stores = [span.start for span in instructions if span.opcode.startswith("st.global") and span.warp == warp]
        assert stores and min(stores) > max(span.end for span in instructions if span.what == "wgmma" and span.warp == warp)


def test_a_timeline_has_the_rows_of_marks(roles):
    times = roles[0].clock[0]
    found = times.timeline()
    assert found.place == "estimate" and found.unit == "cycles" and "not measured" in found.source
    assert min(row.start for row in found) == 0 and {row.event for row in found} == {"wait", "issue", "mma", "store"}
    assert [len([row for row in found.of("mma") if row.warp == warp]) for warp in (0, 4, 7, 8)] == [0, 8, 8, 8]
    assert [row.id for row in found.of("issue")] == list(range(8)) and {row.warp for row in found.of("issue")} == {0}
    assert found.total("wait", 0, 0) > found.total("wait", 0, 4) > 0
    us = times.timeline("us")
    assert max(row.end for row in us) == pytest.approx(max(row.end for row in found) / times.estimate.mhz, abs=0.002)
    with pytest.raises(ValueError, match="choose one of cycles, us"):
        times.timeline("ns")


def test_a_cluster_and_ctas_that_follow_each_other():
    times = emulating.times_of(product(gemm.LADDER["cluster_multicast"], 512, 512, 256), "h100")
    assert len(times.blocks) == 2 and {span.block for span in times.spans()} == set(times.blocks) and times.estimate.board.startswith("NVIDIA H100")
    many = emulating.times_of(product(variants.multistage, 2048, 4096, 128, stages=2, bk=64), "h200")
    assert {span.turn for span in many.spans(None)} > {0} == {span.turn for span in many.spans()}


def test_ctas_that_differ_each_have_their_times():
    """Two on an SM, all of which begin with the launch; each stands for itself."""
    starts = np.array([0, 2037], np.int32)
    q, k, v, o = (np.zeros((2037, 8, 64), np.uint16) for _ in range(4))
    times = emulating.times_of(attention.forward(q, k, v, o, np.zeros((8, 2037), np.float32), starts, starts, True, backend="emulator"), "h200")
    spans = times.spans()
    assert len(times.blocks) > 6 and {span.block for span in spans} == set(times.blocks) and {span.turn for span in times.spans(None)} == {0}
    ends = {block: max(span.end for span in spans if span.block == block) for block in times.blocks}
    assert max(ends.values()) > 1.5 * min(ends.values()) and len({min(span.start for span in spans if span.block == block) for block in times.blocks}) == 1


def test_an_edit_shows_in_the_times():
    """Fewer stages: longer waits, at the same products."""
    waits = {}
    for stages in (2, 4):
        with hl.emulate(clock="h200") as run:
            product(variants.multistage, stages=stages, bk=64)()
        waits[stages] = run.clock[0].timeline().total("wait", 0, 4)
    assert waits[2] > 1.5 * waits[4]


def test_a_launch_that_cannot_be_estimated_runs_and_leaves_the_reason():
    source = """#include <hopperlab/mbarrier.cuh>
    extern "C" __global__ void waits() {
        __shared__ mbarrier_t never;
        mbarrier_init(&never, 1);
        mbarrier_wait_parity(&never, 0);
    }"""
    kernel = hl.RawModule(code=source, backend="emulator").get_function("waits")
    with hl.emulate(clock="h200", hazards="collect") as run:
        kernel((1,), (1,))
    assert [hazard.kind for hazard in run.hazards] == ["deadlock"]
    assert len(run.clock) == 1 and run.clock[0].startswith("waits: no estimate: ") and "deadlock" in repr(run.clock)
    with pytest.raises(ValueError, match="h900"), hl.emulate(clock="h900"):
        pass


def test_what_is_launched_in_another_block_is_not_its_own():
    launch = product(variants.multistage, k=64, stages=2, bk=64)
    with hl.emulate(clock="h200") as outer:
        with hl.emulate() as inner:
            launch()
        assert inner.clock is None and list(outer.clock) == []
        launch()
    assert len(outer.clock) == 1


def test_what_explores_schedules_estimates_none_of_them():
    clocks = []

    def launched():
        with hl.emulate(clock="h200") as run:
            product(variants.multistage, k=64, stages=2, bk=64)()
        clocks.append(run.clock)
    hl.explore(launched, seeds=1)
    assert len(clocks) > 3 and set(clocks) == {None}


def test_arrays_are_as_the_launch_leaves_them():
    """The sample that is taken before the launch writes nothing."""
    source = 'extern "C" __global__ void more(int* x) { atomicAdd(x, 1); }'
    kernel, x = hl.RawModule(code=source, backend="emulator").get_function("more"), np.zeros(1, np.int32)
    with hl.emulate(clock="h200") as run:
        kernel((3,), (32,), (x,))
    assert x[0] == 96 and run.clock[0].estimate.us > 0 and launch_times.UNITS == ("cycles", "us")
