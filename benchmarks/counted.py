# SPDX-License-Identifier: Apache-2.0
"""Bytes from memory and SM clocks that Nsight Compute counts of products, from which constants of the estimated clock are read (estimates/boards.py: apart_slowly,
apart_from, tensor_mhz). Needs a Hopper GPU with CuPy and Nsight Compute, a minute.

    python -m benchmarks.counted

On an H100 (80 GB HBM3, driver 580.159), persistent products of e4m3 with scales by k-blocks (fp8/block_scaled.cu, tiles in groups of 8 rows), GB read from memory, and
million cycles of the launch. All: what all CTAs load, if nothing were multicast; together: what comes if those of a wave go on together:

    m x n x k                       together   all    two blocks of rows,     two blocks of rows,   one block of rows,    one block of rows
                                                      pairs share B           no cluster            pairs share B         no cluster
    4096 x 4096 x 14336               0.24     2.8    0.24 in 0.51            0.30 in 0.52          0.36 in 0.55          0.36 in 0.62
    8192 x 8192 x 8192                0.55     6.4    0.55 in 1.17            0.68 in 1.20          0.77 in 1.27          0.66 in 1.23
    8192 x 8192 x 16384               1.06    12.9    1.40 in 2.30            1.42 in 2.36          2.08 in 2.43          1.84 in 2.50
    12288 x 12288 x 12288             1.78    21.7    2.54 in 3.77            2.80 in 3.88          3.93 in 4.10          5.66 in 5.57
    16384 x 16384 x 8192              2.12    25.8    3.50 in 4.60            3.39 in 4.69          3.94 in 4.85          6.96 in 6.51
    16384 x 16384 x 16384             4.23    51.5    8.85 in 9.12            7.96 in 9.25         11.51 in 9.84         15.03 in 12.31

(one block of rows: together 0.35, 0.80, 1.59, 2.69, 3.19 and 6.38, all 3.7, 8.6, 17.2, 29.0, 34.4 and 68.7.) So persistent CTAs drift apart as well, but slowly: of what
they ask for as others did, memory brings again 0.3 per cent at 1.2 million cycles, 2 to 3 at 2.4, 3 to 5 at 3.8, 8 to 14 at 9 to 12.
Of what comes again with the next wave, 0.69 to 0.92 where 30 MB have come or been stored since (8192 cubed, one block of rows), all from 42 MB on.

What the L2 is asked for (lts__t_sectors_srcunit_tex, 32 bytes each), beside what SMs ask for, in bytes per cycle and SM on an H100, of configurations of
gemm/final.cu, and one of e4m3, whose tensor cores are busy for 0.4 to 0.84 of the time, that is, whose loads bound them (tile, cluster, size of the cube):

    64 x 96, 1 x 2, 4096      31.7 of 31.6      192 x 96, 1 x 1, 4096     32.3 of 35.4      64 x 256, 1 x 1, 2048     24.2 of 54.3
    64 x 128, 1 x 2, 8192     34.1 of 33.7      64 x 144, 1 x 1, 8192     33.8 of 40.5      256 x 112, 1 x 1, 8192    32.7 of 40.4
    64 x 192, 2 x 1, 6144     38.6 of 36.8      128 x 48, 1 x 2, 6144     33.9 of 32.1      e4m3, 128 x 128, 8192     35.6 of 55.5

So where the L2 bounds, it is asked for 32 to 38, whatever SMs get. Without clusters the operand that neighbours share is asked for about a third as often as they
ask; of CTAs in clusters 0 to 25 per cent of requests are merged, of those that share tiles along k none.

Clocks of nine products that ask little of the board, MHz: 1802, 1804, 1816 and 1818 (`producer_warp` that waits for its own load, four and six stages, 4096 and 8192
cubed), 1806 each (`multistage` with two stages of 32, `cuda_pipeline` with six, of threads and of the block, 4096 cubed), 1809 (`split_k` at 8192 cubed), 1853 (at
1024 cubed, 10 us).
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from benchmarks.counts import begin, counted
from hopperlab.measure.launches.fp8 import BlockScaled

METRICS = ("dram__bytes_read.sum", "gpu__time_duration.sum", "sm__cycles_elapsed.max")
SHAPES = ((4096, 4096, 14336), (8192,) * 3, (8192, 8192, 16384), (12288,) * 3, (16384, 16384, 8192), (16384,) * 3)
TWO = BlockScaled(bn=128, consumers=2, rows=2, stages=3, cluster_n=2, parts=1, unroll=8, group=8, c_slots=4)
ONE = BlockScaled(bn=128, consumers=2, rows=1, stages=5, cluster_n=2, parts=2, unroll=1, group=8, c_slots=1)
CHOICES = (TWO, replace(TWO, cluster_n=1), ONE, replace(ONE, cluster_n=1))


def launches() -> Iterator[tuple[str, Callable[[], object]]]:
    """Each product by name, ready to launch."""
    import cupy

    from hopperlab.measure.launches import fp8, gemm, variants
    from hopperlab.measure.launches.operands import normal_bf16

    for m, n, k in SHAPES:
        a, b = (cupy.random.default_rng(seed).integers(0, 0x70, (rows, k), dtype=cupy.uint8) for seed, rows in ((1, m), (2, n)))
        scales = cupy.ones((k // fp8.BLOCK, m), cupy.float32), cupy.ones((n // fp8.BLOCK, k // fp8.BLOCK), cupy.float32)
        c = cupy.empty((m, n), cupy.uint16)
        for choice in CHOICES:
            yield f"{m} x {n} x {k} rows {choice.rows} cluster {choice.cluster_n}", fp8.block_scaled(a, b, c, *scales, choice)
    for size in (1024, 4096, 8192):
        a, b, c = normal_bf16(cupy, (size, size), 1), normal_bf16(cupy, (size, size), 2), cupy.empty((size, size), cupy.uint16)
        if size > 1024:
            for stages in (4, 6):
                yield f"producer_warp {stages} that waits, {size}", variants.producer_warp(a, b, c, stages, options=("-DWAIT_FOR_OWN_LOAD=1",))
        if size == 4096:
            yield "multistage 2 of 32, 4096", variants.multistage(a, b, c, stages=2, bk=32)
            for scope in ("thread", "block"):
                yield f"cuda_pipeline 6 {scope}, 4096", variants.cuda_pipeline(a, b, c, stages=6, scope=scope)
        else:
            yield f"split_k {size}", gemm.split_k(a, b, c)


def main() -> None:
    """Count and print."""
    begin(__doc__, "benchmarks.counted")
    for name, (read, time, cycles) in counted("benchmarks.counted", launches, METRICS):
        print(f"{name:44} {read / 1e9:6.2f} GB {cycles / 1e6:6.2f} million cycles {cycles / max(1.0, time) * 1e3:6.0f} MHz")


if __name__ == "__main__":
    main()
