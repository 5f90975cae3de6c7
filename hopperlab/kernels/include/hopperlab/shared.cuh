// Addresses in the shared window. Most instructions of this course name shared memory by a 32-bit address in the
// window (PTX state space .shared), not by the 64-bit generic pointer that C++ holds. One function converts.
#pragma once

// The 32-bit shared-window address of a generic pointer into shared memory. [PTX ISA 5.2, cvta: 9.7.9.20]
__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Stops the kernel unless `pointer` is a multiple of `bytes` in shared memory: swizzled tiles are laid out by their
// absolute address, so a tile that starts elsewhere is read wrongly by everyone who assumes a pattern boundary.
__device__ __forceinline__ void require_aligned(const void* pointer, unsigned bytes) {
    if (shared_address(pointer) % bytes != 0) __trap();
}
// SPDX-License-Identifier: Apache-2.0
