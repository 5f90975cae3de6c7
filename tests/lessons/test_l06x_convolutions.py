# SPDX-License-Identifier: Apache-2.0
"""Lesson 06x: the matrix of a convolution, the walk, right and wrong corners, interleaved layouts, the panel and the exercise."""
from dataclasses import replace

import numpy as np
import pytest

import hopperlab as hl
from hopperlab import measure
from hopperlab.hopper import wgmma
from hopperlab.lessons.l06x_im2col_interleave import convolutions as conv, core_matrices
from hopperlab.measure.launches import copies
from hopperlab.measure.recordings import Record, Recording

CASES = [((3, 3), 1, 1), ((3, 3), 0, 1), ((3, 3), 1, 2), ((5, 3), 1, 1), ((2, 3), 2, 3)]


@pytest.mark.parametrize(("edges", "padding", "stride"), CASES, ids=str)
def test_numpy_and_the_engine_give_the_convolution(edges, padding, stride):
    image = conv.image_of(6, 7, count=2)
    matrix = conv.convolution_matrix(image, edges, padding, stride)
    assert np.array_equal(conv.load_matrix(image, edges, padding, stride), matrix)
    filters = np.random.default_rng(sum(edges)).integers(-2, 3, (3, *edges, 8)).astype(np.float16)
    product = matrix.reshape(len(matrix), -1).astype(np.float64) @ filters.reshape(3, -1).astype(np.float64).T
    assert np.array_equal(product.reshape(2, *conv.output_shape(image.shape, edges, padding, stride), 3), conv.convolve(image, filters, padding, stride))


@pytest.mark.parametrize(("edges", "padding", "stride"), CASES, ids=str)
def test_the_walk_is_what_lands(edges, padding, stride):
    image = conv.image_of(6, 7)
    laid = conv.load_matrix(image, edges, padding, stride)
    for tap in ((0, 0), (edges[0] - 1, edges[1] - 1)):
        walked = [(0, *at) if 0 <= at[0] < 6 and 0 <= at[1] < 7 else None for at in conv.walk(image, edges, padding, stride, tap)]
        assert walked == conv.where_from(laid, image, tap[0] * edges[1] + tap[1])


def test_swapped_corners_show_only_where_they_differ():
    image = conv.image_of(6, 7)
    for padding, same in ((1, True), (0, False)):
        lower, upper = conv.corners((3, 3), padding)
        wrong = conv.load_matrix(image, (3, 3), padding, lower=upper, upper=lower)
        assert np.array_equal(wrong, conv.convolution_matrix(image, (3, 3), padding)) is same
    walked = conv.walk(image, (3, 3), 0, 1, (0, 0), lower=(-2, -2), upper=(0, 0))
    assert conv.where_from(wrong, image)[:8] == [(0, *at) if at[1] >= 0 else None for at in walked[:8]]


def test_a_filter_that_does_not_fit_is_named():
    with pytest.raises(ValueError, match="9 x 9 does not fit into 7 x 9"):
        conv.launch_im2col(9, 1, 0, 8, "NHWC", "first")


@pytest.mark.parametrize(("channels", "layout", "words"), [
    (8, "NHWC", "NHWC, 8 channels"), (24, "NHWC", "NHWC, 24 channels"), (12, "NC/8HWC8", "NC/8HWC8, 2 slices, 4 of 16 channels tail"),
    (12, "NC/16HWC16", "NC/16HWC16, 1 slice, 4 of 16 channels tail"), (20, "NC/16HWC16", "NC/16HWC16, 2 slices, 12 of 32 channels tail")])
@pytest.mark.sampled(every=2)
def test_the_panel_compares_with_numpy_in_every_layout(channels, layout, words):
    picture = conv.launch_im2col(3, 2, 1, channels, layout, "last")
    assert f"4 x 5 outputs, as NumPy says {words}; read for filter element (2, 2)" in picture.text.replace("\n", " ") and picture.png()[:4] == b"\x89PNG"


def test_the_panel_says_why_twelve_channels_cannot_lie_in_nhwc():
    with pytest.raises(hl.TensorMapError, match="24.*multiple of 16"):
        conv.launch_im2col(3, 1, 1, 12, "NHWC", "first")


def test_the_panel_says_when_the_engine_does_not_agree(monkeypatch):
    monkeypatch.setattr(conv, "convolution_matrix", lambda image, *args: np.ones((63, 9, image.shape[-1])))
    assert "NOT as NumPy says" in conv.launch_im2col(3, 1, 1, 8, "NC/8HWC8", "first").text


@pytest.mark.parametrize("layout", conv.SLICES)
@pytest.mark.parametrize(("edges", "padding", "stride"), CASES, ids=str)
def test_slices_are_images_to_the_walk(edges, padding, stride, layout):
    image = conv.image_of(6, 7, channels=20, count=2)
    laid = conv.load_sliced(image, edges, padding, stride, layout)
    assert np.array_equal(laid[..., :20], conv.convolution_matrix(image, edges, padding, stride)) and not laid[..., 20:].any()


