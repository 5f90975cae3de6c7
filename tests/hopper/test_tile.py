# SPDX-License-Identifier: Apache-2.0
"""Where a box lies in shared memory and in the tensor, against loops written out and against what an H200 did."""

import dataclasses
import itertools

import numpy as np
import pytest

from hopperlab.hopper import swizzle, tile
from hopperlab.hopper import tensormap as tm

TILE = tm.TensorMapFields("bfloat16", 2, 0x1000, (500, 250), (1024,), (64, 128), swizzle="128B")
DEEP = tm.TensorMapFields("float32", 4, 0x2000, (24, 5, 7, 3), (96, 480, 3360), (8, 3, 2, 2), (1, 2, 1, 3), swizzle="64B")
PIXELS = tm.TensorMapFields(
    "float16", 4, 0x4000, (64, 9, 14, 4), (128, 1152, 16128), channels_per_pixel=8, pixels_per_column=64,
    pixel_box_lower_corner=(-1, -1), pixel_box_upper_corner=(-1, -1),
)


def narrow(inner, mode, dtype="uint8"):
    return tm.TensorMapFields(dtype, 2, 0, (256, 64), (256,), (inner, 4), swizzle=mode)


@pytest.mark.parametrize("inner, mode, pitch", [
    (32, "128B", 128), (64, "128B", 128), (128, "128B", 128), (32, "64B", 64), (16, "32B", 32), (16, "none", 16), (48, "none", 48), (96, "128B", 128),
])
def test_row_pitch_is_the_span_of_the_swizzle(inner, mode, pitch):
    """Measured on an H200: inner 32 B or 64 B under 128B put row r at 128 r, 32 B under 64B at 64 r, 16 B under 32B at 32 r."""
    fields = narrow(inner, mode)
    assert tile.row_pitch(fields) == pitch and tile.smem_bytes(fields) == 4 * pitch
    assert tile.tile_offsets(fields).tolist() == [pitch * r for r in range(4)]
    assert tile.tile_bytes(fields) == 4 * inner, "the barrier does not count the gaps"


def test_narrow_rows_under_128B_start_where_the_h200_put_them():
    assert [tile.element_address(narrow(32, "128B"), (0, r), 1024) - 1024 for r in range(4)] == [0, 144, 288, 432]


def test_element_strides_load_fewer_elements():
    assert tile.box_counts(TILE) == (64, 128)
    assert tile.box_counts(dataclasses.replace(TILE, box_dim=(64, 100), element_strides=(3, 8))) == (64, 13)
    assert tile.box_counts(dataclasses.replace(DEEP, interleave="16B", element_strides=(3, 2, 1, 3))) == (3, 2, 2, 1)
    assert tile.tile_bytes(DEEP) == 8 * 2 * 2 * 1 * 4 and tile.row_count(DEEP) == 4
    assert tile.box_counts(PIXELS) == (8, 64) and tile.tile_bytes(PIXELS) == 1024 and tile.row_count(PIXELS) == 64


def test_one_dimension_is_one_row():
    fields = tm.TensorMapFields("float32", 1, 0x100, (100,), (), (32,))
    assert tile.row_count(fields) == 1 and tile.tile_offsets(fields).tolist() == [0]
    rows = tile.global_rows(fields, (80,))
    assert rows.address.tolist() == [0x100 + 320] and rows.inside.tolist() == [True] and (rows.first, rows.last) == (0, 20)


