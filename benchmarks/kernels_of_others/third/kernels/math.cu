// Products, transforms, factors, searches.
extern "C" __global__ void __launch_bounds__(1024) sgemm_32(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n, int k)
{
    __shared__ float as[32][32], bs[32][32];
    const int x = threadIdx.x, y = threadIdx.y, col = blockIdx.x * 32 + x, row = blockIdx.y * 32 + y;
    float s = 0.f;
    for (int t = 0; t < k; t += 32) {
        as[y][x] = a[(size_t)row * k + t + x];
        bs[y][x] = b[(size_t)(t + y) * n + col];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 32; ++i) s += as[y][i] * bs[i][x];
        __syncthreads();
    }
    c[(size_t)row * n + col] = s;
}

// 96 x 64 a block, 192 threads of 8 x 4, 16 of k at a time
extern "C" __global__ void __launch_bounds__(192) sgemm_96x64(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n, int k)
{
    __shared__ __align__(16) float as[16][100];
    __shared__ __align__(16) float bs[16][64];
    const int tid = threadIdx.x, tx = tid % 16, ty = tid / 16, row0 = blockIdx.y * 96, col0 = blockIdx.x * 64;
    float acc[8][4] = {};
    for (int t = 0; t < k; t += 16) {
#pragma unroll
        for (int i = tid; i < 384; i += 192) {
            const float4 v = *reinterpret_cast<const float4*>(a + (size_t)(row0 + i / 4) * k + t + i % 4 * 4);
            as[i % 4 * 4][i / 4] = v.x; as[i % 4 * 4 + 1][i / 4] = v.y; as[i % 4 * 4 + 2][i / 4] = v.z; as[i % 4 * 4 + 3][i / 4] = v.w;
        }
        for (int i = tid; i < 256; i += 192)
            *reinterpret_cast<float4*>(&bs[i / 16][i % 16 * 4]) = *reinterpret_cast<const float4*>(b + (size_t)(t + i / 16) * n + col0 + i % 16 * 4);
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < 16; ++kk) {
            const float4 p = *reinterpret_cast<float4*>(&as[kk][ty * 8]), q = *reinterpret_cast<float4*>(&as[kk][ty * 8 + 4]), r = *reinterpret_cast<float4*>(&bs[kk][tx * 4]);
            const float u[8] = {p.x, p.y, p.z, p.w, q.x, q.y, q.z, q.w}, v[4] = {r.x, r.y, r.z, r.w};
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) acc[i][j] = fmaf(u[i], v[j], acc[i][j]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) *reinterpret_cast<float4*>(c + (size_t)(row0 + ty * 8 + i) * n + col0 + tx * 4) = make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
}

// 256 points, radix 4, 64 threads each, EACH transforms a block
#ifndef EACH
#define EACH 1
#endif
__device__ __forceinline__ float2 times(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
extern "C" __global__ void __launch_bounds__(64 * EACH) fft256(const float2* __restrict__ in, const float2* __restrict__ twiddle, float2* __restrict__ out)
{
    __shared__ float2 s[EACH][256];
    const int j = threadIdx.x, f = EACH == 1 ? 0 : threadIdx.y;
    const size_t base = ((size_t)blockIdx.x * EACH + f) * 256;
    float2 v[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) v[r] = in[base + j + r * 64];
#pragma unroll
    for (int ns = 1; ns <= 64; ns *= 4) {
        if (ns > 1) {
            __syncthreads();
#pragma unroll
            for (int r = 0; r < 4; ++r) v[r] = s[f][j + r * 64];
            const int step = j % ns * (64 / ns);
#pragma unroll
            for (int r = 1; r < 4; ++r) v[r] = times(v[r], twiddle[r * step]);
            __syncthreads();
        }
        const float2 a = make_float2(v[0].x + v[2].x, v[0].y + v[2].y), b = make_float2(v[0].x - v[2].x, v[0].y - v[2].y);
        const float2 c = make_float2(v[1].x + v[3].x, v[1].y + v[3].y), d = make_float2(v[1].y - v[3].y, v[3].x - v[1].x);   // -i (v1 - v3)
        v[0] = make_float2(a.x + c.x, a.y + c.y);
        v[1] = make_float2(b.x + d.x, b.y + d.y);
        v[2] = make_float2(a.x - c.x, a.y - c.y);
        v[3] = make_float2(b.x - d.x, b.y - d.y);
        const int to = j / ns * ns * 4 + j % ns;
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            if (ns == 64) out[base + to + r * ns] = v[r];
            else s[f][to + r * ns] = v[r];
        }
    }
}

