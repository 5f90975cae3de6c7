# SPDX-License-Identifier: Apache-2.0
"""Order lane by lane: what some lanes of a warp publish or learn is theirs alone until the warp synchronises, whichever branch runs first."""
import numpy as np
import pytest
from hopperlab.emulator.hazards.lane_times import LaneTimes
from hypothesis import given, settings
from hypothesis import strategies as st
from support.emulated import SCHEDULES, kinds, run, told

WRITERS = {                     # what the writing warp does between its stores and the end: (code, clean)
    "lane 0 fences and counts": ("if (lane == 0) { __threadfence(); atomicAdd(flag, 1); }", False),
    "lane 0 after __syncwarp": ("__syncwarp(); if (lane == 0) { __threadfence(); atomicAdd(flag, 1); }", True),
    "all fence, lane 0 counts": ("__threadfence(); __syncwarp(); if (lane == 0) atomicAdd(flag, 1);", True),
    "all fence, no __syncwarp": ("__threadfence(); if (lane == 0) atomicAdd(flag, 1);", False),
    "lane 31 first in the text": ("if (lane != 31) { y[200 + lane] = 1; } else { __threadfence(); atomicAdd(flag, 1); }", False),
    "lane 0 first in the text": ("if (lane == 0) { __threadfence(); atomicAdd(flag, 1); } else { y[200 + lane] = 1; }", False),
    "lane 0 releases": ("if (lane == 0) asm volatile(\"st.release.gpu.global.u32 [%0], 1;\" :: \"l\"(flag) : \"memory\");", False),
    "lane 0 releases after a shuffle": ("__shfl_xor_sync(~0u, lane, 1); if (lane == 0) asm volatile(\"st.release.gpu.global.u32 [%0], 1;\" :: \"l\"(flag) : "
                                        "\"memory\");", True),
    "halves of the warp": ("__syncwarp(lane < 16 ? 0xffffu : 0xffff0000u); if (lane == 0) { __threadfence(); atomicAdd(flag, 1); }", False),
    "others have ended": ("if (lane != 0) return; __threadfence(); atomicAdd(flag, 1);", False),
}
FLAG = r"""
extern "C" __global__ void __launch_bounds__(32) k(const float* x, float* data, float* y, unsigned* flag) {
    int lane = threadIdx.x;
    if (blockIdx.x == 0) {
        data[lane] = x[lane];
        %s
    } else {
        if (lane == 0) { unsigned seen; do { asm volatile("ld.acquire.gpu.global.u32 %%0, [%%1];" : "=r"(seen) : "l"(flag) : "memory"); } while (!seen); }
        __syncwarp();
        y[lane] = data[lane];
    }
}"""


@pytest.mark.parametrize("writer", WRITERS)
def test_what_a_flag_hands_over(writer):
    code, clean = WRITERS[writer]
    x, data, y, flag = np.arange(32, dtype=np.float32), np.zeros(32, np.float32), np.zeros(256, np.float32), np.zeros(1, np.uint32)
    session = run(FLAG % code, (x, data, y, flag), grid=(2,), block=(32,))
    assert kinds(session) == ([] if clean else ["race"]), told(session)


