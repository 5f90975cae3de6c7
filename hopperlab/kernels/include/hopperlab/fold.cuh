// What the four kernels of lesson 00 compute: every run of 128 numbers is folded onto its mirror image,
//     y[i] = x[i] + x[mirror(i)],   mirror(i) = i with its place inside the run counted from the other end.
// A block of 128 threads works on tiles of 512 numbers: thread t holds numbers 4t .. 4t+3, and their mirror image lies in
// the four numbers of thread t ^ 31, a lane of the same warp. Launch all four alike:
//     fold(const float* x, float* y, int tiles): any grid, block 128, no dynamic shared memory, 512 * tiles numbers.
#pragma once

constexpr int TILE = 512, TILE_BYTES = TILE * 4;

__device__ __forceinline__ float4 add_mirrored(float4 mine, float4 theirs) {
    return make_float4(mine.x + theirs.w, mine.y + theirs.z, mine.z + theirs.y, mine.w + theirs.x);
}
// SPDX-License-Identifier: Apache-2.0
