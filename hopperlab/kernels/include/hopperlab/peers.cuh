// Several devices of one host: a pointer to any device's memory works on every device, and flags between them have system
// scope. A flag holds the number of the last step that it tells of, so that nobody ever sets it back. [PTX ISA 8.7 to 8.10, 9.7.9.8,
// 9.7.9.11]
#pragma once

#ifndef BUG_GPU_SCOPE               // flags of GPU scope between two devices: race
#define BUG_GPU_SCOPE 0
#endif
#ifndef BUG_FLAG_BEFORE_DATA        // a flag is raised while what it tells of is still on its way: race
#define BUG_FLAG_BEFORE_DATA 0
#endif
#ifndef BUG_OVERWRITTEN             // memory is written again in the next step, and nobody has asked whether it was read: race
#define BUG_OVERWRITTEN 0
#endif

enum { MOST_DEVICES = 8 };

// A pointer a device, all to arrays of the same shape: at[d] lies on device d.
struct Peers {
    void* at[MOST_DEVICES];
    template <class T>
    __device__ __forceinline__ T* of(int device) const { return static_cast<T*>(at[device]); }
};

// Writes; release: what this thread did and knows is visible to whoever acquires it, on any device. [9.7.9.11]
__device__ __forceinline__ void st_release_sys(unsigned* flag, unsigned value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" :: "l"(flag), "r"(value) : "memory");
}

// Reads; acquire: what was released into what it reads, on any device, is visible afterwards. [9.7.9.8]
__device__ __forceinline__ unsigned ld_acquire_sys(const unsigned* flag) {
    unsigned value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}

// The same for the own device only.
__device__ __forceinline__ void st_release_gpu(unsigned* flag, unsigned value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(flag), "r"(value) : "memory");
}

// Adds to a counter of the own device; release, as above. [9.7.13.6]
__device__ __forceinline__ void red_release_gpu_add(unsigned* counter, unsigned value) {
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" :: "l"(counter), "r"(value) : "memory");
}

// Not an instruction: tells another device that `step` has come so far.
__device__ __forceinline__ void raise_flag(unsigned* flag, unsigned step) {
    if (BUG_GPU_SCOPE) return st_release_gpu(flag, step);
    st_release_sys(flag, step);
}

// Not an instruction but the loop around it: returns when another device has told of `step`.
__device__ __forceinline__ void await_flag(const unsigned* flag, unsigned step) {
    while (ld_acquire_sys(flag) < step) {}
}

// 8 bytes at once, by one access: whoever reads a part of what was written reads all of it. [9.7.9.8, 9.7.9.11]
__device__ __forceinline__ void st_relaxed_sys_u64(unsigned long long* word, unsigned long long value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" :: "l"(word), "l"(value) : "memory");
}

__device__ __forceinline__ unsigned long long ld_relaxed_sys_u64(const unsigned long long* word) {
    unsigned long long value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}
// SPDX-License-Identifier: Apache-2.0
