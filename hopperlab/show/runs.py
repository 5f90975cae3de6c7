"""Pictures made from a run in the emulator, and the launches behind the lessons' panels.

The spans come from `run.timeline`; nothing here knows what a kernel should have done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..hopper import limits
from ..measure import launches
from .roofline import Point, roofline
from .stages import stage_diagram
from .style import Picture
from .timelines import Span, gantt


def ring_spans(run: Any, stages: int, block: int = 0) -> list[Span]:
    """What block `block` did with its ring of `stages` buffers: one row a buffer.

    A copy lasts from its issue to its landing. A buffer is in use from the flip of its full barrier to the flip of its
    empty barrier (the second group of `stages` barriers in shared memory), where the kernel has one; else the bulk store
    that takes the tile away is marked. Loads belong to tiles in the order of issue, equally many a tile. Time is the order of the
    block's events, counted from 0.
    """
    events = [event for event in run.timeline if event.block == block]
    issues, lands, stores = ([at for at, event in enumerate(events) if event.what == what] for what in ("issue cp", "land cp", "issue store cp"))
    flips: dict[str, list[int]] = {}
    for at, event in enumerate(events):
        if event.what == "phase flips":
            flips.setdefault(event.detail, []).append(at)
    barriers = sorted(flips, key=lambda name: int(name.split()[-1], 16))
    full = [flips[name] for name in barriers[:stages]]
    empty = [flips[name] for name in barriers[stages:2 * stages]]
    tiles = sum(len(steps) for steps in full)
    each = len(issues) // max(1, tiles)
    spans = []
    for tile in range(tiles):
        row, turn = f"buffer {tile % stages}", tile // stages
        last = (tile + 1) * each - 1
        spans.append(Span(row, issues[tile * each], lands[last], "copy under way", f"copy {tile}"))
        if tile % stages < len(empty):
            released = [*empty[tile % stages], len(events)]    # the kernel may end before the last release is seen
            spans.append(Span(row, full[tile % stages][turn], released[turn], "in use by the tensor cores", f"use {tile}"))
        elif tile < len(stores):
            spans.append(Span(row, stores[tile], stores[tile], "store issued"))
    return sorted(spans, key=lambda span: int(span.row.split()[-1]))


def ring_timeline(run: Any, stages: int, heading: str, block: int = 0) -> Picture:
    """`ring_spans` as a picture: which copies were under way while which buffer was in use."""
    return gantt(ring_spans(run, stages, block), heading, "order of events in the emulator (what came after what; not seconds)")


def launch_pipeline(stages: int, tile: str, k: int, cache: str, schedule: str) -> Picture:
    """Lesson 03's panel: run the multistage product of one tile ('128x128' or '128x256') and k columns in the emulator, and draw its ring.

    cache: begins with the cache operator of cp.async, 'cg' or 'ca'. The heading says whether the result was right, what was copied and what the ring costs. Raises LaunchError when the ring does not fit.
    """
    import hopperlab as hl

    columns = int(tile.split("x")[1])
    a, b, c = _operands(128, columns, k, seed=stages + k)
    through_l1 = ("-DCACHE_ALL=1",) if cache.startswith("ca") else ()
    launch = launches.mma_multistage(a, b, c, stages, bn=columns, options=through_l1, backend="emulator")
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        launch()
    exact = (a.astype(np.float32) @ b.astype(np.float32).T).astype(c.dtype)
    right = "right" if (c == exact).all() else "WRONG"
    fit = limits.occupancy(256, launch.kernel.num_regs, launch.shared_mem)
    heading = (f"{stages} stages of {tile}: result {right}, {len(run.hazards)} hazards, {run.counters['cp_async_bytes'] // 1024} KiB copied\n"
               f"{launch.shared_mem // 1024} KiB of shared memory a block; blocks an SM: {fit.blocks}, limited by {fit.limited_by}")
    return stage_diagram(stages, k // 32, heading)


def _operands(m: int, n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Small integers in bf16, so that every sum is exact: a (m, k), b (n, k), and an empty c (m, n)."""
    from ml_dtypes import bfloat16

    random = np.random.default_rng(seed)
    a, b = (random.integers(-2, 3, size=(rows, k)).astype(bfloat16) for rows in (m, n))
    return a, b, np.zeros((m, n), dtype=bfloat16)


def launch_on_roof(size: int, depth: int, kernel: str, ceilings: dict[str, float], bandwidth: float) -> Picture:
    """Lesson 00's panel: launch a kernel in the emulator, count the bytes it moved, and place it on the roof.

    kernel: 'bf16 product' (size x size x depth) or 'fp32 scaling' (size x depth elements). Two points: each array moved once, and as counted.
    """
    flop, least, moved = (_product if kernel == "bf16 product" else _scaling)(size, depth)
    points = [Point(f"each array once: {least // 1024} KiB", flop / least), Point(f"as counted: {moved // 1024} KiB", flop / moved)]
    return roofline(ceilings, bandwidth, points, f"{kernel}, {size} x {depth}: {flop / 1e6:.2f} MFLOP")


def _product(size: int, depth: int) -> tuple[float, int, int]:
    import hopperlab as hl

    a, b, c = _operands(size, size, depth, seed=size)
    launch = launches.mma_multistage(a, b, c, backend="emulator")
    with hl.emulate() as run:
        launch()
    return 2.0 * size * size * depth, a.nbytes + b.nbytes + c.nbytes, _bytes(run, ("cp_async_bytes", "global_store_bytes"))


def _scaling(size: int, depth: int) -> tuple[float, int, int]:
    import hopperlab as hl

    x, y = np.ones((size, depth), dtype=np.float32), np.zeros((size, depth), dtype=np.float32)
    launch = launches.tma_scale(x, y, 2.0, blocks=4, backend="emulator")
    with hl.emulate() as run:
        launch()
    return float(size * depth), x.nbytes + y.nbytes, _bytes(run, ("tma_load_bytes", "tma_store_bytes"))


def _bytes(run: Any, names: Sequence[str]) -> int:
    return sum(run.counters.get(name, 0) for name in names)
