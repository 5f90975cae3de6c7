# SPDX-License-Identifier: Apache-2.0
"""Interleaved tensor maps: tensors whose channels come in slices of 16 or 32 bytes a pixel (NC/8HWC8, NC/16HWC16).

Dimension 0 of such a map is the width, counted in pixels; the next-to-last dimension picks the slice. All measured on an
H200 with tiled loads of uint16 and float32: pixels lie in shared memory one after the other, without gaps and whatever
the element type; the swizzle acts on their absolute addresses; the box has one slice, whatever its edge there says;
element strides count along every dimension; pixels outside are filled and counted. Columns of im2col maps lie the same way.
PTX ISA 9.2, 5.5.6; [CUDA driver API].
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from hopperlab.hopper import swizzle as _swizzle
from hopperlab.hopper import tile as _tile
from hopperlab.hopper.tensormap_fields import TensorMapError, TensorMapFields

PIXEL_BYTES = {"16B": 16, "32B": 32}


def pixel_bytes(fields: TensorMapFields) -> int:
    """Bytes of one pixel of an interleaved map."""
    return PIXEL_BYTES[fields.interleave]


def counts(fields: TensorMapFields) -> tuple[int, ...]:
    """Pixels loaded along each dimension: ceil(box / element stride), and one slice; of an im2col map those of a column."""
    if fields.mode == "im2col":
        return (fields.pixels_per_column or 0,)
    found = [-(-edge // step) for edge, step in zip(fields.box_dim, fields.element_strides)]
    found[fields.rank - 2] = 1
    return tuple(found)


def row_bytes(fields: TensorMapFields) -> int:
    """Bytes of one row of a copy of any map: one pixel here, the innermost box edge without interleave."""
    if fields.interleave != "none":
        return pixel_bytes(fields)
    return _tile.box_counts(fields)[0] * fields.elem_bytes


def tile_bytes(fields: TensorMapFields) -> int:
    """Bytes that one copy moves and counts on its mbarrier, and those its tile occupies: all pixels of the box."""
    return prod(counts(fields)) * pixel_bytes(fields)


def granule_addresses(fields: TensorMapFields, base: int) -> np.ndarray:
    """Absolute shared address of each 16-byte granule, after the swizzle: int64 (pixels, 1 or 2). base: 128-byte aligned."""
    if base % _tile.SHARED_ALIGN:
        raise TensorMapError(f"shared address {base:#x} is not a multiple of {_tile.SHARED_ALIGN}")
    dense = base + 16 * np.arange(tile_bytes(fields) // 16, dtype=np.int64)
    return _swizzle.apply(dense, fields.swizzle).reshape(-1, pixel_bytes(fields) // 16)


def global_rows(fields: TensorMapFields, start: Sequence[int], store: bool = False) -> _tile.GlobalRows:
    """Where the pixels of the box at `start` (width first, may be negative for a load) lie, one row each, width fastest.

    Raises TensorMapError for a wrong number of coordinates, and for a negative one in a store.
    """
    if len(start) != fields.rank:
        raise TensorMapError(f"{len(start)} coordinates {tuple(start)} for a tensor map of rank {fields.rank}")
    if store and min(start) < 0:
        raise TensorMapError(f"coordinates {tuple(start)} in a store: they must not be negative")
    size, shape = pixel_bytes(fields), counts(fields)
    steps = np.indices(shape[::-1], dtype=np.int64)[::-1].reshape(fields.rank, -1)
    at = np.asarray(start, np.int64)[:, None] + steps * np.asarray(fields.element_strides, np.int64)[:, None]
    inside = np.all((at >= 0) & (at < np.asarray(fields.global_dim, np.int64)[:, None]), axis=0)
    address = fields.global_address + np.asarray((size, *fields.global_strides), np.int64) @ at
    return _tile.GlobalRows(address, inside, 0, size // fields.elem_bytes)


def column_rows(fields: TensorMapFields, start: Sequence[int], offsets: Sequence[int] = ()) -> _tile.GlobalRows:
    """Where the pixels of an im2col column of an interleaved map lie, in the order in which they come.

    start: coordinates (W[, H[, D]], slice, N) of the first pixel; offsets: rank - 2 filter offsets (W[, H[, D]]). The walk is that of
    tile.im2col_rows inside one slice; channelsPerPixel does not count. Measured on an H200 with rank 4, interleave 16B and 32B and
    element strides of 1. Raises TensorMapError for a wrong number of coordinates or offsets, and for a start below the lower corner,
    which ends the launch there (cudaErrorIllegalInstruction).
    """
    spatial = fields.rank - 2
    shifts = tuple(offsets) or (0,) * spatial
    if len(start) != fields.rank or len(shifts) != spatial:
        raise TensorMapError(f"coordinates {tuple(start)} and offsets {shifts} for an im2col map of rank {fields.rank}")
    if any(at < low for at, low in zip(start, fields.pixel_box_lower_corner)):
        raise TensorMapError(f"coordinates {tuple(start)} below the lower corner {tuple(fields.pixel_box_lower_corner)} of the bounding box")
    at = _walk(fields, start) + np.asarray((*shifts, 0, 0), np.int64)[:, None]
    inside = np.all((at >= 0) & (at < np.asarray(fields.global_dim, np.int64)[:, None]), axis=0)
    size = pixel_bytes(fields)
    address = fields.global_address + np.asarray((size, *fields.global_strides), np.int64) @ at
    return _tile.GlobalRows(address, inside, 0, size // fields.elem_bytes)


def _walk(fields: TensorMapFields, start: Sequence[int]) -> np.ndarray:
    """Coordinates (rank, pixels) that a column visits, without the filter offsets: W first, N last, the slice stays."""
    low, spatial, pixel, visited = fields.pixel_box_lower_corner, fields.rank - 2, list(start), []
    last = [n - 1 + up for n, up in zip(fields.global_dim, fields.pixel_box_upper_corner)]
    for _ in range(fields.pixels_per_column or 0):
        visited.append(tuple(pixel))
        for i in range(spatial + 1):
            axis = i if i < spatial else fields.rank - 1
            pixel[axis] += fields.element_strides[axis]
            if i == spatial or pixel[axis] <= last[i]:
                break
            pixel[axis] = low[i]
    return np.array(visited, np.int64).reshape(-1, fields.rank).T
