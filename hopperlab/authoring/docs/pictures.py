# SPDX-License-Identifier: Apache-2.0
"""The README's picture, drawn from a real run: `python -m hopperlab.authoring pictures` writes docs/images/pipeline.png."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .. import hashes

if TYPE_CHECKING:
    from ...emulator import Session

IMAGES = hashes.ROOT / "docs" / "images"
STAGES, TILES = 4, 10


def pipeline_run() -> Session:
    """Run the warp-specialised product of one 128 x 128 tile, ten k-steps deep, in the emulator. Returns the run.

    Raises AssertionError when the product is wrong: a picture of a wrong run would be worth nothing.
    """
    import hopperlab as hl
    from hopperlab.measure.launches import launch as launches
    from ml_dtypes import bfloat16

    random = np.random.default_rng(1)
    a, b = (random.integers(-2, 3, size=(128, 64 * TILES)).astype(bfloat16) for _ in range(2))
    c = np.zeros((128, 128), dtype=bfloat16)
    launch = launches.warp_specialized(a, b, c, STAGES, backend="emulator")
    with hl.emulate(schedule="lazy") as run:
        launch()
    if not (c == (a.astype(np.float32) @ b.astype(np.float32).T).astype(bfloat16)).all():
        raise AssertionError("the product is wrong, so there is no picture of it")
    return run


def draw(folder: Path = IMAGES) -> list[Path]:
    """Write the pictures into `folder`; returns their paths."""
    from hopperlab import show

    folder.mkdir(parents=True, exist_ok=True)
    heading = f"A warp-specialised GEMM in the emulator: {TILES} tiles through {STAGES} buffers"
    path = folder / "pipeline.png"
    path.write_bytes(show.ring_timeline(pipeline_run(), STAGES, heading).png())
    return [path]