ARRIVALS = {                    # count of the mbarrier, who arrives, clean
    "31 of 32": (31, "if (lane) mbarrier_arrive(&full);", False),
    "31 of 32 after __syncwarp": (31, "__syncwarp(); if (lane) mbarrier_arrive(&full);", True),
    "two lanes": (2, "if (lane == 3 || lane == 9) mbarrier_arrive(&full);", False),
    "two lanes, one by one": (2, "if (lane == 3) mbarrier_arrive(&full); else if (lane == 9) mbarrier_arrive(&full);", False),
    "two lanes after __syncwarp": (2, "__syncwarp(); if (lane == 3) mbarrier_arrive(&full); else if (lane == 9) mbarrier_arrive(&full);", True),
    "all, in two branches": (32, "if (lane < 7) mbarrier_arrive(&full); else mbarrier_arrive(&full);", True),
    "each lane by itself": (32, "for (int i = 0; i < 32; i++) if (i == lane) mbarrier_arrive(&full);", True),
}
HAND_OVER = r"""
extern "C" __global__ void __launch_bounds__(64) k(const float* x, float* y) {
    __shared__ __align__(128) float s[32];
    __shared__ mbarrier_t full, back;
    int t = threadIdx.x, lane = t & 31;
    if (t == 0) { mbarrier_init(&full, %d); mbarrier_init(&back, 1); }
    if (t < 32) s[t] = 0;
    fence_proxy_async();
    __syncthreads();
    if (t < 32) {
#if READS
        y[lane] = s[31 - lane];
#else
        s[lane] = x[lane];
#endif
        %s
    } else {
        mbarrier_wait_parity(&full, 0);
#if READS                                                   // a copy overwrites what the other warp has read
        if (lane == 0) { mbarrier_arrive_expect_tx(&back, 128); cp_async_bulk_load(s, x, 128, &back); }
        mbarrier_wait_parity(&back, 0);
#else
        y[lane] = s[31 - lane];
#endif
    }
}"""


@pytest.mark.parametrize("reads", [0, 1])
@pytest.mark.parametrize("arrivals", ARRIVALS)
def test_what_arrivals_hand_over(arrivals, reads):
    count, code, clean = ARRIVALS[arrivals]
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    session = run(HAND_OVER % (count, code), (x, y), block=(64,), options=(f"-DREADS={reads}",))
    assert kinds(session) == ([] if clean else ["overwrite-in-flight"] if reads else ["race"]), told(session)
    assert clean or all("put a __syncwarp() before it arrives" in h.message for h in session.hazards)


