// Copies `count` 16-byte vectors through registers: the plain way, and the one to beat. Each thread has UNROLL loads in
// flight before its first store; consecutive threads touch consecutive vectors. Measured in recordings/copy.json.
// Launch: grid ceil(count / (256 * UNROLL)), block 256, no shared memory.
#ifndef UNROLL
#define UNROLL 4
#endif

extern "C" __global__ void __launch_bounds__(256)
vector_copy(const uint4* source, uint4* target, long long count) {
    long long first = (long long)blockIdx.x * (256 * UNROLL) + threadIdx.x;
    uint4 values[UNROLL];
    #pragma unroll
    for (int i = 0; i < UNROLL; i++)
        if (first + i * 256 < count) values[i] = source[first + i * 256];
    #pragma unroll
    for (int i = 0; i < UNROLL; i++)
        if (first + i * 256 < count) target[first + i * 256] = values[i];
}
// SPDX-License-Identifier: Apache-2.0
