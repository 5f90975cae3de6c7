// One warp reads shared memory once, in a shape of your choice, so that the wavefronts of that one access can be counted.
// Word w of a tile holds the number w. The tile lies swizzled: the byte that belongs at address a lies at a ^ ((a & MASK) >> 3).
// Lane l names the byte l * stride, the start of row l of a tile with rows of `stride` bytes.
//   WIDTH 4, 8, 16   the lane loads that many bytes there (ld.shared, .v2, .v4)
//   WIDTH 0          ldmatrix.x4: the lane's address is that of one row of 16 bytes, and the hardware deals the pieces out
//
// Macros: WIDTH, MASK (0, 0x080, 0x180 or 0x380). Launch: grid 1, block 32, dynamic shared memory `bytes` (a multiple of 1024, at
// least 32 * stride); out: 4 words per lane.
#include <hopperlab/mma.cuh>

#ifndef WIDTH
#define WIDTH 4
#endif
#ifndef MASK
#define MASK 0
#endif

__device__ __forceinline__ unsigned swizzled(unsigned address) { return address ^ ((address & MASK) >> 3); }

extern "C" __global__ void __launch_bounds__(32) access(unsigned* out, int stride, int bytes) {
    extern __shared__ __align__(1024) unsigned tile[];
    unsigned base = shared_address(tile), lane = threadIdx.x, d[4] = {};
    for (int word = lane; word < bytes / 4; word += 32)
        asm volatile("st.shared.u32 [%0], %1;" :: "r"(swizzled(base + 4 * word)), "r"(word) : "memory");
    __syncwarp();
    unsigned at = swizzled(base + lane * stride);
#if WIDTH == 0
    ldmatrix_x4(d, at);
#elif WIDTH == 16
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(at) : "memory");
#elif WIDTH == 8
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(d[0]), "=r"(d[1]) : "r"(at) : "memory");
#else
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(d[0]) : "r"(at) : "memory");
#endif
    for (int i = 0; i < 4; i++) out[4 * lane + i] = d[i];
}
// SPDX-License-Identifier: Apache-2.0
