// dq = scale * sums in bf16, from the fp32 sums that backward.cu left in the order of an accumulator's registers: each warpgroup reads the registers
// of 64 x 64 numbers, 16 bytes per thread and load, and writes the tile as a forward pass writes o: stmatrix into shared memory, a TMA store that clips.
//
// Macros: D (64, 128), CONSUMERS (warpgroups of backward.cu). Launch: grid (tiles, units), block 128 * CONSUMERS, dynamic shared memory 8192 * CONSUMERS.
// Tensor map of dq over (batch, length, heads, D) bf16, swizzle 128B, box 1 x 64 x 1 x 64. Measured in recordings/backward.json.
#include <hopperlab/epilogue.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/tma.cuh>

#ifndef D
#define D 128
#endif
#ifndef CONSUMERS
#define CONSUMERS 2
#endif

constexpr int BM = 4096 * CONSUMERS / D;

extern "C" __global__ void __launch_bounds__(128 * CONSUMERS)
attention_backward_end(const __grid_constant__ TensorMap dq, const float* sums, float scale, int length, int heads) {
    extern __shared__ __align__(1024) unsigned char shared[];   // 64 rows of 128 bytes per warpgroup
    require_aligned(shared, 1024);
    int me = threadIdx.x / 128, thread = threadIdx.x % 128, unit = blockIdx.y;
    const float4* part = reinterpret_cast<const float4*>(sums + ((size_t)unit * gridDim.x + blockIdx.x) * BM * D + me * 4096) + thread;
    float d[32];
    float4 parts[8];
    #pragma unroll
    for (int j = 0; j < 8; j++) parts[j] = part[128 * j];
    #pragma unroll
    for (int j = 0; j < 8; j++) d[4 * j] = scale * parts[j].x, d[4 * j + 1] = scale * parts[j].y, d[4 * j + 2] = scale * parts[j].z, d[4 * j + 3] = scale * parts[j].w;
    stage_chunk(shared_address(shared) + me * 8192, d, 0);
    fence_proxy_async_shared_cta();
    bar_sync(1 + me, 128);
    int row = blockIdx.x * BM + (D == 64 ? 64 * me : 0), column = D == 64 ? 0 : 64 * me;
    if (thread == 0 && row < length) {
        cp_async_bulk_tensor_4d_store(&dq, shared + me * 8192, column, unit % heads, row, unit / heads);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read<0>();
    }
}
// SPDX-License-Identifier: Apache-2.0
