# SPDX-License-Identifier: Apache-2.0
"""What the L2 gives where each SM asks for boxes of its own, the same one, two, four or eight over and over, four or two at once. Needs a Hopper GPU with CuPy,
ten seconds.

    python -m benchmarks.repeated_boxes

Bytes in a cycle of the L2 for an SM, on an H200 (two runs): with four boxes at once 32, 35, 36.5 and 36.5 (one box over and over, two, four, eight), with two at once
33, 34, 35 and 35. On another H200 34, 37, 39 and 38, and 36, 38, 39 and 38.
"""
from __future__ import annotations

from hopperlab.measure.machine import command

SMS, ROWS, COLUMNS, TOTAL, ROUNDS = 132, 64, 256, 512, 7         # boxes of 32 KiB, and how many of them each SM asks for
L2_MHZ = 1700


def main() -> None:
    """Times the launches, interleaved, and prints bytes that an SM gets in a cycle of the L2."""
    command.begin(__doc__, "benchmarks.repeated_boxes")
    import cupy
    import numpy as np

    from hopperlab.measure.launches import micro
    from hopperlab.measure.machine.timing import interleaved

    runs = {}
    for stages in (4, 2):
        for mine in (1, 2, 4, 8):
            matrix = cupy.random.default_rng(1).integers(0, 1 << 16, (ROWS * SMS * mine, COLUMNS), dtype=cupy.uint16)
            runs[f"{stages} {mine}"] = micro.multicast(matrix, 1, False, SMS, stages=stages, passes=TOTAL // mine, backend="gpu").bound()
    print("at once  boxes  GB/s   bytes/cycle of the L2/SM")
    for name, sample in interleaved(runs, ROUNDS).items():
        times = np.array(sample.times)
        rates = SMS * TOTAL * ROWS * COLUMNS * 2 / times / 1e6                  # GB/s
        each = rates * 1e3 / SMS / L2_MHZ
        stages, mine = name.split()
        print(f"{stages:>7} {mine:>6} {np.median(rates):>6.0f}   {np.median(each):.1f} ({each.min():.1f} to {each.max():.1f})")


if __name__ == "__main__":
    main()
