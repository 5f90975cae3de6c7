// Shared memory is read that nobody has written.
//! case wgmma_of_a_tile_never_loaded
//! launch block=128 shared=24576
//! args bf16[64x64] f32[4096]
KERNEL(128) k(const void* x, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    wgmma_fence();
    multiply(d, s, s + (BUG ? 16384 : 8192));                   // HAZARD
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
//! case bulk_store_of_nothing
//! launch block=32
//! args f32[64]
KERNEL(32) k(float* y) {
    __shared__ __align__(128) float s[64];
    s[threadIdx.x] = 1;
    fence_proxy_async_shared_cta();
    __syncwarp();
    if (threadIdx.x == 0) {
        cp_async_bulk_store(y, s + 32 * BUG, 128);              // HAZARD
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}
//! case edges_that_are_dropped
//! clean
//! launch block=64
//! args f32[64] f32[64] int:40
KERNEL(64) k(const float* x, float* y, int n) {
    __shared__ float s[64];
    if (threadIdx.x < n) s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    float v = s[threadIdx.x] * 2;
    if (threadIdx.x < n) y[threadIdx.x] = v;
}
//! case accumulator_never_zeroed
//! launch block=128 shared=16384
//! args bf16[64x64] f32[4096]
KERNEL(128) k(const void* x, float* y) {                        // scale-d is 1 in every product: the first one adds to leftovers
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32];
#if !BUG
    for (int i = 0; i < 32; i++) d[i] = 0;
#endif
    wgmma_fence();
    multiply(d, s, s + 8192);                                   // HAZARD
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
//! case first_product_of_a_loop_adds
//! launch block=128 shared=16384
//! args bf16[64x64] f32[4096] int:3
KERNEL(128) k(const void* x, float* y, int n) {                 // scale-d by a predicate, which must be false in the first round
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32];
    #pragma unroll 1
    for (int k = 0; k < n; k++) {
        wgmma_fence();
        wgmma_m64n64k16_bf16(d, wgmma_descriptor_128B(shared_address(s)), wgmma_descriptor_128B(shared_address(s) + 8192), k + BUG > 0);  // HAZARD
        wgmma_commit_group();
        wgmma_wait_group<0>();
    }
    put(y, d);
}
//! case fragment_c_never_zeroed
//! launch block=32
//! args u32[32] f32[128] int:3
KERNEL(32) k(const unsigned* x, float* y, int n) {
    float c[4];
#if !BUG
    for (int i = 0; i < 4; i++) c[i] = 0;
#endif
    unsigned a = x[threadIdx.x];
    #pragma unroll 1
    for (int k = 0; k < n; k++)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%4, %4}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a));  // HAZARD
    for (int i = 0; i < 4; i++) y[4 * threadIdx.x + i] = c[i];
}
//! case accumulators_of_one_role
//! clean
//! launch block=256 shared=16384
//! args bf16[64x64] f32[4096] int:3
KERNEL(256) k(const void* x, float* y, int n) {                 // zeroed in a branch that only the consumers take, and moved about
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32], e[32];
    if (threadIdx.x >= 128)
        for (int i = 0; i < 32; i++) d[i] = 0;
    __syncthreads();
    if (threadIdx.x < 128) return;
    #pragma unroll 1
    for (int k = 0; k < n; k++) {
        wgmma_fence();
        multiply(d, s, s + 8192);
        wgmma_m64n64k16_bf16(e, wgmma_descriptor_128B(shared_address(s)), wgmma_descriptor_128B(shared_address(s) + 8192), k % 2);
        wgmma_commit_group();
        wgmma_wait_group<0>();
        #pragma unroll
        for (int i = 0; i < 32; i++) { float keep = d[i]; d[i] = e[i]; e[i] = keep; }
    }
    put(y, d);
}
//! case flag_is_polled_before_its_first_value
//! launch block=64
//! args f32[32] f32[32]
//! ptx fewer bar.sync
KERNEL(64) k(const float* x, float* y) {
    __shared__ float box[32];
    __shared__ volatile int full;
    if (threadIdx.x == 0) full = 0;                             // OTHER
#if !BUG
    __syncthreads();
#endif
    if (threadIdx.x < 32) {
        box[threadIdx.x] = x[threadIdx.x];
        __threadfence_block();
        __syncwarp();
        if (threadIdx.x == 0) full = 1;
    } else {
        while (full != 1) {}                                    // HAZARD
        __threadfence_block();
        y[threadIdx.x - 32] = box[threadIdx.x - 32];
    }
}
//! case count_is_looked_at_before_its_constructor_has_run
//! launch block=64
//! args f32[32] f32[32]
//! ptx fewer bar.sync
KERNEL(64) k(const float* x, float* y) {                        // an ordinary store first, as in the constructor of a cuda::counting_semaphore
    __shared__ float box[32];
    __shared__ int count;
    if (threadIdx.x == 0) count = 0;                            // OTHER
#if !BUG
    __syncthreads();
#endif
    if (threadIdx.x < 32) {
        box[threadIdx.x] = x[threadIdx.x];
        __syncwarp();
        if (threadIdx.x == 0) asm volatile("red.release.cta.shared::cta.add.u32 [%0], 1;" :: "r"(shared_address(&count)) : "memory");
    } else {
        int seen;
        do asm volatile("ld.acquire.cta.shared::cta.u32 %0, [%1];" : "=r"(seen) : "r"(shared_address(&count)) : "memory");      // HAZARD
        while (seen != 1);
        y[threadIdx.x - 32] = box[threadIdx.x - 32];
    }
}
//! case histogram_that_nobody_cleared
//! launch block=64
//! args f32[64] i32[16]
KERNEL(64) k(const float* x, int* y) {                          // only atomics write it: they add to what was there
    __shared__ int bins[16];
#if !BUG
    if (threadIdx.x < 16) bins[threadIdx.x] = 0;
#endif
    __syncthreads();
    atomicAdd(&bins[(int)x[threadIdx.x] & 15], 1);              // HAZARD
    __syncthreads();
    if (threadIdx.x < 16) y[threadIdx.x] = bins[threadIdx.x];
}
//! case histogram_that_exchanges_clear
//! launch block=64
//! args f32[64] i32[16]
//! clean
KERNEL(64) k(const float* x, int* y) {
    __shared__ int bins[16];
    if (threadIdx.x < 16) atomicExch(&bins[threadIdx.x], 0);
    __syncthreads();
    atomicAdd(&bins[(int)x[threadIdx.x] & 15], 1);
    __syncthreads();
    if (threadIdx.x < 16) y[threadIdx.x] = atomicAdd(&bins[threadIdx.x], 0);
}
//! case tile_beside_the_one_that_volatile_stores_fill
//! launch block=64
//! args f32[64] f32[64]
KERNEL(64) k(const float* x, float* y) {
    __shared__ volatile float tile[64];
    __shared__ float other[64];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = BUG ? other[63 - threadIdx.x] : tile[63 - threadIdx.x];   // HAZARD
}
// SPDX-License-Identifier: Apache-2.0
