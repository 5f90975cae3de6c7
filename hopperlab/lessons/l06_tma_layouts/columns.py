# SPDX-License-Identifier: Apache-2.0
"""Lesson 06: reading the columns of a tile that TMA laid out, by layouts/columns.cu, and the launch behind the panel.

Wavefronts are the emulator's and `hopper.banks`'.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...hopper import banks, swizzle
from ...runtime.tables import text_table
from ...show import style
from .followed_element import PIECE, follow_element, follow_path, pitch_of

ROWS = 32                   # of the tile that layouts/columns.cu reads


def column_options(mode: str, row_bytes: int, padding: int = 0, start: int = 0) -> tuple[tuple[str, ...], int]:
    """NVRTC options for layouts/columns.cu, and its dynamic shared memory: rows of `row_bytes`, with `padding` bytes more in the box (swizzle none only)."""
    if padding and mode != "none":
        raise ValueError(f"padding of {padding} bytes with the swizzle {mode}: a swizzled row is as long as its span")
    pitch = pitch_of(mode, row_bytes + padding)
    names = {"MASK": swizzle.ROW_BITS[mode], "PIECES": row_bytes // PIECE, "BOX_ROW_BYTES": row_bytes + padding, "PITCH": pitch, "TILE_AT": start}
    return tuple(f"-D{name}={value}" for name, value in names.items()), 1024 + ROWS * pitch


def read_columns(mode: str, row_bytes: int = 128, padding: int = 0, start: int = 0, options: tuple[str, ...] = ()) -> tuple[bool, Any]:
    """Launch layouts/columns.cu on one tile of 32 rows, in the chosen place, then in the emulator for its counters. Returns (right?, run).

    start: where the tile lies from a multiple of 1024; options: more for NVRTC, such as a planted bug, which runs in the
    emulator only. Raises TensorMapError for an illegal box.
    """
    import hopperlab as hl

    xp = hl.array_module()
    more, size = column_options(mode, row_bytes, padding, start)
    wide = (row_bytes + padding) // 4
    matrix = xp.asarray(np.arange(ROWS * wide, dtype=np.int32).reshape(ROWS, wide))
    source = hl.TensorMap.tiled(matrix, box=(ROWS, wide), swizzle=mode)
    kernel = hl.load_kernel("layouts/columns.cu", "columns", (*more, *options))
    pieces = row_bytes // PIECE
    expected = hl.asnumpy(matrix)[:, :row_bytes // 4].reshape(ROWS, pieces, 4).swapaxes(0, 1)
    right = True
    for place in (["gpu"] if hl.backend() == "gpu" and not options else []) + ["emulator"]:
        out = xp.zeros((pieces, ROWS, 4), dtype=np.int32)
        launch = ((1,), (128,), (source, out))
        if place == "gpu":
            kernel(*launch, shared_mem=size)
        else:
            with hl.emulate(hazards="collect") as run:
                kernel(*launch, shared_mem=size)
        right = right and bool(np.array_equal(hl.asnumpy(out), expected))
    return right, run


def launch_columns(mode: str, row_bytes: int, row: int, column: int, start: int) -> style.Picture:
    """Lesson 06's panel: load a tile of 32 rows of 4-byte numbers, read its columns, and follow the element (row, column).

    start: of the tile, bytes past a multiple of 1024. Raises ValueError or TensorMapError for what the hardware refuses.
    """
    pitch_of(mode, row_bytes)                               # refuses a row wider than the span
    if 4 * column >= row_bytes:
        raise ValueError(f"column {column} is not in a row of {row_bytes} bytes, which holds columns 0 to {row_bytes // 4 - 1}")
    path = follow_path(mode, row_bytes, row, 4 * column, start)
    right, run = read_columns(mode, row_bytes, 0, start)
    reads = run.counters["shared_load_wavefronts"]
    least = ROWS * row_bytes // 128
    heading = (f"Swizzle {mode}, rows of {row_bytes} bytes: read back {'right' if right else 'WRONG'}, "
               f"{reads} wavefronts for all columns, {least} at best\nelement ({row}, {column}) lies at {path.landed:#x}, bank {path.bank}")
    return follow_element(mode, row_bytes, row, 4 * column, start, 8, heading)


def access_table(pitches: Mapping[str, tuple[str, int]] | None = None) -> str:
    """Wavefronts of one warp reading down a column of 32 rows, by layout and by bytes per lane; the fewest possible in brackets.

    pitches: name -> (swizzle, bytes from row to row). Counted by `hopper.banks`, which agrees with Nsight Compute on an H200.
    """
    layouts = pitches or {"none, 128-byte rows": ("none", 128), "swizzle 32B, 32-byte rows": ("32B", 32), "swizzle 64B, 64-byte rows": ("64B", 64),
                          "swizzle 128B, 128-byte rows": ("128B", 128), "padded to 144 bytes": ("none", 144)}
    widths = (2, 4, 8, 16)
    rows = [(name, *(banks.wavefronts(swizzle.apply(np.arange(32) * pitch, mode), width) for width in widths)) for name, (mode, pitch) in layouts.items()]
    rows.append(("the fewest possible", *(max(1, 32 * width // 128) for width in widths)))
    return "\n".join(text_table("{:28}" + "{:10d}" * len(widths), rows, ("layout", *(f"{width} bytes" for width in widths))))