@pytest.mark.parametrize("fields", [TILE, DEEP, narrow(32, "128B"), PIXELS])
@pytest.mark.parametrize("base", [1024, 1024 + 128, 5 * 1024 + 896])
def test_element_addresses_and_granules(fields, base):
    counts, es = tile.box_counts(fields), fields.elem_bytes
    granules = tile.granule_addresses(fields, base)
    assert granules.shape == (tile.row_count(fields), fields.inner_bytes // 16)
    seen = set()
    for row, outer in enumerate(itertools.product(*(range(n) for n in counts[:0:-1]))):
        for c0 in range(counts[0]):
            want = swizzle.apply(base + row * tile.row_pitch(fields) + c0 * es, fields.swizzle)
            assert tile.element_address(fields, (c0, *outer[::-1]), base) == want
            assert granules[row, c0 * es // 16] + c0 * es % 16 == want
            seen.add(want)
    assert len(seen) * es == tile.tile_bytes(fields) and max(seen) < base // 1024 * 1024 + 1024 + tile.smem_bytes(fields)


def test_misuse_is_named():
    with pytest.raises(tm.TensorMapError, match="0x440 is 64 bytes past a multiple of 128"):
        tile.element_address(TILE, (0, 0), 0x440)
    with pytest.raises(tm.TensorMapError, match=r"element \(64, 0\) is not in a box of \(64, 128\)"):
        tile.element_address(TILE, (64, 0), 0)
    with pytest.raises(tm.TensorMapError, match="interleave 16B"):
        tile.row_pitch(dataclasses.replace(DEEP, interleave="16B"))
    with pytest.raises(tm.TensorMapError, match="3 coordinates"):
        tile.global_rows(TILE, (0, 0, 0))
    with pytest.raises(tm.TensorMapError, match="use im2col_rows"):
        tile.global_rows(PIXELS, (0, 0, 0, 0))
    with pytest.raises(tm.TensorMapError, match="needs an im2col map"):
        tile.im2col_rows(TILE, (0, 0))
    with pytest.raises(tm.TensorMapError, match="takes 2 offsets"):
        tile.im2col_rows(PIXELS, (0, 0, 0, 0), (1,))


def by_hand(fields, start):
    """(address, inside) of every loaded element, row by row, in plain loops."""
    counts = tile.box_counts(fields)
    for outer in itertools.product(*(range(n) for n in counts[:0:-1])):
        row = []
        for c0 in range(counts[0]):
            at = [start[0] + c0] + [s + i * step for s, i, step in zip(start[1:], outer[::-1], fields.element_strides[1:])]
            address = fields.global_address + at[0] * fields.elem_bytes + sum(c * p for c, p in zip(at[1:], fields.global_strides))
            row.append((address, all(0 <= c < n for c, n in zip(at, fields.global_dim))))
        yield row


@pytest.mark.parametrize("fields, start", [
    (TILE, (0, 0)), (TILE, (448, 200)), (TILE, (-8, -3)), (TILE, (504, 0)), (TILE, (0, 250)),
    (DEEP, (0, 0, 0, 0)), (DEEP, (20, 3, 6, 1)), (DEEP, (-4, -1, -1, -3)), (DEEP, (16, 4, 0, 2)),
])
def test_global_rows_against_loops(fields, start):
    rows = tile.global_rows(fields, start)
    for r, want in enumerate(by_hand(fields, start)):
        got = [(rows.address[r] + i * fields.elem_bytes, bool(rows.inside[r]) and rows.first <= i < rows.last) for i in range(len(want))]
        assert got == want


@pytest.mark.parametrize("c0", [1, -1, 2, 7])
def test_the_first_coordinate_lies_on_16_bytes(c0):
    """An H200 stopped with an illegal instruction at each of the 30 such copies tried, and at none of 892 others."""
    for call, fields, start in ((tile.global_rows, TILE, (c0, 0)), (tile.store_rows, TILE, (c0, 0)), (tile.im2col_rows, PIXELS, (c0, 0, 0, 0))):
        with pytest.raises(tm.TensorMapError, match=f"coordinate 0 = {c0}.*multiple of 16 .8 elements here"):
            call(fields, start)


def test_stores_clip_in_pieces_of_16_bytes():
    """Measured on an H200: rows of 97, 100, 102 and 104 bytes were written up to byte 112, one of 34 up to byte 48."""
    for dtype, size, c0, inner, end in [("uint8", 97, 64, 64, 112), ("uint8", 100, 48, 64, 112), ("float32", 25, 16, 16, 112),
                                        ("float16", 51, 32, 32, 112), ("float64", 13, 8, 8, 112), ("uint8", 33, 32, 16, 48), ("bfloat16", 17, 16, 8, 48)]:
        fields = tm.TensorMapFields(dtype, 2, 0, (size, 6), (128,), (inner, 4))
        rows = tile.store_rows(fields, (c0, 1))
        assert (c0 + rows.last) * fields.elem_bytes == end
        assert (c0 + tile.global_rows(fields, (c0, 1)).last) == size
    whole = tile.store_rows(TILE, (64, 0))
    assert (whole.first, whole.last) == (0, 64)
    assert tile.store_rows(TILE, (512, 0)).last == 0
    with pytest.raises(tm.TensorMapError, match="coordinate 1 = -1 in a store"):
        tile.store_rows(TILE, (0, -1))


def walk(fields, start, offsets):
    """The im2col walk in plain loops: (W, H, N) of each pixel of a rank-4 map."""
    (low_w, low_h), (up_w, up_h) = fields.pixel_box_lower_corner, fields.pixel_box_upper_corner
    _, step_w, step_h, step_n = fields.element_strides
    _, w, h, n = start
    for _ in range(fields.pixels_per_column):
        yield w + offsets[0], h + offsets[1], n
        w += step_w
        if w > fields.global_dim[1] - 1 + up_w:
            w, h = low_w, h + step_h
            if h > fields.global_dim[2] - 1 + up_h:
                h, n = low_h, n + step_n


@pytest.mark.parametrize("steps", [(1, 1, 1, 1), (1, 2, 3, 1)])
@pytest.mark.parametrize("start, offsets", [((0, -1, -1, 0), (0, 0)), ((8, 7, 4, 0), (2, 1)), ((56, 0, 12, 3), (0, 2)), ((-8, 3, 3, 1), (1, 1))])
def test_im2col_rows_against_loops(steps, start, offsets):
    fields = dataclasses.replace(PIXELS, element_strides=steps)
    rows = tile.im2col_rows(fields, start, offsets)
    for p, (w, h, n) in enumerate(walk(fields, start, offsets)):
        assert rows.inside[p] == (0 <= w < 9 and 0 <= h < 14 and 0 <= n < 4)
        assert rows.address[p] == 0x4000 + start[0] * 2 + w * 128 + h * 1152 + n * 16128
    assert (rows.first, rows.last) == ((8, 8) if start[0] == -8 else (0, 8))


def test_im2col_of_a_3x3_filter_is_the_convolution():
    """Nine copies with the nine filter offsets give the columns whose product with the filter is the convolution."""
    rng = np.random.default_rng(21)
    image = rng.integers(-4, 5, (2, 6, 5, 8)).astype(np.float16)
    filters = rng.integers(-4, 5, (3, 3, 8)).astype(np.float16)
    fields = tm.TensorMapFields(
        "float16", 4, 0, (8, 5, 6, 2), (16, 80, 480), channels_per_pixel=8, pixels_per_column=60,
        pixel_box_lower_corner=(-1, -1), pixel_box_upper_corner=(-1, -1),
    )
    got, flat = np.zeros(60), image.reshape(-1)
    for dy, dx in itertools.product(range(3), range(3)):
        rows = tile.im2col_rows(fields, (0, -1, -1, 0), (dx, dy))
        for p in np.flatnonzero(rows.inside):
            first = rows.address[p] // 2
            got[p] += flat[first : first + 8].astype(float) @ filters[dy, dx].astype(float)
    padded = np.pad(image.astype(float), ((0, 0), (1, 1), (1, 1), (0, 0)))
    want = [(padded[n, y : y + 3, x : x + 3] * filters).sum() for n in range(2) for y in range(6) for x in range(5)]
    assert got.tolist() == want
