// c[m,n] = a[m,k] * b[n,k]^T with two kinds of fp8, c fp32: wgmma takes e4m3 and e5m2 on either side, each kind named by the instruction.
//
// e4m3 has 3 bits of mantissa and reaches 448; e5m2 has 2 and reaches 57344: weights and activations in the first, gradients in the
// second, so a backward pass multiplies one by the other. Nothing else changes: the bytes, the tensor maps and descriptors are those
// of any 8-bit operand. One 64 x 64 tile a CTA, one k-block of 128 at a time, no ring: the mechanism alone.
//
// Macros: A_KIND, B_KIND: 0 e4m3, 1 e5m2. Launch: grid (n / 64, m / 64), block 128, dynamic shared memory 16384 + 8. Tensor maps of uint8, box
// 64 x 128, swizzle 128B, fill zero. m and n multiples of 64, k of 16. Not measured by itself: its rate is lesson 15's.
#include <hopperlab/fence.cuh>
#include <hopperlab/tma.cuh>
#include <hopperlab/wgmma_operands.cuh>

#ifndef A_KIND
#define A_KIND 0
#endif
#ifndef B_KIND
#define B_KIND 1
#endif
#if A_KIND
#define A_WORD ".e5m2"
#else
#define A_WORD ".e4m3"
#endif
#if B_KIND
#define B_WORD ".e5m2"
#else
#define B_WORD ".e4m3"
#endif
WGMMA_SS(multiply, 32, float, "m64n64k32.f32" A_WORD B_WORD, ", 1, 1")

extern "C" __global__ void __launch_bounds__(128)
fp8_kinds(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // a tile of each, a barrier
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(shared + 16384);
    int row0 = blockIdx.y * 64, col0 = blockIdx.x * 64;
    if (threadIdx.x == 0) mbarrier_init(full, 1);
    __syncthreads();                                            // nobody touches a barrier before it is one
    float d[32];
    for (int i = 0; i * 128 < k; i++) {
        if (threadIdx.x == 0) {
            mbarrier_arrive_expect_tx(full, 16384);
            cp_async_bulk_tensor_2d_load(shared, &a, full, i * 128, row0);
            cp_async_bulk_tensor_2d_load(shared + 8192, &b, full, i * 128, col0);
        }
        mbarrier_wait_parity(full, i % 2);
        wgmma_fence();
        for (int step = 0; step < 4; step++)
            multiply(d, wgmma_descriptor_k_major<128>(shared_address(shared) + step * 32),
                     wgmma_descriptor_k_major<128>(shared_address(shared) + 8192 + step * 32), i > 0 || step > 0);
        wgmma_commit_group();
        wgmma_wait_group<0>();                                  // all four warps' reads are over
        __syncthreads();
    }
    int row = row0 + 16 * (threadIdx.x / 32) + threadIdx.x % 32 / 4, col = col0 + 2 * (threadIdx.x % 4);
    for (int i = 0; i < 32; i++) c[(size_t)(row + 8 * (i / 2 % 2)) * n + col + 8 * (i / 4) + i % 2] = d[i];
}
// SPDX-License-Identifier: Apache-2.0
