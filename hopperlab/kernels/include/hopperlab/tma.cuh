// Copies by the Tensor Memory Accelerator: one thread names a box, the engine computes every address. [PTX ISA 9.7.9.25.4,
// 9.7.9.25.5] Tensor copies read a tensor map (made on the host, passed by value to a `const __grid_constant__`
// parameter); bulk copies move a contiguous range. Loads complete on an mbarrier by counting bytes; stores complete in
// the issuing thread's bulk groups. Coordinates are in elements, innermost dimension first.
// All shared tiles are 128-byte aligned; everything happens in the async proxy.
#pragma once
#include <hopperlab/mbarrier.cuh>

// The 128 opaque bytes that cuTensorMapEncodeTiled wrote.
struct __align__(64) TensorMap { unsigned long long words[16]; };

// Fetches the map itself ahead of its first use. [9.7.9.15]
__device__ __forceinline__ void prefetch_tensormap(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}

// Loads the box whose corner is (c0 ...) into `shared`; its bytes, those outside the tensor included, count on `barrier`.
// Coordinates may be negative or past the end: what lies outside is filled. [9.7.9.25.5.2]
__device__ __forceinline__ void cp_async_bulk_tensor_1d_load(void* shared, const TensorMap* map, mbarrier_t* barrier,
                                                              int c0) {
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3}], [%2];"
                 :: "r"(shared_address(shared)), "l"(map), "r"(shared_address(barrier)),
                    "r"(c0) : "memory");
}

__device__ __forceinline__ void cp_async_bulk_tensor_2d_load(void* shared, const TensorMap* map, mbarrier_t* barrier,
                                                              int c0, int c1) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];"
                 :: "r"(shared_address(shared)), "l"(map), "r"(shared_address(barrier)),
                    "r"(c0), "r"(c1) : "memory");
}

__device__ __forceinline__ void cp_async_bulk_tensor_3d_load(void* shared, const TensorMap* map, mbarrier_t* barrier,
                                                              int c0, int c1, int c2) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];"
                 :: "r"(shared_address(shared)), "l"(map), "r"(shared_address(barrier)),
                    "r"(c0), "r"(c1), "r"(c2) : "memory");
}

__device__ __forceinline__ void cp_async_bulk_tensor_4d_load(void* shared, const TensorMap* map, mbarrier_t* barrier,
                                                              int c0, int c1, int c2, int c3) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];"
                 :: "r"(shared_address(shared)), "l"(map), "r"(shared_address(barrier)),
                    "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}

__device__ __forceinline__ void cp_async_bulk_tensor_5d_load(void* shared, const TensorMap* map, mbarrier_t* barrier,
                                                              int c0, int c1, int c2, int c3, int c4) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];"
                 :: "r"(shared_address(shared)), "l"(map), "r"(shared_address(barrier)),
                    "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}

// Stores the box in `shared` to the tensor; what falls outside is not written, and no coordinate may be negative. Part of
// the thread's current bulk group. [9.7.9.25.5.2]
__device__ __forceinline__ void cp_async_bulk_tensor_1d_store(const TensorMap* map, const void* shared, int c0) {
    asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%0, {%2}], [%1];"
                 :: "l"(map), "r"(shared_address(shared)), "r"(c0) : "memory");
}

__device__ __forceinline__ void cp_async_bulk_tensor_2d_store(const TensorMap* map, const void* shared,
                                                               int c0, int c1) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"
                 :: "l"(map), "r"(shared_address(shared)), "r"(c0), "r"(c1) : "memory");
}

__device__ __forceinline__ void cp_async_bulk_tensor_3d_store(const TensorMap* map, const void* shared,
                                                               int c0, int c1, int c2) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];"
                 :: "l"(map), "r"(shared_address(shared)), "r"(c0), "r"(c1), "r"(c2) : "memory");
}

__device__ __forceinline__ void cp_async_bulk_tensor_4d_store(const TensorMap* map, const void* shared,
                                                               int c0, int c1, int c2, int c3) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
                 :: "l"(map), "r"(shared_address(shared)), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}

__device__ __forceinline__ void cp_async_bulk_tensor_5d_store(const TensorMap* map, const void* shared,
                                                               int c0, int c1, int c2, int c3, int c4) {
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];"
                 :: "l"(map), "r"(shared_address(shared)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}

// Loads `bytes` contiguous bytes (addresses and size multiples of 16), counted on `barrier`. [9.7.9.25.4.1]
__device__ __forceinline__ void cp_async_bulk_load(void* shared, const void* global, unsigned bytes, mbarrier_t* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(shared_address(shared)), "l"(global), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}

// Stores `bytes` contiguous bytes; part of the thread's current bulk group. [9.7.9.25.4.1]
__device__ __forceinline__ void cp_async_bulk_store(void* global, const void* shared, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(global), "r"(shared_address(shared)), "r"(bytes) : "memory");
}

// Asks the L2 to fetch `bytes` contiguous bytes. [9.7.9.25.4.3]
__device__ __forceinline__ void cp_async_bulk_prefetch_l2(const void* global, unsigned bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" :: "l"(global), "r"(bytes) : "memory");
}

// This thread's bulk stores since its last commit become one bulk group. [9.7.9.25.6.1]
__device__ __forceinline__ void cp_async_bulk_commit_group() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Returns when at most PENDING of this thread's latest bulk groups are incomplete. [9.7.9.25.6.2]
template <int PENDING>
__device__ __forceinline__ void cp_async_bulk_wait_group() {
    asm volatile("cp.async.bulk.wait_group %0;" :: "n"(PENDING) : "memory");
}

// Returns when all but PENDING groups have read their sources: the shared memory may be written again. [9.7.9.25.6.2]
template <int PENDING>
__device__ __forceinline__ void cp_async_bulk_wait_group_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(PENDING) : "memory");
}
// SPDX-License-Identifier: Apache-2.0
