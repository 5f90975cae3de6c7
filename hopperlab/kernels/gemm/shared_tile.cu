// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// New against naive: the block loads a 64 x 16 tile of A and of B together, once, into shared memory, and every number is
// then read from there by many threads. A thread computes 4 x 4 elements of C, so that 8 numbers from shared memory give
// 16 products. The tiles lie in shared memory as fp32 with k as the outer index: four neighbours are one 16-byte load.
// Two barriers a tile: the tile is complete before anyone reads it, and read by all before anyone overwrites it.
// Still slow, because loading and multiplying take turns: nobody multiplies while the loads of a tile are under way.
//
// Launch: grid (ceil(n/64), ceil(m/64)), block 256, no dynamic shared memory. Any m, n, k; zeros outside.
// Measured in recordings/ladder.json.
#include <cuda_bf16.h>

constexpr int BM = 64, BN = 64, BK = 16;
constexpr int PITCH = 64 + 4;                                   // floats a row: 4 more move the banks, 16 bytes stay aligned

// This thread's 4 neighbours along k of row `row` of x (rows x k), zeros outside, to column `place` of the tile.
__device__ __forceinline__ void load_four(float (&tile)[BK][PITCH], const __nv_bfloat16* x, int row, int rows, int place,
                                          int k0, int k) {
    int from = threadIdx.x % 4 * 4;
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        bool inside = row < rows && k0 + from + i < k;
        tile[from + i][place] = inside ? __bfloat162float(x[(size_t)row * k + k0 + from + i]) : 0;
    }
}

extern "C" __global__ void __launch_bounds__(256)
gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int m, int n, int k) {
    __shared__ __align__(16) float a_tile[BK][PITCH], b_tile[BK][PITCH];
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int y = threadIdx.x / 16 * 4, x = threadIdx.x % 16 * 4;     // this thread's corner in the tile of C
    int loads = threadIdx.x / 4;                                // the row of A and of B that it loads, 0..63
    float d[4][4] = {};
    for (int k0 = 0; k0 < k; k0 += BK) {
        load_four(a_tile, a, row0 + loads, m, loads, k0, k);
        load_four(b_tile, b, col0 + loads, n, loads, k0, k);
        __syncthreads();                                        // the tile is there
        #pragma unroll
        for (int i = 0; i < BK; i++) {
            float4 u = *reinterpret_cast<float4*>(&a_tile[i][y]), v = *reinterpret_cast<float4*>(&b_tile[i][x]);
            float fa[4] = {u.x, u.y, u.z, u.w}, fb[4] = {v.x, v.y, v.z, v.w};
            #pragma unroll
            for (int j = 0; j < 16; j++) d[j / 4][j % 4] += fa[j / 4] * fb[j % 4];
        }
        __syncthreads();                                        // everyone has read it
    }
    #pragma unroll
    for (int j = 0; j < 16; j++) {
        int row = row0 + y + j / 4, col = col0 + x + j % 4;
        if (row < m && col < n) c[(size_t)row * n + col] = __float2bfloat16(d[j / 4][j % 4]);
    }
}
