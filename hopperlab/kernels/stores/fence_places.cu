// One fence, five places: out[i] = 2 * in[i]. 128 threads write a tile with ordinary stores (generic proxy), a barrier says that
// all have, thread 0 hands the tile to the copy engine (async proxy). PLACE says where the proxy fence stands:
//   0  nowhere                                  3  the issuing thread, before the barrier
//   1  every writer, before the barrier         4  another thread, after the barrier
//   2  the issuing thread, after the barrier
// Not all of them are right. Launch: grid tiles, block 128; 512 floats a tile.
#include <hopperlab/fence.cuh>
#include <hopperlab/tma.cuh>

#ifndef PLACE
#define PLACE 1
#endif

extern "C" __global__ void __launch_bounds__(128)
doubled(const float* in, float* out) {
    __shared__ __align__(128) float tile[512];
    in += blockIdx.x * 512;
    for (int i = threadIdx.x; i < 512; i += 128) tile[i] = 2 * in[i];
    if (PLACE == 1 || PLACE == 3 && threadIdx.x == 0) fence_proxy_async_shared_cta();
    __syncthreads();                                        // every thread's stores happened before what follows
    if (PLACE == 4 && threadIdx.x == 32) fence_proxy_async_shared_cta();
    if (threadIdx.x == 0) {
        if (PLACE == 2) fence_proxy_async_shared_cta();
        cp_async_bulk_store(out + blockIdx.x * 512, tile, 2048);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read<0>();                 // shared memory must outlive the engine's reading
    }
}
// SPDX-License-Identifier: Apache-2.0
