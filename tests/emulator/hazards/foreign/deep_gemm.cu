// fp8 product with promotion, DeepGEMM's manner: scales in shared memory, partial sums added to fp32 registers after every block of K.
//! launch block=256 shared=33792
//! args map:u8:64x512:64x128:128B map:u8:64x512:64x128:128B f32[256] f32[64x64]
//! mutate scales_not_awaited read-before-arrival
//! mutate promoted_too_early register-in-flight
//! mutate released_before_the_scales_are_read overwrite-in-flight
//! mutate scale_bytes_forgotten barrier-misuse
constexpr int STAGES = 2, BLOCKS = 4;
struct SharedStorage { ClusterBarrier full[STAGES], empty[STAGES]; };
extern "C" __global__ void __launch_bounds__(256, 1) k(const __grid_constant__ CUtensorMap_ ta, const __grid_constant__ CUtensorMap_ tb,
                                                       const float* scales, float* c) {
    extern __shared__ __align__(1024) unsigned char buf[];
    __shared__ __align__(128) float scale[STAGES][64];
    __shared__ SharedStorage s;
    if (threadIdx.x == 0) {
        #pragma unroll
        for (int i = 0; i < STAGES; i++) { s.full[i].init(1); s.empty[i].init(4); }
        fence_view_async_shared();
        fence_barrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= 128) {
        if (threadIdx.x == 128) {
            for (int block = 0; block < BLOCKS; block++) {
                int i = block % STAGES;
                s.empty[i].wait((block / STAGES + 1) & 1);
                tma_load_2d(&ta, &s.full[i], buf + 16384 * i, block * 128, 0);
                tma_load_2d(&tb, &s.full[i], buf + 16384 * i + 8192, block * 128, 0);
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
                             :: "r"(cast_smem(scale[i])), "l"(scales + 64 * block), "r"(cast_smem(&s.full[i])) : "memory"); //@ scales_not_awaited released_before_the_scales_are_read scale_bytes_forgotten
                s.full[i].arrive_and_expect_tx(2 * 8192 + 256); //~ scale_bytes_forgotten: s.full[i].arrive_and_expect_tx(2 * 8192); //@ scale_bytes_forgotten
            }
        }
    } else {
        float accum[32], final_accum[32] = {};
        int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
        for (int block = 0; block < BLOCKS; block++) {
            int i = block % STAGES;
            float s0 = 0, s1 = 0; //~ scales_not_awaited: float s0 = scale[i][16 * warp + lane / 4], s1 = 0; //@ scales_not_awaited
            s.full[i].wait(block / STAGES & 1);
            s0 += scale[i][16 * warp + lane / 4]; s1 += scale[i][16 * warp + lane / 4 + 8];
            __syncwarp();
            for (int n = 0; n < 32; n++) asm volatile("" : "+f"(accum[n]) :: "memory");
            warpgroup_arrive();
            for (int kk = 0; kk < 4; kk++) wgmma_e4m3(accum, make_desc(buf + 16384 * i) + 2 * kk, make_desc(buf + 16384 * i + 8192) + 2 * kk, kk); //@ promoted_too_early
            warpgroup_commit_batch();
            for (int n = 0; n < 32; n++) asm volatile("" : "+f"(accum[n]) :: "memory");
            warpgroup_wait<0>(); //~ promoted_too_early: if (block == BLOCKS - 1) warpgroup_wait<0>();
            if (lane == 0) s.empty[i].arrive();
            for (int n = 0; n < 32; n++) final_accum[n] += (n >> 1 & 1 ? s1 : s0) * accum[n]; //~ released_before_the_scales_are_read: for (int n = 0; n < 32; n++) final_accum[n] += scale[i][16 * warp + lane / 4 + (n & 2) * 4] * accum[n]; //@ promoted_too_early released_before_the_scales_are_read
        }
        for (int n = 0; n < 32; n++)
            c[(16 * warp + lane / 4 + 8 * (n >> 1 & 1)) * 64 + 8 * (n >> 2) + 2 * (lane & 3) + (n & 1)] = final_accum[n];
    }
}
// SPDX-License-Identifier: Apache-2.0
