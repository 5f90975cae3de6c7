# SPDX-License-Identifier: Apache-2.0
"""Volatile and relaxed stores to shared memory beside bulk copies, and operands of wgmma that are written two bytes at a time."""
import numpy as np
import pytest
from ml_dtypes import bfloat16
from support.emulated import SCHEDULES, kinds, lines_with, run, told

BESIDE = r"""
__device__ void put(float* at, float value) {
    if (HOW == 0) *at = value;
    if (HOW == 1) *(volatile float*)at = value;
    if (HOW == 2) asm volatile("st.relaxed.cta.shared::cta.f32 [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(at)), "f"(value) : "memory");
}
extern "C" __global__ void k(const float* x, float* y, float* z) {
    __shared__ __align__(128) float s[64];
    __shared__ mbarrier_t full;
    int t = threadIdx.x;
    if (t == 0) mbarrier_init(&full, 1);
    __syncthreads();
    if (WHERE < 3) {
        put(&s[t], x[t]);
        fence_proxy_async_shared_cta();
        if (WHERE != 1) __syncthreads();                        // 1: nobody has waited for the other warp
        if (t == 0) { cp_async_bulk_store(y, s, 256); cp_async_bulk_commit_group(); }           // the copy
        if (WHERE == 0 && t == 0) cp_async_bulk_wait_group_read<0>();                           // 2: it may still read
        if (WHERE == 0) __syncthreads();
        if (WHERE != 1) put(&s[t], 0.0f);
        if (t == 0) cp_async_bulk_wait_group_read<0>();
    } else {
        if (t == 0) { mbarrier_arrive_expect_tx(&full, 256); cp_async_bulk_load(s, x, 256, &full); }    // the copy
        if (WHERE == 3) mbarrier_wait_parity(&full, 0);         // 4: it may still land
        put(&s[t], 1.0f);
        mbarrier_wait_parity(&full, 0);
        z[t] = s[t];
    }
}"""
FOUND = {0: [], 1: ["race"], 2: ["overwrite-in-flight"], 3: [], 4: ["overwrite-in-flight"]}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("how", range(3))
@pytest.mark.parametrize("where", FOUND)
def test_no_store_is_made_beside_a_copy(where, how, schedule):
    """Ordinary, volatile or relaxed: the copy is not a strong operation, so both race."""
    x, y, z = np.arange(64, dtype=np.float32), np.zeros(64, np.float32), np.zeros(64, np.float32)
    session = run(BESIDE, (x, y, z), block=(64,), schedule=schedule, options=(f"-DWHERE={where}", f"-DHOW={how}"))
    assert kinds(session) == FOUND[where], told(session)
    for hazard in session.hazards:
        assert {hazard.where.line, hazard.other.line} & lines_with("// the copy", source=BESIDE)


PRODUCT = r"""
__device__ unsigned long long operand(const void* at, unsigned columns) {       // 8x8 pieces: one after the other down the rows, `columns` bytes to the next 8 of k
    return (unsigned long long)((unsigned)__cvta_generic_to_shared(at) >> 4) | (unsigned long long)(columns >> 4) << 16 | 8ull << 32;
}
extern "C" __global__ void __launch_bounds__(128) k(const unsigned short* a, const unsigned short* b, float* c) {
    __shared__ __align__(128) unsigned short left[64 * 16], right[8 * 16];
    int t = threadIdx.x, warp = t / 32, lane = t % 32;
    right[t % 16 / 8 * 64 + t / 16 * 8 + t % 8] = b[t];
    fence_proxy_async_shared_cta();
    if (WHO != 3) __syncthreads();                                                              // 3: B of the other warps is unknown
    for (int i = 0; i < 8; i++) {                                                               // the 16 rows of its own warp
        int e = t * 8 + i;
        left[e % 16 / 8 * 512 + e / 16 * 8 + e % 8] = a[e];                                     // A
    }
    if (WHO != 2 || warp == 0) fence_proxy_async_shared_cta();                                  // 2: one warp's alone
    if (WHO == 1 || WHO == 3) __syncwarp(); else __syncthreads();
    float d[4] = {0, 0, 0, 0};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;\n"
                 "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "l"(operand(left, 1024)), "l"(operand(right, 128)) : "memory");              // multiply
    for (int i = 0; i < 4; i++) c[(16 * warp + lane / 4 + 8 * (i / 2)) * 8 + lane % 4 * 2 + i % 2] = d[i];
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("who", "found"), [(0, []), (1, []), (2, ["missing-proxy-fence"]), (3, ["race"])])
def test_operands_that_are_written_two_bytes_at_a_time(who, found, schedule):
    """All words look alike then (their bytes have stamps of their own), and each is judged nevertheless: who wrote it, for which warp, with which fence."""
    rng = np.random.default_rng(4)
    a, b, c = rng.integers(-3, 4, (64, 16)).astype(bfloat16), rng.integers(-3, 4, (8, 16)).astype(bfloat16), np.zeros((64, 8), np.float32)
    session = run(PRODUCT, (a.view(np.uint16), b.view(np.uint16), c), block=(128,), schedule=schedule, options=(f"-DWHO={who}",))
    assert kinds(session) == found, told(session)
    assert (c == a.astype(np.float32) @ b.astype(np.float32).T).all()
    for hazard in session.hazards:
        assert hazard.where.line in lines_with("// multiply", source=PRODUCT)
