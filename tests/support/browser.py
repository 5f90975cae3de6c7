"""Driving JupyterLab in a browser: open a lesson, run it, find a cell. Used by tests/ui."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

RUN_LIMIT = 240       # seconds for Run All; the emulator needs a few

CELLS = """() => {
    const cells = window.jupyterapp.shell.currentWidget.content.model.cells;
    return Array.from({length: cells.length}, (_, i) => {
        const cell = cells.get(i).toJSON();
        return {type: cell.cell_type, count: cell.execution_count, id: cell.id, outputs: (cell.outputs || []).map(
            o => ({kind: o.output_type, text: (o.text || o.evalue || '').toString().slice(0, 300)}))};
    });
}"""
SCROLL = """async (id) => {
    const content = window.jupyterapp.shell.currentWidget.content;
    const cells = content.model.cells;
    content.activeCellIndex = Array.from({length: cells.length}, (_, i) => cells.get(i).id).indexOf(id);
    await content.scrollToItem(content.activeCellIndex, 'start');
}"""
IDLE = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"


def open_lesson(context, url: str, token: str, name: str):
    """A page with the notebook `name` open and its kernel idle."""
    page = context.new_page()
    page.goto(f"{url}/lab/tree/{name}?token={token}&reset", wait_until="domcontentloaded")
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=90_000)
    page.wait_for_function(IDLE, timeout=90_000)
    return page


def cells(page) -> list[dict]:
    """Every cell's type, count, id and outputs, from JupyterLab's own model (cells out of view are not in the page)."""
    return page.evaluate(CELLS)


def run_all(page) -> None:
    """Run > Run All Cells from the menu; returns when every code cell has a count. Raises AssertionError on an error output."""
    page.locator(".lm-MenuBar-itemLabel:text-is('Run')").click()
    page.locator(".lm-Menu-itemLabel:text-is('Run All Cells')").click()
    page.wait_for_timeout(1000)           # the counts of the stored outputs go first
    deadline = time.monotonic() + RUN_LIMIT
    while True:
        code = [cell for cell in cells(page) if cell["type"] == "code"]
        errors = [(cell["id"], out["text"]) for cell in code for out in cell["outputs"] if out["kind"] == "error"]
        assert not errors, f"error outputs: {errors}"
        if code and all(cell["count"] for cell in code) and page.evaluate(IDLE):
            return
        assert time.monotonic() < deadline, f"not done after {RUN_LIMIT} s: {[(cell['id'], cell['count']) for cell in code]}"
        page.wait_for_timeout(500)


def scroll_to(page, cell_id: str) -> None:
    """Bring one cell to the top of the window."""
    page.evaluate(SCROLL, cell_id)
    page.wait_for_timeout(1200)


@contextmanager
def after_run_all(chromium, lab, stem: str) -> Iterator:
    """A page with the lesson `stem` after Run All, its last panel in view."""
    url, token, _ = lab
    context = chromium.new_context(viewport={"width": 1400, "height": 1000})
    try:
        page = open_lesson(context, url, token, f"{stem}.ipynb")
        run_all(page)
        scroll_to(page, "panel")
        yield page
    finally:
        context.close()
