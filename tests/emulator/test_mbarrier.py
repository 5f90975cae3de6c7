# SPDX-License-Identifier: Apache-2.0
"""mbarriers: counts, phases, states, bytes, and what arriving and waiting hand on to whom."""
import hopperlab as hl
import numpy as np
import pytest
from support.emulated import SCHEDULES, kinds, lines_with, run, run_ptx, told

HELPERS = r"""
__device__ unsigned long long arrive_state(mbarrier_t* b, unsigned count) {
    unsigned long long state;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], %2;" : "=l"(state) : "r"(shared_address(b)), "r"(count) : "memory");
    return state;
}
__device__ bool test_wait_state(mbarrier_t* b, unsigned long long state) {
    unsigned done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(shared_address(b)), "l"(state) : "memory");
    return done;
}
__device__ bool try_wait_state(mbarrier_t* b, unsigned long long state) {
    unsigned done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(shared_address(b)), "l"(state) : "memory");
    return done;
}
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_phase_needs_every_arrival_and_states_know_theirs(schedule):
    source = HELPERS + r"""
    extern "C" __global__ void k(int* out) {
        __shared__ mbarrier_t b;
        if (threadIdx.x) return;
        int n = 0;
        mbarrier_init(&b, 3);
        out[n++] = mbarrier_test_wait_parity(&b, 1);            // the phase before the first counts as complete: 1
        out[n++] = mbarrier_test_wait_parity(&b, 0);            // 0
        unsigned long long first = arrive_state(&b, 2);
        out[n++] = test_wait_state(&b, first);                  // 0
        unsigned long long second = arrive_state(&b, 1);        // completes phase 0
        out[n++] = test_wait_state(&b, first) * 2 + test_wait_state(&b, second);     // 3
        out[n++] = mbarrier_test_wait_parity(&b, 0) * 2 + mbarrier_test_wait_parity(&b, 1);   // 2
        unsigned long long third = arrive_state(&b, 3);         // completes phase 1 at once
        while (!try_wait_state(&b, third)) {}
        out[n++] = mbarrier_test_wait_parity(&b, 1) * 2 + mbarrier_test_wait_parity(&b, 0);   // 2
        mbarrier_inval(&b);
        mbarrier_init(&b, 1);                                   // a new life: phase 0 again
        out[n++] = mbarrier_test_wait_parity(&b, 0);            // 0
    }"""
    out = np.full(7, -1, np.int32)
    session = run(source, (out,), schedule=schedule)
    assert out.tolist() == [1, 0, 0, 3, 2, 2, 0] and not session.hazards


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_bytes_may_come_before_or_after_they_are_expected(schedule):
    source = r"""
    extern "C" __global__ void k(int* out) {
        __shared__ mbarrier_t b;
        if (threadIdx.x) return;
        mbarrier_init(&b, 1);
        mbarrier_expect_tx(&b, 64);
        mbarrier_complete_tx(&b, 64);
        out[0] = mbarrier_test_wait_parity(&b, 0);              // 0: the arrival is missing
        mbarrier_arrive(&b);
        out[1] = mbarrier_test_wait_parity(&b, 0);              // 1
        mbarrier_complete_tx(&b, 32);                           // early: the count goes below zero
        out[2] = mbarrier_test_wait_parity(&b, 1);              // 0
        mbarrier_arrive_expect_tx(&b, 48);
        out[3] = mbarrier_test_wait_parity(&b, 1);              // 0: 16 to come
        mbarrier_complete_tx(&b, 16);
        out[4] = mbarrier_test_wait_parity(&b, 1);              // 1
    }"""
    out = np.full(5, -1, np.int32)
    session = run(source, (out,), schedule=schedule)
    assert out.tolist() == [0, 1, 0, 0, 1] and not session.hazards


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_copy_issued_before_its_bytes_are_expected(schedule):
    source = r"""
    extern "C" __global__ void k(const float* x, float* y) {
        __shared__ __align__(128) float s[64];
        __shared__ mbarrier_t b;
        int t = threadIdx.x;
        if (t == 0) mbarrier_init(&b, 1);
        __syncthreads();
        if (t == 0) {
            cp_async_bulk_load(s, x, 256, &b);
            mbarrier_arrive_expect_tx(&b, 256);
        }
        mbarrier_wait_parity(&b, 0);
        y[t] = s[63 - t];
    }"""
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    session = run(source, (x, y), block=(64,), schedule=schedule)
    assert (y == x[::-1]).all() and not session.hazards, told(session)


def test_arrive_drop_lowers_the_count_of_later_phases():
    source = r"""
    extern "C" __global__ void k(int* out) {
        __shared__ mbarrier_t b;
        if (threadIdx.x) return;
        mbarrier_init(&b, 2);
        mbarrier_arrive_drop(&b);
        out[0] = mbarrier_test_wait_parity(&b, 0);              // 0
        mbarrier_arrive(&b);
        out[1] = mbarrier_test_wait_parity(&b, 0);              // 1
        mbarrier_arrive(&b);                                    // one arrival is now a whole phase
        out[2] = mbarrier_test_wait_parity(&b, 1);              // 1
        mbarrier_arrive_drop(&b);
        out[3] = mbarrier_test_wait_parity(&b, 0);              // 1
    }"""
    out = np.full(4, -1, np.int32)
    session = run(source, (out,))
    assert out.tolist() == [0, 1, 1, 1] and not session.hazards


@pytest.mark.emulator_only
def test_no_complete_and_pending_count():
    source = r"""
    extern "C" __global__ void k(unsigned* out) {
        __shared__ mbarrier_t b;
        if (threadIdx.x) return;
        mbarrier_init(&b, 7);
        unsigned long long state;
        unsigned pending;
        asm volatile("mbarrier.arrive.noComplete.shared::cta.b64 %0, [%1], 2;" : "=l"(state) : "r"(shared_address(&b)) : "memory");
        asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(state));
        out[0] = pending;                                       // before these arrivals: 7
        asm volatile("mbarrier.arrive_drop.noComplete.shared::cta.b64 %0, [%1], 1;" : "=l"(state) : "r"(shared_address(&b)) : "memory");
        asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(state));
        out[1] = pending;                                       // 5
        out[2] = (unsigned)(b >> 20) & 0xFFFFF;                 // opaque, but ours: expected arrivals, now 6
    }"""
    out = np.zeros(3, np.uint32)
    session = run(source, (out,))
    assert out.tolist() == [7, 5, 6] and not session.hazards


def test_no_complete_that_completes_is_misuse():
    source = r"""
    extern "C" __global__ void k(unsigned* out) {
        __shared__ mbarrier_t b;
        if (threadIdx.x) return;
        mbarrier_init(&b, 1);
        unsigned long long state;
        asm volatile("mbarrier.arrive.noComplete.shared::cta.b64 %0, [%1], 1;" : "=l"(state) : "r"(shared_address(&b)) : "memory");
        out[0] = (unsigned)state;
    }"""
    session = run(source, (np.zeros(1, np.uint32),))
    assert kinds(session) == ["barrier-misuse"] and "noComplete" in str(session.hazards[0])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("count, found", [(32, []), (31, ["barrier-misuse"]), (16, ["barrier-misuse", "deadlock"]), (33, ["deadlock"])])
def test_wrong_counts(count, found, schedule):
    """Lanes of a warp arrive at once; more of them than are pending fails the launch (measured on an H200)."""
    source = r"""
    extern "C" __global__ void k(int* out) {
        __shared__ mbarrier_t b;
        int t = threadIdx.x;
        if (t == 0) mbarrier_init(&b, COUNT);
        __syncthreads();
        mbarrier_arrive(&b);                                    // 32 threads
        mbarrier_wait_parity(&b, 0);
        out[t] = t;
    }"""
    session = run(source, (np.zeros(32, np.int32),), schedule=schedule, options=(f"-DCOUNT={count}",))
    assert kinds(session) == found, told(session)
    if found == ["deadlock"]:
        assert "1 more arrival" in session.hazards[0].message


def test_a_barrier_that_was_never_initialised():
    source = r"""
    extern "C" __global__ void k(int* out) {
        __shared__ mbarrier_t b, other;
        if (threadIdx.x == 0) mbarrier_init(&other, 1);
        __syncthreads();
        mbarrier_arrive(&b);                                    // never initialised
        out[0] = 1;
    }"""
    with pytest.raises(hl.MemoryFault, match="no mbarrier was initialised") as caught:
        run(source, (np.zeros(1, np.int32),), hazards="raise")
    assert caught.value.site.outermost.line in lines_with("// never initialised", source=source)


def test_an_invalidated_barrier_is_dead():
    source = r"""
    extern "C" __global__ void k(int* out) {
        __shared__ mbarrier_t b;
        if (threadIdx.x) return;
        mbarrier_init(&b, 1);
        mbarrier_inval(&b);
        mbarrier_arrive(&b);
        out[0] = 1;
    }"""
    with pytest.raises(hl.MemoryFault, match="mbarrier.inval has ended the one"):
        run(source, (np.zeros(1, np.int32),), hazards="raise")


@pytest.mark.emulator_only
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_word_lies_in_shared_memory(schedule):
    """A raw read of the 64-bit word shows that the state changes with every arrival."""
    source = r"""
    extern "C" __global__ void k(unsigned long long* out) {
        __shared__ mbarrier_t b;
        if (threadIdx.x) return;
        volatile mbarrier_t* word = &b;
        mbarrier_init(&b, 2);  out[0] = *word;
        mbarrier_arrive(&b);   out[1] = *word;
        mbarrier_arrive(&b);   out[2] = *word;
    }"""
    out = np.zeros(3, np.uint64)
    run(source, (out,), schedule=schedule)
    assert len(set(out.tolist())) == 3 and out.all()


@pytest.mark.emulator_only
def test_scopes_semantics_and_suspend_hints_are_read():
    body = """
        ld.param.u64 %rd1, [k_param_0];
        mov.u32 %r1, s;
        mbarrier.init.shared.b64 [%r1], 1;
        mbarrier.arrive.release.cta.shared::cta.b64 %rd2, [%r1];
        W: mbarrier.try_wait.acquire.cta.shared::cta.b64 %p1, [%r1], %rd2, 0x989680;
        @!%p1 bra W;
        mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%r1];
        mbarrier.test_wait.parity.relaxed.cta.shared::cta.b64 %p2, [%r1], 1;
        selp.u32 %r2, 1, 0, %p2;
        st.global.u32 [%rd1], %r2;
    """
    out = np.zeros(1, np.uint32)
    session = run_ptx(body, (out,), params=".param .u64 k_param_0", block=(1,), registers=".shared .align 8 .b64 s;")
    assert out[0] == 1 and not session.hazards, told(session)


def test_a_barrier_lives_twice():
    """inval, then init again: copies of the first life are done with, those of the second are counted anew."""
    source = r"""
    extern "C" __global__ void k(const float* x, float* y) {
        __shared__ __align__(128) float s[64];
        __shared__ mbarrier_t full;
        int t = threadIdx.x;
        for (int life = 0; life < 2; life++) {
            if (t == 0) mbarrier_init(&full, 1);
            __syncwarp();
            for (int i = 0; i < 2 - life; i++) {
                if (t == 0) { mbarrier_arrive_expect_tx(&full, 128); cp_async_bulk_load(s + 32 * life, x + 32 * i, 128, &full); }
                mbarrier_wait_parity(&full, i);
                y[(2 * life + i) * 32 + t] = s[32 * life + t];
                __syncwarp();
            }
            if (t == 0) mbarrier_inval(&full);
            __syncwarp();
        }
    }"""
    x, y = np.arange(64, dtype=np.float32), np.zeros(96, np.float32)
    for schedule in SCHEDULES:
        session = run(source, (x, y), schedule=schedule)
        assert not session.hazards, told(session)
        assert (y == np.concatenate([x, x[:32]])).all()
