# SPDX-License-Identifier: Apache-2.0
"""Wavefronts and conflicts: cases worked out by hand, and patterns measured on an H200."""

from pathlib import Path

import numpy as np
import pytest

from hopperlab.hopper import banks, swizzle

LANE = np.arange(32)
MEASURED = Path(__file__).with_name("banks_h200.csv")


@pytest.mark.parametrize("stride, count", [(1, 1), (2, 2), (3, 1), (4, 4), (8, 8), (16, 16), (32, 32), (33, 1), (0, 1)])
def test_words_at_a_stride(stride, count):
    """Stride s puts 32 / gcd-many lanes on one bank; one word for all is a broadcast."""
    assert banks.wavefronts(LANE * stride * 4, 4) == count
    assert banks.conflicts(LANE * stride * 4, 4) == count - 1


def test_bytes_and_halves_of_one_word_go_together():
    assert banks.wavefronts(LANE, 1) == 1 and banks.wavefronts(LANE * 2, 2) == 1
    assert banks.wavefronts(LANE * 128 + LANE % 4, 1) == 32
    assert banks.wavefronts(LANE // 4 * 128 + LANE % 4, 1) == 8


def test_wide_accesses_go_in_halves_and_quarters():
    assert banks.wavefronts(LANE * 8, 8) == 2 and banks.conflicts(LANE * 8, 8) == 0
    assert banks.wavefronts(LANE * 16, 16) == 4 and banks.conflicts(LANE * 16, 16) == 0
    assert banks.wavefronts(LANE * 128, 16) == 32, "a row a lane: eight lanes of a quarter share four banks"
    assert banks.wavefronts(LANE * 256, 8) == 32
    assert banks.wavefronts(LANE * 32, 16) == 8


def test_a_swizzled_column_of_16_byte_chunks_is_free():
    """The reason for the 128B swizzle: eight rows of one column of chunks, in plain and in swizzled order."""
    column = LANE % 8 * 128 + LANE // 8 * 16
    assert banks.wavefronts(column, 16) == 32
    assert banks.wavefronts(swizzle.apply(column, "128B"), 16) == 4
    assert banks.matrix_wavefronts(column, 4) == 32 and banks.matrix_conflicts(column, 4) == 28
    assert banks.matrix_wavefronts(swizzle.apply(column, "128B"), 4) == 4


@pytest.mark.parametrize("mode, count", [("none", 8), ("32B", 4), ("64B", 2), ("128B", 1)])
def test_ldmatrix_down_a_tile_of_128_byte_rows(mode, count):
    """Eight rows 128 bytes apart: the modes spread one column over 1, 2, 4 or 8 of the eight chunks of a line."""
    assert banks.matrix_wavefronts(swizzle.apply(LANE % 8 * 128, mode), 1) == count


@pytest.mark.parametrize("shared", [LANE // 2, LANE // 4 * 2 + LANE % 2], ids=["i ^ 1", "i ^ 2"])
def test_pairs_of_lanes_that_share_an_address_halve_a_load_but_not_a_store(shared):
    """Sixteen neighbouring places for 32 lanes, two lanes each."""
    assert banks.wavefronts(shared * 8, 8) == 1 and banks.wavefronts(shared * 8, 8, store=True) == 2
    assert banks.wavefronts(shared * 16, 16) == 2 and banks.wavefronts(shared * 16, 16, store=True) == 4
    broken = shared.copy()
    broken[31] = 16
    assert banks.wavefronts(broken * 8, 8) == 2, "one pair that differs is enough"


def test_one_address_for_all_lanes():
    everywhere = np.zeros(32, dtype=int)
    assert [banks.wavefronts(everywhere, size) for size in (1, 2, 4, 8, 16)] == [1, 1, 1, 1, 2]
    assert [banks.wavefronts(everywhere, size, store=True) for size in (4, 8, 16)] == [1, 2, 4]


def test_inactive_lanes_do_not_count():
    active = LANE < 8
    assert banks.wavefronts(LANE * 128, 4, active) == 8
    assert banks.wavefronts(LANE * 128, 4, LANE < 0) == 0 and banks.conflicts(LANE * 128, 4, LANE < 0) == 0
    assert banks.wavefronts(np.where(active, LANE * 4, 3), 4, active) == 1, "addresses of inactive lanes are not looked at"
    assert banks.wavefronts(LANE * 16, 16, LANE < 16, store=True) == 2


def measured():
    for line in MEASURED.read_text().splitlines():
        if not line.startswith("#"):
            kind, size, count, extra, *places = line.split(",")
            yield kind, int(size), int(count), int(extra), places


def test_every_pattern_measured_on_an_h200():
    kinds = set()
    for kind, size, count, extra, places in measured():
        active = np.array([place != "-" for place in places])
        unit = 16 if kind.endswith("matrix") else size
        at = np.array([int(place) * unit if place != "-" else 0 for place in places])
        if kind.endswith("matrix"):
            got = banks.matrix_wavefronts(at, size), banks.matrix_conflicts(at, size)
        else:
            got = banks.wavefronts(at, size, active, kind == "st"), banks.conflicts(at, size, active, kind == "st")
        assert got == (count, extra), (kind, size, places)
        kinds.add((kind, size))
    assert len(kinds) == 16


@pytest.mark.parametrize("call, words", [
    (lambda: banks.wavefronts(np.arange(31), 1), "32 addresses"),
    (lambda: banks.wavefronts(LANE * 4, 4, np.ones(8)), "32 active flags"),
    (lambda: banks.wavefronts(LANE * 4, 3), "access_bytes = 3"),
    (lambda: banks.wavefronts(LANE * 4, 8), "lane 1 accesses 8 bytes at 0x4"),
    (lambda: banks.matrix_wavefronts(LANE * 16, 3), "num = 3"),
    (lambda: banks.matrix_wavefronts(LANE * 8, 4), "lane 1 accesses 16 bytes"),
])
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize(("words", "combined", "expected"), [
    (np.arange(32), False, 1), (np.arange(32) // 4, False, 4), (np.arange(32) // 4, True, 1), (np.arange(32) * 32, True, 32),
    (np.arange(32) % 8 * 32 + np.arange(32) // 8, False, 8), (np.zeros(32, int), False, 32), (np.zeros(32, int), True, 1)])
def test_atomics_serve_the_lanes_of_a_bank_one_by_one(words, combined, expected):
    assert banks.atomic_wavefronts(words * 4, 4, combined=combined) == expected
    half = np.arange(32) < 16
    assert banks.atomic_wavefronts(words * 4, 4, half, combined=combined) <= expected


def test_atomics_of_64_bits_go_by_halves():
    assert banks.atomic_wavefronts(np.arange(32) * 8, 8) == 2
    assert banks.atomic_wavefronts(np.arange(32) // 2 * 8, 8) == 4


@pytest.mark.parametrize("access_bytes", banks.ACCESS_BYTES)
@pytest.mark.parametrize("store", [False, True])
def test_many_warps_at_once_are_counted_like_one_after_another(access_bytes, store):
    rng = np.random.default_rng(access_bytes + store)
    addresses = rng.integers(0, rng.integers(1, 200, 60)[:, None], (60, 32)) * access_bytes
    addresses[:20] = np.repeat(addresses[:20, ::2], 2, axis=1)                   # pairs that share an address
    addresses[20:30] = addresses[20:30, np.arange(32) & ~2]
    active = rng.random((60, 32)) < rng.choice([0.1, 0.5, 1.0], 60)[:, None]
    waves, conflicts = banks.wavefronts_of_many(addresses, access_bytes, active, store)
    assert waves.tolist() == [banks.wavefronts(a, access_bytes, on, store) for a, on in zip(addresses, active)]
    assert conflicts.tolist() == [banks.conflicts(a, access_bytes, on, store) for a, on in zip(addresses, active)]
