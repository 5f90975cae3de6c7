// Shared memory is written while an operation that was started may still read or write it.
//! case source_of_a_bulk_store_reused
//! launch block=32
//! args f32[64]
//! ptx fewer cp.async.bulk.wait_group.read
KERNEL(32) k(float* y) {
    __shared__ __align__(128) float s[32];
    s[threadIdx.x] = 1;
    fence_proxy_async_shared_cta();
    __syncwarp();
    if (threadIdx.x == 0) {
        cp_async_bulk_store(y, s, 128);                         // OTHER
        cp_async_bulk_commit_group();
#if !BUG
        cp_async_bulk_wait_group_read<0>();
#endif
        s[0] = 2;                                               // HAZARD
        fence_proxy_async_shared_cta();
        cp_async_bulk_store(y + 32, s, 128);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}
//! case stage_refilled_before_everybody_read
//! launch block=64
//! args f32[64] f32[64]
//! ptx fewer bar.sync
//! also phase-overrun
KERNEL(64) k(const float* x, float* y) {
    __shared__ __align__(128) float s[32];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) mbarrier_init(&full, 1);
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 2; i++) {
        if (threadIdx.x == 0) {
            mbarrier_arrive_expect_tx(&full, 128);
            cp_async_bulk_load(s, x + 32 * i, 128, &full);      // HAZARD
        }
        mbarrier_wait_parity(&full, i);
        sum += s[threadIdx.x % 32];                             // OTHER
        fence_proxy_async_shared_cta();
#if !BUG
        __syncthreads();
#endif
    }
    y[threadIdx.x] = sum;
}
//! case stage_refilled_before_volatile_reads
//! launch block=64
//! args f32[64] f32[64]
//! ptx fewer bar.sync
//! also phase-overrun
KERNEL(64) k(const float* x, float* y) {
    __shared__ __align__(128) float s[32];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) mbarrier_init(&full, 1);
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 2; i++) {
        if (threadIdx.x == 0) {
            mbarrier_arrive_expect_tx(&full, 128);
            cp_async_bulk_load(s, x + 32 * i, 128, &full);      // HAZARD
        }
        mbarrier_wait_parity(&full, i);
        sum += *(volatile float*)&s[threadIdx.x % 32];          // OTHER
        fence_proxy_async_shared_cta();
#if !BUG
        __syncthreads();
#endif
    }
    y[threadIdx.x] = sum;
}
//! case place_of_a_cp_async_read_by_volatile_loads
//! launch block=64
//! args f32[256] f32[64]
//! ptx fewer bar.sync
KERNEL(64) k(const float* x, float* y) {
    __shared__ __align__(16) float s[256];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    y[threadIdx.x] = *(volatile float*)&s[threadIdx.x ^ 32];    // OTHER
#if !BUG
    __syncthreads();
#endif
    cp_async_cg_16(s + 4 * threadIdx.x, x + 4 * threadIdx.x);   // HAZARD
    cp_async_wait_all();
}
//! case volatile_flag_of_one_warp_for_the_other
//! clean
//! launch block=64
//! args f32[32] f32[32]
KERNEL(64) k(const float* x, float* y) {                        // volatile reads race with no thread, whoever stored
    __shared__ __align__(128) float s[32];
    __shared__ int ready;
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) { mbarrier_init(&full, 1); ready = 0; }
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(&full, 128);
        cp_async_bulk_load(s, x, 128, &full);
    }
    if (threadIdx.x < 32) {
        mbarrier_wait_parity(&full, 0);
        y[threadIdx.x] = *(volatile float*)&s[threadIdx.x];
        __syncwarp();
        if (threadIdx.x == 0) ready = 1;
    } else {
        while (!*(volatile int*)&ready) { }
    }
}
//! case two_copies_to_one_place
//! launch block=32
//! args f32[64] f32[32]
KERNEL(32) k(const float* x, float* y) {
    __shared__ __align__(128) float s[64];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_arrive_expect_tx(&full, 256);
        cp_async_bulk_load(s, x, 128, &full);                   // OTHER
        cp_async_bulk_load(s + 32 * !BUG, x + 32, 128, &full);  // HAZARD
    }
    __syncthreads();
    mbarrier_wait_parity(&full, 0);
    y[threadIdx.x] = s[threadIdx.x];
}
//! case tile_of_a_wgmma_overwritten
//! launch block=128 shared=16384
//! args bf16[64x64] f32[4096]
KERNEL(128) k(const void* x, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    wgmma_fence();
    multiply(d, s, s + 8192);                                   // OTHER
    wgmma_commit_group();
    if (!BUG) wgmma_wait_group<0>();
    __syncthreads();
    ((unsigned*)s)[threadIdx.x] = 0;                            // HAZARD
    if (BUG) wgmma_wait_group<0>();
    put(y, d);
}
//! case one_thread_releases_for_its_warpgroup
//! clean
//! launch block=160 shared=17408
//! args bf16[64x64] bf16[256x64] f32[4096]
KERNEL(160) k(const void* b, const char* x, float* y) {          // as CUTLASS does: thread 0 arrives after wait_group
    extern __shared__ __align__(1024) unsigned char s[];
    mbarrier_t *full = (mbarrier_t*)(s + 16384), *empty = full + 1;
    if (threadIdx.x == 128) { mbarrier_init(full, 1); mbarrier_init(empty, 1); }
    if (threadIdx.x < 128) for (int i = threadIdx.x * 16; i < 8192; i += 2048) *(uint4*)(s + 8192 + i) = *(const uint4*)((const char*)b + i);
    fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x < 128) {
        float d[32] = {};
        for (int i = 0; i < 4; i++) {
            mbarrier_wait_parity(full, i & 1);
            wgmma_fence();
            multiply(d, s, s + 8192);
            wgmma_commit_group();
            wgmma_wait_group<0>();
            if (threadIdx.x == 0) mbarrier_arrive(empty);
        }
        put(y, d);
    } else if (threadIdx.x == 128) {
        for (int i = 0; i < 4; i++) {
            mbarrier_wait_parity(empty, (i & 1) ^ 1);
            mbarrier_arrive_expect_tx(full, 8192);
            cp_async_bulk_load(s, x + 8192 * i, 8192, full);
        }
    }
}
//! case source_of_a_copy_to_a_peer
//! launch block=64 grid=2
//! args f32[128]
//! ptx fewer barrier.cluster
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(64) k(float* y) {
    __shared__ __align__(128) float from[64], to[64];
    __shared__ mbarrier_t full;
    unsigned rank = cluster_ctarank();
    if (threadIdx.x == 0) { mbarrier_init(&full, 1); fence_mbarrier_init_release_cluster(); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    from[threadIdx.x] = rank * 100 + threadIdx.x;
    fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0) mbarrier_arrive_expect_tx(&full, 256);
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
                     :: "r"(mapa_shared_cluster(to, rank ^ 1)), "r"(shared_address(from)), "r"(mapa_shared_cluster(&full, rank ^ 1)) : "memory");  // OTHER
