# SPDX-License-Identifier: Apache-2.0
"""Clusters: ranks, distributed shared memory, remote barriers, multicast, transfers between CTAs, and their hazards."""
import hopperlab as hl
import numpy as np
import pytest

SCHEDULES = ("lazy", "eager", "random")


def run(source, grid, block, args, schedule="lazy", shared_mem=0, hazards="raise"):
    kernel = hl.RawModule(code=source, backend="emulator").get_function("kernel")
    with hl.emulate(schedule=schedule, hazards=hazards) as session:
        kernel(grid, block, args, shared_mem=shared_mem)
    return session


PRELUDE = r"""
#include <hopperlab/mbarrier.cuh>
#include <hopperlab/tma.cuh>
__device__ unsigned rank() { unsigned r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ unsigned peer(const void* p, unsigned r) {
    unsigned a;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(shared_address(p)), "r"(r));
    return a;
}
__device__ int load_peer(unsigned a) { int v; asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(a) : "memory"); return v; }
__device__ void arrive_peer(unsigned a) { asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(a) : "memory"); }
"""


def test_ranks_and_cluster_coordinates():
    source = PRELUDE + r"""
    extern "C" __global__ void __cluster_dims__(2, 2, 1) kernel(unsigned* out) {
        unsigned r, n, cx, cy, kx;
        asm volatile("mov.u32 %0, %%cluster_ctarank; mov.u32 %1, %%cluster_nctarank; mov.u32 %2, %%cluster_ctaid.x;"
                     "mov.u32 %3, %%cluster_ctaid.y; mov.u32 %4, %%clusterid.x;" : "=r"(r), "=r"(n), "=r"(cx), "=r"(cy), "=r"(kx));
        if (threadIdx.x == 0) out[blockIdx.y * gridDim.x + blockIdx.x] = r + 10 * n + 100 * cx + 1000 * cy + 10000 * kx;
    }"""
    out = np.zeros(8, np.uint32)
    run(source, (4, 2), (32,), (out,))
    want = [[x % 2 + 2 * y + 40 + 100 * (x % 2) + 1000 * y + 10000 * (x // 2) for x in range(4)] for y in range(2)]
    assert out.reshape(2, 4).tolist() == want


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_reading_a_peers_shared_memory(schedule):
    source = PRELUDE + r"""
    extern "C" __global__ void __cluster_dims__(4, 1, 1) kernel(int* out) {
        __shared__ int mine[64];
        mine[threadIdx.x] = blockIdx.x * 100 + threadIdx.x;
        cluster_sync();
        out[blockIdx.x * 64 + threadIdx.x] = load_peer(peer(&mine[63 - threadIdx.x], (rank() + 1) % 4));
        cluster_sync();
    }"""
    out = np.zeros(8 * 64, np.int32)
    session = run(source, (8,), (64,), (out,), schedule)
    want = [(b // 4 * 4 + (b + 1) % 4) * 100 + 63 - t for b in range(8) for t in range(64)]
    assert out.tolist() == want and not session.hazards


def test_a_race_between_ctas_of_a_cluster_is_named():
    source = PRELUDE + r"""
    extern "C" __global__ void __cluster_dims__(2, 1, 1) kernel(int* out) {
        __shared__ int mine[32];
        mine[threadIdx.x] = blockIdx.x;
        out[blockIdx.x * 32 + threadIdx.x] = load_peer(peer(&mine[threadIdx.x], rank() ^ 1));
        cluster_sync();
    }"""
    session = run(source, (2,), (32,), (np.zeros(64, np.int32),), hazards="collect")
    assert "race" in {h.kind for h in session.hazards} or "read-before-arrival" in {h.kind for h in session.hazards}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_generic_pointers_from_cooperative_groups(schedule):
    source = r"""
    #include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void __cluster_dims__(2, 1, 1) kernel(int* out) {
        __shared__ int mine[32];
        cg::cluster_group cluster = cg::this_cluster();
        mine[threadIdx.x] = blockIdx.x * 7 + threadIdx.x;
        cluster.sync();
        int* other = cluster.map_shared_rank(mine, cluster.block_rank() ^ 1);
        out[blockIdx.x * 32 + threadIdx.x] = other[threadIdx.x];
        cluster.sync();
    }"""
    out = np.zeros(128, np.int32)
    session = run(source, (4,), (32,), (out,), schedule)
    assert out.tolist() == [(b ^ 1) * 7 + t for b in range(4) for t in range(32)] and not session.hazards


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_multicast_fills_every_cta_and_signals_each_barrier(schedule):
    source = PRELUDE + r"""
    extern "C" __global__ void __cluster_dims__(2, 1, 1) kernel(const __grid_constant__ TensorMap map, int* out) {
        __shared__ __align__(128) int tile[8][32];
        __shared__ mbarrier_t full;
        if (threadIdx.x == 0) {
            mbarrier_init(&full, 1);
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        }
        cluster_sync();
        if (threadIdx.x == 0) {
            mbarrier_arrive_expect_tx(&full, sizeof(tile));
            // Each CTA loads its half of the tile for both.
            unsigned row = rank() * 4;
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                         "[%0], [%1, {%2, %3}], [%4], %5;" :: "r"(shared_address(&tile[row][0])), "l"(&map), "r"(0),
                         "r"(row + blockIdx.x / 2 * 8), "r"(shared_address(&full)), "h"((unsigned short)3) : "memory");
        }
        mbarrier_wait_parity(&full, 0);
        for (int r = 0; r < 8; r++) out[(blockIdx.x * 8 + r) * 32 + threadIdx.x] = tile[r][threadIdx.x];
        cluster_sync();
    }"""
    x = np.arange(16 * 32, dtype=np.int32).reshape(16, 32)
    out = np.zeros((4, 8, 32), np.int32)
    session = run(source, (4,), (32,), (hl.TensorMap.tiled(x, box=(4, 32)), out), schedule)
    assert (out == x.reshape(2, 1, 8, 32).repeat(2, axis=1).reshape(4, 8, 32)).all() and not session.hazards
    assert session.counters["tma_loads"] == 4 and session.counters["tma_load_bytes"] == 4 * 8 * 32 * 4


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_remote_arrive_releases_a_peer(schedule):
    source = PRELUDE + r"""
    extern "C" __global__ void __cluster_dims__(2, 1, 1) kernel(int* out) {
        __shared__ int inbox[32];
        __shared__ mbarrier_t full;
        if (threadIdx.x == 0) {
            mbarrier_init(&full, 32);
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        }
        cluster_sync();
        unsigned there = peer(&inbox[threadIdx.x], rank() ^ 1);
        asm volatile("st.shared::cluster.s32 [%0], %1;" :: "r"(there), "r"((int)(rank() * 1000 + threadIdx.x)) : "memory");
        arrive_peer(peer(&full, rank() ^ 1));
        unsigned done = 0;
        while (!done) asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0;\n"
                                   "selp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(shared_address(&full)) : "memory");
        out[blockIdx.x * 32 + threadIdx.x] = inbox[31 - threadIdx.x];
        cluster_sync();
    }"""
    out = np.zeros(64, np.int32)
    session = run(source, (2,), (32,), (out,), schedule)
    assert out.tolist() == [(b ^ 1) * 1000 + 31 - t for b in range(2) for t in range(32)] and not session.hazards


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_st_async_and_bulk_copy_between_ctas(schedule):
    source = PRELUDE + r"""
    #include <hopperlab/fence.cuh>
    extern "C" __global__ void __cluster_dims__(2, 1, 1) kernel(int* out) {
        __shared__ __align__(16) int words[32], mine[32], copy[32];
        __shared__ mbarrier_t full;
        int t = threadIdx.x;
        mine[t] = rank() * 50 + t;
        fence_proxy_async_shared_cta();
        if (t == 0) {
            mbarrier_init(&full, 1);
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
            mbarrier_arrive_expect_tx(&full, 256);
        }
        cluster_sync();
        unsigned other = rank() ^ 1;
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.s32 [%0], %1, [%2];"
                     :: "r"(peer(&words[t], other)), "r"((int)(rank() * 9 + t)), "r"(peer(&full, other)) : "memory");
        if (t == 0) asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];"
                     :: "r"(peer(copy, other)), "r"(shared_address(mine)), "r"(peer(&full, other)) : "memory");
        mbarrier_wait_parity(&full, 0);
        out[blockIdx.x * 64 + t] = words[t];
        out[blockIdx.x * 64 + 32 + t] = copy[t];
        cluster_sync();
    }"""
    out = np.zeros(128, np.int32)
    session = run(source, (2,), (32,), (out,), schedule)
    want = [[(b ^ 1) * 9 + t for t in range(32)] + [(b ^ 1) * 50 + t for t in range(32)] for b in range(2)]
    assert out.reshape(2, 64).tolist() == want and not session.hazards


def test_leaving_before_a_peer_is_done_is_named():
    source = PRELUDE + r"""
    extern "C" __global__ void __cluster_dims__(2, 1, 1) kernel(int* out) {
        __shared__ int mine[32];
        mine[threadIdx.x] = blockIdx.x;
        cluster_sync();
        if (rank() == 0) {
            for (int i = 0; i < 50; i++) asm volatile("nanosleep.u32 20;");
            out[threadIdx.x] = load_peer(peer(&mine[threadIdx.x], 1));
        }
    }"""
    session = run(source, (2,), (32,), (np.zeros(32, np.int32),), hazards="collect")
    assert [h.kind for h in session.hazards] == ["cluster-lifetime"]


def test_grid_that_the_cluster_does_not_divide():
    source = 'extern "C" __global__ void __cluster_dims__(2, 1, 1) kernel() {}'
    with pytest.raises((hl.LaunchError, hl.EmulatorError), match="multiple"):
        run(source, (3,), (32,), ())


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_lanes_that_release_different_peers_at_once(schedule):
    """CUTLASS's release: lane r arrives at the empty barrier of rank r. Then each producer may overwrite its buffer."""
    source = PRELUDE + r"""
    extern "C" __global__ void __cluster_dims__(2, 1, 1) kernel(const float* x, float* y) {
        __shared__ __align__(128) float tile[32];
        __shared__ mbarrier_t full, empty;
        int t = threadIdx.x;
        if (t == 0) {
            mbarrier_init(&full, 1);
            mbarrier_init(&empty, 2);                              // one arrival from each CTA
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        }
        cluster_sync();
        for (int i = 0; i < 3; i++) {
            if (t == 0) {
                mbarrier_wait_parity(&empty, (i & 1) ^ 1);
                mbarrier_arrive_expect_tx(&full, 128);
                cp_async_bulk_load(tile, x + 32 * i, 128, &full);
            }
            __syncwarp();
            mbarrier_wait_parity(&full, i & 1);
            float mine = tile[t];
            cluster_sync();
            unsigned other;
            asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(other) : "r"(peer(&tile[t], rank() ^ 1)) : "memory");
            y[(blockIdx.x * 3 + i) * 32 + t] = mine + __uint_as_float(other);
            __syncwarp();
            if (t < 2) arrive_peer(peer(&empty, t));
        }
        cluster_sync();
    }"""
    x, y = np.arange(96, dtype=np.float32), np.zeros(192, np.float32)
    session = run(source, (2,), (32,), (x, y), schedule, hazards="collect")
    assert session.hazards == [] and (y.reshape(2, 96) == 2 * x).all()
