// Copies `count` 16-byte vectors through shared memory with cp.async: the loads in flight cost no registers. Each thread
// owns its 16 bytes of every slot and reads only what it copied itself, so its own wait_group is all it needs: no barrier.
// Measured in recordings/copy.json.
// Launch: any grid, block 256, dynamic shared memory STAGES * 4096 bytes.
#include <hopperlab/cp_async.cuh>

#ifndef STAGES
#define STAGES 8
#endif

extern "C" __global__ void __launch_bounds__(256)
cp_async_copy(const uint4* source, uint4* target, long long count) {
    extern __shared__ __align__(128) uint4 slots[];         // STAGES x 256 vectors
    long long first = (long long)blockIdx.x * 256 + threadIdx.x, step = (long long)gridDim.x * 256;
    for (int s = 0; s < STAGES - 1; s++) {
        if (first + s * step < count) cp_async_cg_16(&slots[s * 256 + threadIdx.x], source + first + s * step);
        cp_async_commit_group();                            // one group a step, empty ones past the end
    }
    int s = 0;
    for (long long i = first; i < count; i += step) {
        long long ahead = i + (STAGES - 1) * step;          // goes into the slot this thread read a step ago
        int ahead_slot = s == 0 ? STAGES - 1 : s - 1;
        if (ahead < count) cp_async_cg_16(&slots[ahead_slot * 256 + threadIdx.x], source + ahead);
        cp_async_commit_group();
        cp_async_wait_group<STAGES - 1>();
        target[i] = slots[s * 256 + threadIdx.x];
        s = s == STAGES - 1 ? 0 : s + 1;
    }
}
// SPDX-License-Identifier: Apache-2.0