STORES = r"""
// Two lanes each send half of a buffer by a bulk store; everybody writes it again behind the barrier.
extern "C" __global__ void __launch_bounds__(64) k(const float* x, float* y) {
    __shared__ __align__(128) float s[64];
    int t = threadIdx.x;
    for (int i = 0; i < 3; i++) {
        s[t] = x[i * 64 + t];
        fence_proxy_async();
        __syncthreads();
        if (t == A || t == B) {
            int half = t == B;
            cp_async_bulk_store(y + i * 64 + half * 32, s + half * 32, 128);
            cp_async_bulk_commit_group();
            if (t != SKIP) cp_async_bulk_wait_group_read<0>();
        }
        __syncthreads();
    }
    if (t == A || t == B) cp_async_bulk_wait_group<0>();
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("a, b, skip", [(0, 1, -1), (5, 30, -1), (0, 33, -1), (0, 1, 1), (0, 1, 0), (5, 30, 5)])
def test_two_lanes_that_store(a, b, skip, schedule):
    x, y = np.arange(192, dtype=np.float32), np.zeros(192, np.float32)
    session = run(STORES, (x, y), block=(64,), schedule=schedule, options=(f"-DA={a}", f"-DB={b}", f"-DSKIP={skip}"))
    assert kinds(session) == ([] if skip < 0 else ["overwrite-in-flight"]), told(session)
    if skip < 0:
        assert (x == y).all()


ENDED = r"""
#include <hopperlab/cp_async.cuh>
#define END asm volatile("exit;")                           // at once; `return` jumps behind what the other lanes still do
// Lane 0 of warp 0 ends before the others publish: what it did or learned, nobody else can know.
extern "C" __global__ void __launch_bounds__(64) k(const float* x, float* y) {
    __shared__ __align__(128) float s[128];
    __shared__ mbarrier_t full, back;
    int t = threadIdx.x, lane = t & 31;
    s[t] = s[64 + t] = 0;
    if (t == 0) { mbarrier_init(&full, 1); mbarrier_init(&back, 31); }
    fence_proxy_async();
    __syncthreads();
    if (t < 32) {
        %s
    } else {
        %s
    }
}"""
COPIED = "cp_async_cg_16(s + 4 * lane, x + 4 * lane); cp_async_commit_group(); cp_async_wait_group<0>(); "
SENT = "if (lane < 2) { cp_async_bulk_store(y + 32 * lane, s + 32 * lane, 128); cp_async_bulk_commit_group(); cp_async_bulk_wait_group<0>(); } "
LOADED = "if (lane == 0) { mbarrier_arrive_expect_tx(&full, 128); cp_async_bulk_load(s, x, 128, &full); mbarrier_wait_parity(&full, 0); END; } "
TO_ALL = "cp_async_bulk_store(y, s, 128); cp_async_bulk_commit_group(); cp_async_bulk_wait_group<0>(); "
REST_ARRIVE, SEEN = "if (lane == 0) END; mbarrier_arrive(&back);", "mbarrier_wait_parity(&back, 0); "
END_OF_LANE_0 = {               # what warp 0 does, what warp 1 does, and the hazard
    "cp.async": (COPIED + REST_ARRIVE, SEEN + "y[lane] = s[4 * lane];", "read-before-arrival"),
    "cp.async of the others": (COPIED + REST_ARRIVE, SEEN + "if (lane) y[lane] = s[4 * lane];", None),
    "cp.async, __syncwarp": (COPIED + "__syncwarp(); " + REST_ARRIVE, SEEN + "y[lane] = s[4 * lane];", None),
    "cp.async, __syncwarp of the others": (COPIED + "if (lane == 0) END; __syncwarp(~1u); mbarrier_arrive(&back);", SEEN + "y[lane] = s[4 * lane];",
                                           "read-before-arrival"),
    "cp.async, __syncthreads": (COPIED + "if (lane == 0) END; __syncthreads();", "__syncthreads(); y[lane] = s[4 * lane];", "read-before-arrival"),
    "cp.async, proxy fence": (COPIED + "if (lane == 0) END; fence_proxy_async(); mbarrier_arrive(&back);",
                              SEEN + "if (lane == 0) { cp_async_bulk_store(y, s, 512); cp_async_bulk_commit_group(); cp_async_bulk_wait_group<0>(); }",
                              "read-before-arrival"),
    "bulk store": (SENT + REST_ARRIVE, SEEN + "s[lane] = 1;", "overwrite-in-flight"),
    "bulk store of the others": (SENT + REST_ARRIVE, SEEN + "s[32 + lane] = 1;", None),
    "what it had waited for": (LOADED + "__syncthreads(); y[lane] = s[lane];", "__syncthreads();", "read-before-arrival"),
    "what the others have waited for": (LOADED + "mbarrier_wait_parity(&full, 0); __syncthreads(); y[lane] = s[lane];", "__syncthreads();", None),
    "one store for all the others": ("if (lane == 0) END; " + TO_ALL + "if (lane == 5) s[3] = 1;", "", None),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("what", END_OF_LANE_0)
def test_what_a_lane_that_has_ended_told_nobody(what, schedule):
    first, second, hazard = END_OF_LANE_0[what]
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    session = run(ENDED % (first, second), (x, y), block=(64,), schedule=schedule)
    assert kinds(session) == ([hazard] if hazard else []), told(session)


SENT_AWAY = r"""
#include <hopperlab/dsmem.cuh>
// CTA 0 sends a tile to CTA 1, which says to one lane that it has come; that lane ends, and its CTA knows it for all that.
extern "C" __global__ void __cluster_dims__(2, 1, 1) k(const float* x, float* y) {
    __shared__ __align__(128) float s[32];
    __shared__ mbarrier_t full, told;
    int lane = threadIdx.x;
    if (lane == 0) { mbarrier_init(&full, 1); mbarrier_init(&told, 1); }
    if (cluster_ctarank() == 0) s[lane] = x[lane];
    fence_proxy_async();
    barrier_cluster_arrive();
    barrier_cluster_wait();
    if (cluster_ctarank() == 0) {
        if (lane == 0) {
            cp_async_bulk_to_cta(mapa_shared_cluster(s, 1), s, 128, mapa_shared_cluster(&full, 1));
            %s
            asm volatile("exit;");
        }
        __syncthreads();
    } else {
        if (lane == 0) mbarrier_arrive_expect_tx(&full, 128);
        mbarrier_wait_parity(&full, 0);
        y[lane] = s[lane];
        __syncwarp();
        if (lane == 0) mbarrier_arrive_remote(mapa_shared_cluster(&told, 0));
    }
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("wait", ["mbarrier_wait_parity(&told, 0);", ""])
def test_what_a_lane_that_has_ended_knew_counts_for_its_cta(wait, schedule):
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    session = run(SENT_AWAY % wait, (x, y), grid=(2,), schedule=schedule)
    assert ("exit-in-flight" in kinds(session)) == (not wait), told(session)
    assert not wait or not session.hazards and (x == y).all(), told(session)


FENCES = r"""
extern "C" __global__ void __launch_bounds__(32) k(const float* x, float* y) {
    __shared__ __align__(128) float s[32];
    int t = threadIdx.x;
    s[t] = x[t];
    FIRST
    __syncwarp();
    SECOND
    if (t == 0) { cp_async_bulk_store(y, s, 128); cp_async_bulk_commit_group(); cp_async_bulk_wait_group<0>(); }
}"""


@pytest.mark.parametrize("first, second, clean", [
    ("fence_proxy_async();", "", True), ("", "if (t == 0) fence_proxy_async();", True), ("", "fence_proxy_async();", True),
    ("", "if (t == 1) fence_proxy_async();", False), ("if (t == 0) fence_proxy_async();", "", False), ("if (t) fence_proxy_async();", "", False),
    ("", "if (t == 1) fence_proxy_async(); __syncwarp();", True), ("if (t < 9) fence_proxy_async(); else fence_proxy_async();", "", True)])
def test_whose_proxy_fence_counts(first, second, clean):
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    session = run(FENCES.replace("FIRST", first).replace("SECOND", second), (x, y), block=(32,))
    assert kinds(session) == ([] if clean else ["missing-proxy-fence"]), told(session)


PRODUCT = r"""
// 64x64 bf16, already swizzled in `a`: by cp.async, each thread waits for its own pieces and fences.
extern "C" __global__ void __launch_bounds__(128) k(const uint4* a, float* out) {
    __shared__ __align__(1024) uint4 s[512];
    int t = threadIdx.x;
    for (int i = 0; i < 4; i++) {
        int at = OWN ? t / 32 * 128 + i * 32 + t % 32 : i * 128 + t;       // OWN: 16 rows per warp
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared_address(s + at)), "l"(a + at) : "memory");
    }
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
    fence_proxy_async();
    SYNC
    float d[32];
    for (int i = 0; i < 32; i++) d[i] = 0;
    unsigned tile = shared_address(s);
    wgmma_fence();
    for (int k = 0; k < 4; k++) wgmma_m64n64k16_bf16(d, wgmma_descriptor_128B(tile + k * 32), wgmma_descriptor_128B(tile + k * 32), 1);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    for (int i = 0; i < 32; i++) out[i * 128 + t] = d[i];
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("sync, own, clean", [("__syncthreads();", 0, True), ("bar_sync(1, 128);", 1, True), ("", 0, False), ("__syncwarp();", 1, False)])
def test_products_of_what_other_threads_brought(sync, own, clean, schedule):
    """That the four warps meet at the first wgmma is no order."""
    x, out = np.ones((64, 64), np.uint16), np.zeros((32, 128), np.float32)
    session = run(PRODUCT.replace("SYNC", sync), (x, out), block=(128,), schedule=schedule, options=(f"-DOWN={own}",))
    assert kinds(session) == ([] if clean else ["read-before-arrival"]), told(session)


OWN_ROWS = r"""
// A is written by ordinary stores, each warp the 16 rows that its part of the product reads; B by all, long before.
extern "C" __global__ void __launch_bounds__(128) k(const uint4* a, float* out) {
    __shared__ __align__(1024) uint4 s[2][512];
    int t = threadIdx.x;
    for (int i = 0; i < 4; i++) s[1][i * 128 + t] = a[i * 128 + t];
    fence_proxy_async();
    __syncthreads();
    for (int i = 0; i < 4; i++) { int at = (t / 32 + SHIFT) % 4 * 128 + i * 32 + t % 32; s[0][at] = a[at]; }
    fence_proxy_async();
    __syncwarp();
    float d[32];
    for (int i = 0; i < 32; i++) d[i] = 0;
    wgmma_fence();
    for (int k = 0; k < 4; k++) wgmma_m64n64k16_bf16(d, wgmma_descriptor_128B(shared_address(s[0]) + k * 32), wgmma_descriptor_128B(shared_address(s[1]) + k * 32), 1);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    for (int i = 0; i < 32; i++) out[i * 128 + t] = d[i];
}"""


@pytest.mark.parametrize("shift", [0, 1])
def test_a_warp_may_write_the_rows_of_its_own(shift):
    """FlashAttention-3 hands P to its own warp's part of the second product with a __syncwarp() alone."""
    x, out = np.ones((64, 64), np.uint16), np.zeros((32, 128), np.float32)
    session = run(OWN_ROWS, (x, out), block=(128,), options=(f"-DSHIFT={shift}",))
    assert kinds(session) == (["race"] if shift else []), told(session)


def test_a_second_syncwarp_orders_what_a_lane_did_between():
    """Under predicates as with branches, in shared and in global memory."""
    ptx = r"""
extern "C" __global__ void __launch_bounds__(32) k(float* y) {
    __shared__ float s[32];
    int t = threadIdx.x;
    s[t] = t;
    asm volatile("{.reg .pred p;\nsetp.eq.u32 p, %0, 1;\nbar.warp.sync 0xffffffff;\n@p st.shared.f32 [%1], 0f40000000;\n@p st.global.f32 [%2], 0f40000000;\nbar.warp.sync 0xffffffff;}"
                 :: "r"(t), "r"(shared_address(s + 7)), "l"(y + 40) : "memory");
    y[t] = s[(t + 6) % 32] + y[40];
}"""
    y = np.zeros(64, np.float32)
    session = run(ptx, (y,), block=(32,))
    assert kinds(session) == [], told(session)
    assert y[1] == 4


RACE = r"""
extern "C" __global__ void __launch_bounds__(64) k(float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = t;
    y[t] = s[PARTNER];
}"""


@pytest.mark.parametrize("partner, words", [("t ^ 1", "__syncwarp()"), ("63 - t", "__syncthreads(), a named barrier"),
                                            ("t < 40 ? t ^ 1 : 0", "__syncthreads(), a named barrier")])
def test_what_a_race_asks_for(partner, words):
    session = run(RACE, (np.zeros(64, np.float32),), block=(64,), options=(f"-DPARTNER={partner}",))
    (hazard,) = session.hazards
    assert words in hazard.message
    if partner == "t ^ 1":
        assert "in lane 0" in hazard.message and "in lane 1 of the same warp" in hazard.message


# --- times of lanes ---------------------------------------------------------------------------------------------------
TIMES = st.lists(st.dictionaries(st.integers(0, 31), st.integers(1, 20), max_size=5), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(TIMES, TIMES, st.integers(0, 12))
def test_joining_codes_is_joining_times(ones, others, whole):
    lanes = LaneTimes()

    def table(rows):
        out = np.zeros((len(rows), 32), np.int32)
        for row, known in zip(out, rows):
            for lane, time in known.items():
                row[lane] = time
        return out
    n = min(len(ones), len(others))
    a, b = table(ones[:n]), table(others[:n])
    one, other = lanes.codes(a), lanes.codes(b)
    assert (lanes.times(one) == a).all() and (lanes.newest(one) == a.max(axis=1)).all()
    both = lanes.join(one, other, np.full(n, whole))
    assert (np.maximum(lanes.times(both), whole) == np.maximum(np.maximum(a, b), whole)).all()
    for lane in range(32):
        assert (lanes.reach(both, lane, whole + 1) == (np.maximum(a, b)[:, lane] > whole)).all()


def test_rows_nobody_refers_to_are_used_again():
    lanes = LaneTimes()
    kept = np.zeros(2, np.int32)
    lanes.holders.append(lambda: [kept])
    lanes.limit = 50
    for time in range(1, 200):
        times = np.zeros((1, 32), np.int32)
        times[0, :2] = time, time + 1
        code = lanes.codes(times)
        if time == 7:
            kept[:] = code[0]
        lanes.tidy()
    assert lanes.count < 60 and (lanes.times(kept)[:, :3] == [7, 8, 0]).all()
