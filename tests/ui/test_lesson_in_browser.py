# SPDX-License-Identifier: Apache-2.0
"""Lesson 05 in JupyterLab, in a real browser: it runs top to bottom, and its panel answers keyboard and mouse.

SCREENSHOTS names a folder for screenshots.
"""

from __future__ import annotations

import re
import time

import pytest
from support import browser
from support.patience import PATIENCE

pytestmark = [pytest.mark.browser, pytest.mark.thorough]         # `make test` looks at pages in test_grading_pages_in_browser.py, and at panels in tests/show/test_controls.py


@pytest.fixture(scope="module")
def ran(window):
    """Lesson 05 in a wide window, after Run All."""
    browser.ran(window, "05_tma_tiles")
    return window


def _panel(page):
    return page.locator(".jp-OutputArea-output:has(.widget-image)").last


def _launches(page) -> int:
    text = _panel(page).locator("[role=status]").inner_text()
    found = re.search(r"Launches: (\d+)", text)
    assert found, f"the status line says: {text!r}"
    return int(found[1])


def _figure(page) -> str:
    """The panel's image as a data string: equal exactly when the picture is."""
    return page.evaluate("""async (image) => {
        const bytes = await (await fetch(image.src)).arrayBuffer();
        const digest = await crypto.subtle.digest('SHA-256', bytes);
        return Array.from(new Uint8Array(digest)).map(b => b.toString(16).padStart(2, '0')).join('');
    }""", _panel(page).locator("img.widget-image").element_handle())


def _wait_for_another(page, figure: str) -> None:
    """The picture follows the count of launches when it is drawn, which takes longer on a busy machine."""
    deadline = time.monotonic() + 30 * PATIENCE
    while _figure(page) == figure:
        assert time.monotonic() < deadline, "the picture is still the same"
        page.wait_for_timeout(200)


def _wait_for_more(page, before: int) -> None:
    deadline = time.monotonic() + 60 * PATIENCE
    while _launches(page) <= before:
        assert time.monotonic() < deadline, f"no further launch after the first {before}"
        page.wait_for_timeout(200)


def test_runs_top_to_bottom_without_errors(ran, shots):
    code = [cell for cell in browser.cells(ran) if cell["type"] == "code"]
    assert [cell["count"] for cell in code] == list(range(1, len(code) + 1))
    assert sum(bool(cell["outputs"]) for cell in code) > len(code) // 2
    shots(ran, "lesson_05_end.png")


def test_keyboard_moves_the_box(ran, shots):
    browser.scroll_to(ran, "panel")
    launches, figure = _launches(ran), _figure(ran)
    handle = _panel(ran).locator(".noUi-handle").nth(3)           # start row
    handle.focus()
    ran.keyboard.press("ArrowLeft")
    _wait_for_more(ran, launches)
    _wait_for_another(ran, figure)
    shots(ran, "lesson_05_panel_keyboard.png")


@pytest.mark.thorough
def test_mouse_moves_the_box(ran, shots):
    browser.scroll_to(ran, "panel")
    launches, figure = _launches(ran), _figure(ran)
    handle = _panel(ran).locator(".noUi-handle").nth(4)           # start column
    spot = handle.bounding_box()
    ran.mouse.move(spot["x"] + spot["width"] / 2, spot["y"] + spot["height"] / 2)
    ran.mouse.down()
    ran.mouse.move(spot["x"] - 70, spot["y"] + spot["height"] / 2, steps=8)
    ran.mouse.up()
    _wait_for_more(ran, launches)
    _wait_for_another(ran, figure)
    shots(ran, "lesson_05_panel_mouse.png")


@pytest.mark.thorough
def test_an_illegal_box_is_explained_and_not_launched(ran, shots):
    browser.scroll_to(ran, "panel")
    launches = _launches(ran)
    handle = _panel(ran).locator(".noUi-handle").nth(2)           # box columns: 8 -> 7 is 28 bytes
    handle.focus()
    ran.keyboard.press("ArrowLeft")
    status = _panel(ran).locator("[role=status]")
    deadline = time.monotonic() + 30 * PATIENCE
    while "Not launched" not in status.inner_text():
        assert time.monotonic() < deadline, status.inner_text()
        ran.wait_for_timeout(200)
    assert "28" in status.inner_text()
    shots(ran, "lesson_05_panel_illegal.png")
    handle.focus()
    ran.keyboard.press("ArrowRight")
    _wait_for_more(ran, launches)


@pytest.mark.thorough
def test_dark_theme_is_readable(ran, shots):
    browser.look_at(ran, ("panel", "first-picture", "kernel-source", "measure-plot"), shots, "lesson_05")
    browser.change_theme(ran, "JupyterLab Dark")
    dark = ran.evaluate("getComputedStyle(document.body).getPropertyValue('--jp-layout-color1').trim()")
    assert dark and dark not in ("white", "#fff", "#ffffff")
    browser.change_theme(ran, "JupyterLab Light")
