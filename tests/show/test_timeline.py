# SPDX-License-Identifier: Apache-2.0
"""hl.timeline's rows as a Gantt chart: the rows that were asked for, one colour an event, and a unit that is true."""
import pytest

from hopperlab import show
from hopperlab.measure.timelines import KernelTimeline, Mark
from hopperlab.show import style, timelines

ROWS = (Mark(0, 0, 3, "wait", 0, 0.0, 40.0), Mark(0, 0, 3, "issue", 0, 41.0, 41.0), Mark(0, 4, 3, "mma", 0, 50.0, 90.0), Mark(2, 4, 5, "scale", 1, 95.0, 120.0))


def test_the_first_block_is_drawn_by_default():
    text = show.timeline(KernelTimeline(ROWS, kernel="gemm")).text
    assert "gemm, block 0" in text and "warp 4: mma from 50.0 to 90.0" in text and "scale" not in text


def test_blocks_warps_and_an_end_can_be_chosen():
    both = KernelTimeline(ROWS, kernel="gemm")
    assert "block 2 (SM 5) warp 4: scale from 95.0 to 120.0" in show.timeline(both, blocks=(0, 2)).text
    assert "wait" not in show.timeline(both, warps=(4,)).text and "mma" not in show.timeline(both, last=45).text


def test_nothing_to_draw_says_what_there_is():
    with pytest.raises(ValueError, match=r"the timeline has blocks \[0, 2\] and warps \[0, 4\]"):
        show.timeline(KernelTimeline(ROWS), blocks=(1,))


def test_the_axis_names_its_unit_and_the_picture_its_source():
    def drawn(**how):
        return show.timeline(KernelTimeline(ROWS, **how))
    assert "(ns)" in drawn(unit="ns", source="recorded on a GPU").figure.axes[0].get_xlabel()
    assert "not seconds" in drawn().figure.axes[0].get_xlabel()
    assert drawn(source="recorded on a GPU").text.endswith("recorded on a GPU")


def test_events_keep_their_colours_and_others_get_colours_of_their_own():
    assert len({*timelines.EVENT_COLOURS.values(), *timelines.OTHER_COLOURS}) == len(timelines.EVENT_COLOURS) + len(timelines.OTHER_COLOURS)
    figure = show.timeline(KernelTimeline(ROWS), blocks=(0, 2)).figure
    faces = {patch.get_facecolor()[:3] for patch in figure.axes[0].patches}
    from matplotlib.colors import to_rgb
    assert to_rgb(style.BLUE) in faces and to_rgb(style.FAINT) in faces and to_rgb(style.ORANGE) in faces


def test_the_words_of_a_long_timeline_name_every_row_and_leave_nothing_out_in_silence():
    few = [show.Span(f"warp {w}", t, t + 1, "wait") for w in range(4) for t in range(20)]
    assert len(show.gantt(few, "few").text.split("\n")) == 1 + 80
    many = [show.Span(f"warp {w}", 10 * t, 10 * t + 5 * (t % 2), ("issue", "mma")[t % 2]) for w in range(12) for t in range(30)]
    words = show.gantt(many, "many").text.split("\n")
    assert words == ["many", *(f"  warp {w}: 15 issue, 15 mma (75 in all); from 0 to 295" for w in range(12))]
