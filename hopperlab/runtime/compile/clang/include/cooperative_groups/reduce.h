// cg::reduce over tiles of a warp. [CUDA C++ Programming Guide 11.6.3]
#pragma once
#include "../cooperative_groups.h"

namespace cooperative_groups {
template <typename T> struct plus { __attribute__((device, always_inline, nodebug)) T operator()(T a, T b) const { return a + b; } };
template <typename T> struct less { __attribute__((device, always_inline, nodebug)) T operator()(T a, T b) const { return b < a ? b : a; } };
template <typename T> struct greater { __attribute__((device, always_inline, nodebug)) T operator()(T a, T b) const { return a < b ? b : a; } };
template <unsigned Size, typename Parent, typename T, typename Operation>
CUDA_HL T reduce(const thread_block_tile<Size, Parent>& tile, T value, Operation operation) {
    #pragma unroll
    for (unsigned by = Size / 2; by; by /= 2) value = operation(value, tile.shfl_xor(value, by));
    return value;
}
}  // namespace cooperative_groups
// SPDX-License-Identifier: Apache-2.0
