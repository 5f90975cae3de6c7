# SPDX-License-Identifier: Apache-2.0
"""Several grids at once: side by side, on the same SMs, in explore, counted and bounded."""
import hopperlab as hl
import numpy as np
import pytest

from support.grid_programs import PROGRAMS
from support.grids import SCHEDULES, after_event, found, kernels, stream, xp, zeros

# --- grids that run side by side ------------------------------------------------------------------------------------------
SIDE = r"""
extern "C" __global__ void turn(volatile int* mine, volatile int* other, int* data, int me, int rounds) {
    for (int r = 0; r < rounds; r++) {
        while (*mine <= r) {}
        __threadfence();
        data[0] = data[0] * 3 + me;
        if (FENCE) __threadfence();
        *other = r + 1 + me;
    }
}
extern "C" __global__ void raise_flag(volatile int* flag) { __threadfence(); *flag = 1; }
extern "C" __global__ void watch_flag(volatile int* flag, int* out) {
    extern __shared__ int s[];
    if (threadIdx.x == 0) while (*flag == 0) {}
    out[blockIdx.x] = 5;
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("fence", [1, 0])
def test_two_grids_hand_a_word_back_and_forth(schedule, fence):
    turn, *_ = kernels(SIDE, f"-DFENCE={fence}")
    flags, data = xp.array([1, 0], np.int32), zeros(1, dtype=np.int32)
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        for me in (0, 1):
            turn((1,), (1,), (flags[me:me + 1], flags[1 - me:2 - me], data, np.int32(me), np.int32(4)), stream=stream())
        hl.synchronize("emulator")
    expected = 0
    for step in range(8):
        expected = expected * 3 + step % 2
    assert data[0] == expected and found(run) == ([] if fence else [("race", "race-of-grids")])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_grid_may_wait_for_one_that_is_launched_later(schedule):
    _, raise_flag, watch_flag = kernels(SIDE, "-DFENCE=1")
    flag, other, out = zeros(1, dtype=np.int32), zeros(1, dtype=np.int32), zeros(2, dtype=np.int32)
    with hl.emulate(schedule=schedule) as run:
        a, b = stream(), stream()
        watch_flag((2,), (32,), (flag, out), stream=a)
        raise_flag((1,), (1,), (other,), stream=b)
        b.synchronize()
        assert not a.done
        raise_flag((1,), (1,), (flag,), stream=b)
        a.synchronize()
    assert (out == 5).all() and run.launches == 3


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_waiting_for_what_comes_behind_in_the_same_stream_is_a_deadlock(schedule):
    _, raise_flag, watch_flag = kernels(SIDE, "-DFENCE=1")
    flag, out = zeros(1, dtype=np.int32), zeros(2, dtype=np.int32)
    with pytest.raises(hl.DeadlockError) as error, hl.emulate(schedule=schedule), stream() as s:
        watch_flag((2,), (32,), (flag, out))
        raise_flag((1,), (1,), (flag,))
        s.synchronize()
    assert "raise_flag (launch 2) has not begun" in str(error.value)


@pytest.mark.parametrize("ctas, shared, stuck", [(131, 100_000, False), (132, 100_000, True), (132, 0, False)])
def test_grids_share_the_sms(ctas, shared, stuck):
    """132 CTAs of 200,000 bytes leave no SM with another 100,000."""
    _, raise_flag, watch_flag = kernels(SIDE, "-DFENCE=1")
    flag, out = zeros(1, dtype=np.int32), zeros(132, dtype=np.int32)
    with hl.emulate(hazards="collect", trace=False) as run:
        watch_flag((ctas,), (32,), (flag, out), shared_mem=200_000, stream=stream())
        raise_flag((1,), (1,), (flag,), shared_mem=shared, stream=stream())
        hl.synchronize("emulator")
    assert found(run) == ([("deadlock", "endless-loops")] if stuck else [])
    assert not stuck or "its blocks find no place" in str(run.hazards[0])


# --- the rest of the package ----------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("own_memory")
def test_explore_sees_grids_that_overlap():
    produce, consume, *_ = kernels()
    y, z = zeros(), zeros()

    def launch(event):
        a, b = stream(), stream()
        produce((2,), (128,), (y,), stream=a)
        if event:
            after_event(a, b)
        consume((2,), (128,), (y, z), stream=b)
    assert hl.explore(lambda: launch(True), seeds=4).clean and z[0] == 16
    y[:] = 0
    bad = hl.explore(lambda: launch(False), seeds=4, stop=False)
    assert all(trial.hazards for trial in bad.trials) and any(trial.differences for trial in bad.trials)


def test_a_fault_ends_all():
    produce, *_ = kernels()
    y, small = zeros(), zeros(16)
    with pytest.raises(hl.MemoryFault, match="past the end"), hl.emulate():
        produce((2,), (128,), (y,), stream=stream())
        produce((2,), (128,), (small,), stream=stream())
        hl.synchronize("emulator")
    with hl.emulate(hazards="collect") as run:
        produce((2,), (128,), (small,), stream=stream())
        produce((2,), (128,), (y,), stream=stream())
    assert found(run) == [("out-of-bounds", "fault-out-of-bounds")] and y[0] == 1


def test_a_bound_on_work_counts_all_grids():
    produce, *_ = kernels()
    y = zeros()

    def work(limit):
        with hl.emulate(limit=limit) as run:
            for _ in range(3):
                produce((2,), (128,), (y,), stream=stream())
                hl.synchronize("emulator")
        return run.work
    done = work(10**9)
    assert work(done) == done
    with pytest.raises(hl.BudgetExceeded):
        work(done - 1)


def test_counters_of_each_launch():
    produce, consume, *_ = kernels()
    y, z = zeros(), zeros()
    with hl.emulate() as run, stream():
        produce((2,), (128,), (y,))
        consume((2,), (128,), (y, z))
    assert [(name, counts.get("global_store_bytes"), counts.get("global_load_bytes")) for name, counts in run.counters.by_launch()] == [
        ("produce", 1024, None), ("consume", 1024, 1024)]


def test_a_stream_of_another_sort_is_refused():
    produce, *_ = kernels()
    with pytest.raises(hl.LaunchError, match="hl.Stream"):
        produce((2,), (128,), (zeros(),), stream=object())
    with pytest.raises(TypeError, match="hl.Event"):
        stream().wait_event(3)


# --- programs that tests/gpu runs as well ---------------------------------------------------------------------------------
@pytest.mark.parametrize("name", PROGRAMS)
def test_whole_programs_are_clean_and_equal_under_every_schedule(name):
    _, program = PROGRAMS[name]
    results = []
    for schedule in SCHEDULES:
        with hl.emulate(schedule=schedule, seed=5):
            results.append(program("emulator"))
    for other in results[1:]:
        assert all((a == b).all() for a, b in zip(results[0], other, strict=True))
    assert all(array.any() for array in results[0])
