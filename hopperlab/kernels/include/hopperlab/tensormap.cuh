// Tensor maps made in the kernel: a copy of a map in shared memory is edited, published to global memory, and used from there.
// [PTX ISA 9.7.9.26, 9.7.13.4, 9.7.13.16] The engine reads maps through a proxy of its own, the tensormap proxy: writes of a map
// are ordered before its use by a release and an acquire of that proxy.
#pragma once
#include <hopperlab/tma.cuh>

// The map at `shared` describes another tensor of the same shape: its first byte. [9.7.9.26]
__device__ __forceinline__ void tensormap_replace_global_address(TensorMap* shared, const void* global) {
    asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;"
                 :: "r"(shared_address(shared)), "l"(global) : "memory");
}

// ... with `size` elements along dimension 1 (rows of a matrix). [9.7.9.26]
__device__ __forceinline__ void tensormap_replace_global_dim_1(TensorMap* shared, unsigned size) {
    asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;"
                 :: "r"(shared_address(shared)), "r"(size) : "memory");
}

// A warp copies the map to global memory and releases it to the tensormap proxy. All 32 lanes. [9.7.13.16]
__device__ __forceinline__ void tensormap_cp_fenceproxy(TensorMap* global, const TensorMap* shared) {
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
                 :: "l"(global), "r"(shared_address(shared)) : "memory");
}

// Whoever uses a published map acquires it first. [9.7.13.4]
__device__ __forceinline__ void fence_proxy_tensormap_acquire(const TensorMap* global) {
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(global) : "memory");
}
// SPDX-License-Identifier: Apache-2.0
