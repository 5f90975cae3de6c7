// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// New against shared_tile: software pipelining as Volta needs it, where a load to shared memory has to pass through a
// register. While a tile is multiplied, the next one is on its way from global memory into registers (`next`); it is put
// into the other of two shared buffers when the multiplication is done, so one barrier per tile is enough. The same at the
// scale of fragments: the 8 + 8 numbers of step i + 1 are read from shared memory while those of step i are multiplied.
// A thread computes 8 x 8 elements of C (two 4-rows x two 4-columns): 16 numbers read for 64 products.
// What it costs: registers for the numbers under way, and every thread's time for moving them.
//
// Launch: grid (ceil(n/128), ceil(m/128)), block 256, no dynamic shared memory. k a multiple of 8 (16-byte loads), any m, n.
// Measured in recordings/ladder.json.
#include <cuda_bf16.h>

constexpr int BM = 128, BN = 128, BK = 8;
constexpr int PITCH = 128 + 4;                                  // floats a row of a tile (k is the outer index)

// 8 numbers along k of row `row` of x (rows x k); zeros below the last row and past the end of k.
__device__ __forceinline__ uint4 load_eight(const __nv_bfloat16* x, int row, int rows, int k0, int k) {
    if (row >= rows || k0 >= k) return make_uint4(0, 0, 0, 0);
    return *reinterpret_cast<const uint4*>(x + (size_t)row * k + k0);
}

// The 8 numbers as fp32 into column `place` of the tile; bf16 are the upper halves of fp32.
__device__ __forceinline__ void put_eight(float (&tile)[BK][PITCH], uint4 eight, int place) {
    unsigned pairs[4] = {eight.x, eight.y, eight.z, eight.w};
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        tile[2 * i][place] = __uint_as_float(pairs[i] << 16);
        tile[2 * i + 1][place] = __uint_as_float(pairs[i] & 0xFFFF0000);
    }
}

// Fragment: 4 numbers from `first` and 4 from 64 further, so that a warp's 16-byte loads meet no bank twice.
__device__ __forceinline__ void load_fragment(float (&f)[8], const float (&row)[PITCH], int first) {
    float4 u = *reinterpret_cast<const float4*>(&row[first]), v = *reinterpret_cast<const float4*>(&row[first + 64]);
    f[0] = u.x, f[1] = u.y, f[2] = u.z, f[3] = u.w, f[4] = v.x, f[5] = v.y, f[6] = v.z, f[7] = v.w;
}

extern "C" __global__ void __launch_bounds__(256, 2)
gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int m, int n, int k) {
    __shared__ __align__(16) float tiles[2][2][BK][PITCH];      // [buffer][A or B]
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int y = threadIdx.x / 16 * 4, x = threadIdx.x % 16 * 4;     // this thread's corner in each quarter of the tile of C
    // Threads 0..127 load a row of A each, threads 128..255 a row of B.
    int which = threadIdx.x / 128, place = threadIdx.x % 128;
    const __nv_bfloat16* from = which ? b : a;
    int my_row = (which ? col0 : row0) + place, rows = which ? n : m;

    put_eight(tiles[0][which], load_eight(from, my_row, rows, 0, k), place);
    __syncthreads();
    float d[8][8] = {}, fa[2][8], fb[2][8];
    int buffer = 0;
    for (int k0 = 0; k0 < k; k0 += BK) {
        uint4 next = load_eight(from, my_row, rows, k0 + BK, k);    // under way while this tile is multiplied
        load_fragment(fa[0], tiles[buffer][0][0], y);
        load_fragment(fb[0], tiles[buffer][1][0], x);
        #pragma unroll
        for (int i = 0; i < BK; i++) {
            if (i + 1 < BK) {
                load_fragment(fa[(i + 1) % 2], tiles[buffer][0][i + 1], y);
                load_fragment(fb[(i + 1) % 2], tiles[buffer][1][i + 1], x);
            }
            #pragma unroll
            for (int j = 0; j < 64; j++) d[j / 8][j % 8] += fa[i % 2][j / 8] * fb[i % 2][j % 8];
        }
        buffer ^= 1;
        put_eight(tiles[buffer][which], next, place);           // read by all before the barrier of the tile before
        __syncthreads();
    }
    #pragma unroll
    for (int j = 0; j < 64; j++) {
        int row = row0 + y + j / 8 % 4 + j / 32 * 64, col = col0 + x + j % 4 + j % 8 / 4 * 64;
        if (row < m && col < n) c[(size_t)row * n + col] = __float2bfloat16(d[j / 8][j % 8]);
    }
}
// SPDX-License-Identifier: Apache-2.0
