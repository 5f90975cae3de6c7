// The product with V where several CTAs share an SM's registers.
#pragma once
#include <hopperlab/attention.cuh>

// wgmma_values; HALVES: by a wgmma for each half of the columns. ptxas refuses one that alone needs more registers than the kernel starts with.
template <int KEYS, bool HALVES, int COUNT>
__device__ __forceinline__ void wgmma_values_in(float (&o)[COUNT], const unsigned (&p)[KEYS / 16][4], unsigned v_tile, unsigned v_panel, int accumulate) {
    if constexpr (HALVES) {
        #pragma unroll
        for (int half = 0; half < 2; half++)
            wgmma_values<KEYS>(*reinterpret_cast<float (*)[COUNT / 2]>(o + half * COUNT / 2), p, v_tile + half * (COUNT / 64) * v_panel, v_panel, accumulate);
    } else {
        wgmma_values<KEYS>(o, p, v_tile, v_panel, accumulate);
    }
}
// SPDX-License-Identifier: Apache-2.0
