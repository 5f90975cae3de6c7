// TMA stores that combine: the L2 (or another CTA's shared memory) takes the data and what lies there through an operation.
// [PTX ISA 9.7.9.25.4.2, 9.7.9.25.5.3] Each element's operation is atomic; elements are in no order.
#pragma once
#include <hopperlab/tma.cuh>

// Adds the box in `shared` to the tensor, element by element, in the map's data type; each element's addition is atomic.
// Part of the thread's current bulk group. [9.7.9.25.5.3]
__device__ __forceinline__ void cp_reduce_async_bulk_tensor_2d_add(const TensorMap* map, const void* shared, int c0, int c1) {
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3}], [%1];"
                 :: "l"(map), "r"(shared_address(shared)), "r"(c0), "r"(c1) : "memory");
}

// The same with another operation: min, max (integers, f16, bf16), inc, dec (uint32), and, or, xor (32 and 64 bits). A wrapper
// an operation, cp_reduce_async_bulk_tensor_2d_min and so on; OP is the instruction's word, NAME the function's. [9.7.9.25.5.3]
#define CP_REDUCE_ASYNC_BULK_TENSOR_2D(OP, NAME)                                                                             \
__device__ __forceinline__ void cp_reduce_async_bulk_tensor_2d_##NAME(const TensorMap* map, const void* shared,              \
                                                                      int c0, int c1) {                                      \
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta." #OP ".tile.bulk_group [%0, {%2, %3}], [%1];"           \
                 :: "l"(map), "r"(shared_address(shared)), "r"(c0), "r"(c1) : "memory");                                     \
}
CP_REDUCE_ASYNC_BULK_TENSOR_2D(min, min)
CP_REDUCE_ASYNC_BULK_TENSOR_2D(max, max)
CP_REDUCE_ASYNC_BULK_TENSOR_2D(inc, inc)
CP_REDUCE_ASYNC_BULK_TENSOR_2D(dec, dec)
CP_REDUCE_ASYNC_BULK_TENSOR_2D(and, and)
CP_REDUCE_ASYNC_BULK_TENSOR_2D(or, or)
CP_REDUCE_ASYNC_BULK_TENSOR_2D(xor, xor)

// Without a map: `bytes` contiguous bytes (addresses and size multiples of 16) combined with global memory. OP_TYPE is the end
// of the instruction: add.u32, add.noftz.bf16, max.s64, xor.b32 … Part of the thread's current bulk group. [9.7.9.25.4.2]
#define CP_REDUCE_ASYNC_BULK_GLOBAL(NAME, OP_TYPE)                                                                           \
__device__ __forceinline__ void NAME(void* global, const void* shared, unsigned bytes) {                                     \
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group." OP_TYPE " [%0], [%1], %2;"                            \
                 :: "l"(global), "r"(shared_address(shared)), "r"(bytes) : "memory");                                        \
}

// The same into another CTA's shared memory (addresses from mapa), its bytes counted on a barrier there. Words of 32 bits only,
// and 64 bits for add. [9.7.9.25.4.2]
#define CP_REDUCE_ASYNC_BULK_CLUSTER(NAME, OP_TYPE)                                                                          \
__device__ __forceinline__ void NAME(unsigned cluster_address, const void* shared, unsigned bytes, unsigned cluster_barrier) { \
    asm volatile("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes." OP_TYPE                    \
                 " [%0], [%1], %2, [%3];"                                                                                    \
                 :: "r"(cluster_address), "r"(shared_address(shared)), "r"(bytes), "r"(cluster_barrier) : "memory");         \
}
// SPDX-License-Identifier: Apache-2.0
