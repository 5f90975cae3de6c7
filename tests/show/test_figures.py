# SPDX-License-Identifier: Apache-2.0
"""Figures: the numbers they state, their text twins, and that they come out the same every time."""

import numpy as np
import pytest

from hopperlab import show
from hopperlab.lessons import l00_start_here, l03_ampere_pipeline, l05_tma_tiles, l14_beat_cublas
from hopperlab.show import style


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


TENSOR = np.arange(96, dtype=np.float32).reshape(8, 12)
PICTURES = {
    "roofline": lambda: l00_start_here.roofline({"bf16": 900, "fp32": 60}, 4.5, [l00_start_here.Point("copy", 0.1, 0.4), l00_start_here.Point("product", 500)]),
    "tile": lambda: show.swizzled_tile(),
    "banks": lambda: l03_ampere_pipeline.bank_map(128 * np.arange(32)),
    "stages": lambda: show.stage_diagram(4, 8),
    "box": lambda: l05_tma_tiles.box_explorer(TENSOR, (-1, -2), (4, 8), l05_tma_tiles.reference_box(TENSOR, (-1, -2), (4, 8))),
    "lines": lambda: show.lines([2, 3, 4], {"a": [1, 2, None], "b": [2, 3, 4]}, "stages", "TFLOP/s", "Stages", "recorded"),
    "bars": lambda: show.bars({"one": 3.0, "two": 5.0}, "TFLOP/s", "Products", best="two"),
    "ladder": lambda: l14_beat_cublas.ladder(),
    "gantt": lambda: show.gantt([show.Span("warp 0", 0, 0, "issue"), show.Span("engine", 0, 5, "in flight", "tile 0")], "A run"),
}


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.sampled(every=8)
def test_picture_is_deterministic_small_and_has_words(name):
    first, second = PICTURES[name](), PICTURES[name]()
    assert first.png() == second.png()
    assert first.png() == first.png()
    assert len(first.png()) < 60_000
    data, metadata = first._repr_mimebundle_()
    assert data["text/plain"] == first.text and len(first.text.split("\n")) > 1
    assert metadata["image/png"]["width"] <= style.COLUMN


@pytest.mark.parametrize("name", PICTURES)
def test_axes_carry_labels(name):
    for axis in PICTURES[name]().figure.axes:
        assert axis.get_xlabel(), "every x axis says what it shows"
        assert axis.get_ylabel() or name == "bars" or axis.get_yticklabels(), "every y axis says what it shows"


def test_text_reads_on_card_and_on_every_colour():
    assert contrast(style.INK, style.CARD) > 7
    for colour in style.PALETTE:
        assert contrast(style.ink_on(colour), colour) > 3, colour


def test_swizzled_tile_table_is_the_formula():
    lines = show.tile_table(8, 128, "128B").split("\n")
    assert [int(v) for v in lines[2].split(":")[1].split()] == [144, 128, 176, 160, 208, 192, 240, 224]
    assert "gap" not in show.tile_table(8, 128, "none")


def test_a_narrow_box_keeps_the_pitch_of_its_span():
    lines = show.tile_table(4, 32, "128B").split("\n")
    assert [int(v) for v in lines[2].split(":")[1].split()] == [144, 128]


@pytest.mark.parametrize("stride, width, passes", [(4, 4, 1), (128, 4, 32), (8, 4, 2), (132, 4, 1), (16, 16, 4), (64, 16, 16), (0, 4, 1)])
def test_wavefronts(stride, width, passes):
    assert show.wavefronts(stride * np.arange(32), width) == passes


def test_stage_plan_reuses_a_buffer_only_after_its_use():
    for stages in range(2, 7):
        used = {}
        for _, buffer, issued, use in show.stage_plan(stages, 20):
            assert issued > used.get(buffer, -stages), "the copy starts in an iteration after the last use"
            used[buffer] = use
    with pytest.raises(ValueError, match="at least 2"):
        show.stage_plan(1, 4)


def test_listing_numbers_and_marks():
    shown = show.listing("int a;\nint b;\nint c;", "x.cu", lines=(2, 3), mark=(3,))
    assert shown.numbered() == "    2  int b;\n>   3  int c;"
    assert "x.cu" in shown._repr_mimebundle_()["text/html"]
    with pytest.raises(ValueError, match="lines 1 to 3"):
        show.listing("int a;\nint b;\nint c;", "x.cu", lines=(2, 9))


def test_source_finds_one_kernel_of_a_file():
    shown = show.source("copy/tma_copy.cu", kernel="tma_landing")
    assert shown.text.startswith("// Launch: grid 1") and shown.text.rstrip().endswith("}")
    assert "tma_copy_ring(" not in shown.text and shown.first > 1
    with pytest.raises(ValueError, match="no_such"):
        show.source("copy/tma_copy.cu", kernel="no_such")
