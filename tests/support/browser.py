# SPDX-License-Identifier: Apache-2.0
"""Driving JupyterLab in a browser: open a lesson, run it, find a cell. Used by tests/ui."""

from __future__ import annotations

import time
from pathlib import Path

import nbformat

from hopperlab.authoring.notebooks import build, mutations

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
OUTPUTS = """ids => {
    const cells = window.jupyterapp.shell.currentWidget.content.model.cells;
    const wanted = Array.from({length: cells.length}, (_, i) => cells.get(i)).filter(cell => ids.includes(cell.id));
    return Object.fromEntries(wanted.map(cell => [cell.id, cell.toJSON().outputs]));
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
# Which code cells have no count yet, and the outputs that are errors: without the pictures, since it is asked again and again.
PROGRESS = """() => {
    const cells = window.jupyterapp.shell.currentWidget.content.model.cells;
    const code = Array.from({length: cells.length}, (_, i) => cells.get(i)).filter(cell => cell.type === 'code');
    const outputs = cell => Array.from({length: cell.outputs.length}, (_, i) => cell.outputs.get(i));
    return {waiting: code.filter(cell => !cell.executionCount).map(cell => cell.id), errors: code.flatMap(
        cell => outputs(cell).filter(out => out.type === 'error').map(out => [cell.id, (out.toJSON().evalue || '').slice(0, 300)]))};
}"""
# Opens a notebook in front of what is open, and closes that without asking, its kernel too.
OPEN = """async (path) => {
    const app = window.jupyterapp;
    const others = Array.from(app.shell.widgets('main'));
    const opened = await app.commands.execute('docmanager:open', {path, factory: 'Notebook'});
    await opened.context.ready;
    app.shell.activateById(opened.id);
    for (const widget of others) if (widget !== opened) {
        await widget.sessionContext?.shutdown();
        widget.dispose();
    }
}"""
OPENED = "path => window.jupyterapp.shell.currentWidget?.context?.path === path"
# Pictures of the active cell that have not loaded.
MISSING = """() => Array.from(window.jupyterapp.shell.currentWidget.content.activeCell.node.querySelectorAll('img')).filter(
    image => !image.complete || !image.naturalWidth).map(image => image.src.slice(0, 80))"""
BEGUN = """() => {
    const cells = window.jupyterapp.shell.currentWidget.content.model.cells;
    return Array.from({length: cells.length}, (_, i) => cells.get(i)).some(cell => cell.type === 'code' && cell.executionCount === null);
}"""
IDLE = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"


def open_lab(context, url: str, token: str):
    """A page with JupyterLab, in which `open_notebook` opens one notebook after the other: JupyterLab itself takes longer to load than a notebook."""
    page = context.new_page()
    page.set_default_timeout(30_000 * PATIENCE)
    page.goto(f"{url}/lab?token={token}&reset", wait_until="domcontentloaded")
    page.wait_for_function("window.jupyterapp?.shell.isEmpty !== undefined", timeout=OPEN_LIMIT)
    page.evaluate("window.jupyterapp.restored.then(() => true)")
    return page


def open_notebook(page, name: str) -> None:
    """Open the notebook at `name`, below the lab's folder, in place of what is open; returns when its kernel is idle."""
    page.evaluate(OPEN, name)
    page.wait_for_function(OPENED, arg=name, timeout=OPEN_LIMIT)
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=OPEN_LIMIT)
    page.wait_for_function(IDLE, timeout=OPEN_LIMIT)


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
        found = page.evaluate(PROGRESS)
        assert not found["errors"], f"error outputs: {found['errors']}"
        if not found["waiting"] and page.evaluate(IDLE):
            return
        assert time.monotonic() < deadline, f"not done after {RUN_LIMIT} s: {found['waiting']}"
        page.wait_for_timeout(200)


def scroll_to(page, cell_id: str) -> None:
    """Bring one cell to the top of the window."""
    page.evaluate(SCROLL, cell_id)


def change_theme(page, theme: str) -> None:
    """Change JupyterLab's theme ("JupyterLab Dark") and wait until the page has it."""
    page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
    page.wait_for_function("theme => document.body.dataset.jpThemeName === theme", arg=theme)


class Shots:
    """Screenshots in a folder; none are taken where no folder is named, since nothing compares them."""

    def __init__(self, folder: Path | None):
        self.folder = folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, what, name: str) -> None:
        """Take a page or a part of it."""
        if self.folder is not None:
            what.screenshot(path=self.folder / name)


def look_at(page, names, shots: Shots, prefix: str) -> None:
    """The cells of these ids in the dark theme, and where screenshots are wanted in the light one: the theme arrives, and no picture is missing."""
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        change_theme(page, theme)
        for cell in names if theme.endswith("Dark") or shots.folder else ():
            scroll_to(page, cell)
            assert page.evaluate(MISSING) == [], cell
            shots(page, f"{prefix}_{theme.split()[1].lower()}_{cell}.png")


def differences(page, stem: str) -> dict[str, str]:
    """{compared cell of the lesson `stem`: how its output in the page differs from the stored one, as nbval compares}."""
    notebook = nbformat.read(build.notebook_path(next(path for path in build.lesson_sources() if path.stem == stem)), as_version=4)
    stored = {cell.id: cell.outputs for cell in build.code_cells(notebook) if "nbval-ignore-output" not in cell.metadata.get("tags", [])}
    shown = page.evaluate(OUTPUTS, list(stored))
    assert stored and shown.keys() == stored.keys()
    return {name: verdict for name, outputs in shown.items() if (verdict := mutations.compare(_joined(outputs), stored[name]))}


def _joined(value):
    """Outputs with every text as one string, as nbformat reads them."""
    if isinstance(value, list):
        return "".join(value) if value and all(isinstance(one, str) for one in value) else [_joined(one) for one in value]
    return {key: _joined(one) for key, one in value.items()} if isinstance(value, dict) else value


def ran(page, stem: str, show: str = "panel") -> None:
    """Open the lesson `stem`, run it whole, compare its outputs with the stored ones, and bring the cell `show` into view."""
    open_notebook(page, f"{stem}.ipynb")
    run_all(page)
    assert not (differ := differences(page, stem)), differ
    scroll_to(page, show)
