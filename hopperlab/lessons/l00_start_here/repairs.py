# SPDX-License-Identifier: Apache-2.0
"""The three wrong kernels of lesson 00, for the learner to mend."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..host_repairs import HostRepair
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


STOPWATCH = "def milliseconds(launch, clock, synchronise):            # clock: seconds; synchronise: returns when the GPU has nothing left to do\n"
LAST = "    return 1e3 * (clock() - began)"


class _Machine:
    """A host's clock and a GPU behind it: launching takes 4 us of the host's time, and a kernel runs when the ones before it are over."""

    def __init__(self, busy: float, kernel: float):
        self.now, self.kernel, self.idle_at = 10.0, kernel, 10.0 + busy

    def launch(self) -> None:
        self.now += 4e-6
        self.idle_at = max(self.idle_at, self.now) + self.kernel

    def synchronise(self) -> None:
        self.now = max(self.now, self.idle_at)

    def clock(self) -> float:
        return self.now


def _times(measure: Callable[..., Any]) -> str:
    """'' where `measure` says how long a kernel runs, to the launch's own time, whatever ran before."""
    for busy, kernel in ((0.0, 370e-6), (0.0, 25e-6), (2e-3, 370e-6)):
        machine = _Machine(busy, kernel)
        said = measure(machine.launch, machine.clock, machine.synchronise)
        if not isinstance(said, (int, float)) or abs(said - 1e3 * kernel) > 0.01:
            before = f", launched while the GPU is busy for {1e3 * busy:g} ms more" if busy else ""
            return f"Of a kernel that runs for {1e3 * kernel:g} ms{before} it says {f'{said:.3f} ms' if isinstance(said, (int, float)) else repr(said)}."
    return ""


REPAIRS = (
    HostRepair("stopwatch", "milliseconds", STOPWATCH + "    began = clock()\n    launch()\n" + LAST,
               STOPWATCH + "    synchronise()\n    began = clock()\n    launch()\n    synchronise()\n" + LAST, _times,
               "it says how long the kernel runs, also when the GPU was busy before.",
               "When does `launch()` return, and when is the kernel over? And what else may the GPU be doing when the clock is read for the first time?"),
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
