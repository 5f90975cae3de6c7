# SPDX-License-Identifier: Apache-2.0
"""What tensor loads of boxes cost that lie outside their array, in part or in whole: SMs load boxes of 64 columns of bf16 that are in the L2, and products have
tiles that nobody needs. Needs a Hopper GPU with CuPy, ten seconds.

    python -m benchmarks.out_of_bounds

On an H200, and on an H100 (driver 580.159), cycles of a box inside, half outside and outside:

    224 rows of 128 bytes, one SM         271   332   285      271   332   284
    32 SMs                                313   468   472      345   481   453
    132 SMs                               765   873  1067      900   807  1071
    32 beside 100 that load inside        749  1091  1188      859  1330  1407
    66 beside 66                          772  1157  1282      908  1062  1161
    64 rows, 132 SMs                      243   332   519      252   333   525

and microseconds of products (gemm/final.cu, tiles of 64x240) by how many tiles of columns there are:

    m = k = 2048, clusters of four, 8 to 12 tiles     39.5  82.5  68.2  55.0  51.3     41.0  85.1  70.3  58.2  54.1
    m = k = 3072, clusters of two, 12 to 14 tiles     90.9 118.9 106.7                 95.6 126.9 113.4

So what is outside comes no sooner, but later: as if the engine first took as long as for any box (104 bytes a cycle), and then the L2 as long as for requests of
which it merges none (36 with all SMs at work). Nine tiles, of which three of a cluster's four are outside, take longer than twelve.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import hopperlab as hl
from hopperlab.measure.launches.gemm_configurations import Final
from hopperlab.measure.machine import command

SMS, STAGES, BOXES, AROUND, WIDTH, ROUNDS = 132, 6, 200, 32, 64, 5
SOURCE = r"""
#include <hopperlab/fence.cuh>
#include <hopperlab/mbarrier.cuh>
#include <hopperlab/tma.cuh>
extern "C" __global__ void __launch_bounds__(32) load(const __grid_constant__ TensorMap map, const int* rows, long long* took, unsigned* here, int boxes) {
    extern __shared__ __align__(1024) unsigned char slots[];
    __shared__ mbarrier_t full[STAGES];
    if (threadIdx.x) return;
    for (int s = 0; s < STAGES; s++) mbarrier_init(&full[s], 1);
    fence_mbarrier_init_release_cluster();
    fence_proxy_async_shared_cta();
    atomicAdd(here, 1u);
    while (atomicAdd(here, 0u) < gridDim.x) {}                  // one CTA per SM, and all are there
    long long began = clock64();
    for (int i = 0; i < boxes + STAGES; i++) {
        int s = i % STAGES;
        if (i >= STAGES) mbarrier_wait_parity(&full[s], (i / STAGES - 1) & 1);
        if (i < boxes) {
            mbarrier_arrive_expect_tx(&full[s], BOX_ROWS * 128);
            cp_async_bulk_tensor_2d_load(slots + s * BOX_ROWS * 128, &map, &full[s], i % AROUND * 64, rows[blockIdx.x]);
        }
    }
    took[blockIdx.x] = clock64() - began;
}
"""
TILES = (Final(bm=64, bn=240, consumers=1, stages=5, cluster_n=4, group=16, c_slots=2, stagger=0), 2048, range(8, 13)), (
    Final(bm=64, bn=240, consumers=1, stages=5, cluster_n=2, group=16, c_slots=2, stagger=0), 3072, range(12, 15))
"""(Configuration, m and k, tiles along n): of two to three clusters, and of six to seven."""


def boxes(height: int) -> None:
    """Cycles of a box of so many rows."""
    import cupy

    data = cupy.random.default_rng(1).integers(0, 0x3f80, (16 * height, AROUND * WIDTH), dtype=cupy.uint16)
    options = (f"-DBOX_ROWS={height}", f"-DSTAGES={STAGES}", f"-DAROUND={AROUND}")
    kernel = hl.RawModule(code=SOURCE, options=options, backend="gpu").get_function("load")
    chart = hl.TensorMap.tiled(data, box=(height, WIDTH), swizzle="128B", dtype="bfloat16")

    def cycles(rows: Sequence[int]) -> np.ndarray:
        took = []
        for _ in range(ROUNDS):
            out, here = cupy.zeros(len(rows), cupy.int64), cupy.zeros(1, cupy.uint32)
            kernel((len(rows),), (32,), (chart, cupy.asarray(rows, cupy.int32), out, here, np.int32(BOXES)), shared_mem=STAGES * height * 128)
            took.append(out.get() / BOXES)
        return np.asarray(np.median(took, axis=0))

    def told(count: int, others: int) -> str:
        found = []
        for outside in (0.0, 0.5, 1.0):
            rows = [(k % 16 if not outside or k >= count else 15 + outside) * height for k in range(count + others)]
            found.append(cycles([int(row) for row in rows])[:count].mean())
        return " ".join(f"{one:6.0f}" for one in found)
    print(f"boxes of {height} rows, {height * 128} bytes: cycles of a box inside, half outside, and outside")
    for count in (1, 16, 32, 66, SMS):
        beside = f"    beside {SMS - count} that load what is inside {told(count, SMS - count)}" if count < SMS else ""
        print(f"  {count:3d} SMs alone   {told(count, 0)}{beside}")


def products() -> None:
    """Times of products by how many tiles the last clusters have."""
    import cupy

    from hopperlab.measure.launches import gemm
    from hopperlab.measure.launches.operands import normal_bf16
    from hopperlab.measure.machine.timing import interleaved

    for choice, size, tiles in TILES:
        runs = {}
        for count in tiles:
            a, b = normal_bf16(cupy, (size, size), 1), normal_bf16(cupy, (count * choice.bn, size), 2)
            runs[f"n = {count * choice.bn:5d}, {count} tiles"] = gemm.final(a, b, cupy.empty((size, count * choice.bn), cupy.uint16), choice).bound()
        print(f"m = k = {size}, tiles of {choice.bm}x{choice.bn}, clusters of {choice.cluster_n}")
        for name, one in interleaved(runs, 15, warmups=2).items():
            print(f"  {name}: {1e3 * one.ms:6.1f} us")


def main() -> None:
    """Measure and print."""
    command.begin(__doc__, "benchmarks.out_of_bounds")
    for height in (224, 128, 64):
        boxes(height)
    products()


if __name__ == "__main__":
    main()
