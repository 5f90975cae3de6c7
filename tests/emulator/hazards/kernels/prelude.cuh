#include <hopperlab/cluster.cuh>
#include <hopperlab/cp_async.cuh>
#include <hopperlab/dsmem.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/mbarrier.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/tma.cuh>
#include <hopperlab/wgmma.cuh>
#define KERNEL extern "C" __global__ void __launch_bounds__
// All threads of the block copy `bytes` from global to shared memory with plain loads and stores.
__device__ __forceinline__ void fill(void* shared, const void* global, int bytes) {
    for (int i = threadIdx.x * 16; i < bytes; i += blockDim.x * 16)
        *(uint4*)((char*)shared + i) = *(const uint4*)((const char*)global + i);
}
// One word (red.async), or `bytes` (cp.reduce.async.bulk), is added in another CTA's shared memory; they count on a barrier there.
__device__ __forceinline__ void red_async_add(unsigned cluster_address, unsigned v, unsigned cluster_barrier) {
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];"
                 :: "r"(cluster_address), "r"(v), "r"(cluster_barrier) : "memory");
}
__device__ __forceinline__ void cp_reduce_async_bulk_add(unsigned cluster_address, const void* shared, unsigned bytes, unsigned cluster_barrier) {
    asm volatile("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%0], [%1], %2, [%3];"
                 :: "r"(cluster_address), "r"(shared_address(shared)), "r"(bytes), "r"(cluster_barrier) : "memory");
}
// Every thread stores the 32 registers of its accumulator.
__device__ __forceinline__ void put(float* out, const float (&d)[32]) {
    #pragma unroll
    for (int i = 0; i < 32; i++) out[i * 128 + threadIdx.x % 128] = d[i];
}
// d += a * b for two 64x64 tiles in shared memory: four products of 16 columns each.
__device__ __forceinline__ void multiply(float (&d)[32], const void* a, const void* b) {
    #pragma unroll
    for (int k = 0; k < 4; k++)
        wgmma_m64n64k16_bf16(d, wgmma_descriptor_128B(shared_address(a) + 32 * k), wgmma_descriptor_128B(shared_address(b) + 32 * k), 1);
}
// d[64x64] += a[64x16] * b[16x64] with a in registers (four of two bf16).
__device__ __forceinline__ void wgmma_a_in_registers(float (&d)[32], const unsigned (&a)[4], unsigned long long b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, 1, 1, 1, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b) : "memory");
}
// d[64x64] += a[64x32] * b[32x64] with a sparse a (16 stored columns) in shared memory; the metadata of lanes with q = 0, 1 count.
__device__ __forceinline__ void wgmma_sparse_a(float (&d)[32], unsigned long long a, unsigned long long b, unsigned metadata) {
    asm volatile("wgmma.mma_async.sp.sync.aligned.m64n64k32.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, %34, 0, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
                 : "l"(a), "l"(b), "r"(metadata) : "memory");
}
// A flag between blocks: st.release after what was done, ld.acquire until it is at least `value`.
__device__ __forceinline__ void release(unsigned* flag, unsigned value = 100) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(flag), "r"(value) : "memory");
}
__device__ __forceinline__ void await(const unsigned* flag, unsigned value = 100) {
    unsigned seen;
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory"); while (seen < value);
}
// SPDX-License-Identifier: Apache-2.0