@pytest.mark.parametrize(("layout", "swizzle", "shape"), [("NC/8HWC8", "none", (2, 2, 5, 6, 8)), ("NC/16HWC16", "32B", (2, 1, 5, 6, 16))])
def test_interleaved_layouts_are_copied_with_their_tail(layout, swizzle, shape):
    image = conv.image_of(5, 6, 12, 2)
    sliced = conv.interleaved(image, layout)
    assert sliced.shape == shape
    back = np.moveaxis(sliced, 1, 3).reshape(2, 5, 6, -1)
    assert np.array_equal(back[..., :12], image) and not back[..., 12:].any() and back.shape[-1] == 16
    out = np.full_like(sliced, -1)
    with hl.emulate(hazards="raise"):
        copies.interleaved_copy(sliced, out, (1, 1, 2, 8), conv.SLICES[layout], swizzle, backend="emulator")()
    assert np.array_equal(out, sliced)


def test_tails_and_the_layout_in_words():
    assert "2 slices, 25.0 % padding" in conv.tail_table((12,)) and "1 slice, 50.0 % padding" in conv.tail_table((8,))
    assert "4 of each pixel's 16 are padding" in conv.layout_picture(12).text


def test_corners_as_recorded():
    told = conv.corners_table(measure.load("engine"))
    assert told.count("exchanged") == 6 and "pixels wrong, as in the emulator" in told and "not as in the emulator" not in told
    assert told.count("illegal instruction") == 1, "the lesson says which one"


def test_corners_in_words():
    options = ("filter=5 x 3", "padding=1", "stride=1")
    records = (Record("corners", "im2col_load", (*options, "corners=right"), outcome="right", note="0 of 9 pixels wrong, as in the emulator"),
               Record("corners", "im2col_load", (*options, "corners=exchanged"), outcome="wrong", note="4 of 9 pixels wrong, not as in the emulator"),
               Record("corners", "im2col_load", (*options, "corners=exchanged"), outcome="refused"),
               Record("corners", "im2col_load", (*options, "corners=exchanged"), outcome="illegal instruction"))
    lines = conv.corners_table(Recording("engine", {"gpu": "G", "driver": "1", "cuda": "2", "date": "3"}, records)).splitlines()
    assert [" ".join(line.split()) for line in lines[2:]] == ["5 x 3 1 1 right right, as in the emulator",
                                                             "5 x 3 1 1 exchanged 4 of 9 pixels wrong, not as in the emulator",
                                                             "5 x 3 1 1 exchanged refused by the driver's rules", "5 x 3 1 1 exchanged illegal instruction"]


def test_the_recorded_layouts():
    told = conv.layouts_table(measure.load("micro"))
    assert "interleave=32B" in told and "im2col_load" in told and "view=" not in told


@pytest.mark.parametrize(("answer", "words"), [
    ((None, None), "Not answered"), (((-1, -1), (-3, -1)), "Right"), (((-3, -1), (-1, -1)), "which reads (0, 6, 0) where (1, 0, 0)"),
    (((-1, -1), (3, 1)), "which reads zeros, outside of the image, where (0, 1, 0) is meant (image, row, column)"), ((-1, -3), "-1 is not 2 whole numbers"),
    (((-1, -1), (-1, -3)), "94 of 108"), (((-200, 0), (0, 0)), "a corner offset is -128 to 127")], ids=str)
def test_the_exercise(answer, words):
    assert words in conv.check_corners(*answer)


@pytest.mark.parametrize(("pixels", "channels"), [(8, 16), (24, 16), (16, 32)])
def test_slices_are_core_matrices_of_wgmma(pixels, channels):
    """Every element where the descriptor reads it; with the two offsets exchanged it is not."""
    image = np.arange(pixels * channels, dtype=np.float16).reshape(1, 1, pixels, channels)
    landed, descriptor = core_matrices.slices_as_operand(image)
    for first in range(0, channels, 16):                        # a k-step is two slices
        stepped = replace(descriptor, start=descriptor.leading_bytes * first // 8)
        where = wgmma.operand_addresses(stepped, rows=pixels, k_elems=16, elem_bytes=2, major="K")
        assert np.array_equal(landed[where // 2], image[0, 0, :, first:first + 16])
    if pixels > 8:
        exchanged = replace(descriptor, leading_bytes=descriptor.stride_bytes, stride_bytes=descriptor.leading_bytes)
        where = wgmma.operand_addresses(exchanged, rows=16, k_elems=16, elem_bytes=2, major="K")
        assert not np.array_equal(landed[where // 2], image[0, 0, :16, :16])


def test_pixels_that_are_no_whole_core_matrices_are_refused():
    with pytest.raises(ValueError, match="a multiple of 8"):
        core_matrices.slices_as_operand(conv.image_of(1, 12, channels=16))
