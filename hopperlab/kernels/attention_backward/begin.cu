// What backward.cu reads beside q, k, v and do, for every row of every head: lse times log2(e), as the exponentials want it, and
// delta = rowsum(do * o). Behind a sequence's end lse is infinite, so that p is 0 there, and delta is 0. ZEROED: the sums of dq begin at zero;
// done: counters that begin at zero.
//
// delta is what the softmax's derivative subtracts from every dp of a row: sum over keys of p * dp, and since dp = do v^T and o = p v, this sum is
// do * o, which needs no p. A row takes D / 8 threads, 16 bytes of o and do each.
//
// Macros: D (64, 128), BM (rows of a block; a multiple of 256 / (D / 8)), ZEROED. Launch: grid (tiles, units), block 256.
// Measured in recordings/backward.json.
#include <cuda_bf16.h>

#ifndef D
#define D 128
#endif
#ifndef BM
#define BM 64
#endif
#ifndef ZEROED
#define ZEROED 1
#endif

constexpr int LANES = D / 8, ROWS = 256 / LANES;                // threads of a row, rows at once
static_assert(BM % ROWS == 0);

// The sum of products of eight pairs of bf16 numbers.
__device__ __forceinline__ float dot8(uint4 a, uint4 b) {
    const __nv_bfloat162 *x = reinterpret_cast<const __nv_bfloat162*>(&a), *y = reinterpret_cast<const __nv_bfloat162*>(&b);
    float sum = 0;
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 left = __bfloat1622float2(x[i]), right = __bfloat1622float2(y[i]);
        sum = fmaf(left.x, right.x, fmaf(left.y, right.y, sum));
    }
    return sum;
}

// o, d_o: batch x length x heads x D. lse: heads x (batch * length), as forward.cu leaves it. lse_out, delta: units x tiles * BM.
extern "C" __global__ void __launch_bounds__(256)
attention_backward_begin(const __nv_bfloat16* o, const __nv_bfloat16* d_o, const float* lse, float* lse_out, float* delta, float* sums, unsigned* done,
                         int length, int heads, int units) {
    int tile = blockIdx.x, tiles = gridDim.x, unit = blockIdx.y, head = unit % heads, batch = unit / heads;
    int row = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    size_t place = (size_t)unit * tiles + tile;
    uint4 outs[BM / ROWS], gradients[BM / ROWS];
    #pragma unroll
    for (int j = 0; j < BM / ROWS; j++) {                       // everything that a thread reads is asked for before anything is used
        int i = tile * BM + j * ROWS + row;
        size_t at = ((size_t)(batch * length + i) * heads + head) * D + 8 * lane;
        outs[j] = i < length ? *reinterpret_cast<const uint4*>(o + at) : make_uint4(0, 0, 0, 0);
        gradients[j] = i < length ? *reinterpret_cast<const uint4*>(d_o + at) : make_uint4(0, 0, 0, 0);
    }
    if (ZEROED) {
        #pragma unroll
        for (int j = 0; j < BM * D / 1024; j++) reinterpret_cast<float4*>(sums + place * BM * D)[j * 256 + threadIdx.x] = make_float4(0, 0, 0, 0);
    }
    if (threadIdx.x == 0) done[place] = 0;
    if (threadIdx.x == 1 && place == 0) done[(size_t)units * tiles] = 0;
    #pragma unroll
    for (int j = 0; j < BM / ROWS; j++) {
        int i = tile * BM + j * ROWS + row;
        float sum = dot8(outs[j], gradients[j]);
        #pragma unroll
        for (int step = LANES / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
        if (lane == 0) {
            lse_out[place * BM + j * ROWS + row] = i < length ? lse[(size_t)head * (units / heads) * length + (size_t)batch * length + i] * 1.44269504f : __int_as_float(0x7f800000);
            delta[place * BM + j * ROWS + row] = sum;
        }
    }
}
// SPDX-License-Identifier: Apache-2.0
