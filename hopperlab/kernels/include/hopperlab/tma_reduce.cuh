// TMA stores that add: the L2 combines the tile with what lies in global memory. [PTX ISA 9.7.9.25.5.3]
#pragma once
#include <hopperlab/tma.cuh>

// Adds the box in `shared` to the tensor, element by element, in the map's data type; each element's addition is atomic.
// Part of the thread's current bulk group. [9.7.9.25.5.3]
__device__ __forceinline__ void cp_reduce_async_bulk_tensor_2d_add(const TensorMap* map, const void* shared, int c0, int c1) {
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3}], [%1];"
                 :: "l"(map), "r"(shared_address(shared)), "r"(c0), "r"(c1) : "memory");
}
