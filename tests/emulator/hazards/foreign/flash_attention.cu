// Attention of one head in FlashAttention's manner: S = Q K^T, row softmax without rescaling, O += P V with P in registers; named barriers
// between a producer warp that copies with cp.async and the consumer warpgroup.
//! launch block=160 shared=41984
//! args bf16[64x64] bf16[128x64] bf16[128x64] f32[64x64]
//! mutate tile_not_ready overwrite-in-flight|read-before-arrival
//! mutate copy_not_waited read-before-arrival
//! mutate no_proxy_fence missing-proxy-fence
//! mutate tile_given_back_early overwrite-in-flight
//! mutate scores_read_early register-in-flight
//! mutate fragment_changed_in_flight register-in-flight
DEVICE void copy_tile(unsigned char* to, const void* from, int lane) {     // 64 rows of 128 bytes, swizzled as wgmma reads them
    for (int i = lane; i < 512; i += 32)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(cast_smem(to) + (i * 16 ^ (i >> 3 & 7) << 4)), "l"((const char*)from + i * 16) : "memory"); //@ tile_not_ready copy_not_waited no_proxy_fence tile_given_back_early
}
DEVICE uint32_t pack(float lo, float hi) { uint32_t r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo)); return r; }
extern "C" __global__ void __launch_bounds__(160) k(const char* q, const char* kk, const char* v, float* o) {
    extern __shared__ __align__(1024) unsigned char buf[];      // Q, then K and V of one block of 64 keys
    unsigned char *sq = buf, *sk = buf + 8192, *sv = buf + 16384;
    int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    if (warp == 4) {
        copy_tile(sq, q, lane); //@ tile_not_ready copy_not_waited no_proxy_fence
        for (int block = 0; block < 2; block++) {
            if (block) named_sync(2, 160);                      // the consumers have finished with the tiles
            copy_tile(sk, kk + 8192 * block, lane); //@ tile_not_ready copy_not_waited no_proxy_fence tile_given_back_early
            copy_tile(sv, v + 8192 * block, lane); //@ tile_not_ready copy_not_waited no_proxy_fence tile_given_back_early
            asm volatile("cp.async.wait_all;" ::: "memory"); //~ copy_not_waited:
            fence_view_async_shared(); //~ no_proxy_fence:
            named_arrive(1, 160);
        }
        return;
    }
    float acc_o[32], acc_s[32];
    for (int i = 0; i < 32; i++) acc_o[i] = 0;
    for (int block = 0; block < 2; block++) {
        named_sync(1, 160); //~ tile_not_ready: if (block == 0) named_sync(1, 160); else named_arrive(1, 160);
        warpgroup_arrive();
        for (int i = 0; i < 4; i++) wgmma_bf16(acc_s, make_desc(sq) + 2 * i, make_desc(sk) + 2 * i, i > 0); //@ tile_not_ready copy_not_waited no_proxy_fence scores_read_early
        warpgroup_commit_batch();
        warpgroup_wait<0>(); //~ scores_read_early:
        uint32_t p[4][4];
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) p[i][j] = pack(acc_s[8 * i + 2 * j] * 0.01f, acc_s[8 * i + 2 * j + 1] * 0.01f); //@ scores_read_early
        warpgroup_arrive();
        for (int i = 0; i < 4; i++) wgmma_bf16_rs(acc_o, p[i], make_desc(sv) + 2 * i); //@ tile_not_ready copy_not_waited no_proxy_fence tile_given_back_early fragment_changed_in_flight
        warpgroup_commit_batch();
        asm volatile("" : "+r"(p[0][0]) :: "memory"); //~ fragment_changed_in_flight: asm volatile("add.u32 %0, %0, 1;" : "+r"(p[0][0]) :: "memory"); if (p[0][0] == 77) acc_o[1] += 1; //@ fragment_changed_in_flight
        warpgroup_wait<0>(); //~ tile_given_back_early: if (block) warpgroup_wait<0>();
        if (block == 0) named_arrive(2, 160);
    }
    for (int i = 0; i < 32; i++)
        o[(16 * warp + lane / 4 + 8 * (i >> 1 & 1)) * 64 + 8 * (i >> 2) + 2 * (lane & 3) + (i & 1)] = acc_o[i];
}
// SPDX-License-Identifier: Apache-2.0
