# SPDX-License-Identifier: Apache-2.0
"""Bank maps, fragment maps and the checks of lesson 02: what they say is what the rules and the runs say."""
import numpy as np
import pytest

import hopperlab as hl
from hopperlab import show
from hopperlab.hopper import fragments, swizzle
from hopperlab.lessons import l02_banks_and_swizzles
from hopperlab.lessons.l02_banks_and_swizzles import bank_maps


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    """Everything here runs in the emulator, on a GPU machine too."""
    monkeypatch.setenv("HOPPERLAB_BACKEND", "emulator")
    from hopperlab.runtime import backend

    backend._from_environment.cache_clear()
    yield
    backend._from_environment.cache_clear()


LEGAL = [(stride, shape, mode) for stride in (4, 16, 64, 128, 132, 144) for shape in l02_banks_and_swizzles.ACCESS_SHAPES for mode in ("none", "32B", "128B")
         if stride % (l02_banks_and_swizzles.ACCESS_SHAPES[shape] or 16) == 0 and (mode == "none" or stride % 16 == 0)]


@pytest.mark.parametrize(("stride", "shape", "mode"), LEGAL)
def test_rules_and_run_count_the_same_and_lanes_get_their_rows(stride, shape, mode):
    run, right = bank_maps.run_access(stride, shape, mode)
    assert right and not run.hazards
    assert run.counters["shared_load_wavefronts"] == l02_banks_and_swizzles.access_wavefronts(stride, shape, mode)


def test_what_layouts_are_good_for():
    assert [l02_banks_and_swizzles.access_wavefronts(pitch, "ldmatrix.x4", mode) for pitch, mode in ((128, "none"), (144, "none"), (128, "128B"),
            (144, "128B"))] == [32, 4, 4, 20]
    assert l02_banks_and_swizzles.access_wavefronts(132, "4 bytes per lane") == 1 and l02_banks_and_swizzles.access_wavefronts(128, "4 bytes per lane", "128B") == 4
    assert [bank_maps.least(shape) for shape in l02_banks_and_swizzles.ACCESS_SHAPES] == [1, 2, 4, 4]


@pytest.mark.parametrize(("choice", "told"), [((132, "none", "16 bytes per lane"), "multiple of 16"), ((132, "128B", "4 bytes per lane"), "pad or swizzle"),
                                              ((4, "none", "8 bytes per lane"), "multiple of 8")])
def test_panel_refuses_what_cannot_be(choice, told):
    with pytest.raises(ValueError, match=told):
        l02_banks_and_swizzles.launch_access(*choice)


@pytest.mark.parametrize("draw", [lambda: l02_banks_and_swizzles.access_map(128), lambda: l02_banks_and_swizzles.access_map(144, "ldmatrix.x4"),
                                  lambda: l02_banks_and_swizzles.launch_access(128, "128B", "8 bytes per lane"),
                                  lambda: l02_banks_and_swizzles.mma_map("A"), lambda: l02_banks_and_swizzles.mma_map("C", 31)])
@pytest.mark.sampled(every=4)
def test_pictures_are_deterministic_small_labelled_and_have_words(draw):
    first, second = draw(), draw()
    assert first.png() == second.png() and len(first.png()) < 60_000
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in first.figure.axes)
    assert len(first.text.split("\n")) > 2


def test_panel_says_what_it_counted():
    text = l02_banks_and_swizzles.launch_access(128, "none", "16 bytes per lane").text
    assert "32 wavefronts, 4 would do" in text and "values right; counted: 32 wavefronts, 28 conflicts" in text
    assert "8 8 8 8 0 0" in text


def test_fragment_words_follow_the_table():
    held = fragments.mma("m16n8k16", "bf16")
    words = l02_banks_and_swizzles.mma_words("A", 13)
    assert words.count("(") == 8 and f"({held.a.row[13, 0]}, {held.a.col[13, 0]})" in words.split("\n")[1]
    with pytest.raises(ValueError, match="A, B or C"):
        l02_banks_and_swizzles.mma_map("D")


def test_whence_names_a_forgotten_xor_and_nothing_else():
    expected = np.random.default_rng(1).permutation(1024).reshape(32, 32)
    i, j = np.indices(expected.shape)
    assert l02_banks_and_swizzles.whence(expected, expected) == "every element is in its place"
    assert "row i ^ j, its own column" in l02_banks_and_swizzles.whence(expected[i ^ j, j], expected)
    assert "its own row, column i ^ j" in l02_banks_and_swizzles.whence(expected[i, i ^ j], expected)
    assert "no XOR of row and column explains" in l02_banks_and_swizzles.whence(expected[::-1], expected)
    assert "no mere change of places" in l02_banks_and_swizzles.whence(expected + 5000, expected)


def test_counts_beside_the_recording():
    with hl.emulate() as run:
        kernel = hl.load_kernel("banks/transpose.cu", "transpose", ("-DPITCH=36",))
        kernel((1,), (32, 32), (np.ones((32, 32), np.float32), np.zeros((32, 32), np.float32)))
    assert "128 / 128      96 / 96           32 / 32        0 / 0  equal" in l02_banks_and_swizzles.counted_beside({"transpose_padded_4": run})
    assert "DIFFERENT" in l02_banks_and_swizzles.counted_beside({"transpose_plain": run})
    with pytest.raises(LookupError, match="no_such"):
        l02_banks_and_swizzles.counted_beside({"no_such": run})


XORS = [(lambda r, p: 128 * r + 16 * (p ^ r % 8), "Right"), (lambda r, p: (128 * r + 16 * p) ^ (r % 8 * 16), "Right"),
        (lambda r, p: int(swizzle.apply(128 * r + 16 * p, "128B")), "Right"), (lambda r, p: 128 * r + 16 * p, "take 8 wavefronts"),
        (lambda r, p: 128 * r + 16 * (p ^ r % 4), "take 2 wavefronts"), (lambda r, p: 128 * r + 16 * (p | r % 8), "same offset"),
        (lambda r, p: 128 * r + 16 * (p ^ r), "place(15, 0) = 2160 lies outside of the tile"),
        (lambda r, p: 128 * r + 16 * p / 1, "place(0, 0) is 0.0"),
        (lambda r, p: None, "place(0, 0) is None"), (lambda r, p: 128 * r + 16 * ((p + r) % 8), "The hardware's pattern is another"),
        (lambda r, p: 128 * r + 4 * p, "not a multiple of 16"), (lambda r: r, "could not be called")]


@pytest.mark.parametrize(("place", "told"), XORS)
def test_xor_exercise(place, told):
    assert told in l02_banks_and_swizzles.check_xor(place)


def test_unanswered_xor_blocks_nothing():
    assert l02_banks_and_swizzles.check_xor(None).startswith("Not answered")


def test_wrapper_shows_one_function_with_its_comment():
    shown = show.wrapper("ldmatrix_x4", "mma")
    assert shown.text.startswith("// Four 8x8") and shown.text.rstrip().endswith("}") and shown.text.count("__device__") == 1
    with pytest.raises(ValueError, match="no wrapper 'nothing'"):
        show.wrapper("nothing", "mma")
