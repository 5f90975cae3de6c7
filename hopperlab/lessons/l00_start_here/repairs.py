# SPDX-License-Identifier: Apache-2.0
"""The three wrong kernels of lesson 00, for the learner to mend."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..repairs import Repair

TILES, BLOCKS = 24, 4
NEXT = "        int after_next = tile + 2 * gridDim.x;\n"


def _fold(number: int, landing: str) -> tuple[bool, Any]:
    """(right, session) of start_here/kernel_`number`.cu on TILES tiles by BLOCKS blocks."""
    import hopperlab as hl

    x = (np.arange(512 * TILES) % 97).astype(np.float32)
    y = np.zeros_like(x)
    kernel = hl.load_kernel(f"start_here/kernel_{number}.cu", "fold", backend="emulator")
    with hl.emulate(schedule=landing, hazards="collect") as run:
        kernel((BLOCKS,), (128,), (x, y, np.int32(TILES)))
    tiles = x.reshape(-1, 4, 32, 4)
    return bool((y == (tiles + tiles[:, :, ::-1, ::-1]).reshape(-1)).all()), run


REPAIRS = (
    Repair("kernel-1", "start_here/kernel_1.cu", "for (int tile = blockIdx.x", "if (t == 0) cp_async_bulk_wait_group<0>();", mended=True, bug=(
        ("        out[t] = sum;\n", "        out[t] = sum;\n        fence_proxy_async_shared_cta();                     // what I stored comes before what "
                                    "the engine reads\n"),),
        run=lambda landing: _fold(1, landing),
        hint="All 128 threads fill the tile with ordinary stores, and the copy engine reads it. Which fence orders the two kinds of access, who has to run "
             "it, and where?"),
    Repair("kernel-2", "start_here/kernel_2.cu", "for (int tile = blockIdx.x", "s ^= 1;", mended=True, bug=(
        ("        cp_async_wait_group<1>();                           // this tile has landed, the next may still be under way\n",
         "        cp_async_wait_group<1>();                           // my part of this tile has landed, the next may still be under way\n"
         "        __syncwarp();                                       // and so have the parts of my warp's other lanes\n"),),
        run=lambda landing: _fold(2, landing),
        hint="The wait is over when *this thread's* copies have landed. Who copied what stands in `slots[s][t ^ 31]`?"),
    Repair("kernel-4", "start_here/kernel_4.cu", "float4 sum = add_mirrored", "reinterpret_cast<float4*>(y + tile * TILE)[t] = sum;", mended=True, bug=(
        (NEXT, "        fence_proxy_async_shared_cta();                     // my reads come before the engine's writes\n"
               "        __syncthreads();                                    // everyone has read this tile\n" + NEXT),
        ("        __syncthreads();                                    // the block goes on together\n", "")),
        run=lambda landing: _fold(4, landing),
        hint="Thread 0 starts the next copy when it has read its own eight floats. What does it know of the other 127 threads?"),
)
