// ldmatrix, transposed by stmatrix into a staging tile, stored by one bulk copy a row block; each warp has its own quarter.
//! launch block=128
//! args u16[4096] u16[4096]
//! check np.array_equal(a[1].reshape(64, 8, 8), a[0].reshape(64, 8, 8).transpose(0, 2, 1))
//! mutate staging_not_fenced missing-proxy-fence
//! mutate staging_not_synced race
//! mutate left_in_flight exit-in-flight
extern "C" __global__ void __launch_bounds__(128) k(const unsigned short* x, unsigned short* y) {
    __shared__ __align__(128) unsigned short in[4096], out[4096];
    int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    for (int i = lane; i < 128; i += 32) ((uint4*)in)[128 * warp + i] = ((const uint4*)x)[128 * warp + i];
    __syncwarp();
    for (int block = 0; block < 4; block++) {
        uint32_t r[4], at = (1024 * warp + 256 * block + 8 * lane) * 2;
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(cast_smem(in) + at) : "memory");
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     :: "r"(cast_smem(out) + at), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory"); //@ staging_not_fenced staging_not_synced
    }
    fence_view_async_shared(); //~ staging_not_fenced:
    __syncwarp(); //~ staging_not_synced:
    if (lane == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 2048;" :: "l"(y + 1024 * warp), "r"(cast_smem(out + 1024 * warp)) : "memory"); //@ staging_not_fenced staging_not_synced left_in_flight
        tma_store_arrive();
        tma_store_wait<0>(); //~ left_in_flight:
    }
}
// SPDX-License-Identifier: Apache-2.0
