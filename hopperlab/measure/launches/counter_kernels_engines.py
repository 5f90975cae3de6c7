# SPDX-License-Identifier: Apache-2.0
"""Kernels whose bytes by engine are compared with Nsight Compute: TMA and bulk loads, stores and reductions, multicast, and every way
between the CTAs of a cluster; and wavefronts of atomics on shared memory and of wgmma's operands.

`hopperlab profile -m hopperlab.measure.launches.counter_kernels_engines --json hopperlab/recordings/counters_engines.json` measures all.
"""
from __future__ import annotations

import numpy as np

from .counter_kernels import launch

TENSOR = r"""
#include <hopperlab/fence.cuh>
#include <hopperlab/tma.cuh>
#include <hopperlab/tma_reduce.cuh>
extern "C" __global__ void NAME(const __grid_constant__ TensorMap from, const __grid_constant__ TensorMap to) {
    extern __shared__ __align__(1024) unsigned char tile[];             // a box of 32 rows of 128 bytes
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_arrive_expect_tx(&full, 4096);
        cp_async_bulk_tensor_2d_load(tile, &from, &full, X, Y);
        mbarrier_wait_parity(&full, 0);
        OUT(&to, tile, 32, 64);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}"""

BULK_REDUCE = r"""
#include <hopperlab/fence.cuh>
#include <hopperlab/tma.cuh>
#include <hopperlab/tma_reduce.cuh>
CP_REDUCE_ASYNC_BULK_GLOBAL(reduce, "add.u32")
extern "C" __global__ void NAME(const unsigned* in, unsigned* out) {
    __shared__ __align__(16) unsigned tile[512];
    tile[threadIdx.x] = in[threadIdx.x];
    fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0) {
        reduce(out, tile, 2048);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}"""

CLUSTER = r"""
#include <hopperlab/dsmem.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/multicast.cuh>
#include <hopperlab/tma_reduce.cuh>
CP_REDUCE_ASYNC_BULK_CLUSTER(reduce, "add.u32")
extern "C" __global__ void __cluster_dims__(2) NAME(const __grid_constant__ TensorMap map, const uint4* in, uint4* out) {
    extern __shared__ __align__(1024) unsigned char raw[];
    uint4* mine = reinterpret_cast<uint4*>(raw);                        // what this CTA gives
    uint4* got = mine + 256;                                            // what the other sends
    __shared__ mbarrier_t full;
    int t = threadIdx.x, rank = cluster_ctarank();
    mine[t] = in[t];
    got[t] = make_uint4(0, 0, 0, 0);
    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init_release_cluster();
        mbarrier_arrive_expect_tx(&full, 4096);
    }
    fence_proxy_async_shared_cta();
    barrier_cluster_arrive();
    barrier_cluster_wait();
    unsigned there = mapa_shared_cluster(&got[t], rank ^ 1), barrier = mapa_shared_cluster(&full, rank ^ 1);
    BODY
    barrier_cluster_arrive();
    barrier_cluster_wait();
    out[rank * 256 + t] = got[t];
}"""
WAYS = {
    "dsmem_load": "got[t] = ld_shared_cluster_v4(mapa_shared_cluster(&mine[t], rank ^ 1));",
    "dsmem_load_word": "got[t].x = ld_shared_cluster(mapa_shared_cluster(&mine[t], rank ^ 1));",
    "dsmem_store": "st_shared_cluster_v4(there, mine[t]);",
    "dsmem_st_async": "st_async_v4(there, mine[t], barrier); mbarrier_wait_parity(&full, 0);",
    "dsmem_bulk_copy": "if (t == 0) cp_async_bulk_to_cta(there, mine, 4096, barrier); mbarrier_wait_parity(&full, 0);",
    "dsmem_bulk_reduce": "if (t == 0) reduce(there, mine, 4096, barrier); mbarrier_wait_parity(&full, 0);",
    "multicast_one_issues": "if (t == 0 && rank == 0) cp_async_bulk_tensor_2d_load_multicast(got, &map, &full, 3, 0, 0);"
                            " mbarrier_wait_parity(&full, 0);",
    "multicast_halves": "if (t == 0) cp_async_bulk_tensor_2d_load_multicast(got + 128 * rank, &map, &full, 3, 0, 16 * rank);"
                        " mbarrier_wait_parity(&full, 0);",
}

ATOMICS = r"""
extern "C" __global__ void NAME(unsigned* out) {
    __shared__ unsigned bins[1024];
    for (int i = threadIdx.x; i < 1024; i += 128) bins[i] = 0;
    __syncthreads();
    WHAT;
    __syncthreads();
    for (int i = threadIdx.x; i < 1024; i += 128) out[i] = bins[i];
}"""
ATOMIC_FORMS = {
    "atomics_own_word": "atomicAdd(&bins[threadIdx.x], 1)",
    "atomics_one_bank": "atomicAdd(&bins[threadIdx.x % 32 * 32], 1)",
    "atomics_pairs": "atomicAdd(&bins[threadIdx.x / 2], 1)",
    "atomics_one_word": "atomicAdd(&bins[5], threadIdx.x)",
    "atomics_returning": "bins[512 + threadIdx.x] = atomicAdd(&bins[threadIdx.x / 4], 1)",
    "atomics_returning_one_bank": "bins[512 + threadIdx.x] = atomicAdd(&bins[threadIdx.x % 8 * 32 + threadIdx.x % 32 / 8], 1)",
    "atomics_exchange": "bins[512 + threadIdx.x] = atomicExch(&bins[threadIdx.x / 2], threadIdx.x)",
    "atomics_compare_and_swap": "bins[512 + threadIdx.x] = atomicCAS(&bins[threadIdx.x / 8], threadIdx.x, 7)",
    "atomics_maximum": "atomicMax(&bins[threadIdx.x / 4 * 2], threadIdx.x)",
    "atomics_exchange_64_bits": "((unsigned long long*)bins)[256 + threadIdx.x] = atomicExch((unsigned long long*)&bins[threadIdx.x / 2 * 2], 5ull)",
}

