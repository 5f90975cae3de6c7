// Sums of one CTA for another by way of memory (that is, of the L2): each thread's side by side, 16 bytes per thread, and a flag that they are
// there (st.release, ld.acquire). Both CTAs have to be running at the same time: a launch has at most as many as fit. [PTX ISA 9.7.9.8, 9.7.9.11]
#pragma once

// The warpgroup's sums to `mail` (BLOCKS * COUNT * 128 floats), then the word that they are there. Every thread's stores come before the
// barrier, and the release of one thread publishes them all.
template <int BLOCKS, int COUNT>
__device__ __forceinline__ void mail_send(float* mail, int* flag, const float (&d)[BLOCKS][COUNT], int barrier) {
    int thread = threadIdx.x % 128;
    #pragma unroll
    for (int i = 0; i < BLOCKS * COUNT; i += 4) {
        const float* e = d[i / COUNT] + i % COUNT;
        __stcg(reinterpret_cast<float4*>(mail) + i / 4 * 128 + thread, make_float4(e[0], e[1], e[2], e[3]));
    }
    bar_sync(barrier, 128);
    if (thread == 0) asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(flag), "r"(1) : "memory");
}

// Adds what another CTA sent, once it is there; its flag is zero again for the next launch.
template <int BLOCKS, int COUNT>
__device__ __forceinline__ void mail_add(const float* mail, int* flag, float (&d)[BLOCKS][COUNT], int barrier) {
    int thread = threadIdx.x % 128;
    if (thread == 0) {
        unsigned there;
        do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(there) : "l"(flag) : "memory");
        while (!there);
        *flag = 0;
    }
    bar_sync(barrier, 128);
    #pragma unroll
    for (int i = 0; i < BLOCKS * COUNT; i += 4) {
        float* e = d[i / COUNT] + i % COUNT;
        float4 more = __ldcg(reinterpret_cast<const float4*>(mail) + i / 4 * 128 + thread);
        e[0] += more.x, e[1] += more.y, e[2] += more.z, e[3] += more.w;
    }
}
// SPDX-License-Identifier: Apache-2.0
