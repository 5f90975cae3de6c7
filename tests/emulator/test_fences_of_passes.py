# SPDX-License-Identifier: Apache-2.0
"""wgmma.fence in each pass of a loop: unrolled, the fence of one pass stands before the writes of the next, and is none of theirs."""
import numpy as np
import pytest
from ml_dtypes import bfloat16
from support.emulated import SCHEDULES, kinds, lines_with, run, told

PASSES = r"""
__device__ unsigned long long operand(const void* at) {                     // 8x8 pieces, 128 bytes to the next ones of k, 256 to the next rows
    return (unsigned long long)((unsigned)__cvta_generic_to_shared(at) >> 4) | 8ull << 16 | 16ull << 32;
}
extern "C" __global__ void __launch_bounds__(128) k(const unsigned short* a, const unsigned short* b, float* c, float by) {
    __shared__ __align__(128) unsigned short left[4][64 * 16], right[4][8 * 16];
    __shared__ mbarrier_t full;
    int t = threadIdx.x, warp = t / 32, lane = t % 32;
    if (t == 0) {
        mbarrier_init(&full, 1);
        mbarrier_arrive_expect_tx(&full, sizeof left + sizeof right);
        cp_async_bulk_load(left, a, sizeof left, &full);
        cp_async_bulk_load(right, b, sizeof right, &full);
    }
    __syncthreads();
    mbarrier_wait_parity(&full, 0);
    float d[4] = {0, 0, 0, 0};
#if UNROLLED
#pragma unroll
#else
#pragma unroll 1
#endif
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) d[j] *= by;                             // rescaled
        if (FENCES == 4 || FENCES == 1 && i == 0 || FENCES == 3 && i != 2) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(operand(left[i])), "l"(operand(right[i])) : "memory");      // multiply
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    for (int i = 0; i < 4; i++) c[(16 * warp + lane / 4 + 8 * (i / 2)) * 8 + lane % 4 * 2 + i % 2] = d[i];
}"""


def pieces(matrix):
    """Rows of 16 as 8x8 pieces: down the rows, both pieces of k beside each other."""
    return np.ascontiguousarray(matrix.reshape(-1, 8, 2, 8).transpose(0, 2, 1, 3)).view(np.uint16)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("unrolled", [0, 1])
@pytest.mark.parametrize(("fences", "right"), [(4, True), (1, False), (3, False)])
def test_every_pass_that_rescales_needs_its_fence(fences, right, unrolled, schedule):
    rng = np.random.default_rng(5)
    a, b = rng.integers(-2, 3, (4, 64, 16)).astype(bfloat16), rng.integers(-2, 3, (4, 8, 16)).astype(bfloat16)
    c, expected = np.zeros((64, 8), np.float32), np.zeros((64, 8), np.float32)
    for one, other in zip(a, b, strict=True):
        expected = 2 * expected + one.astype(np.float32) @ other.astype(np.float32).T
    images = (np.stack([pieces(one) for one in part]) for part in (a, b))
    session = run(PASSES, (*images, c, np.float32(2)), block=(128,), schedule=schedule, options=(f"-DFENCES={fences}", f"-DUNROLLED={unrolled}"))
    assert kinds(session) == ([] if right else ["register-in-flight"]), told(session)
    for hazard in session.hazards:
        assert hazard.where.line in lines_with("// multiply", source=PASSES) and hazard.other.line in lines_with("// rescaled", source=PASSES)
    assert (c == expected).all()
