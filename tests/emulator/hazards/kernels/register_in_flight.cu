// Registers that belong to a wgmma are used, or change, while it may not have read or written them.
//! case accumulator_scaled_without_fence
//! launch block=128 shared=16384
//! args bf16[64x64] f32[4096] f32[128]
//! ptx fewer wgmma.fence
KERNEL(128) k(const void* x, float* y, const float* scale) {
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {}, f = scale[threadIdx.x];
    wgmma_fence();
    multiply(d, s, s + 8192);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    #pragma unroll
    for (int i = 0; i < 32; i++) d[i] *= f;                     // OTHER
#if !BUG
    wgmma_fence();
#endif
    multiply(d, s, s + 8192);                                   // HAZARD
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
//! case accumulator_loaded_after_the_fence
//! launch block=128 shared=16384
//! args bf16[64x64] f32[4096]
KERNEL(128) k(const void* x, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32];
    if (BUG) wgmma_fence();
    #pragma unroll
    for (int i = 0; i < 32; i++) d[i] = y[i * 128 + threadIdx.x];  // OTHER
    if (!BUG) wgmma_fence();
    multiply(d, s, s + 8192);                                   // HAZARD
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
//! case fragment_computed_after_the_fence
//! launch block=128 shared=8192
//! args bf16[64x64] u32[512] f32[4096]
KERNEL(128) k(const void* x, const unsigned* a, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    unsigned r[4];
    if (BUG) wgmma_fence();
    for (int i = 0; i < 4; i++) r[i] = a[i * 128 + threadIdx.x];  // OTHER
    if (!BUG) wgmma_fence();
    wgmma_a_in_registers(d, r, wgmma_descriptor_128B(shared_address(s)));  // HAZARD
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
//! case fragment_changes_in_flight
//! launch block=128 shared=8192
//! args bf16[64x64] u32[2048] f32[4096] int:4
//! also missing-proxy-fence
KERNEL(128) k(const void* x, const unsigned* a, float* y, int n) {
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    #pragma unroll 1
    for (int k = 0; k < n; k++) {
        unsigned r[4];
        for (int i = 0; i < 4; i++) r[i] = a[(4 * k + i) * 128 + threadIdx.x];  // HAZARD
        wgmma_fence();
        wgmma_a_in_registers(d, r, wgmma_descriptor_128B(shared_address(s) + 32 * k));  // OTHER
        wgmma_commit_group();
        wgmma_wait_group<BUG>();
    }
    wgmma_wait_group<0>();
    put(y, d);
}
//! case widened_fragment_changes_in_flight
//! launch block=128 shared=8192
//! args bf16[64x64] u8[4096] f32[4096] int:6
KERNEL(128) k(const void* x, const signed char* q, float* y, int n) {  // A is made of integers: the instruction that writes its register packs two halves
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    #pragma unroll 1
    for (int k = 0; k < n; k++) {
        unsigned r[4];
        for (int i = 0; i < 4; i++)
            asm volatile("{ .reg .b16 lo, hi; cvt.rn.f16.s32 lo, %1; cvt.rn.f16.s32 hi, %2; mov.b32 %0, {lo, hi}; }"
                         : "=r"(r[i]) : "r"((int)q[512 * k + 4 * threadIdx.x + i]), "r"((int)q[512 * k + i]));  // HAZARD
        wgmma_fence();
        wgmma_a_in_registers(d, r, wgmma_descriptor_128B(shared_address(s)));  // OTHER
        wgmma_commit_group();
        wgmma_wait_group<BUG>();
    }
    wgmma_wait_group<0>();
    put(y, d);
}
//! case selected_fragment_changes_in_flight
//! launch block=128 shared=8192
//! args bf16[64x64] u32[4096] f32[4096] int:6
KERNEL(128) k(const void* x, const unsigned* a, float* y, int n) {     // zeros behind the edge: a selection writes the register
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    #pragma unroll 1
    for (int k = 0; k < n; k++) {
        unsigned r[4];
        for (int i = 0; i < 4; i++)
            asm volatile("{ .reg .pred p; setp.lt.s32 p, %2, 5; selp.b32 %0, %1, 0, p; }" : "=r"(r[i]) : "r"(a[128 * i + threadIdx.x]), "r"(k));  // HAZARD
        wgmma_fence();
        wgmma_a_in_registers(d, r, wgmma_descriptor_128B(shared_address(s)));  // OTHER
        wgmma_commit_group();
        wgmma_wait_group<BUG>();
    }
    wgmma_wait_group<0>();
    put(y, d);
}
//! case two_sets_of_fragments_kept_apart
//! clean
//! launch block=128 shared=8192
//! args bf16[64x64] u8[8192] f32[4096] int:6
KERNEL(128) k(const void* x, const signed char* q, float* y, int n) {
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    unsigned r[4] = {}, next[4];
    #pragma unroll 1
    for (int k = 0; k < n; k++) {
        wgmma_fence();
        wgmma_a_in_registers(d, r, wgmma_descriptor_128B(shared_address(s)));
        wgmma_commit_group();
        for (int i = 0; i < 4; i++)
            asm volatile("{ .reg .b16 lo, hi; cvt.rn.f16.s32 lo, %1; cvt.rn.f16.s32 hi, %2; mov.b32 %0, {lo, hi}; }"
                         : "=r"(next[i]) : "r"((int)q[512 * k + 4 * threadIdx.x + i]), "r"((int)q[512 * k + i]));
        wgmma_wait_group<0>();
        for (int i = 0; i < 4; i++) asm volatile("" : "+r"(r[i]) :: "memory");      // the compiler may not put `next` into r before the wait
        for (int i = 0; i < 4; i++) r[i] = next[i];
    }
    put(y, d);
}
//! case zeroed_in_a_persistent_loop
//! clean
//! launch block=128 shared=16384
//! args bf16[64x64] f32[4096] int:3
KERNEL(128) k(const void* x, float* y, int n) {                 // constants count as written at the start
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float sum[32] = {};
    for (int tile = 0; tile < n; tile++) {
        float d[32] = {};
        wgmma_fence();
        for (int k = 0; k < n; k++) multiply(d, s, s + 8192);
        wgmma_commit_group();
        wgmma_wait_group<0>();
        #pragma unroll
        for (int i = 0; i < 32; i++) sum[i] += d[i];
    }
    put(y, sum);
}
//! case two_accumulators_swap
//! clean
//! launch block=128 shared=16384
//! args bf16[64x64] f32[4096] f32[4096] int:5
KERNEL(128) k(const void* x, float* y, float* z, int n) {       // moves are renames, in flight or not
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {}, e[32] = {};
    #pragma unroll 1
    for (int k = 0; k < n; k++) {
        wgmma_fence();
        multiply(d, s, s + 8192);
        wgmma_commit_group();
        wgmma_wait_group<1>();
        #pragma unroll
        for (int i = 0; i < 32; i++) { float keep = d[i]; d[i] = e[i]; e[i] = keep; }
    }
    wgmma_wait_group<0>();
    put(y, d);
    put(z, e);
}
//! case computed_before_the_fence
//! clean
//! launch block=128 shared=16384
//! args bf16[64x64] f32[4096] int:3
KERNEL(128) k(const void* x, float* y, int start) {             // the compiler may emit the conversion after the fence
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32];
    #pragma unroll
    for (int i = 0; i < 32; i++) d[i] = start * i;
    wgmma_fence();
    multiply(d, s, s + 8192);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
//! case attention_like
//! clean
//! launch block=128 shared=24576
//! args bf16[64x64] f32[4096] int:3
struct Softmax {                                                // everything inlined from one line of the kernel
    __device__ __forceinline__ static void fold(const float (&s)[32], unsigned (&p)[4][4], float (&o)[32], float scale) {
        #pragma unroll
        for (int i = 0; i < 32; i++) o[i] *= scale;
        #pragma unroll
        for (int k = 0; k < 4; k++)
            #pragma unroll
            for (int r = 0; r < 4; r++)
                asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(p[k][r]) : "f"(s[8 * k + 2 * r + 1] * scale), "f"(s[8 * k + 2 * r] * scale));
    }
    __device__ __forceinline__ static void step(float (&o)[32], const unsigned char* q, const unsigned char* v, float scale) {
        float s[32] = {};
        unsigned p[4][4];
        wgmma_fence();
        multiply(s, q, q + 8192);
        wgmma_commit_group();
        wgmma_wait_group<0>();
        fold(s, p, o, scale);
        wgmma_fence();
        #pragma unroll
        for (int k = 0; k < 4; k++) wgmma_a_in_registers(o, p[k], wgmma_descriptor_128B(shared_address(v) + 32 * k));
        wgmma_commit_group();
        wgmma_wait_group<0>();
    }
};
KERNEL(128) k(const void* x, float* y, int n) {
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192); fill(s + 16384, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float o[32] = {};
    #pragma unroll 1
    for (int i = 0; i < n; i++) Softmax::step(o, s, s + 16384, 1.0f / (i + n));
    put(y, o);
}
//! case zeros_without_a_first_fence
//! launch block=128 shared=16384
//! args bf16[64x64] f32[4096]
//! ptx fewer wgmma.fence
KERNEL(128) k(const void* x, float* y) {                        // constants count as written when the kernel starts
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
#if !BUG
    wgmma_fence();
#endif
    multiply(d, s, s + 8192);                                   // HAZARD
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
//! case one_warp_without_a_first_fence
//! launch block=128 shared=16384
//! args bf16[64x64] f32[4096]
KERNEL(128) k(const void* x, float* y) {                        // the fence is each warp's own
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    if (!BUG || threadIdx.x < 96) wgmma_fence();
    multiply(d, s, s + 8192);                                   // HAZARD
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
//! case zeros_in_every_tile_of_a_persistent_loop
//! clean
//! launch block=128 shared=16384
//! args bf16[64x64] f32[4096]
KERNEL(128) k(const void* x, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    for (int tile = 0; tile < 3; tile++) {
        float d[32] = {};
        wgmma_fence();
        for (int k = 0; k < 2; k++) { multiply(d, s, s + 8192); wgmma_commit_group(); }
        wgmma_wait_group<0>();
        put(y, d);
    }
}
//! case two_accumulators_change_places
//! clean
//! launch block=128 shared=16384
//! args bf16[64x64] f32[4096]
KERNEL(128) k(const void* x, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float a[32] = {}, b[32] = {};
    wgmma_fence();
    for (int step = 0; step < 4; step++) {
        multiply(a, s, s + 8192);
        wgmma_commit_group();
        wgmma_wait_group<1>();                                  // the other one is done
        #pragma unroll
        for (int i = 0; i < 32; i++) { float t = a[i]; a[i] = b[i]; b[i] = t; }
    }
    wgmma_wait_group<0>();
    #pragma unroll
    for (int i = 0; i < 32; i++) a[i] += b[i];
    put(y, a);
}
//! case accumulator_written_in_flight
//! launch block=128 shared=16384
//! args bf16[64x64] f32[4096]
KERNEL(128) k(const void* x, float* y) {                        // written, not read: the product lands on top of it, or under it
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    wgmma_fence();
    multiply(d, s, s + 8192);                                   // OTHER
    wgmma_commit_group();
    if (!BUG) wgmma_wait_group<0>();
    asm volatile("add.f32 %0, %1, 0f3F800000;" : "+f"(d[0]) : "f"((float)threadIdx.x) : "memory");  // HAZARD
    if (BUG) wgmma_wait_group<0>();
    put(y, d);
}
//! case accumulator_loaded_in_flight
//! launch block=128 shared=16384
//! args bf16[64x64] f32[4096]
KERNEL(128) k(const float* x, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    wgmma_fence();
    for (int step = 0; step < 2; step++) {
        multiply(d, s, s + 8192);                               // OTHER
        wgmma_commit_group();
        if (!BUG) wgmma_wait_group<0>();
        #pragma unroll
        for (int i = 0; i < 32; i++)
            asm volatile("ld.global.f32 %0, [%1];" : "+f"(d[i]) : "l"(x + i) : "memory");  // HAZARD
        wgmma_fence();
    }
    if (BUG) wgmma_wait_group<0>();
    put(y, d);
}
//! case metadata_change_in_flight
//! launch block=128 shared=16384
//! args bf16[64x64] u32[512] f32[4096] int:4
//! also missing-proxy-fence
KERNEL(128) k(const void* x, const unsigned* words, float* y, int n) {      // the metadata of a sparse product are operands like a fragment
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    #pragma unroll 1
    for (int k = 0; k < n; k++) {
        unsigned metadata = words[128 * k + threadIdx.x] & 0x11111111 | 0x88888888;  // HAZARD
        wgmma_fence();
        wgmma_sparse_a(d, wgmma_descriptor_128B(shared_address(s) + 32 * k), wgmma_descriptor_128B(shared_address(s + 8192)), metadata);  // OTHER
        wgmma_commit_group();
        wgmma_wait_group<BUG>();
    }
    wgmma_wait_group<0>();
    put(y, d);
}
//! case metadata_loaded_after_the_fence
//! launch block=128 shared=16384
//! args bf16[64x64] u32[128] f32[4096]
KERNEL(128) k(const void* x, const unsigned* words, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    if (BUG) wgmma_fence();
    unsigned metadata = words[threadIdx.x] & 0x11111111 | 0x88888888;   // OTHER
    if (!BUG) wgmma_fence();
    wgmma_sparse_a(d, wgmma_descriptor_128B(shared_address(s)), wgmma_descriptor_128B(shared_address(s + 8192)), metadata);  // HAZARD
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
//! case two_words_of_metadata_kept_apart
//! clean
//! launch block=128 shared=16384
//! args bf16[64x64] u32[256] f32[4096]
KERNEL(128) k(const void* x, const unsigned* words, float* y) {
    extern __shared__ __align__(1024) unsigned char s[];
    fill(s, x, 8192); fill(s + 8192, x, 8192);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[32] = {};
    unsigned even = words[threadIdx.x] & 0x11111111 | 0x88888888, odd = words[128 + threadIdx.x] & 0x11111111 | 0x88888888;
    wgmma_fence();
    wgmma_sparse_a(d, wgmma_descriptor_128B(shared_address(s)), wgmma_descriptor_128B(shared_address(s + 8192)), even);
    wgmma_commit_group();
    wgmma_sparse_a(d, wgmma_descriptor_128B(shared_address(s) + 32), wgmma_descriptor_128B(shared_address(s + 8192)), odd);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    put(y, d);
}
// SPDX-License-Identifier: Apache-2.0
