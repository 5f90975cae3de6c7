# SPDX-License-Identifier: Apache-2.0
"""An exercise notebook in JupyterLab: hints are folded, an unsolved check says what is wrong without a traceback, a solved notebook runs whole."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from support import browser
from support.patience import PATIENCE

from hopperlab.grading import generate, regions

pytestmark = [pytest.mark.browser, pytest.mark.thorough]      # lesson 05 takes the same path in `make test`

ROOT = Path(__file__).resolve().parents[2]
NAME = "04_mbarrier.ipynb"


@pytest.fixture(scope="module")
def opened(window, lab):
    """Opens exercises/unsolved.ipynb or exercises/solved.ipynb, which are beside the lessons."""
    folder = lab[2]
    (folder / "exercises").mkdir(exist_ok=True)
    pristine = nbformat.read(ROOT / "exercises" / NAME, as_version=4)
    answers = {cell: regions.solution_without_stubs(text) for cell, text in
               generate.answers_of(nbformat.read(ROOT / "solutions" / NAME, as_version=4)).items()}
    nbformat.write(pristine, folder / "exercises" / "unsolved.ipynb")
    nbformat.write(generate.with_answers(pristine, answers), folder / "exercises" / "solved.ipynb")

    def open_it(name):
        browser.open_notebook(window, f"exercises/{name}.ipynb")
        return window
    return open_it


def test_an_unsolved_check_says_what_is_wrong(opened, shots):
    page = opened("unsolved")
    hints = page.locator("details")
    assert hints.count() >= 2 and not hints.first.evaluate("hint => hint.open")
    page.locator(".lm-MenuBar-itemLabel:text-is('Run')").click()
    page.locator(".lm-Menu-itemLabel:text-is('Run All Cells')").click()
    page.wait_for_selector("text=04.1 is not right yet", timeout=90_000 * PATIENCE)
    browser.scroll_to(page, "check-04-1")
    shots(page, "exercise_unsolved.png")
    shown = page.locator(".jp-OutputArea-output:has-text('04.1 is not right yet')").last.inner_text()
    assert "Traceback" not in shown and "expected" in shown


def test_a_solved_notebook_runs_whole(opened, shots):
    page = opened("solved")
    browser.run_all(page)
    text = "".join(out["text"] for cell in browser.cells(page) for out in cell["outputs"])
    assert "04.1 is right: " in text and "04.2 is right: " in text
    for cell in ("picture-04-1", "check-04-2"):
        browser.scroll_to(page, cell)
        shots(page, f"exercise_solved_{cell}.png")
