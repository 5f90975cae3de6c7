# SPDX-License-Identifier: Apache-2.0
"""How the box of a tensor map lies in shared memory and in the tensor: rows, pitch, bytes counted, addresses.

The emulator's TMA and the figures both read this. Loaded elements are counted innermost first, as coordinates are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from hopperlab.hopper import swizzle as _swizzle
from hopperlab.hopper.tensormap_fields import TensorMapError, TensorMapFields

SHARED_ALIGN = 128
"""Alignment in bytes of the shared address of every tensor copy (CUDA Programming Guide, tensor copies)."""

NAN_FILL = 0x7FF7
"""The 16-bit pattern that oob_fill "nan" writes over and over, whatever the type (measured on an H200)."""


class GlobalRows(NamedTuple):
    """Where the rows of one box lie in the tensor.

    address: int64 (n_rows,) global byte address of each row's first element (even if that is outside).
    inside: bool (n_rows,), False where the whole row is out of bounds. first, last: elements first <= i < last of
    a row lie inside along dimension 0.
    """

    address: np.ndarray
    inside: np.ndarray
    first: int
    last: int


def _needs_no_interleave(fields: TensorMapFields) -> None:
    if fields.interleave != "none":
        raise TensorMapError(
            f"interleave {fields.interleave}: this is about maps without interleave; hopper/interleave.py says how the boxes of "
            "others lie"
        )


@lru_cache(maxsize=512)
def box_counts(fields: TensorMapFields) -> tuple[int, ...]:
    """Elements loaded along each dimension of the box, innermost first.

    Tiled: ceil(box_dim[i] / element_strides[i]), where element_strides[0] is ignored without interleave. im2col:
    (channels_per_pixel, pixels_per_column). Source: cuTensorMapEncodeTiled, elementStrides; measured on an H200.
    """
    if fields.mode == "im2col":
        return (fields.channels_per_pixel or 0, fields.pixels_per_column or 0)
    steps = list(fields.element_strides)
    if fields.interleave == "none":
        steps[0] = 1
    return tuple(-(-edge // step) for edge, step in zip(fields.box_dim, steps))


def tile_bytes(fields: TensorMapFields) -> int:
    """Bytes that one load adds to its mbarrier's tx-count, for each destination CTA.

    The full box counts, with the part out of bounds and without the gaps of narrow swizzled rows (measured on an H200).
    """
    return prod(box_counts(fields)) * fields.elem_bytes


def row_count(fields: TensorMapFields) -> int:
    """Rows of the box: the product of `box_counts` without dimension 0 (1 for a one-dimensional box)."""
    return prod(box_counts(fields)[1:])


def row_pitch(fields: TensorMapFields) -> int:
    """Bytes from one row of the tile to the next in shared memory, before the swizzle.

    It is the swizzle span where that is wider than the row, else the row's own bytes. The gap is not written (measured
    on an H200: an inner box of 32 bytes under 128B puts row r at 128 r). Raises TensorMapError for interleaved maps.
    """
    _needs_no_interleave(fields)
    return max(fields.inner_bytes, _swizzle.span_bytes(fields.swizzle)) if fields.swizzle != "none" else fields.inner_bytes


@lru_cache(maxsize=256)
def smem_bytes(fields: TensorMapFields) -> int:
    """Bytes of shared memory the tile occupies, gaps included: rows times pitch. Raises TensorMapError if interleaved."""
    return row_count(fields) * row_pitch(fields)


@lru_cache(maxsize=256)
def tile_offsets(fields: TensorMapFields) -> np.ndarray:
    """Offset in bytes of each innermost row from the tile's base, before the swizzle: int64 (n_rows,), read-only.

    Rows are counted with dimension 1 fastest, then 2, and so on. Raises TensorMapError for interleaved maps.
    """
    rows = row_pitch(fields) * np.arange(row_count(fields), dtype=np.int64)
    rows.setflags(write=False)
    return rows


@lru_cache(maxsize=256)
def _relative_granules(fields: TensorMapFields, phase: int) -> np.ndarray:
    inside = _swizzle.ATOM_BYTES * np.arange(-(-fields.inner_bytes // 16), dtype=np.int64)
    moved = _swizzle.apply(phase + tile_offsets(fields)[:, None] + inside, fields.swizzle)
    moved.setflags(write=False)
    return moved


def granule_addresses(fields: TensorMapFields, base: int) -> np.ndarray:
    """Absolute shared address, after the swizzle, of each 16-byte granule of the tile: int64 (n_rows, inner_bytes // 16).

    base: shared byte address the copy names. Raises TensorMapError if it is not 128-byte aligned, or for interleaved maps.
    """
    _aligned(base)
    phase = base % _swizzle.period_bytes(fields.swizzle)
    return base - phase + _relative_granules(fields, phase)


def _aligned(base: int) -> None:
    if base % SHARED_ALIGN:
        raise TensorMapError(
            f"shared address {base:#x} is {base % SHARED_ALIGN} bytes past a multiple of {SHARED_ALIGN}: tensor copies "
            "need 128-byte aligned shared memory"
        )


def element_address(fields: TensorMapFields, coords_in_box: Sequence[int], base: int) -> int:
    """Absolute shared byte address, after the swizzle, of one loaded element.

    coords_in_box: innermost first, 0 <= coords_in_box[i] < box_counts(fields)[i]. base: the copy's 128-byte aligned shared
    address. Raises TensorMapError for coordinates outside the box, a misaligned base and interleaved maps.
    """
    _aligned(base)
    counts = box_counts(fields)
    if len(coords_in_box) != len(counts) or not all(0 <= c < n for c, n in zip(coords_in_box, counts)):
        raise TensorMapError(f"element {tuple(coords_in_box)} is not in a box of {counts} elements (innermost first)")
    row = 0
    for c, n in zip(reversed(coords_in_box[1:]), reversed(counts[1:])):
        row = row * n + c
    return _swizzle.apply(base + row * row_pitch(fields) + coords_in_box[0] * fields.elem_bytes, fields.swizzle)


class _Rows(NamedTuple):
    """Rows of a box from its corner. steps: coordinates (rank-1, n_rows); offsets: the bytes that they make (n_rows,); reach: the farthest coordinate along each
    dimension; whole: `inside` of a box of which no row is outside, read-only."""

    steps: np.ndarray
    offsets: np.ndarray
    reach: tuple[int, ...]
    whole: np.ndarray


@lru_cache(maxsize=256)
def _row_steps(fields: TensorMapFields) -> _Rows:
    counts = box_counts(fields)
    steps = np.indices(counts[:0:-1], dtype=np.int64)[::-1].reshape(fields.rank - 1, row_count(fields))
    steps = steps * np.asarray(fields.element_strides[1:], dtype=np.int64)[:, None]
    whole = np.ones(steps.shape[1], bool)
    whole.setflags(write=False)
    return _Rows(steps, np.asarray(fields.global_strides, dtype=np.int64) @ steps, tuple(steps.max(axis=1).tolist()), whole)


def global_rows(fields: TensorMapFields, start: Sequence[int]) -> GlobalRows:
    """Where the rows of the box at tensor coordinates `start` (innermost first, may be negative) lie in global memory.

    Row r of the result is row r of `tile_offsets`. Raises TensorMapError for im2col or interleaved maps, for a wrong
    number of coordinates, and when coordinate 0 is not a multiple of 16 bytes (an H200 stops there with an illegal
    instruction, measured). Source: PTX ISA 5.5.3 (tiled mode); cuTensorMapEncodeTiled.
    """
    _needs_no_interleave(fields)
    if fields.mode != "tiled":
        raise TensorMapError("global_rows is for tiled maps; an im2col map walks pixels: use im2col_rows")
    _checked_start(fields, start)
    rows = _row_steps(fields)
    inside = rows.whole
    if not all(0 <= c < size - far for c, far, size in zip(start[1:], rows.reach, fields.global_dim[1:])):
        at = np.asarray(start[1:], dtype=np.int64)[:, None] + rows.steps
        inside = np.all((at >= 0) & (at < np.asarray(fields.global_dim[1:], dtype=np.int64)[:, None]), axis=0)
    shift = start[0] * fields.elem_bytes + sum(c * s for c, s in zip(start[1:], fields.global_strides))
    return GlobalRows(fields.global_address + shift + rows.offsets, inside, *_inner_range(fields, start[0]))


def _checked_start(fields: TensorMapFields, start: Sequence[int]) -> None:
    """Raise TensorMapError unless `start` has one coordinate a dimension and starts on 16 bytes along dimension 0."""
    if len(start) != fields.rank:
        raise TensorMapError(f"{len(start)} coordinates {tuple(start)} for a tensor map of rank {fields.rank}")
    at = start[0] * fields.elem_bytes
    if at % 16:
        raise TensorMapError(
            f"coordinate 0 = {start[0]}: {start[0]} elements x {fields.elem_bytes} bytes = {at} bytes is not a "
            f"multiple of 16 ({16 // fields.elem_bytes} elements here); an H200 stops with an illegal instruction"
        )


def _inner_range(fields: TensorMapFields, c0: int) -> tuple[int, int]:
    """Which elements first <= i < last of a row that starts at coordinate c0 lie inside dimension 0."""
    count = box_counts(fields)[0]
    first = min(max(0, -c0), count)
    return first, max(first, min(count, fields.global_dim[0] - c0))


def box_spans(fields: TensorMapFields, starts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of many boxes of a tiled map, at coordinates `starts` (innermost first, an array a dimension): (address of the first byte of each box's first row that is
    inside along dimension 0, bytes of the box that are inside the tensor, all its bytes). As `global_rows` has them, without its checks."""
    counts, size = box_counts(fields), fields.elem_bytes
    inside = np.ones(len(starts[0]), np.int64)
    for start, count, step, extent in zip(starts, counts, (1, *fields.element_strides[1:]), fields.global_dim, strict=True):
        first, last = -(start // step), -((start - extent) // step)              # elements of the box that are inside along this dimension
        inside *= np.clip(last, 0, count) - np.clip(first, 0, count)
    corner = fields.global_address + (starts[0] + np.clip(-starts[0], 0, counts[0])) * size + sum(c * step for c, step in zip(starts[1:], fields.global_strides))
    return corner, inside * size, np.full(len(inside), prod(counts) * size)


def store_rows(fields: TensorMapFields, start: Sequence[int]) -> GlobalRows:
    """Where a tensor store or reduction at `start` writes; like `global_rows`, but clipped as stores are.

    Rows outside are skipped whole, but along dimension 0 the hardware clips in pieces of 16 bytes: a tensor row of 100 bytes
    is written up to byte 112, into the padding behind it (measured on an H200 for 1- to 8-byte types and every
    swizzle), so `last` is rounded up. Raises TensorMapError as `global_rows` does, and for a negative coordinate, at which
    an H200 stops with an illegal instruction. Source: PTX ISA 9.7.9.25.5 (cp.async.bulk.tensor).
    """
    rows = global_rows(fields, start)
    for i, c in enumerate(start):
        if c < 0:
            raise TensorMapError(
                f"coordinate {i} = {c} in a store: it must not be negative; an H200 stops with an illegal instruction"
            )
    piece = max(1, 16 // fields.elem_bytes)
    return rows._replace(last=min(-(-rows.last // piece) * piece, box_counts(fields)[0]))


def im2col_rows(fields: TensorMapFields, start: Sequence[int], offsets: Sequence[int] = ()) -> GlobalRows:
    """Where the pixels of one im2col column lie: pixel p of the result is row p of `tile_offsets`.

    start: tensor coordinates (C, W[, H[, D]], N) of the first pixel; offsets: rank - 2 filter offsets in the order
    (W[, H[, D]]), added to every pixel. The walk steps W by its element stride inside the bounding box
    lower_corner <= w <= size - 1 + upper_corner; past its end it starts again at the lower corner, with one
    step along the next dimension, and at last along N. Raises TensorMapError for a tiled or interleaved map, for a wrong
    number of coordinates or offsets, and when coordinate 0 is not a multiple of 16 bytes. Source: PTX ISA 5.5.4 (im2col mode).
    """
    _needs_no_interleave(fields)
    spatial = fields.rank - 2
    if fields.mode != "im2col":
        raise TensorMapError("im2col_rows needs an im2col map (pixels_per_column given)")
    shifts = tuple(offsets) or (0,) * spatial
    _checked_start(fields, start)
    if len(shifts) != spatial:
        raise TensorMapError(f"an im2col map of rank {fields.rank} takes {spatial} offsets, not {shifts}")
    at = _walk_pixels(fields, start) + np.asarray((*shifts, 0), dtype=np.int64)[:, None]
    size = np.asarray(fields.global_dim[1:], dtype=np.int64)[:, None]
    inside = np.all((at >= 0) & (at < size), axis=0)
    address = fields.global_address + start[0] * fields.elem_bytes + np.asarray(fields.global_strides, dtype=np.int64) @ at
    return GlobalRows(address, inside, *_inner_range(fields, start[0]))


def _walk_pixels(fields: TensorMapFields, start: Sequence[int]) -> np.ndarray:
    """Coordinates (rank-1, pixels) of the pixels an im2col copy visits, without the filter offsets."""
    low, steps = (*fields.pixel_box_lower_corner, 0), fields.element_strides[1:]
    last = [n - 1 + up for n, up in zip(fields.global_dim[1:], fields.pixel_box_upper_corner)]
    pixel, visited = list(start[1:]), []
    for _ in range(fields.pixels_per_column or 0):
        visited.append(tuple(pixel))
        for i, step in enumerate(steps):
            pixel[i] += step
            if i == len(last) or pixel[i] <= last[i]:
                break
            pixel[i] = low[i]
    return np.array(visited, dtype=np.int64).reshape(-1, fields.rank - 1).T
