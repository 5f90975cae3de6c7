# SPDX-License-Identifier: Apache-2.0
"""Idioms of real Hopper kernels, correct and silent under every schedule, each beside a twin that leaves one step out."""
import ml_dtypes
import numpy as np
import pytest
from support.emulated import SCHEDULES, kinds, run, told

LOOP = r"""
// CUTLASS's release: one thread a warpgroup arrives right after wait_group; wgmma itself joins the four warps.
extern "C" __global__ void __launch_bounds__(256) k(const uint4* a, float* out, int rounds) {
    extern __shared__ __align__(1024) unsigned char s[];            // 2 stages x 64x64 bf16, already 128B-swizzled in `a`
    __shared__ mbarrier_t full[2], empty[2];
    int t = threadIdx.x;
    if (t == 0) for (int i = 0; i < 2; i++) { mbarrier_init(&full[i], 1); mbarrier_init(&empty[i], 1); }
    __syncthreads();
    if (t >= 128) {
        if (t == 128) for (int i = 0; i < rounds; i++) {
            mbarrier_wait_parity(&empty[i % 2], (i / 2 & 1) ^ 1);
            mbarrier_arrive_expect_tx(&full[i % 2], 8192);
            cp_async_bulk_load(s + i % 2 * 8192, a + i * 512, 8192, &full[i % 2]);
        }
        return;
    }
    float d[32];
    for (int i = 0; i < 32; i++) d[i] = 0;
    for (int i = 0; i < rounds; i++) {
        mbarrier_wait_parity(&full[i % 2], i / 2 & 1);
        unsigned tile = shared_address(s + i % 2 * 8192);
        wgmma_fence();
        for (int k = 0; k < 4; k++) wgmma_m64n64k16_bf16(d, wgmma_descriptor_128B(tile + k * 32), wgmma_descriptor_128B(tile + k * 32), 1);
        wgmma_commit_group();
        if (EARLY) { if (t == 0) mbarrier_arrive(&empty[i % 2]); }
        wgmma_wait_group<0>();
        if (!EARLY && t == WHO) mbarrier_arrive(&empty[i % 2]);
    }
    for (int i = 0; i < 32; i++) out[i * 128 + t] = d[i];
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("who, early", [(0, 0), (77, 0), (0, 1)])
def test_one_thread_releases_for_its_warpgroup(who, early, schedule):
    x = np.random.default_rng(1).integers(-2, 3, (5, 64, 64)).astype(ml_dtypes.bfloat16)
    swizzled = np.empty((5, 512, 8), ml_dtypes.bfloat16)
    at = np.arange(512)
    swizzled[:, at ^ (at & 0x38) >> 3] = x.reshape(5, 512, 8)
    out = np.zeros((32, 128), np.float32)
    session = run(LOOP, (swizzled, out, np.int32(5)), block=(256,), shared_mem=16384, schedule=schedule,
                  options=(f"-DWHO={who}", f"-DEARLY={early}"))
    assert kinds(session) == (["overwrite-in-flight"] if early else []), told(session)
    if not early:
        y = x.astype(np.float32)
        exact = sum(m @ m.T for m in y)
        i, t = np.meshgrid(np.arange(32), np.arange(128), indexing="ij")
        assert (out == exact[16 * (t // 32) + t % 32 // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (t % 4) + i % 2]).all()


EPILOGUE = r"""
// Results of two warpgroups leave through one staging buffer each, tile after tile, by named barriers of 128 threads.
extern "C" __global__ void __launch_bounds__(256) k(const float* x, float* y, int tiles) {
    __shared__ __align__(128) float stage[2][128];
    int group = threadIdx.x / 128, t = threadIdx.x % 128;
    for (int i = group; i < tiles; i += 2) {
        float value = x[i * 128 + t] * 3;
        if (READ && t == 0) cp_async_bulk_wait_group_read<0>();     // the last store has read the buffer ...
        bar_sync(group + 1, 128);                                   // ... and the group knows
        stage[group][127 - t] = value;
        if (FENCE) fence_proxy_async_shared_cta();
        if (MEET) bar_sync(group + 1, 128);
        if (t == 0) {
            cp_async_bulk_store(y + i * 128, stage[group], 512);
            cp_async_bulk_commit_group();
        }
    }
    if (t == 0) cp_async_bulk_wait_group<0>();
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("left_out, found", [(None, []), ("READ", ["overwrite-in-flight"]), ("FENCE", ["missing-proxy-fence"]),
                                             ("MEET", ["overwrite-in-flight", "race"])])
def test_results_leave_through_a_staging_buffer(left_out, found, schedule):
    x, y = np.arange(128 * 7, dtype=np.float32), np.zeros(128 * 7, np.float32)
    options = tuple(f"-D{name}={int(name != left_out)}" for name in ("READ", "FENCE", "MEET"))
    session = run(EPILOGUE, (x, y, np.int32(7)), block=(256,), schedule=schedule, options=options)
    assert kinds(session) == found or left_out == "MEET" and "race" in kinds(session), told(session)
    if not left_out:
        assert (y.reshape(7, 128) == 3 * x.reshape(7, 128)[:, ::-1]).all()


ROWS = r"""
// A whole warp loads: lane 0 announces all bytes, then every lane brings its own row.
extern "C" __global__ void __launch_bounds__(96) k(const float* x, float* y, int rounds) {
    __shared__ __align__(128) float s[2][32][32];
    __shared__ mbarrier_t full[2], empty[2];
    int t = threadIdx.x;
    if (t < 2) { mbarrier_init(&full[t], 1); mbarrier_init(&empty[t], 64 / PER); }
    __syncthreads();
    for (int i = 0; i < rounds; i++) {
        int b = i % 2, parity = i / 2 & 1;
        if (t < 32) {
            if (WAIT) mbarrier_wait_parity(&empty[b], parity ^ 1);
            if (t == 0) mbarrier_arrive_expect_tx(&full[b], 32 * 128);
            __syncwarp();
            cp_async_bulk_load(s[b][t], x + (i * 32 + t) * 32, 128, &full[b]);
        } else {
            mbarrier_wait_parity(&full[b], parity);
            float sum = 0;
            for (int k = 0; k < 32; k++) sum += s[b][k][(t + k) % 32];
            y[i * 64 + t - 32] = sum;
            __syncwarp();
            if (t % PER == 0) mbarrier_arrive(&empty[b]);
        }
    }
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("per, wait", [(1, 1), (32, 1), (32, 0)])
def test_every_lane_loads_a_row(per, wait, schedule):
    x = np.random.default_rng(2).integers(-9, 9, (6, 32, 32)).astype(np.float32)
    y = np.zeros((6, 64), np.float32)
    session = run(ROWS, (x, y, np.int32(6)), block=(96,), schedule=schedule, options=(f"-DPER={per}", f"-DWAIT={wait}"))
    if not wait:
        assert "overwrite-in-flight" in kinds(session), told(session)
        return
    assert not session.hazards, told(session)
    k, t = np.meshgrid(np.arange(32), np.arange(32, 96), indexing="ij")
    assert (y == x[:, k, (t + k) % 32].sum(axis=1)).all()


SPLIT = r"""
// Arrive early, wait late: a split barrier in each direction around independent work.
extern "C" __global__ void __launch_bounds__(128) k(const int* x, int* y) {
    __shared__ int s[128];
    __shared__ mbarrier_t b;
    int t = threadIdx.x;
    if (t == 0) mbarrier_init(&b, 128);
    __syncthreads();
    int sum = 0;
    for (int i = 0; i < 4; i++) {
        s[t] = x[i * 128 + t];
        mbarrier_arrive(&b);
        sum = sum * 3 + i;                                          // work that needs nobody
        mbarrier_wait_parity(&b, 0);
        sum += s[127 - t];
        mbarrier_arrive(&b);
        sum ^= t;
        if (SECOND) mbarrier_wait_parity(&b, 1);
    }
    y[t] = sum;
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_split_barriers(schedule):
    x, y = np.random.default_rng(3).integers(0, 99, (4, 128)).astype(np.int32), np.zeros(128, np.int32)
    session = run(SPLIT, (x, y), block=(128,), schedule=schedule, options=("-DSECOND=1",))
    total = np.zeros(128, np.int64)
    for i in range(4):
        total = (total * 3 + i + x[i, ::-1]) ^ np.arange(128)
    assert (y == total).all() and not session.hazards, told(session)
    session = run(SPLIT, (x, y), block=(128,), schedule=schedule, options=("-DSECOND=0",))
    assert session.hazards, told(session)


STMATRIX = r"""
// stmatrix and ldmatrix between the lanes of a warp.
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    __shared__ __align__(128) unsigned char s[512];
    int t = threadIdx.x;
    unsigned r[4], q[4];
    for (int i = 0; i < 4; i++) r[i] = x[i * 32 + t];
    unsigned at = shared_address(s) + t * 16;
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" :: "r"(at), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
    if (SYNC) __syncwarp();
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(q[0]), "=r"(q[1]), "=r"(q[2]), "=r"(q[3]) : "r"(at) : "memory");
    for (int i = 0; i < 4; i++) y[i * 32 + t] = q[i];
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_matrices_through_shared_memory(schedule):
    x, y = np.arange(256, dtype=np.uint16).view(np.uint32), np.zeros(128, np.uint32)
    session = run(STMATRIX, (x, y), schedule=schedule, options=("-DSYNC=1",))
    assert not session.hazards, told(session)
    stored = x.view(np.uint16).reshape(4, 8, 8)
    assert (y.view(np.uint16).reshape(4, 8, 8) == stored.transpose(0, 2, 1)).all()
