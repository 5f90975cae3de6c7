// One warp multiplies on the tensor core as every kernel before Hopper did: c[16 x 64] = a[16 x 64] * b[64 x 64]^T, bf16 with fp32
// sums. All three tiles lie in shared memory in rows of 128 bytes.
//   ldmatrix  brings 8 x 8 matrices of a and b into the fragments of the warp;
//   mma.sync  multiplies fragments, 16 x 8 elements of c at a time, 16 columns of k at a time;
//   stmatrix  takes the result, as bf16, from the fragments back to shared memory.
// Each of the three touches eight rows of 16 bytes at once, 128 bytes apart. SWIZZLE 1 moves the 16-byte pieces of row r by an XOR
// with r % 8, so that eight rows at one column lie in eight different groups of banks.
//
// Macros: SWIZZLE. Launch: grid 1, block 32, no dynamic shared memory. a, b, c: row-major, dense.
#include <hopperlab/bugs_by_lesson.cuh>
#include <hopperlab/mma.cuh>
#include <hopperlab/stmatrix.cuh>

#ifndef SWIZZLE
#define SWIZZLE 1
#endif

// Address of piece `piece` (16 bytes, 0..7) of row `row` of the tile at `base`, which lies on a multiple of 1024.
__device__ __forceinline__ unsigned place(unsigned base, int row, int piece, bool swizzle = SWIZZLE) {
    return base + row * 128 + (swizzle ? piece ^ row % 8 : piece) * 16;
}

// Rows of 128 bytes from global memory to the tile: eight neighbouring lanes take one row, so no two of them share a bank.
__device__ __forceinline__ void bring(unsigned base, const uint4* from, int rows) {
    for (int i = threadIdx.x; i < rows * 8; i += 32) {
        uint4 v = from[i];
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                     :: "r"(place(base, i / 8, i % 8)), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
    }
}

extern "C" __global__ void __launch_bounds__(32) product(const uint4* a, const uint4* b, uint4* c) {
    __shared__ __align__(1024) unsigned char a_tile[16 * 128], b_tile[64 * 128], c_tile[16 * 128];
    constexpr bool READ = SWIZZLE && !BUG_SWIZZLE_MISMATCH;
    unsigned a_at = shared_address(a_tile), b_at = shared_address(b_tile), c_at = shared_address(c_tile);
    int lane = threadIdx.x;
    bring(a_at, a, 16);
    bring(b_at, b, 64);
    __syncwarp();                                               // what the other lanes brought is there

    float d[8][4] = {};                                         // eight 16 x 8 blocks of c
    #pragma unroll 1                                            // a loop in the machine code too, so that it stays readable
    for (int k = 0; k < 4; k++) {                               // 16 columns of k: two pieces of a row
        unsigned fa[4], fb[4];
        ldmatrix_x4(fa, place(a_at, lane % 16, 2 * k + lane / 16, READ));
        #pragma unroll
        for (int n = 0; n < 8; n += 2) {                        // two blocks of c: 16 rows of b
            ldmatrix_x4(fb, place(b_at, 8 * n + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2, READ));
            mma_m16n8k16_bf16(d[n], fa, fb[0], fb[1]);
            mma_m16n8k16_bf16(d[n + 1], fa, fb[2], fb[3]);
        }
    }
    #pragma unroll
    for (int n = 0; n < 8; n += 2)                              // lanes 0-15 name rows of piece n, lanes 16-31 of piece n + 1
        stmatrix_x4(place(c_at, lane % 16, n + lane / 16), pack_bf16x2(d[n][0], d[n][1]), pack_bf16x2(d[n][2], d[n][3]),
                    pack_bf16x2(d[n + 1][0], d[n + 1][1]), pack_bf16x2(d[n + 1][2], d[n + 1][3]));
    __syncwarp();
    for (int i = lane; i < 16 * 8; i += 32)
        c[i] = *reinterpret_cast<uint4*>(c_tile + place(0, i / 8, i % 8));
}
// SPDX-License-Identifier: Apache-2.0
