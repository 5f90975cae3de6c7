// cuda::ptx: bulk load, work on the tile, bulk store back, in place.
//! plain
//! launch block=128 grid=2
//! args f32[1024]
//! check np.array_equal(a[0], 2 * (np.arange(1024) % 7))
//! mutate not_awaited read-before-arrival|race
//! mutate not_fenced missing-proxy-fence
//! mutate no_barrier_before_the_store race
//! mutate source_lost_at_exit exit-in-flight
//! mutate too_few_bytes barrier-misuse
#include <cuda/ptx>
namespace ptx = cuda::ptx;
extern "C" __global__ void k(float* x) {
    __shared__ alignas(128) float tile[512];
    __shared__ uint64_t bar;
    float* mine = x + blockIdx.x * 512;
    if (threadIdx.x == 0) { ptx::mbarrier_init(&bar, 1); ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster); }
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile, mine, 2048, &bar); //@ not_awaited too_few_bytes
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, 2048); //~ too_few_bytes: ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, 1024);
    }
    while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {} //~ not_awaited:
    for (int i = threadIdx.x; i < 512; i += 128) tile[i] *= 2; //@ not_awaited not_fenced no_barrier_before_the_store
    ptx::fence_proxy_async(ptx::space_shared); //~ not_fenced:
    __syncthreads(); //~ no_barrier_before_the_store:
    if (threadIdx.x == 0) {
        ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, mine, tile, 2048); //@ not_fenced no_barrier_before_the_store source_lost_at_exit
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>()); //~ source_lost_at_exit:
    }
}
// SPDX-License-Identifier: Apache-2.0
