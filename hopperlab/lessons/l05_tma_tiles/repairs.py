# SPDX-License-Identifier: Apache-2.0
"""What lesson 05 breaks, for the learner to mend: what a barrier is told of a box, and who waits for it."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..host_repairs import HostRepair
from ..repairs import Repair

EXPECT = "    mbarrier_arrive_expect_tx(&full, BOX_BYTES);\n"
WAIT = "    mbarrier_wait_parity(&full, 0);\n"


def _copy(landing: str) -> tuple[bool, Any]:
    """(right, session) of copy/tma_copy.cu on 128 x 64 halves."""
    import hopperlab as hl

    a = (np.arange(128 * 64) % 251).astype(np.float16).reshape(128, 64)
    b = np.zeros_like(a)
    maps = [hl.TensorMap.tiled(array, box=(64, 64), swizzle="128B") for array in (a, b)]
    kernel = hl.load_kernel("copy/tma_copy.cu", "tma_copy", backend="emulator")
    with hl.emulate(schedule=landing, hazards="collect") as run:
        kernel((1, 2), (32,), (*maps,), shared_mem=64 * 128)
    return bool((a == b).all()), run


def _repair(name: str, right: str, wrong: str, hint: str) -> Repair:
    return Repair(name, "copy/tma_copy.cu", "int column = blockIdx.x * BOX_COLS, row", "cp_async_bulk_wait_group<0>();", ((right, wrong),), _copy, hint)


MAP = "def map_of(matrix):                                      # float16, any number of columns; for a box of 8 x 8\n"
TILED = "    return hl.TensorMap.tiled(matrix, box=(8, 8))"
PADDED = """    rows, columns = matrix.shape
    pitch = -(-columns // 8) * 8                         # 8 halves are 16 bytes
    stored = np.zeros((rows, pitch), np.float16)
    stored[:, :columns] = matrix
    return hl.TensorMap.tiled(stored[:, :columns], box=(8, 8))"""


def _describes(make: Callable[..., Any]) -> str:
    """'' where every box that the map of `make` brings holds the matrix's numbers, and zeros beside it."""
    import hopperlab as hl

    kernel = hl.load_kernel("copy/tma_copy.cu", "tma_landing", ("-DRANK=2",), backend="emulator")
    for rows, columns in ((16, 16), (8, 10), (11, 21)):
        matrix = np.arange(1, rows * columns + 1, dtype=np.float16).reshape(rows, columns)
        made, whole = make(matrix), np.zeros((-(-rows // 8) * 8, -(-columns // 8) * 8), np.float16)
        whole[:rows, :columns] = matrix
        for row in range(0, rows, 8):
            for column in range(0, columns, 8):
                out = np.zeros(128, np.uint8)
                kernel((1,), (128,), (made, out, *map(np.int32, (128, 128, column, row, 0, 0, 0))), shared_mem=128)
                if not np.array_equal(out.view(np.float16).reshape(8, 8), whole[row:row + 8, column:column + 8]):
                    return f"Of a matrix of {rows} x {columns} the box at row {row} and column {column} holds other numbers."
    return ""


REPAIRS = (
    HostRepair("pitch", "map_of", MAP + TILED, MAP + PADDED, _describes, "matrices of 16, 10 and 21 columns come box by box as they are, with zeros beside them.",
               "A tensor map never holds a row's length in elements alone: it holds how many bytes the next row lies further on, and that is a multiple of 16. Who says "
               "that the rows of a matrix must follow one another without a gap? (`hl.TensorMap.tiled` takes the bytes from row to row from the array: a view of the "
               "first columns of a wider one will do.)"),
    _repair("expect", EXPECT, "", "Nobody has arrived on the barrier, and it was told of no bytes. Which one call does both? (Before the copy is where the "
                                  "course puts it. Behind it is right too: until that one arrival the phase cannot end, and the tx-count may be negative meanwhile.)"),
    _repair("wait", WAIT, "", "The store reads the tile. What has to have happened before? And which phase of a fresh barrier is that: which parity blocks "
                              "until it has happened, and which passes at once?"),
)
