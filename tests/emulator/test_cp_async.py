# SPDX-License-Identifier: Apache-2.0
"""cp.async: groups belong to a thread, waiting makes data visible to that thread alone, and bytes past src-size are zero."""
import hopperlab as hl
import numpy as np
import pytest
from support.emulated import SCHEDULES, kinds, lines_with, run, told

RING = r"""
extern "C" __global__ void __launch_bounds__(64) k(const float4* x, float4* y, int n) {     // each thread reads its own copies
    __shared__ __align__(128) float4 s[4][64];
    int t = threadIdx.x;
    for (int i = 0; i < 3; i++) {
        if (i < n) cp_async_cg_16(&s[i][t], x + i * 64 + t);                // the copies
        cp_async_commit_group();
    }
    for (int i = 0; i < n; i++) {
        if (i + 3 < n) cp_async_cg_16(&s[(i + 3) % 4][t], x + (i + 3) * 64 + t);    // the copies
        cp_async_commit_group();
        cp_async_wait_group<DEPTH>();
        y[i * 64 + t] = s[i % 4][t];
    }
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("depth, clean", [(3, True), (2, True), (0, True), (4, False), (7, False)])
def test_depth_of_the_wait(depth, clean, schedule):
    x = np.random.default_rng(1).integers(0, 99, (9 * 64, 4)).astype(np.float32)
    y = np.zeros_like(x)
    session = run(RING, (x, y, np.int32(9)), block=(64,), schedule=schedule, options=(f"-DDEPTH={depth}",))
    if clean:
        assert (x == y).all() and not session.hazards, told(session)
        return
    assert "read-before-arrival" in kinds(session), told(session)
    early = next(h for h in session.hazards if h.kind == "read-before-arrival")
    assert early.other.line in lines_with("// the copies", source=RING) and "cp.async.wait_group" in early.message


NEIGHBOUR = r"""
extern "C" __global__ void __launch_bounds__(64) k(const float4* x, float4* y) {
    __shared__ __align__(128) float4 s[64];
    int t = threadIdx.x;
    cp_async_cg_16(&s[t], x + t);
    cp_async_commit_group();
    if (ORDER == 0) { cp_async_wait_group<0>(); SYNC; }
    if (ORDER == 1) { SYNC; cp_async_wait_group<0>(); }          // the wrong way round
    if (ORDER == 2) { cp_async_wait_all(); SYNC; }
    if (ORDER == 3) { if (t % 2) cp_async_wait_group<0>(); SYNC; }   // half the lanes wait
    y[t] = s[t ^ OTHER];
}"""
CASES = [
    ("(void)0", 0, 0, True),               # own copy
    ("(void)0", 0, 1, False),              # another lane's
    ("__syncwarp()", 0, 1, True),
    ("__syncwarp()", 0, 32, False),        # another warp's
    ("__syncthreads()", 0, 32, True),
    ("__syncthreads()", 1, 32, False),
    ("__syncwarp()", 1, 1, False),
    ("__syncthreads()", 2, 33, True),
    ("__syncthreads()", 3, 1, False),
    ("bar_sync(3, 64)", 0, 63, True),
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("sync, order, other, clean", CASES)
def test_who_may_read(sync, order, other, clean, schedule):
    x = np.arange(256, dtype=np.float32).reshape(64, 4)
    y = np.zeros_like(x)
    session = run(NEIGHBOUR, (x, y), block=(64,), schedule=schedule, options=(f"-DSYNC={sync}", f"-DORDER={order}", f"-DOTHER={other}"))
    assert kinds(session) == ([] if clean else ["read-before-arrival"]), told(session)
    if clean:
        assert (y == x[np.arange(64) ^ other]).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_some_lanes_copy_and_all_read_after_a_barrier(schedule):
    """Lanes that never started a copy have nothing to wait for."""
    source = r"""
    extern "C" __global__ void __launch_bounds__(64) k(const float4* x, float4* y) {
        __shared__ __align__(128) float4 s[16];
        int t = threadIdx.x;
        for (int i = 0; i < 3; i++) {
            if (t < 16) { cp_async_cg_16(&s[t], x + i * 16 + t); cp_async_commit_group(); cp_async_wait_group<0>(); }
            __syncthreads();
            y[i * 64 + t] = s[t % 16];
            __syncthreads();
        }
    }"""
    x = np.random.default_rng(2).integers(0, 99, (48, 4)).astype(np.float32)
    y = np.zeros((192, 4), np.float32)
    session = run(source, (x, y), block=(64,), schedule=schedule)
    assert not session.hazards, told(session)
    assert (y.reshape(3, 4, 16, 4) == x.reshape(3, 1, 16, 4)).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("lanes_of_second", [1, 31])
def test_lanes_with_different_numbers_of_groups(lanes_of_second, schedule):
    """Lane 0 runs many groups, the others one: nobody's first group may hide behind lane 0's fifth."""
    source = r"""
    extern "C" __global__ void k(const float4* x, float4* y) {
        __shared__ __align__(128) float4 s[32];
        int t = threadIdx.x;
        for (int i = 0; i < 5; i++) if (t == 0) { cp_async_cg_16(&s[0], x); cp_async_commit_group(); cp_async_wait_group<0>(); }
        __syncwarp();
        if (t) { cp_async_cg_16(&s[t], x + t); cp_async_commit_group(); }
        if (WAIT) cp_async_wait_group<0>();
        __syncwarp();
        y[t] = s[t ^ 1];
    }"""
    x = np.random.default_rng(3).integers(0, 99, (32, 4)).astype(np.float32)
    for wait, found in ((1, []), (0, ["read-before-arrival"])):
        y = np.zeros_like(x)
        session = run(source, (x, y), schedule=schedule, options=(f"-DWAIT={wait}",))
        assert kinds(session) == found, told(session)
    assert wait == 0


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("wrapper, size", [("cp_async_cg_16_zfill", 16), ("cp_async_ca_16_zfill", 16)])
def test_zero_fill(wrapper, size, schedule):
    source = r"""
    extern "C" __global__ void k(const unsigned char* x, uint4* y) {
        __shared__ __align__(128) uint4 s[32];
        int t = threadIdx.x;
        s[t] = make_uint4(~0u, ~0u, ~0u, ~0u);
        WRAPPER(&s[t], x + 16 * t, t % 17);
        cp_async_wait_all();
        y[t] = s[t];
    }""".replace("WRAPPER", wrapper)
    x = np.random.default_rng(4).integers(1, 255, 512).astype(np.uint8)
    y = np.zeros(512, np.uint8)
    session = run(source, (x, y), schedule=schedule)
    expected = x.reshape(32, 16).copy()
    for t in range(32):
        expected[t, t % 17:] = 0
    assert (y.reshape(32, 16) == expected).all() and not session.hazards, told(session)


def test_zero_bytes_touch_no_global_memory():
    """src-size 0 may carry any address: the idiom for rows past the end."""
    source = r"""
    extern "C" __global__ void k(const uint4* x, uint4* y, int n) {
        __shared__ __align__(128) uint4 s[32];
        int t = threadIdx.x;
        cp_async_cg_16_zfill(&s[t], x + t, t < n ? 16 : 0);
        cp_async_wait_all();
        y[t] = s[t];
    }"""
    x, y = np.full(5 * 4, 7, np.uint32), np.ones(128, np.uint32)
    session = run(source, (x, y, np.int32(5)))
    assert (y[:20] == 7).all() and (y[20:] == 0).all() and not session.hazards


def test_four_and_eight_bytes():
    source = r"""
    extern "C" __global__ void k(const float* x, float* y) {
        __shared__ __align__(128) float s[96];
        int t = threadIdx.x;
        cp_async_ca_4(&s[t], x + 31 - t);
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, 4;" :: "r"(shared_address(&s[32 + 2 * t])), "l"(x + 2 * (t % 16)) : "memory");
        cp_async_wait_all();
        __syncwarp();
        y[t] = s[31 - t]; y[32 + t] = s[32 + t]; y[64 + t] = s[64 + t];
    }"""
    x, y = np.arange(1, 33, dtype=np.float32), np.zeros(96, np.float32)
    session = run(source, (x, y))
    assert (y[:32] == x).all() and not session.hazards, told(session)
    pairs = y[32:].reshape(32, 2)
    assert (pairs[:, 0] == np.tile(x[::2], 2)).all() and (pairs[:, 1] == 0).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("how, clean", [(0, True), (1, True), (2, False), (3, True)])
def test_arrival_on_an_mbarrier_after_the_copies(how, clean, schedule):
    source = r"""
    extern "C" __global__ void __launch_bounds__(64) k(const float4* x, float4* y) {
        __shared__ __align__(128) float4 s[32];
        __shared__ mbarrier_t full;
        int t = threadIdx.x;
        if (t == 0) mbarrier_init(&full, HOW == 0 ? 32 : HOW == 3 ? 64 : 32);
        __syncthreads();
        if (t < 32) {
            cp_async_cg_16(&s[t], x + t);
            if (HOW == 0) cp_async_mbarrier_arrive_noinc(&full);        // counted by init
            if (HOW == 1) {                                             // raises the count itself, then arrives
                asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" :: "r"(shared_address(&full)) : "memory");
                mbarrier_arrive(&full);
            }
            if (HOW == 2) mbarrier_arrive(&full);                       // says nothing about copies in flight
            if (HOW == 3) { cp_async_mbarrier_arrive_noinc(&full); mbarrier_arrive(&full); }
        } else {
            mbarrier_wait_parity(&full, 0);
            y[t - 32] = s[63 - t];
        }
    }"""
    x = np.random.default_rng(5).integers(0, 99, (32, 4)).astype(np.float32)
    y = np.zeros_like(x)
    session = run(source, (x, y), block=(64,), schedule=schedule, options=(f"-DHOW={how}",))
    assert kinds(session) == ([] if clean else ["read-before-arrival"]), told(session)
    if clean:
        assert (y == x[::-1]).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("wait, clean", [(1, True), (0, False)])
def test_a_ring_of_copies_on_mbarriers(wait, clean, schedule):
    """Every stage is a new arrival: the first one says nothing about the copies that come later."""
    source = r"""
    extern "C" __global__ void __launch_bounds__(64) k(const float4* x, float4* y, int n) {
        __shared__ __align__(128) float4 s[2][32];
        __shared__ mbarrier_t full[2], empty[2];
        int t = threadIdx.x;
        if (t == 0) for (int i = 0; i < 2; i++) { mbarrier_init(&full[i], 32); mbarrier_init(&empty[i], 32); }
        __syncthreads();
        for (int i = 0; i < n; i++) {
            int p = i / 2 & 1;
            if (t < 32) {
                mbarrier_wait_parity(&empty[i % 2], p ^ 1);
                cp_async_cg_16(&s[i % 2][t], x + i * 32 + t);
                cp_async_mbarrier_arrive_noinc(&full[i % 2]);
            } else {
                if (WAIT || i != 4) mbarrier_wait_parity(&full[i % 2], p);
                y[i * 32 + t - 32] = s[i % 2][63 - t];
                mbarrier_arrive(&empty[i % 2]);
            }
        }
        cp_async_wait_all();
    }"""
    x = np.random.default_rng(7).integers(0, 99, (7 * 32, 4)).astype(np.float32)
    y = np.zeros_like(x)
    session = run(source, (x, y, np.int32(7)), block=(64,), schedule=schedule, options=(f"-DWAIT={wait}",))
    if clean:
        assert not session.hazards, told(session)
        assert (y.reshape(7, 32, 4) == x.reshape(7, 32, 4)[:, ::-1]).all()
    else:
        # A skipped wait runs ahead of the data, or of the phase (then nobody comes to fill the stage it waits for).
        assert set(kinds(session)) & {"read-before-arrival", "deadlock"}, told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("barrier", [0, 1])
def test_a_slot_is_refilled_while_others_still_read_it(barrier, schedule):
    source = r"""
    extern "C" __global__ void __launch_bounds__(64) k(const float4* x, float4* y) {
        __shared__ __align__(128) float4 s[64];
        int t = threadIdx.x;
        for (int i = 0; i < 2; i++) {
            cp_async_cg_16(&s[t], x + i * 64 + t);
            cp_async_wait_all();
            __syncthreads();
            y[i * 64 + t] = s[63 - t];                          // another warp's
            if (BARRIER) __syncthreads();
        }
    }"""
    x = np.random.default_rng(6).integers(0, 99, (128, 4)).astype(np.float32)
    y = np.zeros_like(x)
    session = run(source, (x, y), block=(64,), schedule=schedule, options=(f"-DBARRIER={barrier}",))
    assert kinds(session) == ([] if barrier else ["overwrite-in-flight"]) or (not barrier and kinds(session) == ["race"]), told(session)


def test_misaligned_and_out_of_bounds_copies_are_faults():
    source = r"""
    extern "C" __global__ void k(const char* x, int from, int to) {
        __shared__ __align__(128) char s[528];
        cp_async_cg_16(s + 16 * threadIdx.x + to, x + 16 * threadIdx.x + from);
        cp_async_wait_all();
    }"""
    for at, to, size, says in ((8, 0, 528, "misaligned"), (0, 4, 512, "misaligned"), (16, 0, 512, "out-of-bounds"),
                               (0, 32, 512, "out-of-bounds")):
        x = np.zeros(size, np.uint8)
        with pytest.raises(hl.MemoryFault, match=says):
            run(source, (x, np.int32(at), np.int32(to)), hazards="raise")
