// Plain accesses of two threads to the same bytes with nothing between them.
//! case no_barrier_between_write_and_read
//! launch block=64
//! args f32[64]
//! ptx fewer bar.sync
KERNEL(64) k(float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = threadIdx.x;                               // OTHER HAZARD
#if !BUG
    __syncthreads();
#endif
    y[threadIdx.x] = s[63 - threadIdx.x];                       // HAZARD OTHER
}
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