#if !BUG
    mbarrier_wait_parity(&full, 0);
    barrier_cluster_arrive(); barrier_cluster_wait();           // the peer has what came from here
#endif
    from[threadIdx.x] = 0;                                      // HAZARD
#if BUG
    mbarrier_wait_parity(&full, 0);
#endif
    y[blockIdx.x * 64 + threadIdx.x] = to[threadIdx.x];
    barrier_cluster_arrive(); barrier_cluster_wait();
}
//! case own_arrival_says_nothing_of_the_peers
//! launch block=64 grid=2
//! args f32[128]
//! ptx fewer barrier.cluster
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(64) k(float* y) {
    __shared__ __align__(128) float from[64], to[64];
    __shared__ mbarrier_t full;
    unsigned rank = cluster_ctarank();
    if (threadIdx.x == 0) { mbarrier_init(&full, 1); fence_mbarrier_init_release_cluster(); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    from[threadIdx.x] = rank * 100 + threadIdx.x;
    fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0) mbarrier_arrive_expect_tx(&full, 256);
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
                     :: "r"(mapa_shared_cluster(to, rank ^ 1)), "r"(shared_address(from)), "r"(mapa_shared_cluster(&full, rank ^ 1)) : "memory");  // OTHER
    mbarrier_wait_parity(&full, 0);                             // what came here, not what went from here
#if !BUG
    barrier_cluster_arrive(); barrier_cluster_wait();
