# SPDX-License-Identifier: Apache-2.0
"""Lesson 05: a box that landed is the reference, the boxes refused, and the check of its small exercise."""

import math

import numpy as np
import pytest

import hopperlab as hl
from hopperlab import measure
from hopperlab.hopper.tensormap import TensorMapError
from hopperlab.lessons import l05_tma_tiles
from hopperlab.lessons.l05_tma_tiles import recorded


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    """Everything here runs in the emulator, on a GPU machine too."""
    monkeypatch.setenv("HOPPERLAB_BACKEND", "emulator")
    from hopperlab.runtime import backend

    backend._from_environment.cache_clear()
    yield
    backend._from_environment.cache_clear()


TENSOR = np.arange(96, dtype=np.float32).reshape(8, 12)


@pytest.mark.parametrize("swizzle", ["none", "32B"])
@pytest.mark.parametrize("start", [(-1, -4), (0, 0), (6, 8), (-4, -8), (9, 16)])
def test_land_is_the_reference(start, swizzle):
    landed = l05_tma_tiles.land(TENSOR, start, (4, 8), swizzle)
    assert np.array_equal(landed, l05_tma_tiles.reference_box(TENSOR, start, (4, 8)))


def test_land_refuses_before_it_launches():
    with pytest.raises(TensorMapError, match="multiple of 16"):
        l05_tma_tiles.land(TENSOR, (0, 3), (4, 8))
    with pytest.raises(TensorMapError, match="coordinates"):
        l05_tma_tiles.land(TENSOR, (0,), (4, 8))


def test_land_bytes_shows_the_gap_of_a_narrow_swizzled_box():
    narrow = hl.TensorMap.tiled(TENSOR, box=(4, 8), swizzle="64B")
    raw = l05_tma_tiles.land_bytes(narrow, (0, 0))
    assert raw.size == 4 * 64 and (raw == 0xEE).sum() == 4 * 32


def test_halo_exercise():
    volume = np.arange(16 ** 3, dtype=np.float32).reshape(16, 16, 16)
    smallest, larger = (l05_tma_tiles.check_halo(volume, box, start, 4 * math.prod(box)) for box, start in (((10, 10, 16), (-1, -1, -4)), ((16, 10, 16), (-4, -1, -4))))
    assert smallest.startswith("Right") and "more than is needed" not in smallest
    assert larger.startswith("Right") and "more than is needed" in larger
    assert "Not answered" in l05_tma_tiles.check_halo(volume, None, None, None)
    assert "the tile and its halo are -1 to 8" in l05_tma_tiles.check_halo(volume, (10, 10, 12), (-1, -1, -4), 4800)
    assert "refuses" in l05_tma_tiles.check_halo(volume, (10, 10, 12), (-1, -1, -1), 4800)
    assert "(10, 10) is not 3 whole numbers" in l05_tma_tiles.check_halo(volume, (10, 10), (-1, -1, -4), 6400)
    assert "'6400' is a text" in l05_tma_tiles.check_halo(volume, (10, 10, 16), (-1, -1, -4), "6400")
    assert "counts the whole box" in l05_tma_tiles.check_halo(volume, (10, 10, 16), (-1, -1, -4), 4000)


def test_reference_box_fills_and_skips():
    box = l05_tma_tiles.reference_box(TENSOR, (-1, 10), (3, 4), fill=-7.0)
    assert box[0].tolist() == [-7.0] * 4 and box[1].tolist() == [10, 11, -7, -7]
    assert l05_tma_tiles.inside(TENSOR.shape, (-1, 10), (3, 4)) == 4
    assert l05_tma_tiles.reference_box(TENSOR, (0, 0), (5, 4), element_strides=(2, 1))[:, 0].tolist() == [0, 24, 48]
    assert l05_tma_tiles.reference_box(TENSOR, (0, 0), (1, 4), element_strides=(1, 2)).tolist() == [[0, 1, 2, 3]], "the innermost stride is ignored"


def test_box_words_count_what_is_filled():
    landed = l05_tma_tiles.reference_box(TENSOR, (-1, -2), (4, 8))
    assert "18 of 32 elements come from the tensor, 14 are filled; the barrier counts 128 bytes" in l05_tma_tiles.box_explorer(TENSOR, (-1, -2), (4, 8), landed).text


def test_promotion_by_configuration_is_the_recording():
    recording = measure.load("pitches")
    table = recorded.promotion_table(recording).splitlines()
    rates = {o.removeprefix("PROMOTION="): r.tflops for r in recording.where(note="k 8 less") if r.shape[0] == 4096 and "TRIED=two share B" in r.options
             for o in r.options if o.startswith("PROMOTION=")}
    assert next(line for line in table if line.startswith("  two share B")).split()[3:] == [
        *(f"{rates[choice]:.0f}" for choice in ("none", "128B", "256B")), f"{rates['256B'] / rates['128B']:.2f}"]
    tried = {(r.note, o) for r in recording for o in r.options if o.startswith("TRIED=") and r.shape[0] == 4096 and r.note in recorded.PITCHES}
    assert len(table) == 5 + len(tried) and "–" in table[-1], "a choice that was not tried has no number"
    with pytest.raises(LookupError):
        recorded.promotion_table(recording, size=17)
