# SPDX-License-Identifier: Apache-2.0
"""Which requests of products reach the L2 as one, how fast the L2 then is, and the clock that goes with it: what constants of the estimated clock are read from
(estimates/boards.py: those that name this file). Needs a Hopper GPU with CuPy and Nsight Compute, two minutes.

    python -m benchmarks.merged_products

Requests of SMs for the same line within some 60 cycles are one for the L2 (merged_requests.py). What a copy sends to several CTAs of a cluster is never merged with
another's (1.00 in clusters of 2 x 2, where all is sent so), on an H100 and an H200 (80 and 141 GB, driver 580.159).
Of 125 configurations of gemm/final.cu, what each CTA loads for itself, times asked for each time that the L2 was, of the operand that the next CTA in the grid
wants, too, beside the share of time in which tensor cores are busy (tile, cluster, size; H100, H200):

    64 x 256, 1 x 1, 8192     3.7 at 0.97   3.8 at 0.97      64 x 128, 1 x 1, 8192, IN_STEP    3.0 at 0.57   2.8 at 0.72
    128 x 128, 1 x 1, 4096    3.0 at 0.88   3.2 at 0.95      64 x 128, 1 x 1, 4096             2.2 at 0.68   3.1 at 0.86
    128 x 128, 1 x 1, 8192    2.2 at 0.77   3.4 at 0.98      64 x 128, 1 x 1, 8192             1.4 at 0.42   2.0 at 0.74
    256 x 128, 1 x 1, 8192    2.9 at 0.92   3.3 at 0.98      64 x 256, 1 x 1, 8192, STREAM     1.5 at 0.62   2.1 at 0.92
    128 x 128, 1 x 2, 4096    1.6 at 0.95   1.3 at 0.96      64 x 240, 1 x 2, 3072             1.2 at 0.54   1.2 at 0.65

CTAs whose tensor cores never rest go on to the cycle together; those that wait for what they load do not, but where they wait for each other at each tile (IN_STEP).

Where the L2 bounds, it is asked for 29 to 35 bytes per cycle of its own clock and SM on an H100, 38 to 44 on an H200 (80 and 96 of its slices are at work), and that
clock stays at 1700 to 1710 MHz while the SMs go down to 1410. Products are under way for 1.03 times the cycles that micro.json says, wherever tensor cores never
rest.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from benchmarks.counts import begin, counted
from hopperlab.measure.launches.gemm_configurations import Final, candidates

METRICS = ("lrc__xbar2gpc_sectors_op_read.sum", "lrc__lrc2xbar_sectors_op_read.sum", "lts__cycles_elapsed.avg.per_second", "gpu__time_duration.sum",
           "sm__cycles_elapsed.max", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "dram__bytes_read.sum")
TILES = ((64, 128, 1), (64, 256, 1), (128, 128, 2), (128, 192, 2), (256, 128, 2))
CLUSTERS = ((1, 1), (2, 1), (1, 2))


def choices(size: int) -> Iterator[Final]:
    """Configurations that the choice knows, B as it is: these tiles and clusters, in groups; where CTAs wait for each other at each tile also the same without."""
    for choice in candidates(size, size, size, False):
        if (choice.bm, choice.bn, choice.consumers) in TILES and (choice.cluster_m, choice.cluster_n) in CLUSTERS and choice.group and not choice.swapped:
            yield choice
            if choice.in_step:
                yield replace(choice, in_step=0)


def launches() -> Iterator[tuple[str, Callable[[], object]]]:
    """Each product by name, ready to launch."""
    import cupy

    from hopperlab.measure.launches import gemm
    from hopperlab.measure.launches.operands import normal_bf16

    for size in (4096, 8192):
        a, b, c = normal_bf16(cupy, (size, size), 1), normal_bf16(cupy, (size, size), 2), cupy.empty((size, size), cupy.uint16)
        for choice in choices(size):
            yield f"{size} {' '.join(choice.named)}", gemm.final(a, b, c, choice)


def main() -> None:
    """Count and print."""
    begin(__doc__, "benchmarks.merged_products")
    for name, (came, asked, l2_hz, time, cycles, busy, read) in counted("benchmarks.merged_products", launches, METRICS):
        of_l2 = 1e-9 * l2_hz * time
        print(f"{name}: {came / max(1.0, asked):.2f} to SMs for one of the L2, {32 * asked / 132 / max(1.0, of_l2):.1f} bytes per cycle of the L2 and SM, "
              f"tensor cores {busy:.0f} %, {cycles / max(1.0, time) * 1e3:.0f} MHz, {read / 1e9:.2f} GB from memory")


if __name__ == "__main__":
    main()
