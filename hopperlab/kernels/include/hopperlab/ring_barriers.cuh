// The barriers of a ring of SLOTS slots, made by one thread: full[s] awaits `fills` arrivals a pass, empty[s] `reads`.
// Every offset is a constant. SYNCS takes its address from a uniform register, so that addresses that differ from lane to lane ("a lane
// a slot") become a loop over the lanes: with 8 slots a consumer of gemm/final.cu passed its first barrier 1064 cycles after the CTA's
// start on an H200, and 322 with these.
#pragma once
#include <hopperlab/mbarrier.cuh>

template <int SLOTS>
__device__ __forceinline__ void ring_barriers_init(mbarrier_t* full, unsigned fills, mbarrier_t* empty, unsigned reads) {
    #pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        mbarrier_init(&full[s], fills);
        mbarrier_init(&empty[s], reads);
    }
}
// SPDX-License-Identifier: Apache-2.0
