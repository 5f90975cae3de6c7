# SPDX-License-Identifier: Apache-2.0
"""Lesson 05: the picture of its exercise names box and start."""
from hopperlab.lessons import l05_tma_tiles

PNG = b"\x89PNG"


def test_halo_names_box_and_start():
    picture = l05_tma_tiles.draw_halo(tile=8, halo=2, lead=4)
    assert "12 rows of 16 elements, from (-2, -4)" in str(picture)
    assert picture.png().startswith(PNG)
