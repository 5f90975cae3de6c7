# SPDX-License-Identifier: Apache-2.0
"""Lesson 13: an epilogue that reads C, in the emulator and as recorded, and the two schedules on equal tiles, as recorded."""
from __future__ import annotations

from typing import Any

import numpy as np

from ...measure.launches import beside_ladder
from ...measure.launches.edited import Changes, changed
from ...measure.launches.operands import bf16_bits, bf16_values, integer_bf16
from ...runtime.tables import text_table

BOXES = 8                           # of C in a tile of a CTA: four for each consumer


def run_reads_c(landing: str = "lazy", alpha: float = 2.0, beta: float = -1.0, changes: Changes = ()) -> tuple[bool, Any]:
    """(right, session) of gemm/reads_c.cu on two cluster tiles of 256 x 256 with k 256, which one cluster makes one after the other. `changes` edits the kernel."""
    import hopperlab as hl

    a, b, c = (integer_bf16(np, shape, seed) for seed, shape in enumerate(((256, 256), (512, 256), (256, 512))))
    wanted = bf16_bits(np.float32(alpha) * (bf16_values(a) @ bf16_values(b).T) + np.float32(beta) * bf16_values(c))
    launch = beside_ladder.reads_c(a, b, c, alpha, beta, blocks=2, backend="emulator")
    with hl.emulate(schedule=landing, hazards="collect") as run:
        changed(launch, "gemm/reads_c.cu", changes, ("-DSTAGES=3", "-DGROUP=8"))()
    return bool((c == wanted).all()), run


def under_the_products(run: Any) -> str:
    """When the loads of C were issued in CTA 0: of each tile, how many before the tile's last product of either consumer."""
    mine = [(event.what, event.warp) for event in run.timeline if event.block == 0]
    loads = [at for at, (what, warp) in enumerate(mine) if what == "issue cp" and warp != 0]        # warp 0 fills the ring
    issued = {warp: [at for at, found in enumerate(mine) if found == ("issue wgmma", warp)] for warp in (4, 8)}
    tiles = len(loads) // BOXES
    each = len(issued[4]) // max(1, tiles)
    last = [min(found[each * (tile + 1) - 1] for found in issued.values()) for tile in range(tiles)]
    return ", ".join(f"{sum(at < end for at in loads[BOXES * tile:BOXES * (tile + 1)])} of {BOXES}" for tile, end in enumerate(last))


def equal_tiles_table(recording: Any) -> str:
    """Cooperative and ping-pong on 128 x 128 tiles, k short and long, and cuBLAS: the recording `schedules`."""
    rows = [(r.shape[2], r.note, f"{1000 * r.ms:.1f} us, {r.tflops:.0f} TFLOP/s", f"{r.ratio:.3f} ({r.ratio_min:.3f} to {r.ratio_max:.3f})")
            for r in recording.where(suite="equal")]
    return "\n".join([recording.source, *text_table("{:>6}  {:14}{:>26}{:>34}", rows, ("k", "consumers", "time", "speed, of cooperative's (rounds)"))])


def onto_table(recording: Any) -> str:
    """What adding to C costs, of the speed of `overlapped_store`, which only writes, and cuBLAS with beta 0 and 1: the recording `schedules`."""
    names = {("overlapped_store", "only writes C"): "overlapped_store, only writes C", ("reads_c", "adds to C"): "reads_c, adds to C"}
    rows = [("x".join(map(str, r.shape)), names.get((r.kernel, r.note), r.note), f"{r.tflops:.0f} TFLOP/s", f"{r.ratio:.3f} ({r.ratio_min:.3f} to {r.ratio_max:.3f})")
            for r in recording.where(suite="onto")]
    return "\n".join([recording.source, *text_table("{:>15}  {:34}{:>12}{:>30}", rows, ("m x n x k", "kernel", "rate", "speed, of the first (rounds)"))])
