// What kernels from elsewhere bring along: thin wrappers with CUTLASS's names and its default scopes, and labels in inline PTX.
struct alignas(64) CUtensorMap_ { unsigned long long opaque[16]; };
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define DEVICE static __device__ __forceinline__
DEVICE uint32_t cast_smem(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
struct ClusterBarrier {
    uint64_t storage;
    __device__ void init(uint32_t count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(cast_smem(this)), "r"(count)); }
    __device__ void wait(uint32_t phase) {
        asm volatile("{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}"
                     :: "r"(cast_smem(this)), "r"(phase) : "memory");
    }
    __device__ bool try_wait(uint32_t phase) {
        uint32_t ok;
        asm volatile("{\n.reg .pred P1;\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%1], %2;\nselp.b32 %0, 1, 0, P1;\n}"
                     : "=r"(ok) : "r"(cast_smem(this)), "r"(phase) : "memory");
        return ok;
    }
    __device__ void arrive() { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(cast_smem(this)) : "memory"); }
    __device__ void arrive(uint32_t cta_id, uint32_t pred = 1) {
        asm volatile("{\n.reg .pred p;\n.reg .b32 remAddr32;\nsetp.eq.u32 p, %2, 1;\n@p mapa.shared::cluster.u32 remAddr32, %0, %1;\n"
                     "@p mbarrier.arrive.shared::cluster.b64 _, [remAddr32];\n}" :: "r"(cast_smem(this)), "r"(cta_id), "r"(pred) : "memory");
    }
    __device__ void arrive_and_expect_tx(uint32_t bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(cast_smem(this)), "r"(bytes) : "memory");
    }
};
DEVICE void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEVICE void fence_view_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
DEVICE void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
DEVICE void cluster_sync() { cluster_arrive(); cluster_wait(); }
DEVICE uint32_t block_rank_in_cluster() { uint32_t r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
DEVICE uint32_t mapa(const void* p, uint32_t rank) {
    uint32_t a; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(cast_smem(p)), "r"(rank)); return a;
}
DEVICE void named_sync(uint32_t id, uint32_t threads) { asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory"); }
DEVICE void named_arrive(uint32_t id, uint32_t threads) { asm volatile("bar.arrive %0, %1;" :: "r"(id), "r"(threads) : "memory"); }
DEVICE bool elect_one() {
    uint32_t p;
    asm volatile("{\n.reg .pred P;\nelect.sync _|P, 0xffffffff;\nselp.b32 %0, 1, 0, P;\n}" : "=r"(p));
    return p;
}
DEVICE void tma_load_2d(const void* map, ClusterBarrier* bar, void* smem, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 :: "r"(cast_smem(smem)), "l"(map), "r"(cast_smem(bar)), "r"(x), "r"(y) : "memory");
}
DEVICE void tma_load_2d_multicast(const void* map, ClusterBarrier* bar, unsigned short mask, void* smem, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%4, %5}], [%2], %3;"
                 :: "r"(cast_smem(smem)), "l"(map), "r"(cast_smem(bar)), "h"(mask), "r"(x), "r"(y) : "memory");
}
DEVICE void tma_store_2d(const void* map, const void* smem, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" :: "l"(map), "r"(cast_smem(smem)), "r"(x), "r"(y) : "memory");
}
DEVICE void tma_reduce_add_2d(const void* map, const void* smem, int x, int y) {
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%2, %3}], [%1];" :: "l"(map), "r"(cast_smem(smem)), "r"(x), "r"(y) : "memory");
}
DEVICE void tma_store_arrive() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> DEVICE void tma_store_wait() { asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(N) : "memory"); }
DEVICE void warpgroup_arrive() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void warpgroup_commit_batch() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DEVICE void warpgroup_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory"); }
DEVICE uint64_t make_desc(const void* p) {                      // K-major, 128-byte swizzle
    uint64_t a = cast_smem(p) & 0x3FFFF;
    return a >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
#define ACC32 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define OUT32(d) "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), \
    "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), \
    "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
DEVICE void wgmma_bf16(float (&d)[32], uint64_t a, uint64_t b, int scale_d = 1) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " ACC32 ", %32, %33, p, 1, 1, 0, 0;\n}"
                 : OUT32(d) : "l"(a), "l"(b), "r"(scale_d));
}
DEVICE void wgmma_bf16_rs(float (&d)[32], const uint32_t (&a)[4], uint64_t b, int scale_d = 1) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " ACC32 ", {%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}"
                 : OUT32(d) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(scale_d));
}
DEVICE void wgmma_e4m3(float (&d)[32], uint64_t a, uint64_t b, int scale_d) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 " ACC32 ", %32, %33, p, 1, 1;\n}"
                 : OUT32(d) : "l"(a), "l"(b), "r"(scale_d));
}
template <int STAGES> struct PipelineState {
    int index = 0; uint32_t phase = 0;
    __device__ PipelineState(uint32_t p = 0) : phase(p) {}
    __device__ void operator++(int) { if (++index == STAGES) { index = 0; phase ^= 1; } }
};
// SPDX-License-Identifier: Apache-2.0
