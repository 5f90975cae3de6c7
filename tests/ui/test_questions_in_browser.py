# SPDX-License-Identifier: Apache-2.0
"""Lesson 00 and 03 in JupyterLab: they run top to bottom, and votes and predictions stand beside the answers, also when given late."""

from __future__ import annotations

import pytest
from support import browser
from support.patience import PATIENCE

pytestmark = [pytest.mark.browser, pytest.mark.thorough]      # lesson 05 takes the same path in `make test`


def _wait_for_text(page, text: str) -> None:
    page.locator(f".jp-OutputArea-output:has-text({text!r})").last.wait_for(timeout=30_000 * PATIENCE)


def test_a_vote_changes_the_verdict_beside_it(window, shots):
    page = window
    browser.ran(page, "00_start_here", "vote")
    tick = page.locator(".widget-checkbox input").nth(2)          # kernel 3
    tick.focus()
    page.keyboard.press("Space")
    assert tick.is_checked()
    shots(page, "lesson_00_vote.png")
    browser.scroll_to(page, "verdict")
    _wait_for_text(page, "4 of 4 judged rightly")
    shots(page, "lesson_00_verdict.png")
    browser.scroll_to(page, "roofline")
    shots(page, "lesson_00_roofline.png")


def test_a_prediction_stands_beside_the_recorded_value(window, shots):
    page = window
    browser.ran(page, "03_ampere_pipeline", "predict")
    field = page.locator(".widget-text input").first
    field.fill("50")
    field.press("Enter")
    browser.scroll_to(page, "answer")
    _wait_for_text(page, "You said 50")
    shots(page, "lesson_03_answer.png")
    browser.scroll_to(page, "panel")
    shots(page, "lesson_03_panel.png")
