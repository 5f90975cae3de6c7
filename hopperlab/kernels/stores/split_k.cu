// C[32 x 32] = A[32 x k] * B[32 x k]^T in fp32, k dealt out over the blocks: block s computes the part of columns first[s] to
// first[s + 1] - 1 and *adds* its tile to C by a reducing TMA store. No block waits for another and none reads C; the L2 does
// the additions, each element's atomically and in any order, so that real numbers may round differently from run to run.
// The products are plain loops: this kernel is about how the parts meet.
//
// Launch: grid splits, block 128. Tensor map of C: box 32 x 32, float32. first: splits + 1 columns. C holds what is added to.
#include <hopperlab/fence.cuh>
#include <hopperlab/tma_reduce.cuh>

extern "C" __global__ void __launch_bounds__(128)
split_k(const __grid_constant__ TensorMap c, const float* a, const float* b, const int* first, int k) {
    __shared__ __align__(128) float tile[32 * 32];
    int from = first[blockIdx.x], to = first[blockIdx.x + 1];
    for (int i = threadIdx.x; i < 32 * 32; i += 128) {
        float sum = 0;
        for (int x = from; x < to; x++) sum += a[i / 32 * k + x] * b[i % 32 * k + x];
        tile[i] = sum;
    }
    fence_proxy_async_shared_cta();                         // my part of the tile, for the engine
    __syncthreads();                                        // everyone's part
    if (threadIdx.x == 0) {
        cp_reduce_async_bulk_tensor_2d_add(&c, tile, 0, 0);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read<0>();
    }
}
// SPDX-License-Identifier: Apache-2.0
