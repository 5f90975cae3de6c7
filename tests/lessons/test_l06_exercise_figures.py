# SPDX-License-Identifier: Apache-2.0
"""Lesson 06: the picture of its exercise: where XOR on the address finds a column, and XOR on the offset does not."""
import pytest

from hopperlab.lessons import l06_tma_layouts


@pytest.mark.parametrize("span", (32, 64, 128))
def test_xor_on_the_address_finds_what_it_wants_and_on_the_offset_not(span):
    _, address, offset = str(l06_tma_layouts.draw_column_reads(span, piece=1, at=128)).splitlines()
    assert address.endswith("find " + ", ".join(f"{row}.1" for row in range(8)))
    assert not any(f" {row}.1" in offset.split("find")[1].split(",")[row] for row in range(8))
    assert "lanes 0 to 7 find 0.1, 1.1, 2.1" in str(l06_tma_layouts.draw_column_reads(span, piece=1, at=0)).splitlines()[2]
