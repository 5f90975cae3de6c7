// What moving registers costs: warpgroup 0 gives them back (dec), warpgroups 1 and 2 take them (inc), in cycles of each
// one's thread 0: out[warpgroup]. Before, all meet at a barrier, so that the takers may have to wait for the giver. WITHOUT
// 1 leaves both out: what the two clock readings cost by themselves.
//
// Macros: WITHOUT. Launch: grid 1, block 384. Measured in recordings/micro.json.
#include <hopperlab/clock.cuh>
#include <hopperlab/setmaxnreg.cuh>

#ifndef WITHOUT
#define WITHOUT 0
#endif

extern "C" __global__ void __launch_bounds__(384, 1)
setmaxnreg_cost(long long* out) {
    __syncthreads();
    long long start = clock_cycles();
    if (threadIdx.x < 128) {
#if !WITHOUT
        setmaxnreg_dec<40>();
#endif
        long long done = clock_cycles();
        if (threadIdx.x == 0) out[0] = done - start;
    } else {
#if !WITHOUT
        setmaxnreg_inc<232>();
#endif
        long long done = clock_cycles();
        if (threadIdx.x % 128 == 0) out[threadIdx.x / 128] = done - start;
    }
}
// SPDX-License-Identifier: Apache-2.0
