# SPDX-License-Identifier: Apache-2.0
"""The launch behind lesson 03's panel: one tile of the multistage product in the emulator, and what its ring costs."""
from __future__ import annotations

import numpy as np

from ...hopper import limits
from ...measure.launches import launch as launches
from ...show.stages import stage_diagram
from ...show.style import Picture
from ..l00_start_here.on_roof import exact_operands


def launch_pipeline(stages: int, tile: str, k: int, cache: str, schedule: str) -> Picture:
    """Lesson 03's panel: run the multistage product of one tile ('128x128' or '128x256') and k columns in the emulator, and draw its ring.

    cache: begins with the cache operator of cp.async, 'cg' or 'ca'. The heading says whether the result was right, what was copied and what the ring
    costs. Raises LaunchError when the ring does not fit.
    """
    import hopperlab as hl

    columns = int(tile.split("x")[1])
    a, b, c = exact_operands(128, columns, k, seed=stages + k)
    through_l1 = ("-DCACHE_ALL=1",) if cache.startswith("ca") else ()
    launch = launches.mma_multistage(a, b, c, stages, bn=columns, options=through_l1, backend="emulator")
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        launch()
    exact = (a.astype(np.float32) @ b.astype(np.float32).T).astype(c.dtype)
    right = "right" if (c == exact).all() else "WRONG"
    fit = limits.occupancy(256, launch.kernel.num_regs, launch.shared_mem)
    heading = (f"{stages} stages of {tile}: result {right}, {len(run.hazards)} hazards, {run.counters['cp_async_bytes'] // 1024} KiB copied\n"
               f"{launch.shared_mem // 1024} KiB of shared memory per block; blocks per SM: {fit.blocks}, limited by {fit.limited_by}")
    picture = stage_diagram(stages, k // 32, heading)
    return Picture(picture.figure, f"{heading}\n{picture.text}")
