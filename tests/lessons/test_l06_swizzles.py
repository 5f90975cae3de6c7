# SPDX-License-Identifier: Apache-2.0
"""Lesson 06's figure, panel and exercise: one element followed by the formula, tiles read back by the kernel."""

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.hopper import swizzle
from hopperlab.lessons import l06_tma_layouts
from hopperlab.lessons.l06_tma_layouts import checks, followed_element


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    """Everything here runs in the emulator, on a GPU machine too."""
    monkeypatch.setenv("HOPPERLAB_BACKEND", "emulator")
    from hopperlab.runtime import backend

    backend._from_environment.cache_clear()
    yield
    backend._from_environment.cache_clear()


def test_the_followed_element_lands_where_the_formula_says():
    path = followed_element.follow_path("128B", 128, 3, 36)
    assert (path.plain, path.landed, path.bank, path.piece) == (0x1A4, 0x194, 5, 2)
    assert followed_element.follow_path("64B", 32, 5, 0, 128).plain == 128 + 5 * 64, "a narrow row keeps the span as its pitch"
    words = l06_tma_layouts.follow_element("128B", 128, 3, 36).text
    assert "without a swizzle at 0x1a4; XOR 0x30; landed at 0x194, bank 5" in words


@pytest.mark.parametrize("mode, row_bytes", [("none", 16), ("32B", 32), ("64B", 64), ("128B", 128)])
def test_a_column_of_eight_rows_has_banks_of_its_own(mode, row_bytes):
    for piece in range(row_bytes // 16):
        starts = {followed_element.follow_path(mode, row_bytes, row, 16 * piece).bank for row in range(8)}
        assert len(starts) == 8


@pytest.mark.parametrize("mode, row_bytes, base", [("none", 256, 0), ("32B", 16, 384), ("64B", 64, 128), ("128B", 32, 896)])
@pytest.mark.thorough
def test_picture_is_deterministic_small_and_has_labels(mode, row_bytes, base):
    first, second = (l06_tma_layouts.follow_element(mode, row_bytes, 5, 4, base) for _ in range(2))
    assert first.png() == second.png() and len(first.png()) < 60_000
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in first.figure.axes)


@pytest.mark.parametrize("values, message", [(("64B", 128, 0, 0), "at most the span"), (("128B", 32, 0, 32), "not in a row"),
                                             (("128B", 128, 0, 0, 64), "multiple of 128")])
def test_what_cannot_be_followed_is_explained(values, message):
    with pytest.raises(ValueError, match=message):
        followed_element.follow_path(*values)


@pytest.mark.parametrize("mode, row_bytes, wavefronts", [("none", 128, 256), ("none", 16, 4), ("32B", 32, 8), ("64B", 32, 8), ("128B", 128, 32)])
def test_read_columns_counts_wavefronts(mode, row_bytes, wavefronts):
    right, run = l06_tma_layouts.read_columns(mode, row_bytes, start=256)
    assert right and not run.hazards and run.counters["shared_load_wavefronts"] == wavefronts


def test_padding_is_a_wider_box():
    right, run = l06_tma_layouts.read_columns("none", 128, padding=16)
    assert right and run.counters["shared_load_wavefronts"] == 32 and run.counters["tma_load_bytes"] == 32 * 144
    with pytest.raises(ValueError, match="padding"):
        l06_tma_layouts.read_columns("128B", 128, padding=16)


def test_panel_reads_back_and_refuses_wide_rows():
    words = l06_tma_layouts.launch_columns("128B", 128, 3, 9, 128).text
    assert "read back right, 32 wavefronts for all columns, 32 at best" in words and "(3, 9)" in words
    for bad, message in ((("64B", 128, 0, 0, 0), "at most the span"), (("128B", 32, 0, 20, 0), "columns 0 to 7")):
        with pytest.raises(ValueError, match=message):
            l06_tma_layouts.launch_columns(*bad)


def test_access_table_is_the_formula():
    rows = l06_tma_layouts.access_table().split("\n")
    assert rows[1].split()[-4:] == ["32"] * 4 and rows[4].split()[-4:] == ["4"] * 4 and rows[-1].split()[-4:] == ["1", "1", "2", "4"]


def test_exercise_names_what_lies_at_a_wrong_address():
    answers = {}
    for name, (mode, columns, base, (row, column)) in checks.ATTEMPTS.items():
        answers[name] = int(swizzle.apply(base + row * 2 * columns + 2 * column, mode))
    assert l06_tma_layouts.check_addresses(answers).count("right, ") == 3
    assert l06_tma_layouts.check_addresses({}).count("not answered yet") == 3
    assert "lies element (37, " in l06_tma_layouts.check_addresses({"first": 0x2400 + 37 * 128 + 86})
    assert "no element" in l06_tma_layouts.check_addresses({"second": 0x17FF})
    assert "first: '0x3686' is a text: write the number without quotes" in l06_tma_layouts.check_addresses({"first": "0x3686"})
    wrong = int(swizzle.apply(2 * 128 + 10, "128B")) + 0x2500          # the XOR on the offset instead of the address
    assert "not the one asked for" in l06_tma_layouts.check_addresses({"third": wrong})


def test_panel_and_lesson_use_the_public_names():
    assert callable(l06_tma_layouts.swizzle_cost) and isinstance(hl.kernel_source("layouts/columns.cu"), str)
    assert np.all(np.array(list(swizzle.ROW_BITS.values())) % 128 == 0)
