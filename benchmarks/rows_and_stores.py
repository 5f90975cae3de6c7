# SPDX-License-Identifier: Apache-2.0
"""What two constants of the estimated clock are read from (estimates/boards.py: l2_row, store_parts). Needs a Hopper GPU with CuPy, a minute.

    python -m benchmarks.rows_and_stores

Boxes of rows of several widths, loaded again and again by all SMs from the L2 (micro/multicast_load.cu); and tiles that lanes store as wgmma gives them out, 16 bytes
of a row at a time, or whole rows. On an H100 (80 GB HBM3, driver 580.159), the middle one of seven and of five launches:

    rows, pitch 8192 bytes             million rows per second        tiles of 128 x 128 bf16, pitch 4096     cycles per tile
    128 bytes                          34,641                       halves of sectors, 132 SMs              7848
    128 bytes, 32 or 64 into a line    36,750 and 36,661            halves of sectors, 33 SMs               4234
    128 bytes, 16 into a sector        28,343                       halves of sectors, 4 SMs                4097
    64 bytes                           57,081                       whole rows, 132 SMs                     2376
    64 bytes, 16 into a sector         28,876                       pitch 2048, 8192, 16384, 132 SMs        7583, 7767, 7704
    32 bytes                           56,746

So a row of 64 bytes takes as long as 81 bytes of whole lines; one that lies in two lines no longer than another; and stores of halves of sectors 1.9 times as long where
all SMs store as where a few do, whatever the pitch.
"""
from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from hopperlab.measure.machine import command

SMS, BLOCKS, PASSES, ROWS, STAGES = 132, 264, 64, 128, 8
STORE = r"""
extern "C" __global__ void __launch_bounds__(256) put(unsigned char* c, long long pitch, int cols, int tiles, int across, int whole, long long* cycles) {
    int thread = threadIdx.x % 128, lane = thread % 32, first = threadIdx.x / 128 * 64;
    long long begin = clock64();
    for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
        unsigned char* base = c + t / across * 128 * pitch + (long long)(t % across) * cols * 2;
        if (whole) {
            for (int p = thread; p < 64 * cols / 8; p += 128)
                *(uint4*)(base + (first + p / (cols / 8)) * pitch + p % (cols / 8) * 16) = make_uint4(t, p, 0, 0);
        } else {
            int row = first + 16 * (thread / 32) + lane / 4;
            for (int i = 0; i < cols / 2; i += 2)
                *(unsigned*)(base + (row + 8 * (i / 2 % 2)) * pitch + (2 * (lane % 4) + 8 * (i / 4)) * 2) = t + i;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - begin;
}"""


def timed(go: Callable[[], object], count: int) -> float:
    """The middle time of some launches, in milliseconds, after one that is not timed."""
    import cupy

    go()
    times = []
    for _ in range(count):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        go()
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end))
    return median(times)


def rows_a_second(nbytes: int, shift: int, pitch: int = 8192) -> float:
    """Rows of so many bytes, `shift` bytes into a line, that all SMs load a second."""
    import cupy

    from hopperlab import TensorMap
    from hopperlab.runtime.library import load_kernel

    count, columns = ROWS * BLOCKS * 2, nbytes // 2
    base = cupy.zeros(count * pitch // 2 + 64, cupy.uint16)
    view = cupy.lib.stride_tricks.as_strided(base[shift // 2:], (count, columns), (pitch, 2))
    options = ("-DCLUSTER=1", "-DMULTICAST=0", f"-DBOX_ROWS={ROWS}", f"-DBOX_COLS={columns}", f"-DSTAGES={STAGES}")
    kernel = load_kernel("micro/multicast_load.cu", "multicast_load", options)
    args = (TensorMap.tiled(view, box=(ROWS, columns), dtype="bfloat16"), cupy.zeros(BLOCKS, cupy.uint32), np.int32(count // ROWS), np.int32(PASSES))
    return 1e3 * count * PASSES / timed(lambda: kernel((BLOCKS,), (64,), args, shared_mem=STAGES * ROWS * nbytes), 7)


def cycles_a_tile(blocks: int, whole: bool, pitch: int = 4096, columns: int = 128) -> float:
    """Of tiles of 128 rows, one CTA per SM."""
    import cupy

    kernel = cupy.RawModule(code=STORE).get_function("put")
    tiles, across = SMS * 16, pitch // 2 // columns
    c, cycles, other = cupy.zeros((tiles // across + 1) * 128 * pitch, cupy.uint8), cupy.zeros(blocks, cupy.int64), cupy.zeros(1 << 27, cupy.uint32)
    args: tuple[Any, ...] = (c, np.int64(pitch), np.int32(columns), np.int32(tiles), np.int32(across), np.int32(whole), cycles)
    found = []
    for _ in range(5):
        other.fill(1)                                     # the L2 is full of something else
        kernel((blocks,), (256,), args)
        found.append(float(cycles.mean()) * blocks / tiles)
    return median(found)


def main() -> None:
    """Print both."""
    command.begin(__doc__, "benchmarks.rows_and_stores")
    for nbytes, shift in ((128, 0), (128, 32), (128, 64), (128, 16), (64, 0), (64, 16), (32, 0)):
        print(f"rows of {nbytes} bytes, {shift} bytes into a line: {rows_a_second(nbytes, shift) / 1e6:,.0f} million a second")
    for blocks, whole, pitch in ((SMS, False, 4096), (33, False, 4096), (4, False, 4096), (SMS, True, 4096), (SMS, False, 2048), (SMS, False, 8192), (SMS, False, 16384)):
        print(f"{'whole rows' if whole else 'halves of sectors'}, {blocks} SMs, pitch {pitch}: {cycles_a_tile(blocks, whole, pitch):,.0f} cycles per tile")


if __name__ == "__main__":
    main()
