# SPDX-License-Identifier: Apache-2.0
"""What arriving on an mbarrier and waiting on it hand on, from whom to whom."""
import numpy as np
import pytest
from support.emulated import SCHEDULES, kinds, run, told


HAND_OVER = r"""
extern "C" __global__ void __launch_bounds__(128) k(const float* x, float* y) {
    __shared__ __align__(128) float s[128];
    __shared__ mbarrier_t full;
    int t = threadIdx.x;
    if (t == 0) mbarrier_init(&full, 1);
    __syncthreads();
    if (t == 0) {
        mbarrier_arrive_expect_tx(&full, 512);
        cp_async_bulk_load(s, x, 512, &full);
    }
#if HOW == 0
    mbarrier_wait_parity(&full, 0);                             // everyone waits
    y[t] = s[127 - t];
#elif HOW == 1
    if (t % 32 == 0) mbarrier_wait_parity(&full, 0);            // one lane waits, its warp may read
    __syncwarp();
    y[t] = s[127 - t];
#elif HOW == 2
    if (t == 37) mbarrier_wait_parity(&full, 0);                // one thread waits, then a barrier
    __syncthreads();
    y[t] = s[127 - t];
#elif HOW == 3
    if (t == 37) mbarrier_wait_parity(&full, 0);                // one thread waits; nobody else learns of it
    y[t] = s[127 - t];
#elif HOW == 4
    if (t % 32 == 0) mbarrier_wait_parity(&full, 0);            // one lane a warp waits, without __syncwarp
    if (t % 32) y[t] = s[127 - t];
#elif HOW == 5
    if (t < 32) mbarrier_wait_parity(&full, 0);                 // a warp waits and passes it on by a named barrier
    if (t < 64) bar_sync(1, 64);
    if (t < 64) y[t] = s[127 - t];
#elif HOW == 6
    if (t < 32) mbarrier_wait_parity(&full, 0);
    if (t < 64) bar_sync(1, 64);
    y[t] = s[127 - t];                                          // warps 2 and 3 were not there
#elif HOW == 7
    bool done = false;
    if (t == 5) while (!done) done = mbarrier_test_wait_parity(&full, 0);   // polled by one
    __syncthreads();
    y[t] = s[127 - t];
#elif HOW == 8
    mbarrier_test_wait_parity(&full, 0);                        // asked, not waited
    y[t] = s[127 - t];
#endif
}"""
HANDED = {0: [], 1: [], 2: [], 3: ["read-before-arrival"], 4: ["read-before-arrival"], 5: [], 6: ["read-before-arrival"], 7: []}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("how", HANDED)
def test_who_may_read_what_a_copy_brought(how, schedule):
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    session = run(HAND_OVER, (x, y), block=(128,), schedule=schedule, options=(f"-DHOW={how}",))
    assert kinds(session) == HANDED[how], told(session)
    if not HANDED[how] and how != 5:
        assert (y == x[::-1]).all()


@pytest.mark.parametrize("schedule", ["lazy"])
def test_asking_once_is_not_waiting(schedule):
    """A test_wait that says false hands nothing on (under other schedules it may say true, and then it does)."""
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    session = run(HAND_OVER, (x, y), block=(128,), schedule=schedule, options=("-DHOW=8",))
    assert "read-before-arrival" in kinds(session), told(session)


