# SPDX-License-Identifier: Apache-2.0
"""Kernels whose shared-memory and global traffic is compared with Nsight Compute: padding, XOR swizzles, every TMA swizzle mode.

`hopperlab profile -m hopperlab.measure.launches.counter_kernels --json hopperlab/recordings/counters.json` measures all of them.
Each thread does one access of each kind, so that ptxas has nothing to merge.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...runtime.shapes import Shape

TRANSPOSE = r"""
extern "C" __global__ void NAME(const float* in, float* out) {
    __shared__ float tile[32 * PITCH];
    int x = threadIdx.x, y = threadIdx.y;
    tile[y * PITCH + (XOR ? x ^ y : x)] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = tile[x * PITCH + (XOR ? y ^ x : y)];              // a column of the tile
}"""

TMA_TILE = r"""
#include <hopperlab/tma.cuh>
extern "C" __global__ void NAME(const __grid_constant__ TensorMap map, uint4* out) {
    extern __shared__ __align__(1024) unsigned char tile[];             // 64 rows of ROW bytes
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_arrive_expect_tx(&full, 64 * ROW);
        cp_async_bulk_tensor_2d_load(tile, &map, &full, 0, 0);
    }
    __syncthreads();
    mbarrier_wait_parity(&full, 0);
    unsigned at = shared_address(tile) + threadIdx.x % 64 * ROW + threadIdx.x / 64 * 16;      // lanes go down a column
    at ^= (at & MASK) >> 3;
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at));
    out[threadIdx.x] = v;
}"""

LDMATRIX = r"""
extern "C" __global__ void NAME(const uint4* in, unsigned* out) {
    __shared__ __align__(1024) unsigned char tile[64 * 128];
    unsigned base = (unsigned)__cvta_generic_to_shared(tile), at = base + threadIdx.x * 16;
    for (int step = 0; step < 512; step += 128) {
        unsigned to = at + step * 16;
        if (XOR) to ^= (to & 0x380) >> 3;
        uint4 v = in[threadIdx.x + step];
        asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" :: "r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
    }
    __syncthreads();
    unsigned row = base + threadIdx.x % 32 % 8 * 128 + threadIdx.x % 32 / 8 * 16 + threadIdx.x / 32 * 1024;
    if (XOR) row ^= (row & 0x380) >> 3;
    unsigned r0, r1, r2, r3;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(row));
    out[threadIdx.x] = r0 ^ r1 ^ r2 ^ r3;
}"""

STRIDED = r"""
extern "C" __global__ void NAME(const float* in, float* out) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = in[(blockIdx.x * blockDim.x + threadIdx.x) * STRIDE];
}"""

WIDE = r"""
extern "C" __global__ void NAME(const TYPE* in, TYPE* out) {
    __shared__ TYPE tile[128 * 8];
    tile[threadIdx.x * GAP] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[(127 - threadIdx.x) * GAP];
}"""

CP_ASYNC = r"""
#include <hopperlab/cp_async.cuh>
extern "C" __global__ void NAME(const float4* in, float4* out) {
    __shared__ float4 tile[256];
    cp_async_cg_16(&tile[threadIdx.x], &in[threadIdx.x]);
    cp_async_commit_group();
    cp_async_wait_group<0>();
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x * 8 % 256 + threadIdx.x / 32];
}"""

BULK = r"""
#include <hopperlab/tma.cuh>
#include <hopperlab/fence.cuh>
extern "C" __global__ void NAME(const float* in, float* out) {
    __shared__ __align__(16) float tile[1024];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_arrive_expect_tx(&full, 4096);
        cp_async_bulk_load(tile, in, 4096, &full);
    }
    __syncthreads();
    mbarrier_wait_parity(&full, 0);
    tile[threadIdx.x * 4] += 1.0f;
    fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0) {
        cp_async_bulk_store(out, tile, 4096);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}"""

MODES = {"none": (128, 0), "32B": (32, 0x080), "64B": (64, 0x180), "128B": (128, 0x380)}
"""TMA swizzle mode -> (bytes a row of the tile, mask of the address bits that the XOR takes)."""


def launch(source: str, name: str, args: Sequence[Any], grid: Shape, block: Shape, shared_mem: int = 0, **macros: object) -> None:
    """Compile `source` with NAME and the macros, and launch it."""
    import hopperlab as hl
    options = [f"-DNAME={name}", *(f"-D{key}={value}" for key, value in macros.items())]
    module = hl.RawModule(code=source, options=tuple(options), name=f"{name}.cu")
    module.get_function(name)(grid, block, args, shared_mem=shared_mem)


def main() -> None:
    """Launch every kernel once, in the place this process has."""
    import hopperlab as hl
    xp = hl.array_module()
    data = xp.asarray(np.arange(1 << 16, dtype=np.float32))
    out = xp.zeros(1 << 16, np.float32)
    for name, pitch, xor in (("transpose_plain", 32, 0), ("transpose_padded", 33, 0), ("transpose_padded_2", 34, 0),
                             ("transpose_padded_4", 36, 0), ("transpose_xor", 32, 1)):
        launch(TRANSPOSE, name, (data, out), (1,), (32, 32), PITCH=pitch, XOR=xor)
    for mode, (row, mask) in MODES.items():
        tile = data[:64 * row // 4].reshape(64, row // 4)
        tensor = hl.TensorMap.tiled(tile, box=(64, row // 4), swizzle=mode)
        launch(TMA_TILE, f"tma_{mode.lower()}", (tensor, out), (1,), (4 * row,), 64 * row, ROW=row, MASK=mask)
    for name, xor in (("ldmatrix_plain", 0), ("ldmatrix_xor", 1)):
        launch(LDMATRIX, name, (data, out), (1,), (128,), XOR=xor)
    for stride in (1, 2, 8):
        launch(STRIDED, f"strided_{stride}", (data, out), (4,), (256,), STRIDE=stride)
    for name, kind, gap in (("wide_8", "float2", 1), ("wide_16", "float4", 1), ("wide_16_gap", "float4", 5)):
        launch(WIDE, name, (data, out), (1,), (128,), TYPE=kind, GAP=gap)
    launch(CP_ASYNC, "cp_async_columns", (data, out), (1,), (256,))
    launch(BULK, "bulk_copy", (data, out), (1,), (256,))
    hl.synchronize()


if __name__ == "__main__":
    main()
