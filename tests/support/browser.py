# SPDX-License-Identifier: Apache-2.0
"""Driving JupyterLab in a browser: open a lesson, run it, find a cell. Used by tests/ui."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from .patience import PATIENCE

RUN_LIMIT = 240 * PATIENCE      # seconds for Run All; the emulator needs a few
OPEN_LIMIT = 90_000 * PATIENCE  # milliseconds until a notebook is open and its kernel idle

CELLS = """() => {
    const cells = window.jupyterapp.shell.currentWidget.content.model.cells;
    return Array.from({length: cells.length}, (_, i) => {
        const cell = cells.get(i).toJSON();
        return {type: cell.cell_type, count: cell.execution_count, id: cell.id, outputs: (cell.outputs || []).map(
            o => ({kind: o.output_type, text: (o.text || o.evalue || '').toString().slice(0, 300)}))};
    });
}"""
# Scrolls, and returns when the cell has stood still for a fifth of a second with its pictures loaded, or after three seconds.
SCROLL = """async (id) => {
    const content = window.jupyterapp.shell.currentWidget.content;
    const cells = content.model.cells;
    content.activeCellIndex = Array.from({length: cells.length}, (_, i) => cells.get(i).id).indexOf(id);
    await content.scrollToItem(content.activeCellIndex, 'start');
    const node = content.widgets[content.activeCellIndex].node;
    for (let i = 0, calm = 0, last = NaN; i < 60 && calm < 4; i++) {
        await new Promise(done => setTimeout(done, 50));
        const top = node.isConnected ? node.getBoundingClientRect().top : NaN;
        const loaded = Array.from(node.querySelectorAll('img')).every(image => image.complete);
        calm = loaded && top === last ? calm + 1 : 0;
        last = top;
    }
}"""
BEGUN = """() => {
    const cells = window.jupyterapp.shell.currentWidget.content.model.cells;
    return Array.from({length: cells.length}, (_, i) => cells.get(i)).some(cell => cell.type === 'code' && cell.executionCount === null);
}"""
IDLE = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"


def open_lesson(context, url: str, token: str, name: str):
    """A page with the notebook `name` open and its kernel idle."""
    page = context.new_page()
    page.set_default_timeout(30_000 * PATIENCE)
    page.goto(f"{url}/lab/tree/{name}?token={token}&reset", wait_until="domcontentloaded")
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=OPEN_LIMIT)
    page.wait_for_function(IDLE, timeout=OPEN_LIMIT)
    return page


def cells(page) -> list[dict]:
    """Every cell's type, count, id and outputs, from JupyterLab's own model (cells out of view are not in the page)."""
    return page.evaluate(CELLS)


def run_all(page) -> None:
    """Run > Run All Cells from the menu; returns when every code cell has a count. Raises AssertionError on an error output."""
    page.locator(".lm-MenuBar-itemLabel:text-is('Run')").click()
    page.locator(".lm-Menu-itemLabel:text-is('Run All Cells')").click()
    page.wait_for_function(BEGUN)         # the counts of the stored outputs go first
    deadline = time.monotonic() + RUN_LIMIT
    while True:
        code = [cell for cell in cells(page) if cell["type"] == "code"]
        errors = [(cell["id"], out["text"]) for cell in code for out in cell["outputs"] if out["kind"] == "error"]
        assert not errors, f"error outputs: {errors}"
        if code and all(cell["count"] for cell in code) and page.evaluate(IDLE):
            return
        assert time.monotonic() < deadline, f"not done after {RUN_LIMIT} s: {[(cell['id'], cell['count']) for cell in code]}"
        page.wait_for_timeout(200)


def scroll_to(page, cell_id: str) -> None:
    """Bring one cell to the top of the window."""
    page.evaluate(SCROLL, cell_id)


def change_theme(page, theme: str) -> None:
    """Change JupyterLab's theme ("JupyterLab Dark") and wait until the page has it."""
    page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
    page.wait_for_function("theme => document.body.dataset.jpThemeName === theme", arg=theme)


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
