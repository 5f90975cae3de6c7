# SPDX-License-Identifier: Apache-2.0
"""Whether the CTAs of a product go on together, by the bytes that memory brings: what three constants of the estimated clock are read from (estimates/boards.py:
ahead_held, ahead_free, apart_most). Needs a Hopper GPU with CuPy and Nsight Compute, a minute.

    python -m benchmarks.drift

m = n = k = 8192. Grids of a CTA a tile go through C row after row, so two CTAs of a wave (four, where an SM holds two) want the same columns of B: 4.36 GB from memory
(2.25) if they go on together, 8.79 if each brings its own. On an H100 (80 GB HBM3, driver 580.159), GB read from memory, and microseconds under the profiler:

    stages              3            4            5            6
    tma_wgmma                        4.37, 2012                7.49, 2682
    warp_specialized    4.37, 2150   4.37, 1969   5.55, 2100   7.75, 2759
    producer_warp       5.75, 2306   4.37, 1982                7.82, 2780      three stages: two CTAs an SM
    multistage          4.33, 1978   4.37, 2070                4.74, 1997      three stages: two CTAs an SM
    cp_async_wgmma                                             4.37, 1929
    tma_mma             5.02, 2514                             6.43, 2850      three stages: two CTAs an SM
    cp_async_mma        5.70, 2905                                             two CTAs an SM

Persistent kernels, whose CTAs begin together once: `persistent` 1.19, `pingpong` 1.62, both as if all went on together.

A second run: as much where CTAs go on together, up to 5 per cent more where they do not, but for `multistage` 6 (5.72), `tma_mma` (5.98 and 6.98), `cp_async_mma` (6.46)
and `pingpong` (2.76).

Marks that CTAs of `warp_specialized` wrote of the GPU's clock say the same: with four stages, two that want the same columns are 0 k-blocks apart in the middle, at
most 4 in nine of ten cases, and all of a wave begin within 6 of its 62 microseconds to the end; with six, they are 50 of 128 k-blocks apart in the middle, and from
the tenth wave on CTAs begin at any time.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.counts import begin, counted

SIZE = 8192
METRICS = ("dram__bytes_read.sum", "gpu__time_duration.sum")
PLAN = (("tma_wgmma", (4, 6)), ("warp_specialized", (3, 4, 5, 6)), ("producer_warp", (3, 4, 6)), ("multistage", (3, 4, 6)), ("cp_async_wgmma", (6,)),
        ("tma_mma", (3, 6)), ("cp_async_mma", (3,)))
STAY = ("persistent", "pingpong")


def launches() -> Iterator[tuple[str, Callable[[], object]]]:
    """Each product by name, ready to launch."""
    import cupy

    from hopperlab.measure.launches import gemm, variants
    from hopperlab.measure.launches import launch as steps
    from hopperlab.measure.launches.operands import normal_bf16

    a, b, c = normal_bf16(cupy, (SIZE, SIZE), 1), normal_bf16(cupy, (SIZE, SIZE), 2), cupy.empty((SIZE, SIZE), cupy.uint16)
    for name, stages in PLAN:
        make: Any = getattr(steps, name, None) or getattr(variants, name, None) or getattr(gemm, name)
        for count in stages:
            yield f"{name} {count}", make(a, b, c, stages=count)
    for name in STAY:
        yield name, gemm.launch(name, a, b, c)


def main() -> None:
    """Count and print."""
    begin(__doc__, "benchmarks.drift")
    for name, (read, time) in counted("benchmarks.drift", launches, METRICS):
        print(f"{name:20} {read / 1e9:6.2f} GB {time / 1e3:8.0f} us")


if __name__ == "__main__":
    main()
