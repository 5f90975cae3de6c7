# SPDX-License-Identifier: Apache-2.0
"""The pictures beside lesson 14's exercises say what the exercises count."""

from hopperlab.lessons import l14_beat_cublas


def test_waves_and_the_last_one():
    words = l14_beat_cublas.draw_waves(3000, 3000, ((128, 256), (128, 128)), 132).text.splitlines()
    assert words[1:] == ["  128 x 256: 288 tiles, 3 waves, the last with 24 of 132; 6 times a tile of 128 x 128",
                         "  128 x 128: 576 tiles, 5 waves, the last with 48 of 132; 5 times a tile of 128 x 128"]


def test_a_full_last_wave_is_full():
    assert "1 waves, the last with 132 of 132" in l14_beat_cublas.draw_waves(128 * 132, 128, ((128, 128),), 132).text


def test_the_contract_is_drawn_small():
    picture = l14_beat_cublas.draw_contract()
    assert "rows of three boxes" in picture.text and len(picture.png()) < 40_000
