// Plain accesses of two threads to the same bytes with nothing between them.
//! case reduction_forgets_one_barrier
//! launch block=128
//! args f32[128] f32[1]
//! ptx fewer bar.sync
KERNEL(128) k(const float* x, float* y) {
    __shared__ float s[128];
    int t = threadIdx.x;
    s[t] = x[t];                                                // OTHER
    __syncthreads();
    if (t < 64) s[t] += s[t + 64];                              // OTHER HAZARD
#if !BUG
    __syncthreads();
#endif
    if (t < 32) s[t] += s[t + 32];                              // HAZARD OTHER
    __syncthreads();
    if (t == 0) { float sum = 0; for (int i = 0; i < 32; i++) sum += s[i]; y[0] = sum; }
}
//! case blocks_exchange_without_a_flag
//! launch block=32 grid=2
//! args i32[64] i32[64]
KERNEL(32) k(int* x, int* y) {
    int t = threadIdx.x + 32 * blockIdx.x;
    x[t] = t;                                                   // OTHER HAZARD
    y[t] = x[BUG ? 63 - t : t];                                 // HAZARD OTHER
}
//! case lanes_without_syncwarp
//! launch block=32
//! args f32[32]
//! ptx fewer bar.warp.sync
KERNEL(32) k(float* y) {
    __shared__ float s[32];
    s[threadIdx.x] = threadIdx.x;                               // OTHER
#if !BUG
    __syncwarp();
#endif
    y[threadIdx.x] = s[31 - threadIdx.x];                       // HAZARD
}
//! case neighbours_in_a_word
//! clean
//! launch block=64
//! args u16[64]
KERNEL(64) k(unsigned short* y) {                               // byte-exact: two warps share words, no bytes
    __shared__ unsigned short s[64];
    int t = threadIdx.x % 32 * 2 + threadIdx.x / 32;
    s[t] = threadIdx.x;
    unsigned short own = s[t];
    s[t] = own + 1;
    __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x];
}
//! case lanes_store_different_values
//! warning
//! launch block=32
//! args i32[32]
KERNEL(32) k(int* y) {                                          // one lane wins; which one is not defined
    __shared__ int s;
    s = BUG ? threadIdx.x : 7;                                  // HAZARD
    __syncwarp();
    y[threadIdx.x] = s;
}
//! case lanes_store_different_values_in_global_memory
//! warning
//! launch block=32
//! args i32[32]
KERNEL(32) k(int* y) {
    y[BUG ? threadIdx.x / 2 : threadIdx.x] = threadIdx.x;       // HAZARD
}
//! case warps_store_different_values
//! launch block=128
//! args i32[128]
KERNEL(128) k(int* y) {
    __shared__ int s;
    if (threadIdx.x % 32 == 0) s = BUG ? threadIdx.x : 7;       // HAZARD
    __syncthreads();
    y[threadIdx.x] = s;
}
//! case blocks_store_different_values
//! launch block=32 grid=4
//! args i32[32]
KERNEL(32) k(int* y) {
    if (threadIdx.x == 0) y[0] = BUG ? blockIdx.x : 7;          // HAZARD
}
//! case lane_overwrites_what_its_neighbour_read
//! launch block=32
//! args i32[32]
//! ptx fewer bar.warp.sync
KERNEL(32) k(int* y) {                                          // tree in step: the read of one lane, the write of another
    __shared__ int s[32];
    s[threadIdx.x] = threadIdx.x;
    __syncwarp();
    for (int d = 1; d < 32; d *= 2) {
        int v = threadIdx.x >= d ? s[threadIdx.x - d] : 0;      // OTHER
#if !BUG
        __syncwarp();
#endif
        s[threadIdx.x] += v;                                    // HAZARD
        __syncwarp();
    }
    y[threadIdx.x] = s[threadIdx.x];
}
//! case lane_reads_what_its_neighbour_wrote
//! launch block=32
//! args i32[32]
//! ptx fewer bar.warp.sync
KERNEL(32) k(int* y) {
    __shared__ int s[32];
    s[threadIdx.x] = threadIdx.x;                               // OTHER
#if !BUG
    __syncwarp();
#endif
    y[threadIdx.x] = s[threadIdx.x ^ 1];                        // HAZARD
}
//! case first_lane_takes_the_slot_before_all_have_read_it
//! launch block=32
//! args i32[32]
//! ptx fewer bar.warp.sync
KERNEL(32) k(int* y) {                                          // a broadcast, read by all, replaced by one
    __shared__ int next;
    if (threadIdx.x == 0) next = 0;
    __syncwarp();
    for (int tile = 0; tile < 3; tile++) {
        y[threadIdx.x] += next;                                 // OTHER
#if !BUG
        __syncwarp();
#endif
        if (threadIdx.x == 0) next = tile + 1;                  // HAZARD
        __syncwarp();
    }
}
//! case halves_of_a_word_by_two_lanes
//! clean
//! launch block=64
//! args i32[64]
KERNEL(64) k(int* y) {                                          // 16-bit neighbours, read and written by their own lanes
    __shared__ short s[64];
    s[threadIdx.x] = threadIdx.x;
    for (int i = 0; i < 3; i++) s[threadIdx.x] = s[threadIdx.x] * 3 + 1;
    y[threadIdx.x] = s[threadIdx.x];
}
//! case shuffles_and_votes_between
//! clean
//! launch block=64
//! args i32[64]
KERNEL(64) k(int* y) {                                          // converged collectives of whole warps order what lanes do
    __shared__ int s[64];
    int lane = threadIdx.x % 32, mine = threadIdx.x & ~31;
    s[threadIdx.x] = lane;
    __syncwarp();
    int a = s[mine + (lane + 1) % 32];
    int total = __shfl_xor_sync(0xffffffff, a, 1) + a;
    s[threadIdx.x] = total;
    unsigned all = __ballot_sync(0xffffffff, total > 3);
    int b = s[mine + (lane + 2) % 32];
    b += __reduce_add_sync(0xffffffff, 1u);
    s[threadIdx.x] = b + (all & 1);
    __syncwarp();
    y[threadIdx.x] = s[mine + (lane + 5) % 32];
}
//! case transposed_through_ldmatrix
//! clean
//! launch block=32
//! args i32[32]
KERNEL(32) k(unsigned* y) {                                     // ldmatrix is the warp's: all lanes have read when it returns
    __shared__ __align__(16) unsigned s[32];
    s[threadIdx.x] = threadIdx.x * 0x10001;
    __syncwarp();
    for (int i = 0; i < 2; i++) {
        unsigned r;
        asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(shared_address(&s[threadIdx.x % 8 * 4])) : "memory");
        s[threadIdx.x] = r;
        __syncwarp();
    }
    y[threadIdx.x] = s[threadIdx.x ^ 1];
}
//! case plain_data_behind_a_relaxed_arrival
//! launch block=64
//! args i32[64]
KERNEL(64) k(int* y) {                                          // .relaxed counts, and publishes nothing
    __shared__ int s[32];
    __shared__ mbarrier_t ready;
    if (threadIdx.x == 0) mbarrier_init(&ready, 32);
    __syncthreads();
    if (threadIdx.x < 32) {
        s[threadIdx.x] = threadIdx.x;                           // OTHER
#if BUG
        asm volatile("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0];" :: "r"(shared_address(&ready)) : "memory");
#else
        asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" :: "r"(shared_address(&ready)) : "memory");
#endif
        return;
    }
    mbarrier_wait_parity(&ready, 0);
    y[threadIdx.x] = s[threadIdx.x - 32];                       // HAZARD
}
//! case data_for_a_peer_behind_an_arrival_of_cta_scope
//! warning
//! launch block=32 grid=2
//! args i32[64]
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(32) k(int* y) {
    __shared__ int s[32];
    __shared__ mbarrier_t ready;
    unsigned peer = cluster_ctarank() ^ 1;
    if (threadIdx.x == 0) { mbarrier_init(&ready, 32); fence_mbarrier_init_release_cluster(); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(mapa_shared_cluster(&s[threadIdx.x], peer)), "r"(threadIdx.x * 3) : "memory");  // OTHER
#if BUG
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" :: "r"(mapa_shared_cluster(&ready, peer)) : "memory");
#else
    mbarrier_arrive_remote(mapa_shared_cluster(&ready, peer));
#endif
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(shared_address(&ready)) : "memory");
    y[blockIdx.x * 32 + threadIdx.x] = s[threadIdx.x];          // HAZARD
    barrier_cluster_arrive(); barrier_cluster_wait();
}
//! case data_of_a_peer_behind_a_wait_of_cta_scope
//! warning
//! launch block=32 grid=2
//! args i32[64]
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(32) k(int* y) {
    __shared__ int s[32];
    __shared__ mbarrier_t ready;
    unsigned peer = cluster_ctarank() ^ 1;
    if (threadIdx.x == 0) { mbarrier_init(&ready, 32); fence_mbarrier_init_release_cluster(); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(mapa_shared_cluster(&s[threadIdx.x], peer)), "r"(threadIdx.x * 3) : "memory");  // OTHER
    mbarrier_arrive_remote(mapa_shared_cluster(&ready, peer));
#define WAIT_SCOPE ".acquire.cluster"
#if BUG
#undef WAIT_SCOPE
#define WAIT_SCOPE ".acquire.cta"
#endif
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity" WAIT_SCOPE ".shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(shared_address(&ready)) : "memory");
    y[blockIdx.x * 32 + threadIdx.x] = s[threadIdx.x];          // HAZARD
    barrier_cluster_arrive(); barrier_cluster_wait();
}
//! case flag_behind_a_fence_of_the_block
//! launch block=32 grid=2
//! args i32[32] i32[32]
//! ptx more membar.cta
KERNEL(32) k(int* x, volatile int* flag) {                      // __threadfence_block promises nothing to another block
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) {
            x[1] = 42;                                          // OTHER
#if BUG
            __threadfence_block();
#else
            __threadfence();
#endif
            flag[9] = 77;
        }
    } else if (threadIdx.x == 0) {
        while (flag[9] != 77) {}
        __threadfence();
        x[2] = __ldcg(&x[1]);                                   // HAZARD
        flag[9] = 2;
    }
}
//! case atomic_flag_of_block_scope
//! launch block=32 grid=2
//! args i32[32] i32[32]
KERNEL(32) k(int* x, int* flag) {
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {
        x[1] = 42;                                              // OTHER
#if BUG
        asm volatile("atom.release.cta.global.exch.b32 _, [%0], 77;" :: "l"(flag + 9) : "memory");
#else
        asm volatile("atom.release.gpu.global.exch.b32 _, [%0], 77;" :: "l"(flag + 9) : "memory");
#endif
    } else {
        int seen;
        do asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(seen) : "l"(flag + 9) : "memory");
        while (seen != 77);
        x[2] = x[1] + 1;                                        // HAZARD
        flag[9] = 2;
    }
}
//! case fence_and_flag_inside_a_block
//! clean
//! launch block=64
//! args i32[64]
KERNEL(64) k(int* x) {                                          // __threadfence_block is enough here
    __shared__ volatile int flag;
    __shared__ int s;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    if (threadIdx.x == 0) { s = 5; __threadfence_block(); flag = 1; }
    if (threadIdx.x == 32) { while (flag == 0) {} __threadfence_block(); x[0] = s; }
}
//! case every_writer_fences_then_one_raises_the_flag
//! launch block=64 grid=2
//! args f32[64] f32[64] i32[8]
//! ptx fewer membar.gl
KERNEL(64) k(float* x, float* y, int* flag) {
    if (blockIdx.x == 0) {
        x[threadIdx.x] = threadIdx.x;                           // OTHER
#if !BUG
        __threadfence();
#endif
        __syncthreads();
        if (threadIdx.x == 0) atomicExch(flag + 7, 77);
    } else {
        if (threadIdx.x == 0) while (atomicAdd(flag + 7, 0) != 77) {}
        __syncthreads();
        y[threadIdx.x] = __ldcg(&x[63 - threadIdx.x]);          // HAZARD
        if (threadIdx.x == 0) flag[7] = 0;
    }
}
//! case total_read_by_one_of_those_who_add
//! launch block=128
//! args i32[128]
//! ptx fewer bar.sync
KERNEL(128) k(int* y) {                                         // thread 127 may add last, or not: that orders nothing
    __shared__ int total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    atomicAdd(&total, threadIdx.x);                             // OTHER
#if !BUG
    __syncthreads();
#endif
    if (threadIdx.x == 127) y[0] = total;                       // HAZARD
}
//! case total_of_blocks_read_by_one_that_adds
//! launch block=32 grid=3
//! args i32[32] i32[32]
//! ptx fewer membar.gl
KERNEL(32) k(int* x, int* count) {                              // the flag is a reduction, and relaxed
    if (threadIdx.x) return;
    atomicAdd(&x[7], blockIdx.x + 5);                           // OTHER
#if !BUG
    __threadfence();
#endif
    atomicAdd(&count[7], 1);
    if (blockIdx.x < 2) return;
    while (*(volatile int*)&count[7] != 3) {}
    x[8] = __ldcg(&x[7]);                                       // HAZARD
}
//! case data_behind_a_relaxed_reduction
//! launch block=32 grid=2
//! args i32[32] i32[32]
KERNEL(32) k(int* x, int* flag) {
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {
        x[1] = 42;                                              // OTHER
#if BUG
        asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" :: "l"(flag + 7) : "memory");
#else
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"(flag + 7) : "memory");
#endif
    } else {
        int seen;
        do asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(seen) : "l"(flag + 7) : "memory");
        while (seen == 0);
        x[2] = x[1] + 1;                                        // HAZARD
    }
}
//! case fence_of_the_device_and_flag_of_the_block
//! launch block=32 grid=2
//! args i32[32] i32[32]
KERNEL(32) k(int* x, int* flag) {                               // the fence is wide enough, the atomic that raises the flag is not
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {
        x[1] = 42;                                              // OTHER
        __threadfence();
        if (BUG) atomicAdd_block(flag + 7, 1);
        else atomicAdd(flag + 7, 1);
    } else {
        while (*(volatile int*)(flag + 7) == 0) {}
        __threadfence();
        x[2] = __ldcg(&x[1]);                                   // HAZARD
    }
}
//! case counters_that_are_reset_plainly
//! clean
//! launch block=64
//! args i32[64] int:3
KERNEL(64) k(int* y, int n) {                                   // who has read all arrivals may write the counter as it likes
    __shared__ int tickets, arrived;
    if (threadIdx.x == 0) tickets = arrived = 0;
    __syncthreads();
    for (int i = 0; i < n; i++) {
        if (threadIdx.x % 32 == 0 && atomicAdd(&tickets, 1) == 1) tickets = 0;
        atomicAdd(&arrived, 1);
        if (threadIdx.x == 0) {
            while (*(volatile int*)&arrived != 64) {}
            y[i] = *(volatile int*)&arrived;
            *(volatile int*)&arrived = 0;
        }
        __syncthreads();
    }
}
//! case histogram_summed_by_its_threads
//! clean
//! launch block=128
//! args i32[128] i32[8] int:3
KERNEL(128) k(int* x, int* y, int n) {                          // each round adds, meets, reads and clears
    __shared__ int bins[8];
    if (threadIdx.x < 8) bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = 0; i < n; i++) {
        atomicAdd(&bins[(threadIdx.x + i) % 8], x[threadIdx.x]);
        __syncthreads();
        if (threadIdx.x >= 120) { y[threadIdx.x - 120] += bins[threadIdx.x - 120]; bins[threadIdx.x - 120] = 0; }
        __syncthreads();
    }
}
//! case totals_stored_before_the_other_warp_has_added
//! launch block=64
//! args u32[32]
//! ptx fewer bar.sync
KERNEL(64) k(unsigned* y) {                                     // that its own addition came last says nothing of the other one
    __shared__ __align__(16) unsigned total[32];
    if (threadIdx.x < 32) total[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&total[threadIdx.x % 32], threadIdx.x);           // OTHER
    fence_proxy_async_shared_cta();
#if !BUG
    __syncthreads();
#endif
    __syncwarp();
    if (threadIdx.x == 32) {
        cp_async_bulk_store(y, total, 128);                     // HAZARD
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}
//! case reader_waits_for_two_of_three_who_add
//! launch block=128
//! args u32[128] u32[32]
//! ptx fewer mbarrier.try_wait
KERNEL(128) k(const unsigned* x, unsigned* y) {                 // the one that is not waited for is neither the last nor the one before
    __shared__ unsigned total[32];
    __shared__ mbarrier_t done[3];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == 3) total[lane] = 0;
    if (threadIdx.x < 3) mbarrier_init(&done[threadIdx.x], 32);
    __syncthreads();
    if (warp < 3) {
        atomicAdd(&total[lane], x[threadIdx.x]);                // OTHER
        mbarrier_arrive(&done[warp]);
    } else {
#if !BUG
        mbarrier_wait_parity(&done[0], 0);
#endif
        mbarrier_wait_parity(&done[1], 0);
        mbarrier_wait_parity(&done[2], 0);
        y[lane] = total[lane];                                  // HAZARD
    }
}
//! case total_of_a_cluster_read_without_one_of_its_peers
//! launch block=32 grid=4
//! args u32[16] u32[4]
//! ptx fewer mbarrier.try_wait
KERNEL(32) __cluster_dims__(4, 1, 1) k(const unsigned* x, unsigned* y) {
    __shared__ unsigned total[4];
    __shared__ mbarrier_t done[4];
    unsigned rank = blockIdx.x, lane = threadIdx.x, there;
    if (lane < 4) { total[lane] = 0; mbarrier_init(&done[lane], 4); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    if (rank != 0 && lane < 4) {
        asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(there) : "r"(shared_address(&total[lane])));
        asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;" :: "r"(there), "r"(x[4 * rank + lane]) : "memory");    // OTHER
        asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(there) : "r"(shared_address(&done[rank])));
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(there) : "memory");
    }
    if (rank == 0) {
        for (int peer = BUG ? 2 : 1; peer < 4; peer++) {
            unsigned seen;
            do asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(seen) : "r"(shared_address(&done[peer])) : "memory");
            while (!seen);
        }
        if (lane < 4) y[lane] = total[lane];                    // HAZARD
    }
    barrier_cluster_arrive(); barrier_cluster_wait();
}
//! case letter_is_read_before_its_flag
//! warning
//! launch block=64 grid=2
//! args u32[64] i32[8] u32[64]
//! ptx fewer bar.sync
KERNEL(64) k(volatile unsigned* box, volatile int* flag, unsigned* y) {
    if (blockIdx.x == 0) {
        box[threadIdx.x] = 3 * threadIdx.x;                     // OTHER HAZARD
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) flag[0] = 100;
    } else {
        if (threadIdx.x == 0) while (flag[0] != 100) {}
#if !BUG
        __syncthreads();
#endif
        y[threadIdx.x] = box[63 - threadIdx.x];                 // HAZARD OTHER
    }
}
//! case letter_is_answered_before_it_is_read
//! warning
//! launch block=64 grid=2
//! args u32[64] i32[8] u32[64]
//! ptx differs
KERNEL(64) k(volatile unsigned* box, volatile int* flag, unsigned* y) {
    unsigned sum = 0;
    for (int i = 1; i <= 4; i++) {
        if (blockIdx.x == 0) {
            if (threadIdx.x == 0) { while (i > 1 && flag[1] != 99 + i) {} __threadfence(); }
            __syncthreads();
            box[threadIdx.x] = i * threadIdx.x;                 // HAZARD OTHER
            __threadfence();
            __syncthreads();
            if (threadIdx.x == 0) flag[0] = 100 + i;
        } else {
            if (threadIdx.x == 0) { while (flag[0] < 100 + i) {} __threadfence(); }
            __syncthreads();
            if (BUG && threadIdx.x == 0) { __threadfence(); flag[1] = 100 + i; }
            sum = 3 * sum + box[threadIdx.x];                   // OTHER HAZARD
            __syncthreads();
            if (!BUG && threadIdx.x == 0) { __threadfence(); flag[1] = 100 + i; }
        }
    }
    if (blockIdx.x == 1) y[threadIdx.x] = sum;
}
//! case volatile_words_of_a_warp_that_need_not_run_in_step
//! warning
//! launch block=64
//! args f32[64] f32[8]
//! ptx fewer bar.warp.sync
KERNEL(64) k(const float* x, float* y) {                        // the reduction of old, from before lanes were threads
    __shared__ volatile float s[64];
    int i = threadIdx.x;
    s[i] = x[i];
    __syncthreads();
    if (i < 32) {
        float own = s[i] + s[i + 32];
        for (int step = 16; step; step >>= 1) {
            s[i] = own;                                         // HAZARD OTHER
#if !BUG
            __syncwarp();
#endif
            own += s[i ^ step];                                 // OTHER HAZARD
#if !BUG
            __syncwarp();
#endif
        }
        if (i == 0) y[0] = own;
    }
}
//! case block_is_read_by_volatile_loads_in_order
//! clean
//! launch block=64
//! args u32[64] u32[64] int:4
KERNEL(64) k(const unsigned* x, unsigned* y, int n) {           // volatile tile between barriers
    __shared__ volatile unsigned s[64];
    unsigned sum = 0;
    for (int i = 0; i < n; i++) {
        s[threadIdx.x] = x[threadIdx.x] + sum;
        __syncthreads();
        sum += s[63 - threadIdx.x];
        __syncthreads();
    }
    y[threadIdx.x] = sum;
}
//! case mail_is_written_again_before_it_was_read
//! launch block=64 grid=2
//! args i32[384] i32[64] u32[1] u32[1] i32[384] int:6
//! ptx fewer ld.acquire.gpu
KERNEL(64) k(const int* x, int* mail, unsigned* sent, unsigned* taken, int* y, int steps) {    // whoever polls sees each value that a flag had, whoever runs ahead
    unsigned at;
    for (int step = 0; step < steps; step++) {
        if (blockIdx.x == 0) {
#if !BUG
            if (threadIdx.x == 0) do asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(at) : "l"(taken) : "memory"); while (at < step);
            __syncthreads();
#endif
            mail[threadIdx.x] = x[64 * step + threadIdx.x];     // HAZARD
            __syncthreads();
            if (threadIdx.x == 0) asm volatile("st.release.gpu.u32 [%0], %1;" :: "l"(sent), "r"(step + 1) : "memory");
        } else {
            if (threadIdx.x == 0) do asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(at) : "l"(sent) : "memory"); while (at <= step);
            __syncthreads();
            y[64 * step + threadIdx.x] = mail[63 - threadIdx.x];        // OTHER
            __syncthreads();
            if (threadIdx.x == 0) asm volatile("st.release.gpu.u32 [%0], %1;" :: "l"(taken), "r"(step + 1) : "memory");
        }
    }
}
//! case slots_filled_again_without_asking
//! launch block=32 grid=2
//! args f32[64] f32[32] u32[4]
KERNEL(32) k(float* mail, float* y, unsigned* flags) {          // two slots; each flag counts the passes
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        #pragma unroll 1
        for (int i = 0; i < 6; i++) {
            if (!BUG && i >= 2) await(flags + 2 + i % 2, i / 2 + 7);
            mail[32 * (i % 2) + t] = i + t;                     // HAZARD OTHER
            __syncwarp();
            if (t == 0) release(flags + i % 2, i / 2 + 8);
        }
    } else {
        float sum = 0;
        #pragma unroll 1
        for (int i = 0; i < 6; i++) {
            await(flags + i % 2, i / 2 + 8);
            sum += mail[32 * (i % 2) + 31 - t];                 // HAZARD OTHER
            __syncwarp();
            if (t == 0) release(flags + 2 + i % 2, i / 2 + 8);
        }
        y[t] = sum;
    }
}
//! case slots_filled_again_without_asking_by_one_thread_at_a_stretch
//! launch block=32 grid=2
//! args f32[4] f32[1] u32[4]
KERNEL(32) k(float* mail, float* y, unsigned* flags) {          // the loops are unrolled: no branch lies between two flags
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {
        #pragma unroll
        for (int i = 0; i < 6; i++) {
            if (!BUG && i >= 2) await(flags + 2 + i % 2, i / 2 + 7);
            mail[i % 2] = i;                                    // HAZARD OTHER
            release(flags + i % 2, i / 2 + 8);
        }
    } else {
        float sum = 0;
        #pragma unroll
        for (int i = 0; i < 6; i++) {
            await(flags + i % 2, i / 2 + 8);
            sum += mail[i % 2];                                 // HAZARD OTHER
            release(flags + 2 + i % 2, i / 2 + 8);
        }
        y[0] = sum;
    }
}
//! case slots_in_shared_memory_filled_again_without_asking
//! launch block=64
//! args f32[192] f32[32]
KERNEL(64) k(const float* x, float* y) {                        // a counting semaphore of two slots, and a producer that never asks it
    __shared__ float slot[2][32];
    __shared__ int full, empty;
    int t = threadIdx.x % 32;
    if (threadIdx.x == 0) { full = 0; empty = 2; }
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 6; i++) {
        int* mine = threadIdx.x < 32 ? &empty : &full;
        if (t == 0 && !(BUG && threadIdx.x < 32)) { while (*(volatile int*)mine == 0) {} atomicSub(mine, 1); __threadfence_block(); }
        __syncwarp();
        if (threadIdx.x < 32) slot[i % 2][t] = x[32 * i + t];   // HAZARD OTHER
        else sum += slot[i % 2][31 - t];                        // HAZARD OTHER
        __syncwarp();
        if (t == 0) { __threadfence_block(); atomicAdd(threadIdx.x < 32 ? &full : &empty, 1); }
    }
    if (threadIdx.x >= 32) y[t] = sum;
}
//! case flag_acquired_with_the_scope_of_a_block
//! launch block=64 grid=2
//! args f32[64] f32[64] u32[1]
KERNEL(64) k(float* data, float* y, unsigned* flag) {
    unsigned seen;
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x;                        // OTHER
        __syncthreads();
        if (threadIdx.x == 0) release(flag);
    } else {
        if (threadIdx.x == 0) {
#if BUG
            do asm volatile("ld.acquire.cta.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory"); while (!seen);
#else
            do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory"); while (!seen);
#endif
        }
        __syncthreads();
        y[threadIdx.x] = data[63 - threadIdx.x];                // HAZARD
    }
}
//! case flag_of_the_own_block_acquired_with_its_scope
//! clean
//! launch block=64
//! args f32[64] f32[64] u32[1]
KERNEL(64) k(float* data, float* y, unsigned* flag) {           // a release of any scope is heard inside the block
    unsigned seen;
    if (threadIdx.x == 0) { data[0] = 5; release(flag); }
    if (threadIdx.x == 32) {
        do asm volatile("ld.acquire.cta.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory"); while (seen < 100);
        y[0] = data[0];
    }
}
//! case flag_read_once_and_not_looked_at
//! launch block=64 grid=2
//! args f32[64] f32[64] u32[1]
KERNEL(64) k(float* data, float* y, unsigned* flag) {           // it may come before the flag is raised, whatever it finds in one run
    unsigned seen;
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x;                        // OTHER HAZARD
        __syncthreads();
        if (threadIdx.x == 0) release(flag);
    } else {
        if (threadIdx.x == 0) do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory"); while (!BUG && seen < 100);
        __syncthreads();
        y[threadIdx.x] = data[63 - threadIdx.x];                // HAZARD OTHER
    }
}
//! case flag_polled_relaxed_and_then_acquired
//! clean
//! launch block=64 grid=2
//! args f32[64] f32[64] u32[1]
KERNEL(64) k(float* data, float* y, unsigned* flag) {           // the second load is for its order, nobody needs its value
    unsigned seen;
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x;
        __syncthreads();
        if (threadIdx.x == 0) release(flag);
    } else {
        if (threadIdx.x == 0) {
            do asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory"); while (seen < 100);
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        }
        __syncthreads();
        y[threadIdx.x] = data[63 - threadIdx.x];
    }
}
//! case word_of_an_mbarrier_used_by_another_warp_right_after_its_end
//! launch block=64
//! args f32[64]
//! ptx fewer bar.sync
KERNEL(64) k(float* y) {
    __shared__ union { mbarrier_t barrier; float words[2]; } place;
    if (threadIdx.x == 0) mbarrier_init(&place.barrier, 1);
    __syncthreads();
    if (threadIdx.x == 0) mbarrier_inval(&place.barrier);       // OTHER HAZARD
#if !BUG
    __syncthreads();
#endif
    if (threadIdx.x == 33) { place.words[0] = 3; place.words[1] = 4; }      // HAZARD OTHER
    __syncthreads();
    y[threadIdx.x] = place.words[0];
}
//! case word_of_an_mbarrier_used_by_another_lane_right_after_its_end
//! launch block=32
//! args f32[32]
KERNEL(32) k(float* y) {
    __shared__ union { mbarrier_t barrier; float words[2]; } place;
    if (threadIdx.x == 0) mbarrier_init(&place.barrier, 1);
    __syncwarp();
    if (threadIdx.x == 0) mbarrier_inval(&place.barrier);       // OTHER HAZARD
    if (!BUG) __syncwarp();
    if (threadIdx.x == 1) place.words[1] = 4;                   // HAZARD OTHER
    __syncwarp();
    y[threadIdx.x] = place.words[1];
}
// SPDX-License-Identifier: Apache-2.0
