# SPDX-License-Identifier: Apache-2.0
"""Lessons 06, 07 and 08 in JupyterLab: each runs top to bottom, its panel answers keyboard and mouse, an illegal choice is explained, and both themes read."""

from __future__ import annotations

import re
import time

import pytest
from support import browser
from support.patience import PATIENCE

pytestmark = [pytest.mark.browser, pytest.mark.thorough]      # lesson 05 takes the same path in `make test`

LESSONS = {"06": "06_tma_layouts", "07": "07_tma_stores", "08": "08_wgmma"}


@pytest.fixture(scope="module", params=LESSONS)
def ran(request, window):
    """(number, page) of a lesson after Run All."""
    browser.ran(window, LESSONS[request.param])
    return request.param, window


def _panel(page):
    return page.locator(".jp-OutputArea-output:has(.widget-image)").last


def _status(page) -> str:
    return _panel(page).locator("[role=status]").inner_text()


def _launches(page) -> int:
    found = re.search(r"Launches: (\d+)", _status(page))
    assert found, f"the status line says: {_status(page)!r}"
    return int(found[1])


def _until(page, condition, what: str) -> None:
    deadline = time.monotonic() + 60 * PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what}; the panel says: {_status(page)}"
        page.wait_for_timeout(200)


def _picture(page) -> str:
    words = _panel(page).locator("details pre")
    return words.inner_text(timeout=10_000 * PATIENCE) if _panel(page).locator("details[open]").count() else words.text_content()


def _moved(page, act) -> None:
    """`act` moves a control; the launches grow and the picture's words change."""
    launches, words = _launches(page), _picture(page)
    act()
    _until(page, lambda: _launches(page) > launches, f"no launch after the first {launches}")
    _until(page, lambda: _picture(page) != words, "the picture did not change")


def _fragment_map_follows_the_keyboard(page, shots) -> None:
    """Lesson 08's other panel: the element asked for, its thread and register."""
    browser.scroll_to(page, "fragment-picture")
    panel = page.locator(".jp-OutputArea-output:has(.widget-image)").filter(has_text="Row of D").first
    before = panel.locator("details pre").text_content()
    panel.locator(".noUi-handle").first.focus()
    page.keyboard.press("ArrowRight")
    _until(page, lambda: panel.locator("details pre").text_content() != before, "the map did not change")
    assert "element (22, 13)" in panel.locator("details pre").text_content()
    shots(page, "lesson_08_fragment.png")


def test_controls_by_keyboard_and_mouse(ran, shots):
    number, page = ran
    browser.scroll_to(page, "panel")
    sliders, lists = _panel(page).locator(".noUi-handle"), _panel(page).locator("select")

    def arrow(index, key):
        def act():
            sliders.nth(index).focus()
            page.keyboard.press(key)
        return act

    def drag(index, by):
        def act():
            spot = sliders.nth(index).bounding_box()
            page.mouse.move(spot["x"] + spot["width"] / 2, spot["y"] + spot["height"] / 2)
            page.mouse.down()
            page.mouse.move(spot["x"] + by, spot["y"] + spot["height"] / 2, steps=8)
            page.mouse.up()
        return act

    def choose(index, label):
        return lambda: lists.nth(index).select_option(label=label)

    moves = {"06": [arrow(1, "ArrowRight"), arrow(2, "ArrowLeft"), drag(3, 60), arrow(0, "ArrowLeft"), choose(0, "64B")],
             "07": [choose(1, "uint32"), choose(0, "max"), choose(0, "inc"), choose(0, "and")],
             "08": [arrow(0, "ArrowRight"), drag(1, 40), choose(0, "128"), choose(1, "eager")]}[number]
    for act in moves:
        _moved(page, act)
    shots(page, f"lesson_{number}_panel.png")
    if number == "08":
        _fragment_map_follows_the_keyboard(page, shots)


def test_an_illegal_choice_is_explained(ran, shots):
    number, page = ran
    browser.scroll_to(page, "panel")
    lists, launches = _panel(page).locator("select"), _launches(page)
    if number == "06":
        lists.nth(0).select_option(label="32B")
        _panel(page).locator(".noUi-handle").nth(0).focus()
        page.keyboard.press("End")
    elif number == "07":
        lists.nth(0).select_option(label="xor")
        lists.nth(1).select_option(label="bfloat16")
    else:
        lists.nth(0).select_option(label="100")
    words = {"06": "at most the span", "07": "does not exist", "08": "multiple of 8"}[number]
    _until(page, lambda: "Not launched" in _status(page) and words in _status(page), "no explanation")
    assert _launches(page) >= launches
    shots(page, f"lesson_{number}_illegal.png")


def test_a_prediction_given_late_stands_beside_the_answer(ran):
    _, page = ran
    browser.scroll_to(page, "predict")
    field = page.locator(".widget-text input").first
    field.fill("7")
    field.press("Enter")
    browser.scroll_to(page, "answer")
    page.locator(".jp-OutputArea-output:has-text('You said 7')").last.wait_for(timeout=30_000 * PATIENCE)


def test_figures_in_the_dark_theme(ran, shots):
    number, page = ran
    cells = {"06": ("follow-picture", "narrow-picture"), "07": ("order-pictures", "handover-picture", "panel"), "08": ("descriptor-picture", "fragment-picture", "panel")}
    browser.look_at(page, cells[number], shots, f"lesson_{number}")
