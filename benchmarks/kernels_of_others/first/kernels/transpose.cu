// Transposes through shared memory.
#ifndef PAD
#define PAD 1
#endif
extern "C" __global__ void __launch_bounds__(256) transpose32(const float* __restrict__ in, float* __restrict__ out, int rows, int cols)
{
    __shared__ float tile[32][32 + PAD];
    const int x = blockIdx.x * 32, y = blockIdx.y * 32;
#pragma unroll
    for (int j = threadIdx.y; j < 32; j += 8) tile[j][threadIdx.x] = in[(size_t)(y + j) * cols + x + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int j = threadIdx.y; j < 32; j += 8) out[(size_t)(x + j) * rows + y + threadIdx.x] = tile[threadIdx.x][j];
}

// 16-bit elements in pairs, tiles of 64 x 64
extern "C" __global__ void __launch_bounds__(256) transpose_u16(const ushort2* __restrict__ in, ushort2* __restrict__ out, int rows, int cols)
{
    __shared__ unsigned short tile[64][66];
    const int x = blockIdx.x * 64, y = blockIdx.y * 64, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#pragma unroll
    for (int j = warp; j < 64; j += 8)
        *reinterpret_cast<ushort2*>(&tile[j][2 * lane]) = in[((size_t)(y + j) * cols + x) / 2 + lane];
    __syncthreads();
#pragma unroll
    for (int j = warp; j < 64; j += 8)
        out[((size_t)(x + j) * rows + y) / 2 + lane] = make_ushort2(tile[2 * lane][j], tile[2 * lane + 1][j]);
}

// SPDX-License-Identifier: Apache-2.0