WGMMA = r"""
#include <hopperlab/fence.cuh>
#include <hopperlab/wgmma_operands.cuh>
#define EXPANDED(MACRO, ...) MACRO(__VA_ARGS__)
EXPANDED(WGMMA_SS, general, HALF, float, SHAPE, ENDING)
EXPANDED(WGMMA_RS, from_registers, HALF, float, SHAPE, ", 1, 1, 0")
extern "C" __global__ void __launch_bounds__(128) NAME(float* out) {
    extern __shared__ __align__(1024) unsigned char tile[];             // A: 64 rows of 128 bytes, then B: COLUMNS rows
    [[maybe_unused]] const unsigned zeros[4] = {};
    for (int i = threadIdx.x; i < (64 + COLUMNS) * 8; i += 128) reinterpret_cast<uint4*>(tile)[i] = make_uint4(0, 0, 0, 0);
    fence_proxy_async_shared_cta();
    __syncthreads();
    float d[COLUMNS / 2] = {};
    unsigned a = shared_address(tile), b = a + 8192;
    wgmma_fence();
    for (int k = 0; k < 4; k++) MULTIPLY(d, A, B, 1);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    for (int i = 0; i < COLUMNS / 2; i++) out[i * 128 + threadIdx.x] = d[i];
}"""


OPERANDS = {                # N, what multiplies, A, B, how the instruction ends
    "wgmma_n64": (64, "general", "wgmma_descriptor_128B(a + 32 * k)", "wgmma_descriptor_128B(b + 32 * k)", 0),
    "wgmma_n128": (128, "general", "wgmma_descriptor_128B(a + 32 * k)", "wgmma_descriptor_128B(b + 32 * k)", 0),
    "wgmma_n256": (256, "general", "wgmma_descriptor_128B(a + 32 * k)", "wgmma_descriptor_128B(b + 32 * k)", 0),
    "wgmma_a_in_registers": (128, "from_registers", "zeros", "wgmma_descriptor_128B(b + 32 * k)", 0),
    "wgmma_swizzle_64b": (128, "general", "wgmma_descriptor_k_major<64>(a + 32 * k)", "wgmma_descriptor_k_major<64>(b + 32 * k)", 0),
    "wgmma_swizzle_32b": (128, "general", "wgmma_descriptor_k_major<32>(a)", "wgmma_descriptor_k_major<32>(b)", 0),
    "wgmma_no_swizzle": (128, "general", "wgmma_descriptor(a, 128, 256, 0)", "wgmma_descriptor(b, 128, 256, 0)", 0),
    "wgmma_no_swizzle_rows": (128, "general", "wgmma_descriptor(a, 1024, 128, 0)", "wgmma_descriptor(b, 2048, 128, 0)", 0),
    "wgmma_b_mn_major": (128, "general", "wgmma_descriptor_128B(a + 32 * k)", "wgmma_descriptor_mn_major(b + 2048 * k, 8192)", 1),
}


def main() -> None:
    """Launch every kernel once, in the place this process has."""
    import hopperlab as hl
    xp = hl.array_module()
    data, out = xp.asarray(np.arange(1 << 16, dtype=np.uint32)), xp.zeros(1 << 16, np.uint32)
    source, target = data.reshape(256, 256), out.reshape(256, 256)
    for mode in ("none", "128B"):
        maps = tuple(hl.TensorMap.tiled(array, box=(32, 32), swizzle=mode) for array in (source, target))
        for name, store in (("store", "cp_async_bulk_tensor_2d_store"), ("add", "cp_reduce_async_bulk_tensor_2d_add"),
                            ("max", "cp_reduce_async_bulk_tensor_2d_max")):
            launch(TENSOR, f"tensor_{name}_{mode.lower()}", maps, (1,), (32,), 4096, OUT=store, X=0, Y=0)
    launch(TENSOR, "tensor_out_of_bounds", maps, (1,), (32,), 4096, OUT="cp_async_bulk_tensor_2d_store", X=240, Y=-8)
    launch(BULK_REDUCE, "bulk_reduce", (data, out), (1,), (512,))
    for name, body in WAYS.items():
        half = hl.TensorMap.tiled(source, box=(16 if name == "multicast_halves" else 32, 32))
        launch(CLUSTER, name, (half, data, out), (2,), (256,), 8192, BODY=body)
    for name, what in ATOMIC_FORMS.items():
        launch(ATOMICS, name, (out,), (1,), (128,), WHAT=what)
    for name, (columns, multiply, a, b, transposed) in OPERANDS.items():
        launch(WGMMA, name, (out.view(np.float32),), (1,), (128,), (64 + columns) * 128, COLUMNS=columns, HALF=columns // 2, MULTIPLY=multiply, A=a, B=b,
               SHAPE=f'"m64n{columns}k16.f32.bf16.bf16"', ENDING=f'", 1, 1, 0, {transposed}"')
    hl.synchronize()


if __name__ == "__main__":
    main()
