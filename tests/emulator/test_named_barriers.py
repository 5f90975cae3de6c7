# SPDX-License-Identifier: Apache-2.0
"""bar.sync, bar.arrive and bar.red: votes, roles that hand slots to each other, and what each generation hands on."""
import numpy as np
import pytest
from support.emulated import SCHEDULES, kinds, run, run_ptx, told


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_syncthreads_with_a_vote(schedule):
    source = r"""
    extern "C" __global__ void k(const int* in, int* out) {
        int t = threadIdx.x;
        for (int i = 0; i < 3; i++) {
            int x = in[i * 96 + t];
            out[(3 * i) * 96 + t] = __syncthreads_count(x > 5);
            out[(3 * i + 1) * 96 + t] = __syncthreads_and(x != 3) != 0;
            out[(3 * i + 2) * 96 + t] = __syncthreads_or(!(x < 10)) != 0;
        }
    }"""
    x = np.random.default_rng(1).integers(0, 11, (3, 96)).astype(np.int32)
    x[1] = np.clip(x[1], 4, 9)
    out = np.zeros((3, 3, 96), np.int32)
    session = run(source, (x, out), block=(96,), schedule=schedule)
    for i in range(3):
        assert (out[i, 0] == (x[i] > 5).sum()).all()
        assert (out[i, 1] == (x[i] != 3).all()).all() and (out[i, 2] == (x[i] >= 10).any()).all()
    assert not session.hazards, told(session)


def test_votes_order_memory_and_may_be_negated():
    body = """
        ld.param.u64 %rd1, [k_param_0];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, s;
        shl.b32 %r3, %r1, 2;
        add.u32 %r4, %r2, %r3;
        st.shared.u32 [%r4], %r1;
        setp.lt.u32 %p1, %r1, 10;
        barrier.cta.red.popc.aligned.u32 %r5, 3, 64, !%p1;
        barrier.cta.red.and.aligned.pred %p2, 3, 64, %p1;
        barrier.cta.red.or.aligned.pred %p3, 3, 64, %p1;
        sub.u32 %r6, 252, %r3;
        add.u32 %r6, %r6, %r2;
        ld.shared.u32 %r7, [%r6];
        selp.u32 %r8, 1000, 0, %p2;
        selp.u32 %r9, 10000, 0, %p3;
        mad.lo.u32 %r7, %r5, 100, %r7;
        add.u32 %r7, %r7, %r8;
        add.u32 %r7, %r7, %r9;
        cvt.u64.u32 %rd2, %r3;
        add.u64 %rd1, %rd1, %rd2;
        st.global.u32 [%rd1], %r7;
    """
    out = np.zeros(64, np.uint32)
    session = run_ptx(body, (out,), params=".param .u64 k_param_0", block=(64,), registers=".shared .align 4 .b8 s[256];")
    assert out.tolist() == [63 - t + 5400 + 10000 for t in range(64)] and not session.hazards, told(session)


ROLES = r"""
extern "C" __global__ void __launch_bounds__(64) k(const int* in, int* out) {
    __shared__ int slot[32];
    int t = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int i = 0; i < 4; i++) {
            if (FREE) bar_sync(1, 64);                          // the slot is free
            slot[t] = in[i * 32 + t] * 2;
            bar_arrive(2, 64);                                  // the slot is full
        }
    } else {
        for (int i = 0; i < 4; i++) {
            if (FREE) bar_arrive(1, 64);
            bar_sync(2, 64);
            out[i * 32 + t] = slot[31 - t];
        }
    }
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("free", [0, 1])
def test_a_slot_that_nobody_declared_free(free, schedule):
    """Without barrier 1 the writer runs ahead: what it publishes for the next round does not excuse this round's race."""
    x, out = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    session = run(ROLES, (x, out), block=(64,), schedule=schedule, options=(f"-DFREE={free}",))
    if free:
        assert (out.reshape(4, 32) == 2 * x.reshape(4, 32)[:, ::-1]).all() and not session.hazards, told(session)
    else:
        assert "race" in kinds(session), told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("barrier, clean", [("__syncthreads()", True), ("bar_sync(5, 128)", True), ("bar_sync(threadIdx.x / 64 + 1, 64)", False),
                                            ("(void)0", False)])
def test_memory_is_ordered_among_those_who_met(barrier, clean, schedule):
    source = r"""
    extern "C" __global__ void __launch_bounds__(128) k(const int* in, int* out) {
        __shared__ int s[128];
        int t = threadIdx.x;
        s[t] = in[t];
        BARRIER;
        out[t] = s[127 - t];
    }""".replace("BARRIER", barrier)
    x, out = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    session = run(source, (x, out), block=(128,), schedule=schedule)
    assert kinds(session) == ([] if clean else ["race"]), told(session)
    if clean:
        assert (out == x[::-1]).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_barrier_that_not_everyone_reaches(schedule):
    source = r"""
    extern "C" __global__ void __launch_bounds__(128) k(int* out) {
        if (threadIdx.x < 64) bar_sync(1, 128);                 // the others never come
        else bar_sync(2, 128);
        out[threadIdx.x] = 1;
    }"""
    session = run(source, (np.zeros(128, np.int32),), block=(128,), schedule=schedule)
    assert kinds(session) == ["deadlock"], told(session)
    text = session.hazards[0].message
    assert "bar.sync 1: 64 of 128 threads" in text and "bar.sync 2: 64 of 128 threads" in text, text


@pytest.mark.parametrize("guard, waits", [("@%p1", False), ("@!%p1", True)])
def test_a_guard_that_nothing_has_written_is_false(guard, waits):
    body = f"ld.param.u64 %rd1, [k_param_0]; {guard} bar.sync 0, 64; mov.u32 %r1, 7; st.global.u32 [%rd1], %r1; ret;"
    out = np.zeros(1, np.int32)
    session = run_ptx(body, (out,), ".param .u64 k_param_0")
    assert ("deadlock" in kinds(session)) == waits and out[0] == (0 if waits else 7)