// LU of 16 x 16 without pivots, half a warp a matrix: a lane has a column and shuffles, or a row in shared memory
extern "C" __global__ void __launch_bounds__(128) lu16(const float* __restrict__ in, float* __restrict__ out)
{
    const int lane = threadIdx.x % 16;
    const size_t base = (size_t)(blockIdx.x * 8 + threadIdx.x / 16) * 256;
#ifdef SHARED
    __shared__ float tiles[8][16][17];
    float (*s)[17] = tiles[threadIdx.x / 16];
#pragma unroll
    for (int i = 0; i < 16; ++i) s[i][lane] = in[base + i * 16 + lane];
    __syncwarp();
    for (int k = 0; k < 15; ++k) {
        if (lane > k) {
            const float m = s[lane][k] / s[k][k];
            s[lane][k] = m;
            for (int j = k + 1; j < 16; ++j) s[lane][j] -= m * s[k][j];
        }
        __syncwarp();
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) out[base + i * 16 + lane] = s[i][lane];
#else
    float a[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) a[i] = in[base + i * 16 + lane];
#pragma unroll
    for (int k = 0; k < 15; ++k) {
        const float r = 1.f / __shfl_sync(~0u, a[k], k, 16);
#pragma unroll
        for (int i = k + 1; i < 16; ++i) {
            const float m = __shfl_sync(~0u, a[i], k, 16) * r;
            if (lane > k) a[i] -= m * a[k];
            else if (lane == k) a[i] = m;
        }
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) out[base + i * 16 + lane] = a[i];
#endif
}

// Smith-Waterman, a block a pair: a thread has a letter of the query (128), all step along the antidiagonals
extern "C" __global__ void __launch_bounds__(128) smith_waterman(const signed char* __restrict__ query, const signed char* __restrict__ target, int* __restrict__ best, int length)
{
    __shared__ int h[3][129];
    __shared__ int most[4];
    const int i = threadIdx.x;
    const signed char mine = query[blockIdx.x * 128 + i];
    const signed char* t = target + (size_t)blockIdx.x * length;
    for (int b = 0; b < 3; ++b) { h[b][i + 1] = 0; if (i == 0) h[b][0] = 0; }
    __syncthreads();
    int top = 0, p2 = 0, p1 = 1, now = 2;
    for (int d = 0; d < length + 127; ++d) {
        const int j = d - i;
        int v = 0;
        if (j >= 0 && j < length) {
            v = max(h[p2][i] + (mine == t[j] ? 2 : -1), 0);
            v = max(v, max(h[p1][i], h[p1][i + 1]) - 1);
            top = max(top, v);
        }
        h[now][i + 1] = v;
        const int old = p2;
        p2 = p1; p1 = now; now = old;
        __syncthreads();
    }
    top = __reduce_max_sync(~0u, top);
    if (i % 32 == 0) most[i / 32] = top;
    __syncthreads();
    if (i == 0) best[blockIdx.x] = max(max(most[0], most[1]), max(most[2], most[3]));
}

// placements of n queens (8 to 14); a thread's number is the first four rows, the rest goes over a stack in shared memory
extern "C" __global__ void __launch_bounds__(64) queens(unsigned* __restrict__ total, int n)
{
    __shared__ unsigned tried[10][64], sides[10][64];
    const int me = threadIdx.x;
    const unsigned full = (1u << n) - 1;
    unsigned id = blockIdx.x * 64 + me, cols = 0, left = 0, right = 0, found = 0;
    bool good = id < n * n * n * n;
    for (int r = 0; r < 4; ++r) {
        const unsigned bit = 1u << id % n;
        id /= n;
        good &= !(bit & (cols | left | right));
        cols |= bit;
        left = (left | bit) << 1;
        right = (right | bit) >> 1;
    }
    int depth = good ? 0 : -1;
    unsigned free = full & ~(cols | left | right);
    while (depth >= 0) {
        if (free) {
            const unsigned bit = free & -free;
            free ^= bit;
            if ((cols | bit) == full) ++found;
            else {
                tried[depth][me] = bit | free << 16;
                sides[depth][me] = (left & 0xFFFF) | right << 16;
                ++depth;
                cols |= bit;
                left = (left | bit) << 1;
                right = (right | bit) >> 1;
                free = full & ~(cols | left | right);
            }
        } else if (--depth >= 0) {
            const unsigned t = tried[depth][me], lr = sides[depth][me];
            cols ^= t & 0xFFFF;
            free = t >> 16;
            left = lr & 0xFFFF;
            right = lr >> 16;
        }
    }
    found = __reduce_add_sync(~0u, found);
    if (me % 32 == 0 && found) atomicAdd(total, found);
}

// SPDX-License-Identifier: Apache-2.0
