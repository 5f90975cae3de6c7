// Layouts, windows, pictures.
#define TAPS 15
// y[row, t] = sum over k of w[row % channels, k] x[row, t - 14 + k]; grid (length / 256, rows)
extern "C" __global__ void __launch_bounds__(256) dwconv1d(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int channels, int length)
{
    const int row = blockIdx.y, t = blockIdx.x * 256 + threadIdx.x, c = row % channels;
    const float* from = x + (size_t)row * length;
    float s = 0.f;
#ifdef TILE
    __shared__ float tile[256 + TAPS - 1];
    for (int i = threadIdx.x; i < 256 + TAPS - 1; i += 256) {
        const int at = (int)(blockIdx.x * 256) + i - (TAPS - 1);
        tile[i] = at >= 0 ? from[at] : 0.f;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TAPS; ++k) s += w[c * TAPS + k] * tile[threadIdx.x + k];
#else
#pragma unroll
    for (int k = 0; k < TAPS; ++k) {
        const int at = t + k - (TAPS - 1);
        s += w[c * TAPS + k] * (at >= 0 ? from[at] : 0.f);
    }
#endif
    y[(size_t)row * length + t] = s;
}

// column[(c * 9 + tap), y, x], 3 x 3 with a rim of zeros
extern "C" __global__ void __launch_bounds__(256) im2col(const float* __restrict__ in, float* __restrict__ column, int channels, int h, int w)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= channels * h * w) return;
    const int x = i % w, y = i / w % h, c = i / w / h;
    float* to = column + (size_t)c * 9 * h * w + y * w + x;
#pragma unroll
    for (int ky = 0; ky < 3; ++ky)
#pragma unroll
        for (int kx = 0; kx < 3; ++kx) {
            const int sy = y + ky - 1, sx = x + kx - 1;
            *to = sy >= 0 && sy < h && sx >= 0 && sx < w ? in[((size_t)c * h + sy) * w + sx] : 0.f;
            to += h * w;
        }
}

// 3 x 3, step 2, rim 1
extern "C" __global__ void __launch_bounds__(192) max_pool(const float* __restrict__ in, float* __restrict__ out, int planes, int h, int w)
{
    const int oh = h / 2, ow = w / 2, i = blockIdx.x * 192 + threadIdx.x;
    if (i >= planes * oh * ow) return;
    const int x = i % ow, y = i / ow % oh, p = i / (ow * oh);
    const float* from = in + (size_t)p * h * w;
    const int y0 = max(2 * y - 1, 0), y1 = min(2 * y + 2, h), x0 = max(2 * x - 1, 0), x1 = min(2 * x + 2, w);
    float m = -3.4e38f;
    for (int sy = y0; sy < y1; ++sy)
        for (int sx = x0; sx < x1; ++sx) m = fmaxf(m, from[sy * w + sx]);
    out[i] = m;
}

// every 16 x 16 of a batch
extern "C" __global__ void __launch_bounds__(256) blocks16(const float* __restrict__ in, float* __restrict__ out)
{
    __shared__ float t[16][17];
    const size_t base = (size_t)blockIdx.x * 256;
    t[threadIdx.y][threadIdx.x] = in[base + threadIdx.y * 16 + threadIdx.x];
    __syncthreads();
    out[base + threadIdx.y * 16 + threadIdx.x] = t[threadIdx.x][threadIdx.y];
}

extern "C" __global__ void __launch_bounds__(256) add_pitch(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int width, int height, int pitch)
{
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x < width && y < height) c[(size_t)y * pitch + x] = a[(size_t)y * pitch + x] + b[(size_t)y * pitch + x];
}

extern "C" __global__ void __launch_bounds__(256) sobel(const unsigned char* __restrict__ in, unsigned char* __restrict__ out, int w, int h)
{
    const int x = blockIdx.x * 64 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y;
    if (x >= w || y >= h) return;
    int v = 0;
    if (x > 0 && x < w - 1 && y > 0 && y < h - 1) {
        const unsigned char* p = in + (size_t)y * w + x;
        const int a = p[-w - 1], b = p[-w], c = p[-w + 1], d = p[-1], f = p[1], g = p[w - 1], i = p[w], j = p[w + 1];
        v = min(255, abs(c + 2 * f + j - a - 2 * d - g) + abs(g + 2 * i + j - a - 2 * b - c));
    }
    out[(size_t)y * w + x] = (unsigned char)v;
}

extern "C" __global__ void __launch_bounds__(256) bilateral(const float* __restrict__ in, float* __restrict__ out, int w, int h, float space, float range)
{
    const int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x >= w || y >= h) return;
    const float c = in[y * w + x];
    float s = 0.f, n = 0.f;
    for (int dy = -3; dy <= 3; ++dy)
        for (int dx = -3; dx <= 3; ++dx) {
            const float v = in[min(max(y + dy, 0), h - 1) * w + min(max(x + dx, 0), w - 1)];
            const float k = expf(-space * (dx * dx + dy * dy) - range * (v - c) * (v - c));
            s += k * v;
            n += k;
        }
    out[y * w + x] = s / n;
}

// SPDX-License-Identifier: Apache-2.0