#endif
    from[threadIdx.x] = to[threadIdx.x] + 1;                    // HAZARD
    y[blockIdx.x * 64 + threadIdx.x] = from[threadIdx.x];
    barrier_cluster_arrive(); barrier_cluster_wait();
}
//! case the_peers_answer_tells_that_mine_has_come
//! launch block=64 grid=2
//! args f32[128]
//! also race
//! ptx fewer bar.sync
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(64) k(float* y) {
    __shared__ __align__(128) float from[64], to[64];
    __shared__ mbarrier_t full;
    unsigned rank = cluster_ctarank(), phase = 0;
    if (threadIdx.x == 0) { mbarrier_init(&full, 1); fence_mbarrier_init_release_cluster(); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    float value = rank * 100 + threadIdx.x;
    for (int round = 0; round < 3; round++) {                   // 0 serves, 1 answers: whoever sends has seen what it answers
        if (rank == 1 || round > 0) {
            if (threadIdx.x == 0) mbarrier_arrive_expect_tx(&full, 256);
            mbarrier_wait_parity(&full, phase);
            phase ^= 1;
            value += to[threadIdx.x];                           // OTHER
        }
        from[threadIdx.x] = value;
        fence_proxy_async_shared_cta();
        if (!BUG) __syncthreads(); else __syncwarp();
        if (threadIdx.x == 0)
            asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
                         :: "r"(mapa_shared_cluster(to, rank ^ 1)), "r"(shared_address(from)), "r"(mapa_shared_cluster(&full, rank ^ 1)) : "memory");  // HAZARD
    }
    if (rank == 0) {
        if (threadIdx.x == 0) mbarrier_arrive_expect_tx(&full, 256);
        mbarrier_wait_parity(&full, phase);
        value += to[threadIdx.x];
    }
    barrier_cluster_arrive(); barrier_cluster_wait();
    y[blockIdx.x * 64 + threadIdx.x] = value;
}
//! case slots_released_by_relaxed_arrivals
//! clean
//! launch block=256 grid=2 shared=16384
//! args map:bf16:64x256:64x64:128B f32[4096] f32[4096]
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(256) k(const __grid_constant__ TensorMap m, float* y, float* z) {
    extern __shared__ __align__(1024) unsigned char s[];        // two stages of 8 KiB; rank 0 loads for both blocks
    __shared__ mbarrier_t full[2], empty[2];
    unsigned rank = cluster_ctarank();
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) { mbarrier_init(&full[i], 1); mbarrier_init(&empty[i], 2); }
        fence_mbarrier_init_release_cluster();
    }
    barrier_cluster_arrive(); barrier_cluster_wait();
    if (threadIdx.x < 128) {
        if (threadIdx.x == 0 && rank == 0)
            for (int step = 0; step < 4; step++) {
                int i = step & 1;
                mbarrier_wait_parity(&empty[i], (step >> 1 & 1) ^ 1);
                mbarrier_arrive_expect_tx(&full[i], 8192);
                unsigned short both = 3;
                asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                             :: "r"(shared_address(s + 8192 * i)), "l"(&m), "r"(64 * step), "r"(0), "r"(shared_address(&full[i])), "h"(both) : "memory");  // HAZARD
            }
        if (threadIdx.x == 0 && rank == 1) for (int i = 0; i < 2; i++) mbarrier_arrive_expect_tx(&full[i], 8192);
    } else {
        float d[32] = {};
        wgmma_fence();
        for (int step = 0; step < 4; step++) {
            int i = step & 1;
            mbarrier_wait_parity(&full[i], step >> 1 & 1);
            if (rank == 1 && threadIdx.x == 128 && step < 2) mbarrier_arrive_expect_tx(&full[i], 8192);
            multiply(d, s + 8192 * i, s + 8192 * i);            // OTHER
            wgmma_commit_group();
            wgmma_wait_group<0>();
            if (threadIdx.x == 128) { asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" :: "r"(mapa_shared_cluster(&empty[i], 0)) : "memory");  }
        }
        put(rank ? z : y, d);
    }
    barrier_cluster_arrive(); barrier_cluster_wait();
}
//! case slots_released_by_arrivals_of_default_scope
//! clean
//! launch block=256 grid=2 shared=16384
//! args map:bf16:64x256:64x64:128B f32[4096] f32[4096]
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(256) k(const __grid_constant__ TensorMap m, float* y, float* z) {
    extern __shared__ __align__(1024) unsigned char s[];        // two stages of 8 KiB; rank 0 loads for both blocks
    __shared__ mbarrier_t full[2], empty[2];
    unsigned rank = cluster_ctarank();
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) { mbarrier_init(&full[i], 1); mbarrier_init(&empty[i], 2); }
        fence_mbarrier_init_release_cluster();
    }
    barrier_cluster_arrive(); barrier_cluster_wait();
    if (threadIdx.x < 128) {
        if (threadIdx.x == 0 && rank == 0)
            for (int step = 0; step < 4; step++) {
                int i = step & 1;
                mbarrier_wait_parity(&empty[i], (step >> 1 & 1) ^ 1);
                mbarrier_arrive_expect_tx(&full[i], 8192);
                unsigned short both = 3;
                asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                             :: "r"(shared_address(s + 8192 * i)), "l"(&m), "r"(64 * step), "r"(0), "r"(shared_address(&full[i])), "h"(both) : "memory");  // HAZARD
            }
        if (threadIdx.x == 0 && rank == 1) for (int i = 0; i < 2; i++) mbarrier_arrive_expect_tx(&full[i], 8192);
    } else {
        float d[32] = {};
        wgmma_fence();
        for (int step = 0; step < 4; step++) {
            int i = step & 1;
            mbarrier_wait_parity(&full[i], step >> 1 & 1);
            if (rank == 1 && threadIdx.x == 128 && step < 2) mbarrier_arrive_expect_tx(&full[i], 8192);
            multiply(d, s + 8192 * i, s + 8192 * i);            // OTHER
            wgmma_commit_group();
            wgmma_wait_group<0>();
            if (threadIdx.x == 128) { asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" :: "r"(mapa_shared_cluster(&empty[i], 0)) : "memory");  }
        }
        put(rank ? z : y, d);
    }
    barrier_cluster_arrive(); barrier_cluster_wait();
}
//! case slot_released_early_by_a_relaxed_arrival
//! launch block=256 grid=2 shared=16384
//! args map:bf16:64x256:64x64:128B f32[4096] f32[4096]
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(256) k(const __grid_constant__ TensorMap m, float* y, float* z) {
    extern __shared__ __align__(1024) unsigned char s[];        // two stages of 8 KiB; rank 0 loads for both blocks
    __shared__ mbarrier_t full[2], empty[2];
    unsigned rank = cluster_ctarank();
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) { mbarrier_init(&full[i], 1); mbarrier_init(&empty[i], 2); }
        fence_mbarrier_init_release_cluster();
    }
    barrier_cluster_arrive(); barrier_cluster_wait();
    if (threadIdx.x < 128) {
        if (threadIdx.x == 0 && rank == 0)
            for (int step = 0; step < 4; step++) {
                int i = step & 1;
                mbarrier_wait_parity(&empty[i], (step >> 1 & 1) ^ 1);
                mbarrier_arrive_expect_tx(&full[i], 8192);
                unsigned short both = 3;
                asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                             :: "r"(shared_address(s + 8192 * i)), "l"(&m), "r"(64 * step), "r"(0), "r"(shared_address(&full[i])), "h"(both) : "memory");  // HAZARD
            }
        if (threadIdx.x == 0 && rank == 1) for (int i = 0; i < 2; i++) mbarrier_arrive_expect_tx(&full[i], 8192);
    } else {
        float d[32] = {};
        wgmma_fence();
        for (int step = 0; step < 4; step++) {
            int i = step & 1;
            mbarrier_wait_parity(&full[i], step >> 1 & 1);
            if (rank == 1 && threadIdx.x == 128 && step < 2) mbarrier_arrive_expect_tx(&full[i], 8192);
            multiply(d, s + 8192 * i, s + 8192 * i);            // OTHER
            wgmma_commit_group();
            if (BUG && threadIdx.x == 128) { asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" :: "r"(mapa_shared_cluster(&empty[i], 0)) : "memory");  }
            wgmma_wait_group<0>();
            if (!BUG && threadIdx.x == 128) { asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" :: "r"(mapa_shared_cluster(&empty[i], 0)) : "memory");  }
        }
        put(rank ? z : y, d);
    }
    barrier_cluster_arrive(); barrier_cluster_wait();
}
//! case inbox_zeroed_behind_the_cluster_barrier
//! launch block=32 grid=2
//! args u32[64]
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(32) k(unsigned* y) {
    __shared__ __align__(16) unsigned inbox[32];
    __shared__ mbarrier_t full;
    int t = threadIdx.x, peer = cluster_ctarank() ^ 1;
    if (!BUG) inbox[t] = 0;
    if (t == 0) { mbarrier_init(&full, 1); mbarrier_arrive_expect_tx(&full, 128); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    if (BUG) inbox[t] = 0;                                      // HAZARD OTHER
    red_async_add(mapa_shared_cluster(inbox + t, peer), t, mapa_shared_cluster(&full, peer));  // HAZARD OTHER
    mbarrier_wait_parity(&full, 0);
    y[blockIdx.x * 32 + t] = inbox[t ^ 1];
}
//! case inbox_stored_into_before_the_wait
//! launch block=32 grid=2
//! args u32[64]
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(32) k(unsigned* y) {
    __shared__ __align__(16) unsigned source[32], inbox[32];
    __shared__ mbarrier_t full;
    int t = threadIdx.x, peer = cluster_ctarank() ^ 1;
    source[t] = t;
    inbox[t] = 0;
    fence_proxy_async_shared_cta();
    if (t == 0) { mbarrier_init(&full, 1); mbarrier_arrive_expect_tx(&full, 128); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    if (t == 0) cp_reduce_async_bulk_add(mapa_shared_cluster(inbox, peer), source, 128, mapa_shared_cluster(&full, peer));  // OTHER
    if (!BUG) mbarrier_wait_parity(&full, 0);
    inbox[t] = 7;                                               // HAZARD
    if (BUG) mbarrier_wait_parity(&full, 0);
    y[blockIdx.x * 32 + t] = inbox[t];
    barrier_cluster_arrive(); barrier_cluster_wait();
}
//! case reduction_before_the_reader_has_read
//! launch block=32 grid=2
//! args u32[64]
//! ptx fewer barrier.cluster
//! also phase-overrun barrier-misuse read-before-arrival
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(32) k(unsigned* y) {
    __shared__ __align__(16) unsigned inbox[32];
    __shared__ mbarrier_t full;
    int t = threadIdx.x, peer = cluster_ctarank() ^ 1;
    inbox[t] = 0;
    if (t == 0) { mbarrier_init(&full, 1); mbarrier_arrive_expect_tx(&full, 128); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    for (int i = 0; i < 2; i++) {
        red_async_add(mapa_shared_cluster(inbox + t, peer), t, mapa_shared_cluster(&full, peer));   // HAZARD OTHER
        mbarrier_wait_parity(&full, i);
        y[blockIdx.x * 32 + t] += inbox[t ^ 1];                 // HAZARD OTHER
        if (t == 0 && i == 0) mbarrier_arrive_expect_tx(&full, 128);
#if !BUG
        barrier_cluster_arrive(); barrier_cluster_wait();
#endif
    }
    barrier_cluster_arrive(); barrier_cluster_wait();
}
//! case source_of_a_bulk_load_released_before_its_wait
//! launch block=32 grid=2
//! args f32[32] f32[32] u32[1]
KERNEL(32) k(float* x, float* y, unsigned* flag) {
    __shared__ __align__(128) float s[32];
    __shared__ mbarrier_t full;
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) {
            mbarrier_init(&full, 1);
            mbarrier_arrive_expect_tx(&full, 128);
            cp_async_bulk_load(s, x, 128, &full);               // OTHER
            if (BUG) release(flag);
        }
        __syncwarp();
        mbarrier_wait_parity(&full, 0);
        if (!BUG && threadIdx.x == 0) release(flag);            // it has come, so it has been read
        y[threadIdx.x] = s[threadIdx.x];
    } else {
        await(flag);
        x[threadIdx.x] = 7;                                     // HAZARD
    }
}
//! case source_of_a_tensor_load_released_before_its_wait
//! launch block=64 grid=2
//! args map:f32:64x64:8x32:128B f32[64x64] u32[1]
KERNEL(64) k(const __grid_constant__ TensorMap m, float* x, unsigned* flag) {
    __shared__ __align__(1024) float s[256];                    // the second argument stands for the results; the tile is stored back by its map
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) mbarrier_init(&full, 1);
    __syncthreads();
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) {
            mbarrier_arrive_expect_tx(&full, 1024);
            cp_async_bulk_tensor_2d_load(s, &m, &full, 32, 8);  // OTHER
        }
        if (BUG && threadIdx.x == 63) release(flag);            // the flag is another warp's
        mbarrier_wait_parity(&full, 0);
        if (!BUG && threadIdx.x == 63) release(flag);
        x[threadIdx.x] = s[threadIdx.x];
    } else {
        s[threadIdx.x] = s[threadIdx.x + 64] = s[threadIdx.x + 128] = s[threadIdx.x + 192] = 7;
        fence_proxy_async_shared_cta();
        __syncthreads();
        if (threadIdx.x == 0) {
            await(flag);
            cp_async_bulk_tensor_2d_store(&m, s, 32, 12);       // HAZARD
            cp_async_bulk_commit_group();
            cp_async_bulk_wait_group<0>();
        }
    }
}
//! case source_of_a_cp_async_released_before_its_wait
//! launch block=32 grid=2
//! args f32[128] f32[128] u32[1]
KERNEL(32) k(float* x, float* y, unsigned* flag) {
    __shared__ __align__(16) float s[128];
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        cp_async_cg_16(s + 4 * t, x + 4 * t);                   // OTHER
        cp_async_commit_group();
        if (BUG) { __syncwarp(); if (t == 0) release(flag); }
        cp_async_wait_group<0>();
        __syncwarp();
        if (!BUG && t == 0) release(flag);
        y[t] = s[127 - t];
    } else {
        await(flag);
        x[4 * t + 1] = 7;                                       // HAZARD
    }
}
//! case own_source_overwritten_without_a_wait
//! launch block=64
//! args f32[256] f32[64]
KERNEL(64) k(float* x, float* y) {
    __shared__ __align__(16) float s[256];
    int t = threadIdx.x;
    cp_async_cg_16(s + 4 * t, x + 4 * t);                       // OTHER
    cp_async_commit_group();
    if (!BUG) cp_async_wait_group<0>();
    *(float4*)(x + 4 * t) = make_float4(1, 2, 3, 4);            // HAZARD
    if (BUG) cp_async_wait_group<0>();
    y[t] = s[4 * t];
}
//! case source_overwritten_behind_a_barrier_of_the_block
//! launch block=64
//! args f32[64] f32[64]
KERNEL(64) k(float* x, float* y) {
    __shared__ __align__(128) float s[64];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_arrive_expect_tx(&full, 256);
        cp_async_bulk_load(s, x, 256, &full);                   // OTHER
        if (!BUG) mbarrier_wait_parity(&full, 0);
    }
    __syncthreads();
    x[threadIdx.x] = 7;                                         // HAZARD
    mbarrier_wait_parity(&full, 0);
    y[threadIdx.x] = s[threadIdx.x];
}
//! case source_overwritten_by_an_atomic_in_the_second_pass
//! launch block=32 grid=2
//! args u32[32] u32[64] u32[2]
KERNEL(32) k(unsigned* x, unsigned* y, unsigned* flag) {
    __shared__ __align__(128) unsigned s[2][32];
    __shared__ mbarrier_t full;
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        if (t == 0) mbarrier_init(&full, 1);
        __syncwarp();
        for (int i = 0; i < 2; i++) {                           // the first pass is waited for, the second is not
            if (t == 0) {
                mbarrier_arrive_expect_tx(&full, 128);
                cp_async_bulk_load(s[i], x, 128, &full);        // OTHER
            }
            if (!BUG || i == 0) mbarrier_wait_parity(&full, i);
            __syncwarp();
        }
        if (t == 0) release(flag);
        if (BUG) mbarrier_wait_parity(&full, 1);
        for (int i = 0; i < 2; i++) y[32 * i + t] = s[i][t];
    } else {
        await(flag);
        atomicAdd(x + t, 1);                                    // HAZARD
    }
}
//! case sources_written_again_by_turns
//! clean
//! launch block=64 grid=2
//! args f32[64] f32[256] u32[2]
KERNEL(64) k(float* x, float* y, unsigned* flag) {              // mail of one slot: block 1 fills it, block 0 loads it, four times
    __shared__ __align__(128) float s[64];
    __shared__ mbarrier_t full;
    int t = threadIdx.x;
    if (t == 0) mbarrier_init(&full, 1);
    __syncthreads();
    for (unsigned step = 1; step <= 4; step++) {
        if (blockIdx.x == 1) {
            if (step > 1) await(flag + 1, step + 7);
            x[t] = 10 * step + t;
            fence_proxy_async();
            __syncthreads();
            if (t == 0) release(flag, step + 8);
        } else {
            if (t == 0) {
                await(flag, step + 8);
                fence_proxy_async();
                mbarrier_arrive_expect_tx(&full, 256);
                cp_async_bulk_load(s, x, 256, &full);
            }
            mbarrier_wait_parity(&full, step & 1 ^ 1);
            if (t == 40) release(flag + 1, step + 8);           // not the thread that loaded
            y[64 * (step - 1) + t] = s[t];
            fence_proxy_async_shared_cta();
            __syncthreads();
        }
    }
}
//! case a_multicast_is_over_for_who_has_one_of_its_tiles
//! clean
//! launch block=64 grid=4
//! args map:f32:32x32:8x32:128B f32[1024] u32[1]
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(64) k(const __grid_constant__ TensorMap m, float* y, unsigned* flag) {
    __shared__ __align__(1024) float s[256];
    __shared__ mbarrier_t full;
    unsigned rank = cluster_ctarank(), t = threadIdx.x;
    if (t == 0) { mbarrier_init(&full, 1); fence_mbarrier_init_release_cluster(); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    if (blockIdx.x < 2) {
        if (t == 0) mbarrier_arrive_expect_tx(&full, 1024);
        if (rank == 0 && t == 0)
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;"
                         :: "r"(shared_address(s)), "l"(&m), "r"(shared_address(&full)), "r"(0), "r"(16), "h"((unsigned short)3) : "memory");
        mbarrier_wait_parity(&full, 0);
        if (rank == 1 && t == 0) release(flag);
        y[256 * rank + t] = s[t];
    } else if (rank == 0) {
        s[t] = s[t + 64] = s[t + 128] = s[t + 192] = 7;
        fence_proxy_async_shared_cta();
        __syncthreads();
        if (t == 0) {
            await(flag);
            cp_async_bulk_tensor_2d_store(&m, s, 0, 16);
            cp_async_bulk_commit_group();
            cp_async_bulk_wait_group<0>();
        }
    }
    barrier_cluster_arrive(); barrier_cluster_wait();
}
//! case sources_that_an_mbarrier_of_cp_async_releases
//! clean
//! launch block=64 grid=2
//! args f32[128] f32[128] u32[1]
KERNEL(64) k(float* x, float* y, unsigned* flag) {
    __shared__ __align__(16) float s[128];
    __shared__ mbarrier_t full;
    int t = threadIdx.x;
    if (t == 0) mbarrier_init(&full, 32);
    __syncthreads();
    if (blockIdx.x == 0) {
        if (t < 32) {
            cp_async_cg_16(s + 4 * t, x + 4 * t);
            asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(shared_address(&full)) : "memory");
        }
        mbarrier_wait_parity(&full, 0);
        if (t == 50) release(flag);
        y[t] = s[t];
        cp_async_wait_all();
    } else {
        await(flag);
        x[t] = x[t + 64] = 7;
    }
}
//! case tiles_stored_back_where_they_came_from
//! clean
//! launch block=64 grid=3
//! args map:f32:64x96:32x32:128B
KERNEL(64) k(const __grid_constant__ TensorMap m) {             // each block doubles its tiles in place
    __shared__ __align__(1024) float s[1024];
    __shared__ mbarrier_t full;
    int t = threadIdx.x;
    if (t == 0) mbarrier_init(&full, 1);
    __syncthreads();
    for (int i = 0; i < 2; i++) {
        if (t == 0) {
            if (i) cp_async_bulk_wait_group<0>();
            mbarrier_arrive_expect_tx(&full, 4096);
            cp_async_bulk_tensor_2d_load(s, &m, &full, 32 * blockIdx.x, 32 * i);
        }
        mbarrier_wait_parity(&full, i);
        for (int j = t; j < 1024; j += 64) s[j] *= 2;
        fence_proxy_async_shared_cta();
        __syncthreads();
        if (t == 0) {
            cp_async_bulk_tensor_2d_store(&m, s, 32 * blockIdx.x, 32 * i);
            cp_async_bulk_commit_group();
        }
    }
    if (t == 0) cp_async_bulk_wait_group<0>();
}
// SPDX-License-Identifier: Apache-2.0
