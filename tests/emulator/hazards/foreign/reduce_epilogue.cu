// Split-K: every block adds its partial tile to the result with a TMA reduction, staged in two halves.
//! launch block=128 grid=2 shared=25600
//! args map:bf16:64x128:64x64:128B map:bf16:64x128:64x64:128B map:f32:64x64:64x32:none
//! check np.allclose(a[2], a[0].astype(np.float32) @ a[1].astype(np.float32).T + np.arange(4096).reshape(64, 64) % 7)
//! mutate not_fenced missing-proxy-fence
//! mutate staging_not_read_yet overwrite-in-flight
//! mutate not_all_have_written race
//! mutate exit_before_it_is_read exit-in-flight
extern "C" __global__ void __launch_bounds__(128) k(const __grid_constant__ CUtensorMap_ ta, const __grid_constant__ CUtensorMap_ tb,
                                                    const __grid_constant__ CUtensorMap_ tc) {
    extern __shared__ __align__(1024) unsigned char buf[];
    __shared__ ClusterBarrier full;
    float* stage = (float*)(buf + 16384);
    if (threadIdx.x == 0) { full.init(1); fence_barrier_init(); }
    __syncthreads();
    if (threadIdx.x == 0) {
        full.arrive_and_expect_tx(16384);
        tma_load_2d(&ta, &full, buf, blockIdx.x * 64, 0);
        tma_load_2d(&tb, &full, buf + 8192, blockIdx.x * 64, 0);
    }
    full.wait(0);
    float d[32];
    warpgroup_arrive();
    for (int i = 0; i < 4; i++) wgmma_bf16(d, make_desc(buf) + 2 * i, make_desc(buf + 8192) + 2 * i, i);
    warpgroup_commit_batch();
    warpgroup_wait<0>();
    int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < 16; i++)
            stage[(16 * warp + lane / 4 + 8 * (i >> 1 & 1)) * 32 + 8 * (i >> 2) + 2 * (lane & 3) + (i & 1)] = d[16 * half + i]; //@ not_fenced staging_not_read_yet not_all_have_written
        fence_view_async_shared(); //~ not_fenced:
        __syncthreads(); //~ not_all_have_written: __syncwarp();
        if (threadIdx.x == 0) {
            tma_reduce_add_2d(&tc, stage, 32 * half, 0); //@ not_fenced staging_not_read_yet not_all_have_written exit_before_it_is_read
            tma_store_arrive();
            if (half == 0) tma_store_wait<0>(); //~ staging_not_read_yet:
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) tma_store_wait<0>(); //~ exit_before_it_is_read:
}
// SPDX-License-Identifier: Apache-2.0
