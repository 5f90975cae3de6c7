# SPDX-License-Identifier: Apache-2.0
"""The swizzle formula against the tables printed in PTX ISA 5.5.7 and the index relation of the programming guide."""

import numpy as np
import pytest

from hopperlab.hopper import swizzle

# PTX ISA 5.5.7: row r of a 128-byte wide pattern, entry p is the logical 16-byte chunk found at physical chunk p.
TABLE_128B = [
    [0, 1, 2, 3, 4, 5, 6, 7], [1, 0, 3, 2, 5, 4, 7, 6], [2, 3, 0, 1, 6, 7, 4, 5], [3, 2, 1, 0, 7, 6, 5, 4],
    [4, 5, 6, 7, 0, 1, 2, 3], [5, 4, 7, 6, 1, 0, 3, 2], [6, 7, 4, 5, 2, 3, 0, 1], [7, 6, 5, 4, 3, 2, 1, 0],
]
TABLE_64B = [[0, 1, 2, 3, 4, 5, 6, 7], [1, 0, 3, 2, 5, 4, 7, 6], [2, 3, 0, 1, 6, 7, 4, 5], [3, 2, 1, 0, 7, 6, 5, 4]]
TABLE_32B = [[0, 1, 2, 3, 4, 5, 6, 7], [1, 0, 3, 2, 5, 4, 7, 6]]


@pytest.mark.parametrize("mode, table", [("128B", TABLE_128B), ("64B", TABLE_64B), ("32B", TABLE_32B)])
def test_tables_of_the_ptx_isa(mode, table):
    assert swizzle.chunk_table(mode).tolist() == table
    for row, chunks in enumerate(table):
        for place, logical in enumerate(chunks):
            assert swizzle.apply(row * 128 + logical * 16, mode) == row * 128 + place * 16


@pytest.mark.parametrize("mode, lines", [("128B", 8), ("64B", 4), ("32B", 2)])
def test_index_relation_of_the_programming_guide_for_every_128_byte_phase(mode, lines):
    for base in range(0, 2048, 128):
        phase = base // 128 % lines
        for y in range(16):
            for x in range(8):
                assert swizzle.apply(base + y * 128 + x * 16, mode) == base + y * 128 + 16 * ((y + phase) % lines ^ x)


@pytest.mark.parametrize("mode", swizzle.SWIZZLES)
def test_it_is_an_involution_that_moves_whole_chunks(mode):
    address = np.arange(1 << 14)
    moved = swizzle.apply(address, mode)
    assert (swizzle.apply(moved, mode) == address).all()
    assert (moved % 16 == address % 16).all() and (moved // 128 == address // 128).all()
    assert sorted(moved) == address.tolist()
    assert (moved == address).all() == (mode == "none")


@pytest.mark.parametrize("mode", swizzle.SWIZZLES)
def test_period_is_the_least_shift_that_changes_nothing(mode):
    period, address = swizzle.period_bytes(mode), np.arange(0, 4096, 16)
    shifts = [s for s in range(16, 2049, 16) if (swizzle.apply(address + s, mode) == swizzle.apply(address, mode) + s).all()]
    assert min(shifts) == period
    assert all((s % period == 0) for s in shifts)


def test_bytes_stay_inside_their_span():
    address = np.arange(4096)
    for mode in ("32B", "64B", "128B"):
        span = swizzle.span_bytes(mode)
        assert (swizzle.apply(address, mode) // span == address // span).all()
        assert (swizzle.apply(address, mode) // (span // 2) != address // (span // 2)).any()


def test_ints_stay_ints_and_arrays_keep_their_type():
    assert swizzle.apply(0x380, "128B") == 0x3F0 and type(swizzle.apply(0x380, "128B")) is int
    assert swizzle.apply(np.array([0x380], dtype=np.uint32), "128B").dtype == np.uint32


def test_tagged_cluster_addresses_swizzle_by_their_low_bits():
    assert swizzle.apply(3 << 24 | 0x1080, "128B") == 3 << 24 | swizzle.apply(0x1080, "128B")


def test_a_narrow_row_under_128B_lands_where_the_h200_put_it():
    assert [swizzle.apply(128 * r, "128B") for r in range(4)] == [0, 144, 288, 432]


@pytest.mark.parametrize("call", [swizzle.span_bytes, swizzle.period_bytes, lambda m: swizzle.apply(0, m), swizzle.chunk_table])
def test_unknown_modes_are_named(call):
    with pytest.raises(ValueError, match="'128'.*none, 32B, 64B, 128B"):
        call("128")


def test_a_table_starts_on_a_128_byte_line():
    with pytest.raises(ValueError, match="base = 64"):
        swizzle.chunk_table("128B", base=64)
    assert swizzle.chunk_table("128B", base=128).tolist() == TABLE_128B[1:] + TABLE_128B[:1]
