# SPDX-License-Identifier: Apache-2.0
"""The landing notebook in JupyterLab: tables with progress, links that open lessons, and glossary links that lead to their entry."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from support import browser
from support.patience import PATIENCE

from hopperlab.authoring.learner import workspace

pytestmark = [pytest.mark.browser, pytest.mark.thorough]      # lesson 05 takes the same path in `make test`
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def page(chromium, lab):
    """The landing notebook of a course inside the lab's folder, with lesson 05 half run."""
    url, token, folder = lab
    course = folder / "course"
    (course / "hopperlab").mkdir(parents=True)
    (course / "notebooks").mkdir()
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        shutil.copy(path, course / "notebooks")
    shutil.copytree(ROOT / "docs", course / "docs")
    workspace.fill(course)
    workspace.fill_pages(course)
    copy = course / "work" / "05_tma_tiles.ipynb"
    document = json.loads(copy.read_text())
    first = next(cell for cell in document["cells"] if cell["cell_type"] == "code")
    first["execution_count"] = 1
    copy.write_text(json.dumps(document))
    context = chromium.new_context(viewport={"width": 1300, "height": 1000})
    page = browser.open_lab(context, url, token)
    browser.open_notebook(page, "course/work/index.ipynb")
    browser.run_all(page)
    yield page
    context.close()


def test_progress_and_paths_are_shown(page, shots):
    browser.scroll_to(page, "paths")
    shots(page, "landing_paths.png")
    browser.scroll_to(page, "syllabus")
    shots(page, "landing_syllabus.png")
    table = page.locator(".jp-OutputArea-output table:has-text('your progress')")
    assert "cells run" in table.locator("tr:has-text('Tiles by TMA')").inner_text()
    assert "not begun" in table.locator("tr:has-text('Ampere pipeline')").inner_text()
    browser.scroll_to(page, "text-opening")
    shots(page, "landing_top.png")


def test_a_lesson_opens_and_its_glossary_link_leads_to_the_entry(page, shots):
    browser.scroll_to(page, "syllabus")
    page.locator(".jp-OutputArea-output a:has-text('Tiles by TMA')").click()
    page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-RenderedMarkdown:has-text('one thread copies a box')", timeout=30_000 * PATIENCE)
    link = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) a:text-is('TMA')").first
    link.click()
    heading = page.locator(".jp-MarkdownViewer h3").filter(has_text=re.compile(r"^TMA(?! )")).first
    heading.wait_for(timeout=30_000 * PATIENCE)
    page.wait_for_timeout(1500 * PATIENCE)
    shots(page, "glossary_at_tma.png")
    top = heading.bounding_box()["y"]
    assert 0 <= top < 1000, f"the entry is at {top}, out of view"
