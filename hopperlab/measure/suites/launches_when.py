# SPDX-License-Identifier: Apache-2.0
"""When the kernels of lesson 13x's chain begin, may read, and end: experiment `when` of the recording `launches`.

The kernels' marks (trace.cuh) on one axis, by the global timer. Marks cost time of their own, so that spans are a little longer than without them.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .. import timelines
from ..launches import chain as chains
from ..machine.timing import L2_FLUSH_BYTES
from ..recordings import Record
from .fields import wait

MARKS, WARPS, BLOCKS = 64, 5, 132
WORDS = timelines.HEADER_WORDS + 2 * MARKS
KERNEL = "kernel"
Moments = dict[tuple[str, int, str], float]            # (kernel, layer, moment) -> microseconds from the chain's first start


def moments(rows: timelines.KernelTimeline, numbers: Sequence[tuple[str, int]]) -> Moments:
    """From a timeline whose blocks are numbered launch * BLOCKS + block. numbers: (kernel, layer) of each launch.

    begins: a launch's first warp; reads: the first that has waited for the one in front; multiplied: the last product is over; ends: the last warp. Of the persistent
    kernel, reads and multiplied are those of each layer.
    """
    found: Moments = {}
    for launch, (kernel, layer) in enumerate(numbers):
        own = [row for row in rows if row.block // BLOCKS == launch]
        lives, waits, products = ([row for row in own if row.event == event] for event in (KERNEL, "wait", "mma"))
        found[kernel, layer, "begins"], found[kernel, layer, "ends"] = min(row.start for row in lives), max(row.end for row in lives)
        for number in sorted({row.id for row in waits}):
            found[kernel, layer + number, "reads"] = min(row.end for row in waits if row.id == number)
        for number in sorted({row.id for row in products}):
            found[kernel, layer + number, "multiplied"] = max(row.end for row in products if row.id == number)
    first = min(found.values())
    return {key: (value - first) / 1e3 for key, value in found.items()}


def traced(made: chains.Chain, run: Callable[[], None], numbers: Sequence[tuple[str, int]], rounds: int) -> list[Moments]:
    """The moments of `rounds` cold launches. made: of kernels compiled with -DHOPPERLAB_TRACE, each in a module of its own. Raises AssertionError for wrong results."""
    import cupy
    shapes = [(min(BLOCKS, int(np.prod(launch.grid))), -(-launch.block[0] // 32)) for launch in made.launches]
    buffers = [timelines.gpu_target(launch.kernel, blocks * warps * WORDS, blocks, MARKS) for launch, (blocks, warps) in zip(made.launches, shapes, strict=True)]
    flush, found = cupy.empty(L2_FLUSH_BYTES, cupy.uint8), []
    for turn in range(rounds + 2):
        flush.fill(turn & 0xFF)
        run()
        wait()
        regions = np.zeros((len(made.launches), BLOCKS, WARPS, WORDS), np.uint64)
        for launch, (buffer, (blocks, warps)) in enumerate(zip(buffers, shapes, strict=True)):
            regions[launch, :blocks, :warps] = buffer.get().reshape(blocks, warps, WORDS)
        rows = timelines.decode(regions.reshape(-1, WORDS), WARPS, "chain", "gpu", {0: KERNEL})
        found.append(moments(rows, numbers))
    if not made.right(cupy):
        raise AssertionError("the traced chain is wrong")
    return found[2:]


def when(rounds: int, shape: tuple[int, int] = (128, 1024), products: int = 4) -> list[Record]:
    """Records of the moments of the chain as a graph, as a graph of dependent launches (started early and late), and as one kernel."""
    import cupy
    given, option = chains.operands(cupy, *shape, products), "-DHOPPERLAB_TRACE"
    each = [("product", layer) for layer in range(products)] + [("rms_norm", products)]
    records: list[Record] = []
    for way, launch_at, dependent in (("graph", "loaded", False), ("graph of dependent launches", "start", True), ("graph of dependent launches", "loaded", True),
                                      ("persistent kernel", "", False)):
        if launch_at:
            made = chains.chain(given, launch_at, options=(option,), apart=True)
            run, numbers = made.captured(dependent), each
        else:
            made = chains.persistent(given, chains.flags_for(cupy, given), options=(option,))
            run, numbers = made.bound(), [("persistent_chain", 0)]
        given.clear()
        found = traced(made, run, numbers, max(5, rounds // 3))
        for kernel, layer, moment in found[0]:
            values = [one[kernel, layer, moment] for one in found]
            options = (f"way={way}", *((f"LAUNCH_AT={launch_at}",) if launch_at else ()), f"layer={layer}", f"moment={moment}")
            records.append(Record("when", kernel, options, (*shape, products), value=round(float(np.median(values)), 2), value_min=round(min(values), 2),
                                  value_max=round(max(values), 2), unit="us", mode="cold L2"))
    return records