RELEASE = r"""
extern "C" __global__ void __launch_bounds__(64) k(const float* x, float* y) {      // warp 0 reads, warp 1 writes again
    __shared__ float s[32];
    __shared__ mbarrier_t full, empty;
    int t = threadIdx.x, lane = t % 32;
    if (t == 0) { mbarrier_init(&full, COUNT); mbarrier_init(&empty, COUNT); }
    __syncthreads();
    for (int i = 0; i < 3; i++) {
        if (t >= 32) {
            mbarrier_wait_parity(&empty, (i & 1) ^ 1);
            s[lane] = x[i * 32 + lane];
            if (SYNC) __syncwarp();
            if (COUNT == 32 || lane == LANE) mbarrier_arrive(&full);
        } else {
            mbarrier_wait_parity(&full, i & 1);
            y[i * 32 + lane] = s[31 - lane];
            if (SYNC) __syncwarp();
            if (COUNT == 32 || lane == LANE) mbarrier_arrive(&empty);
        }
    }
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("count, lane, sync, clean", [(1, 0, 1, True), (1, 17, 1, True), (32, 0, 0, True), (32, 0, 1, True),
                                                      (1, 0, 0, False), (1, 31, 0, False)])
def test_one_lane_speaks_for_its_warp_only_after_syncwarp(count, lane, sync, clean, schedule):
    x, y = np.arange(96, dtype=np.float32), np.zeros(96, np.float32)
    session = run(RELEASE, (x, y), block=(64,), schedule=schedule, options=(f"-DCOUNT={count}", f"-DLANE={lane}", f"-DSYNC={sync}"))
    assert kinds(session) == ([] if clean else ["phase-overrun", "race"]), told(session)     # the other lanes may still wait, too
    if clean:
        assert (y.reshape(3, 32) == x.reshape(3, 32)[:, ::-1]).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_elected_lane_after_a_collective(schedule):
    source = r"""
    extern "C" __global__ void k(const float* x, float* y) {
        __shared__ float s[32];
        __shared__ mbarrier_t full;
        int t = threadIdx.x;
        if (t == 0) mbarrier_init(&full, 1);
        __syncthreads();
        if (t < 32) {
            s[t] = x[t];
            if (elect_sync()) mbarrier_arrive(&full);
        } else {
            mbarrier_wait_parity(&full, 0);
            y[t - 32] = s[63 - t];
        }
    }"""
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    session = run(source, (x, y), block=(64,), schedule=schedule)
    assert (y == x[::-1]).all() and not session.hazards, told(session)


def test_lanes_that_arrive_one_after_the_other():
    """Each lane arrives by itself, in different branches: all of them count, and all their writes are handed on."""
    source = r"""
    extern "C" __global__ void k(const float* x, float* y) {
        __shared__ float s[32];
        __shared__ mbarrier_t full;
        int t = threadIdx.x;
        if (t == 0) mbarrier_init(&full, 3);
        __syncthreads();
        if (t == 1) { s[1] = x[1]; mbarrier_arrive(&full); }
        if (t == 2) { s[2] = x[2] + 1; mbarrier_arrive(&full); }
        if (t == 9) { s[9] = x[9] + 2; mbarrier_arrive(&full); }
        if (t >= 32) {
            mbarrier_wait_parity(&full, 0);
            y[t - 32] = s[1] + s[2] + s[9];
        }
    }"""
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    session = run(source, (x, y), block=(64,))
    assert (y == 1 + 3 + 11).all() and not session.hazards, told(session)


@pytest.mark.emulator_only
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("peek", ["mbarrier_test_wait_parity", "mbarrier_try_wait_parity"])
def test_peek_then_wait(peek, schedule):
    """Ask early, work in between, wait only if the answer was no: CUTLASS's idiom. The answer may be false by chance."""
    source = r"""
    extern "C" __global__ void k(const float* x, float* y) {
        __shared__ __align__(128) float s[2][64];
        __shared__ mbarrier_t full[2];
        int t = threadIdx.x;
        if (t == 0) { mbarrier_init(&full[0], 1); mbarrier_init(&full[1], 1); }
        __syncthreads();
        if (t == 0) for (int i = 0; i < 2; i++) {
            mbarrier_arrive_expect_tx(&full[i], 256);
            cp_async_bulk_load(s[i], x + i * 64, 256, &full[i]);
        }
        bool done = PEEK(&full[0], 0);
        for (int i = 0; i < 2; i++) {
            if (!done) mbarrier_wait_parity(&full[i], 0);
            float value = s[i][63 - t];
            if (i == 0) done = PEEK(&full[1], 0);
            y[i * 64 + t] = value;
        }
    }""".replace("PEEK", peek)
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    for seed in range(3):
        session = run(source, (x, y), block=(64,), schedule=schedule, seed=seed)
        assert (y.reshape(2, 64) == x.reshape(2, 64)[:, ::-1]).all() and not session.hazards, told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_relaxed_arrivals_hand_nothing_on(schedule):
    source = r"""
    extern "C" __global__ void k(const float* x, float* y) {
        __shared__ float s[32];
        __shared__ mbarrier_t b;
        int t = threadIdx.x;
        if (t == 0) mbarrier_init(&b, 32);
        __syncthreads();
        if (t < 32) {
            s[t] = x[t];
            asm volatile("mbarrier.arrive." SEM ".cta.shared::cta.b64 _, [%0];" :: "r"(shared_address(&b)) : "memory");
        } else {
            mbarrier_wait_parity(&b, 0);
            y[t - 32] = s[t - 32];
        }
    }"""
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    for semantics, found in (("release", []), ("relaxed", ["race"])):
        session = run(source, (x, y), block=(64,), schedule=schedule, options=(f'-DSEM="{semantics}"',))
        assert kinds(session) == found, told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("semantics, wait", [("acquire", "try_wait"), ("relaxed", "try_wait"), ("acquire", "test_wait"), ("relaxed", "test_wait")])
def test_relaxed_waits_learn_nothing(semantics, wait, schedule):
    source = r"""
    extern "C" __global__ void __launch_bounds__(64) k(const float* x, float* y) {
        __shared__ __align__(128) float s[64];
        __shared__ mbarrier_t full;
        int t = threadIdx.x;
        if (t == 0) mbarrier_init(&full, 1);
        __syncthreads();
        if (t == 0) { mbarrier_arrive_expect_tx(&full, 256); cp_async_bulk_load(s, x, 256, &full); }
        unsigned done = 0;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier." WAIT ".parity." SEM ".cta.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(shared_address(&full)) : "memory");
        y[t] = s[63 - t];
    }"""
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    session = run(source, (x, y), block=(64,), schedule=schedule, options=(f'-DSEM="{semantics}"', f'-DWAIT="{wait}"'))
    assert kinds(session) == ([] if semantics == "acquire" else ["read-before-arrival"]), told(session)
