// Stencils and filters with shared tiles.
// star of radius 2 on tiles of 64 x 16, block 64 x 4
extern "C" __global__ void __launch_bounds__(256) star2d(const float* __restrict__ in, float* __restrict__ out, int width, int height, float c0, float c1, float c2)
{
    __shared__ float t[20][68];
    const int x0 = blockIdx.x * 64, y0 = blockIdx.y * 16, tid = threadIdx.y * 64 + threadIdx.x;
    for (int i = tid; i < 20 * 68; i += 256) {
        const int r = i / 68, c = i % 68;
        const int y = min(max(y0 + r - 2, 0), height - 1), x = min(max(x0 + c - 2, 0), width - 1);
        t[r][c] = in[(size_t)y * width + x];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int r = threadIdx.y + 4 * k + 2, c = threadIdx.x + 2;
        const float v = c0 * t[r][c] + c1 * (t[r - 1][c] + t[r + 1][c] + t[r][c - 1] + t[r][c + 1])
                      + c2 * (t[r - 2][c] + t[r + 2][c] + t[r][c - 2] + t[r][c + 2]);
        out[(size_t)(y0 + r - 2) * width + x0 + c - 2] = v;
    }
}

// 7 points in 3D: planes of 32 x 8 marched along z, the plane in shared memory, above and below in registers; the rim stays as it is
extern "C" __global__ void __launch_bounds__(256) march3d(const float* __restrict__ in, float* __restrict__ out, int nx, int ny, int nz, int depth, float a, float b)
{
    __shared__ float p[10][34];
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, z0 = blockIdx.z * depth;
    const size_t plane = (size_t)nx * ny;
    const float* src = in + (size_t)y * nx + x;
    float low = src[(size_t)max(z0 - 1, 0) * plane], mid = src[(size_t)z0 * plane];
    for (int z = z0; z < z0 + depth; ++z) {
        const float high = src[(size_t)min(z + 1, nz - 1) * plane];
        const float* here = src + (size_t)z * plane;
        p[threadIdx.y + 1][threadIdx.x + 1] = mid;
        if (threadIdx.x == 0) p[threadIdx.y + 1][0] = x > 0 ? here[-1] : mid;
        if (threadIdx.x == 31) p[threadIdx.y + 1][33] = x < nx - 1 ? here[1] : mid;
        if (threadIdx.y == 0) p[0][threadIdx.x + 1] = y > 0 ? here[-nx] : mid;
        if (threadIdx.y == 7) p[9][threadIdx.x + 1] = y < ny - 1 ? here[nx] : mid;
        __syncthreads();
        out[(size_t)z * plane + (size_t)y * nx + x] = a * mid + b * (low + high + p[threadIdx.y + 1][threadIdx.x] + p[threadIdx.y + 1][threadIdx.x + 2]
            + p[threadIdx.y][threadIdx.x + 1] + p[threadIdx.y + 2][threadIdx.x + 1]);
        __syncthreads();
        low = mid; mid = high;
    }
}

// FIR of 64 taps; signal strip and taps in shared memory, four outputs a thread
extern "C" __global__ void __launch_bounds__(256) fir64(const float* __restrict__ x, const float* __restrict__ taps, float* __restrict__ y, int n)
{
    __shared__ float s[1024 + 64], h[64];
    const int base = blockIdx.x * 1024;
    for (int i = threadIdx.x; i < 1024 + 63; i += 256) s[i] = base + i < n ? x[base + i] : 0.f;
    if (threadIdx.x < 64) h[threadIdx.x] = taps[threadIdx.x];
    __syncthreads();
    float acc[4] = {};
#pragma unroll 16
    for (int k = 0; k < 64; ++k) {
        const float c = h[k];
#pragma unroll
        for (int j = 0; j < 4; ++j) acc[j] = fmaf(c, s[threadIdx.x + 256 * j + k], acc[j]);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) y[base + threadIdx.x + 256 * j] = acc[j];
}

// SPDX-License-Identifier: Apache-2.0
