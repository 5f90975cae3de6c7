# SPDX-License-Identifier: Apache-2.0
"""The program with its host code that a learner can take away, kernels/program/three_rows.cu: what it computes, and its kernel's launch from Python."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ...runtime.arrays import Array

PATH = "program/three_rows.cu"
TILE = (32, 64)
BOX = (34, 64)              # one row more above and below


def three_rows(x: np.ndarray) -> np.ndarray:
    """Each element of a matrix with those above and below it; outside of the matrix stands 0."""
    padded = np.pad(x, ((1, 1), (0, 0)))
    return padded[:-2] + padded[1:-1] + padded[2:]


def launch_program(x: Array, sums: Array, kernel: Any = None) -> None:
    """What the program's main() launches: x and sums are (rows, columns) of float32, columns a multiple of 4. kernel: the file's own by default.

    Raises TensorMapError for a matrix that no map can describe.
    """
    import hopperlab as hl

    rows, columns = x.shape
    grid = (-(-columns // TILE[1]), -(-rows // TILE[0]))
    kernel = kernel or hl.load_kernel(PATH, "three_rows")
    kernel(grid, (128,), (hl.TensorMap.tiled(x, box=BOX), sums, np.int32(rows), np.int32(columns)))
