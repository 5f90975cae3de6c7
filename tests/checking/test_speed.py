# SPDX-License-Identifier: Apache-2.0
"""What is asked of an answer's speed: the times of its kernels added up, those that prepare left out, and reasons in place of a time."""
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.checking import speed
from hopperlab.checking.speed import NoSpeed, Pace, Speed

CODE = """
extern "C" __global__ void count(int* blocks, int n) { blocks[0] = n / 128; }
extern "C" __global__ void twice(const float* x, float* y) { int i = blockIdx.x * 128 + threadIdx.x; y[i] = 2 * x[i]; }
extern "C" __global__ void waits(volatile int* flag) { while (flag[0] == 0) {} }
"""
SIZE = 1 << 20


@pytest.fixture(scope="module")
def module():
    return hl.RawModule(code=CODE, name="twice.cu", backend="emulator")


def asked(run, flops=0, us=10.0, **more):
    return Speed(run, "n = 1048576", lambda: us, flops, **more)


def twice(launch, times=1):
    x, y, blocks = np.zeros(SIZE, np.float32), np.zeros(SIZE, np.float32), np.zeros(1, np.int32)
    launch("count", (1,), (1,), (blocks, np.int32(SIZE)))
    for _ in range(times):
        launch("twice", (int(blocks[0]),), (128,), (x, y))


def test_kernels_that_are_timed_add_up_and_those_that_prepare_run(module):
    once, both = (speed.pace(asked(lambda launch, times=times: twice(launch, times), prepares=("count",)), module) for times in (1, 2))
    assert both.us == pytest.approx(2 * once.us) and once.bound and "held-out" in once.family
    with pytest.raises(ValueError, match="grid"):
        speed.pace(asked(twice), module)                # `count` only estimated leaves 0 blocks


def test_what_cannot_be_estimated_is_said_with_the_reason(module):
    with pytest.raises(NoSpeed, match=r"^Its speed at n = 1048576 could not be estimated: waits: no estimate: its CTAs wait for others"):
        speed.pace(asked(lambda launch: launch("waits", (1,), (32,), (np.zeros(1, np.int32),))), module)
    with pytest.raises(NoSpeed, match="has no kernel|no kernel"):
        speed.pace(asked(lambda launch: launch("other", (1,), (32,), ())), module)


def test_who_leaves_work_out_has_no_speed(module):
    with pytest.raises(NoSpeed, match="its tensor cores do 0% of the work that the product takes"):
        speed.pace(asked(twice, flops=1 << 30, prepares=("count",)), module)


def test_who_loads_less_than_the_problem_takes_has_no_speed(module):
    wanted = asked(twice, prepares=("count",), loads=1 << 40)
    with pytest.raises(NoSpeed, match=r"it loads about [\d,]+ MiB, and the product takes 1,048,576 MiB at the fewest"):
        speed.pace(wanted, module)
    assert speed.pace(asked(twice, prepares=("count",), loads=1 << 20), module).us


@pytest.mark.parametrize("us, enough", [(9.0, True), (12.5, True), (12.6, False), (100.0, False)])
def test_the_ratio_of_times_decides(us, enough):
    wanted = asked(twice)
    words = Pace(us, 10.0, "the L2, 90% busy", "products: 3 held-out measurements").complaint(wanted)
    assert bool(words) != enough
    assert enough or f"takes {us:.1f} us on an H200 at n = 1048576, and the course's own answer takes 10.0 us: {10 / us:.3f} of that speed" in words
    assert enough or "at least 0.8 is asked for.\nIt is bound by the L2, 90% busy.\nThis is an estimate and no measurement." in words
