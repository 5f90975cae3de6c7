# SPDX-License-Identifier: Apache-2.0
"""Lessons 09 to 15 in JupyterLab: each runs top to bottom, every control of its panel launches by keyboard and by mouse, what
cannot be is explained, and the figures are whole in the dark theme (SCREENSHOTS names a folder for pictures of them in both).
"""

from __future__ import annotations

import pytest
from support import browser
from support.panel import PanelDriver

pytestmark = [pytest.mark.browser, pytest.mark.thorough]      # lesson 05 takes the same path in `make test`

# lesson -> (moves: each a control's kind, its number and an entry or pixels; moves that end in a refusal, and its words; cells to look at)
LESSONS = {
    "09_multistage": (
        [("slider", 0, -60), ("list", 0, "128"), ("list", 1, "eager"), ("list", 2, "estimated cycles")],
        [("list", 0, "128"), ("key", 0, "End")], "a block can have",
        ("halves", "overlap-picture", "measure", "panel")),
    "10_warp_specialization": (
        [("list", 1, "yes"), ("list", 2, "eager"), ("slider", 0, 60), ("list", 0, "one producer warp"), ("list", 3, "estimated microseconds")],
        [("list", 1, "yes")], "no producer",
        ("emulated-picture", "timeline", "measure", "panel")),
    "11_setmaxnreg": (
        [("list", 0, "128x128"), ("slider", 0, -150), ("slider", 1, 60), ("slider", 2, -60)],
        [("list", 0, "192x128"), ("key", 2, "Home")], "C7511",
        ("budgets-picture", "kernel-source", "measure", "panel")),
    "12_clusters": (
        [("slider", 0, -60), ("slider", 1, 60), ("slider", 2, 60), ("list", 0, "eager")],
        [("key", 0, "End"), ("key", 1, "End")], "8 are portable",
        ("map", "ways", "sass", "panel")),
    "13_persistent": (
        [("slider", 0, -150), ("slider", 1, 90), ("slider", 2, 90), ("slider", 3, -90), ("list", 1, "eager"),
         ("list", 0, "cooperative, overlapped store"), ("list", 2, "estimated cycles")],
        [("list", 0, "cooperative, overlapped store"), ("key", 3, "End")], "the slots of C",
        ("raster-panel", "model", "work-map", "panel")),
    "14_beat_cublas": (
        [("list", 0, "3072 x 3072 x 3072"), ("list", 1, "256x128"), ("slider", 0, -60), ("list", 2, "1x2"), ("slider", 1, -100)],
        [("list", 1, "256x256")], "registers per thread",
        ("ladder", "model-measured", "shapes", "panel")),
    "15_fp8_gemm": (
        [("list", 0, "one per row of A, one per 128 rows of B"), ("list", 1, "one k-block of A, B as much smaller"), ("slider", 0, -60), ("slider", 1, -45)],
        [("key", 1, "Home"), ("key", 1, "ArrowRight")], "k of 16",
        ("e4m3-picture", "accuracy", "promotion-picture", "ladder-picture", "shapes", "panel")),
    "16_attention": (
        [("slider", 0, -60), ("slider", 1, 60), ("list", 1, "no"), ("list", 2, "persistent"), ("list", 0, "128")],
        [("list", 0, "256"), ("key", 1, "End")], "more than the 232448 bytes",
        ("roofline", "kernel-source", "order", "causal-map", "chart", "panel")),
}

TIMED = {"09_multistage": 2, "10_warp_specialization": 3, "12_clusters": 1, "13_persistent": 2, "16_attention": 3}       # which of its lists is 'Time'


@pytest.fixture(scope="module", params=LESSONS)
def lesson(request, window):
    """(stem, page, driver of its panel) after Run All."""
    browser.ran(window, request.param)
    return request.param, window, PanelDriver(window)


def test_runs_top_to_bottom(lesson):
    _, page, _ = lesson
    code = [cell for cell in browser.cells(page) if cell["type"] == "code"]
    assert [cell["count"] for cell in code] == list(range(1, len(code) + 1))


def test_every_control_launches_by_mouse_and_by_keyboard(lesson, shots):
    name, page, panel = lesson
    browser.scroll_to(page, "panel")
    shots(page, f"{name}_panel.png")
    for kind, number, how in LESSONS[name][0]:
        before = panel.launches
        panel.pick(number, how) if kind == "list" else panel.drag(number, how)
        panel.relaunched(before)
        before = panel.launches
        panel.list_key(number, "ArrowUp") if kind == "list" else panel.key(number, "ArrowLeft" if how > 0 else "ArrowRight")
        panel.relaunched(before)
    shots(page, f"{name}_panel_moved.png")


@pytest.mark.parametrize("axis", ["estimated microseconds", "estimated cycles"])
def test_a_panel_with_a_clock_says_what_bounds_its_launch(lesson, axis, shots):
    name, page, panel = lesson
    assert panel.box.locator('.widget-label:text-is("Time")').count() == (name in TIMED)
    if name not in TIMED:
        return
    before = panel.launches
    panel.pick(TIMED[name], axis)
    panel.relaunched(before)
    assert "an estimated " in panel.status and "no measurement" in panel.status and "bound by " in panel.status
    shots(page, f"{name}_{axis.replace(' ', '_')}.png")
    before = panel.launches
    panel.pick(TIMED[name], "order of events")
    panel.relaunched(before)
    assert "estimated" not in panel.status


def test_what_cannot_be_is_explained(lesson, shots):
    name, page, panel = lesson
    for kind, number, how in LESSONS[name][1]:
        panel.pick(number, how) if kind == "list" else panel.key(number, how)
    panel.refused(LESSONS[name][2])
    shots(page, f"{name}_refused.png")


@pytest.mark.parametrize("lesson", ["13_persistent"], indirect=True)
def test_raster_panel_of_lesson_13(lesson, shots):
    name, page, _ = lesson
    browser.scroll_to(page, "raster-panel")
    panel = PanelDriver(page, "Clusters at work")
    for slider, pixels in enumerate((-150, -100, -150, 90)):
        before, figure = panel.launches, panel.figure()
        panel.drag(slider, pixels)
        panel.launched(before, figure)
        before = panel.launches
        panel.key(slider, "ArrowLeft" if pixels > 0 else "ArrowRight")
        panel.relaunched(before)
    shots(page, f"{name}_raster_panel_moved.png")


def test_figures_are_whole_in_the_dark_theme(lesson, shots):
    name, page, _ = lesson
    browser.look_at(page, LESSONS[name][3], shots, name)
    assert not [out for cell in browser.cells(page) for out in cell["outputs"] if out["kind"] == "error"]
