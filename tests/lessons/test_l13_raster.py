# SPDX-License-Identifier: Apache-2.0
"""Lesson 13: the order of the tiles is the header's, every tile comes once, and what a wave touches is counted by hand."""
import numpy as np
import pytest

from hopperlab.lessons.l13_persistent import raster


@pytest.mark.parametrize(("rows", "cols", "group"), [(5, 7, 2), (3, 4, 8), (8, 8, 1), (6, 5, 6), (1, 9, 4)])
def test_every_tile_comes_once_and_groups_go_down_first(rows, cols, group):
    order = raster.tile_order(rows, cols, group)
    assert sorted(map(tuple, order.tolist())) == [(r, c) for r in range(rows) for c in range(cols)]
    height = min(group, rows)
    assert order[:height + 1].tolist()[:height] == [[r, 0] for r in range(height)]
    assert tuple(order[height]) == ((0, 1) if cols > 1 else (height, 0))


@pytest.mark.parametrize("wrong", [(0, 4, 2), (4, 0, 2), (4, 4, 0)])
def test_no_order_of_nothing(wrong):
    with pytest.raises(ValueError, match="at least one row"):
        raster.tile_order(*wrong)


def test_a_wave_is_counted_by_hand():
    first, second, last = raster.waves_of(raster.tile_order(4, 6, 2), 10)
    assert (first.tiles, first.rows, first.cols) == (10, 2, 5)
    assert (second.tiles, second.rows, second.cols) == (10, 4, 5) and (last.tiles, last.rows, last.cols) == (4, 2, 2)
    assert first.reuse((128, 128)) == 10 * 256 / (7 * 128)


def test_square_waves_read_least():
    uses = {group: raster.waves_of(raster.tile_order(32, 32, group), 64)[0].reuse() for group in (1, 4, 8, 16, 32)}
    assert max(uses, key=uses.get) == 8 and uses[8] == 8.0 and uses[1] == uses[32]
    assert "8 rows, 8 columns" in raster.reuse_table(32, 32, (8,))


@pytest.mark.parametrize(("m", "n", "tiles", "waves", "last"), [(8192, 8192, 2048, 16, 68), (4096, 4096, 512, 4, 116), (128, 7168, 28, 1, 28), (129, 257, 4, 1, 4)])
def test_waves_and_their_last_one(m, n, tiles, waves, last):
    found = raster.fill(m, n)
    assert (found.tiles, found.waves, found.last) == (tiles, waves, last) and found.used == pytest.approx(tiles / (132 * waves))
    assert f"{last} of 132" in raster.waves_table([(m, n)])


def test_pictures_say_what_they_show():
    picture = raster.raster_map(8, 8, (1, 4), 16)
    assert "groups of 4: 16 tiles in 4 rows and 4 columns; each byte is used 4.0 times" in picture.text and picture.png()[:4] == b"\x89PNG"
    assert "128 x 256: 2048: 97 %" in raster.waves_chart(np.arange(1024, 4097, 512)).text
    assert "128 x 256: from 97 % at 2048 to 58 % at 2112, a wave more" in raster.waves_chart(range(512, 8193, 64)).text
    assert "groups of 3" in raster.launch_raster(2048, 3, 33, 2).text
    with pytest.raises(ValueError, match="no wave 3"):
        raster.launch_raster(2048, 4, 33, 3)
