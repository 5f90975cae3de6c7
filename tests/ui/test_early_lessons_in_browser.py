# SPDX-License-Identifier: Apache-2.0
"""Lessons 01, 02 and 04 in JupyterLab: each runs top to bottom, every control of its panel launches by keyboard and by mouse,
what cannot be is explained, and the figures are whole in the dark theme (SCREENSHOTS names a folder for pictures of them in both).
"""

from __future__ import annotations

import pytest
from support import browser
from support.panel import PanelDriver

pytestmark = [pytest.mark.browser, pytest.mark.thorough]      # lesson 05 takes the same path in `make test`

# lesson -> (moves: each a control's kind, its number and an entry or pixels; cells to look at)
LESSONS = {
    "01_feeding_the_tensor_core": (
        [("slider", 0, 200), ("slider", 1, 60), ("slider", 2, 60)],
        ("littles-law", "panel", "measure", "break-marked")),
    "02_banks_and_swizzles": (
        [("slider", 0, -14), ("list", 0, "128B"), ("list", 1, "16 bytes per lane")],
        ("picture", "swizzle-picture", "fragment-picture", "sass", "panel")),
    "04_mbarrier": (
        [("list", 0, "empty[0]"), ("slider", 0, 30), ("slider", 1, 60), ("slider", 2, 40), ("list", 1, "eager")],
        ("kernel-source", "panel", "exercise-frame")),
}


@pytest.fixture(scope="module", params=LESSONS)
def lesson(request, window):
    """(stem, page, driver of its panel) after Run All."""
    browser.ran(window, request.param)
    return request.param, window, PanelDriver(window)


def test_runs_top_to_bottom(lesson):
    _, page, _ = lesson
    code = [cell for cell in browser.cells(page) if cell["type"] == "code"]
    assert [cell["count"] for cell in code] == list(range(1, len(code) + 1))


def test_every_control_launches_by_keyboard_and_by_mouse(lesson, shots):
    name, page, panel = lesson
    browser.scroll_to(page, "panel")
    shots(page, f"{name}_panel.png")
    for kind, number, how in LESSONS[name][0]:
        launches, figure = panel.launches, panel.figure()
        if kind == "list":
            panel.pick(number, how)
        else:
            panel.drag(number, how)
        panel.launched(launches, figure)
        launches, figure = panel.launches, panel.figure()
        if kind == "list":
            panel.list_key(number, "ArrowUp")
        else:
            panel.key(number, "ArrowLeft")
        panel.launched(launches, figure)
    shots(page, f"{name}_panel_moved.png")


def test_what_cannot_be_is_explained(lesson, shots):
    name, page, panel = lesson
    browser.scroll_to(page, "panel")
    if name.startswith("01"):
        panel.key(0, "Home")
        panel.key(0, "ArrowRight")
        panel.refused("64 x 64 pieces")
    elif name.startswith("02"):
        panel.pick(1, "16 bytes per lane")
        panel.key(0, "Home")
        panel.refused("multiple of 16")
    else:
        panel.pick(0, "full[1]")
        panel.key(1, "Home")
        panel.refused("a ring of 1 slot has no full[1]")
    shots(page, f"{name}_refused.png")


def test_figures_are_whole_in_the_dark_theme(lesson, shots):
    name, page, _ = lesson
    browser.look_at(page, LESSONS[name][1], shots, name)
    assert not [out for cell in browser.cells(page) for out in cell["outputs"] if out["kind"] == "error"]
