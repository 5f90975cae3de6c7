# SPDX-License-Identifier: Apache-2.0
"""Panels on the site: a panel whose outcomes are all there (panel_outcomes) moves on its lesson's page; the others stay the stored picture.

A page takes three files from _static/panels: what the panel shows, a script that shows it, and its look. No server is asked: a page opened from a
folder works as one on the web. `move` changes the pages that site.py has rendered; PDFs and the search see the stored pictures.
"""

from __future__ import annotations

import base64
import html
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import nbformat

from ...runtime.language import ENGLISH, LANGUAGES, say
from .. import hashes
from ..panels import panel_cells, panel_outcomes
from ..panels.panel_outcomes import Panel

PAGE = Path(__file__).with_name("panel_page")
PLACE = "_static/panels"
Panels = Mapping[tuple[str, str], Panel]
LAUNCHED, REFUSED, FIXED, WORDS = "Launched in the emulator:", "Not launched:", "(fixed here)", "The same in words"
ALL = "This page holds all {settings} settings of the panel, launched before it was made. The lesson's notebook launches them again."
SOME = "This page holds {settings} settings, launched before it was made ({fewer}). The lesson's notebook launches any other."
BLOCK = """<div class="hl-panel" id="{name}" data-name="{name}" data-files="{place}" data-launched="{launched}" data-refused="{refused}" data-fixed="{fixed}">
<div class="hl-panel-controls" role="group" aria-label="{group}"></div>
<p class="hl-panel-status" role="status"></p>
<div class="hl-panel-figure"><img src="{place}/pictures/{picture}" width="{width}" alt="{alt}"></div>
<details class="hl-panel-words"><summary>{words}</summary><pre>{text}</pre></details>
<p class="hl-panel-note">{note}</p>
</div>
<link rel="stylesheet" href="{place}/panels.css">
<script src="{place}/{name}.js" defer></script>
<script src="{place}/panels.js" defer></script>"""


def ready(root: Path) -> Panels:
    """The panels of the lessons below `root` that can move today, by lesson and cell."""
    sources, folder = root / "notebooks" / "sources", folder_of(root)
    if not sources.is_dir() or not folder.is_dir():
        return {}
    found = {(panel.lesson, panel.cell): panel_outcomes.usable(panel, folder) for panel in panel_cells.cells(folder=sources)}
    return {key: panel for key, panel in found.items() if panel is not None and panel.outcomes[_start(panel)].picture}


def folder_of(root: Path) -> Path:
    """Where the outcomes of the panels below `root` are kept."""
    return root / panel_outcomes.FOLDER.relative_to(hashes.ROOT)


def move(root: Path, rendered: Path) -> str:
    """Put the panels that can move into the rendered site, each in place of its stored picture; returns one line on how many move, and what makes the others move.

    Raises RuntimeError for a panel whose page does not show its stored picture.
    """
    panels, every = ready(root), len(list(panel_cells.cells(folder=root / "notebooks" / "sources")))
    names = {path.read_bytes(): path.name for path in (rendered / "_images").glob("*.png")} if panels else {}
    for to, folder in ((to, rendered if to == ENGLISH else rendered / to) for to in LANGUAGES):
        if folder.is_dir():
            _put(panels, names, root, folder, to)
    copy(panels, folder_of(root), rendered)
    size = sum(path.stat().st_size for path in (rendered / PLACE).rglob("*") if path.is_file()) / 1e6
    return f"{len(panels)} of {every} panels move on their pages ({size:.1f} MB)" + ("" if len(panels) == every else "; make panels launches the rest")


def _put(panels: Panels, names: Mapping[bytes, str], root: Path, rendered: Path, to: str) -> None:
    """Put the panels into the pages of one edition; names: of the site's pictures, by their bytes. Raises RuntimeError for a page that shows no picture of its panel."""
    for (lesson, cell), panel in panels.items():
        page = rendered / "notebooks" / f"{lesson}.html"
        text, name = page.read_text(encoding="utf-8"), names.get(stored(root / "notebooks" / f"{lesson}.ipynb", cell))
        picture = rf'<img\b[^>]*\bsrc="[^"]*_images/{name}"[^>]*>'
        shown = list(re.finditer(rf'<a\b[^>]*>\s*{picture}\s*</a>|{picture}', text))               # Sphinx links a picture to its file
        if not shown:
            raise RuntimeError(f"{page.name} does not show the stored picture of its cell {cell}, which the panel takes the place of")
        page.write_text(text[:shown[-1].start()] + block(f"{lesson}-{cell}", panel, to) + text[shown[-1].end():], encoding="utf-8")


def stored(notebook: Path, cell: str) -> bytes:
    """The picture that a notebook stores of a cell, as PNG; no bytes where there is none."""
    outputs = next((one.get("outputs", []) for one in nbformat.read(notebook, as_version=4).cells if one.get("id") == cell), [])
    return base64.b64decode(next((output.data["image/png"] for output in reversed(outputs) if "image/png" in output.get("data", {})), ""))


def block(name: str, panel: Panel, to: str = ENGLISH) -> str:
    """The HTML of one panel, for a page in a folder below the site's first; without a script it is the picture of the start with its words."""
    first = panel.outcomes[_start(panel)]
    fewer = [f"{control.label} has {len(control.values)} of {control.of} values" for control in panel.controls if len(control.values) < control.of]
    words = {"name": name, "place": f"{'../' if to == ENGLISH else '../../'}{PLACE}", "launched": say(LAUNCHED, to), "refused": say(REFUSED, to),
             "fixed": say(FIXED, to), "words": say(WORDS, to),
             "picture": first.picture, "width": first.width,
             "group": say("Controls of this panel", to), "alt": " ".join(say(first.words, to).split())[:400], "text": say(first.words, to),
             "note": say((SOME if fewer else ALL).format(settings=panel.settings, fewer=", ".join(fewer)), to)}
    return BLOCK.format(**{key: html.escape(str(value)) for key, value in words.items()})


def copy(panels: Panels, folder: Path, rendered: Path) -> None:
    """Put script, look, and what each panel shows into the rendered site; each picture once. folder: where the outcomes are kept."""
    if not panels:
        return
    place = rendered / PLACE
    (place / "pictures").mkdir(parents=True)
    for path in PAGE.iterdir():
        shutil.copyfile(path, place / path.name)
    for (lesson, cell), panel in panels.items():
        (place / f"{lesson}-{cell}.js").write_text(script(f"{lesson}-{cell}", panel), encoding="utf-8")
        for one in panel.outcomes.values():
            if one.picture:
                shutil.copyfile(folder / panel_outcomes.PICTURES / one.picture, place / "pictures" / one.picture)


def script(name: str, panel: Panel) -> str:
    """What panels.js reads of one panel. An outcome is [picture or -1, width, lines]; pictures and lines stand once in their lists."""
    pictures = list(dict.fromkeys(one.picture for _, one in sorted(panel.outcomes.items()) if one.picture))
    lines = list(dict.fromkeys(line for _, one in sorted(panel.outcomes.items()) for line in one.words.split("\n")))
    at, line_at = ({one: number for number, one in enumerate(listed)} for listed in (pictures, lines))
    outcomes = [[at.get(one.picture, -1), one.width, [line_at[line] for line in one.words.split("\n")]] for _, one in sorted(panel.outcomes.items())]
    controls = [{"label": control.label, "kind": control.kind, "values": control.values, "start": control.start} for control in panel.controls]
    data = json.dumps({"controls": controls, "pictures": pictures, "lines": lines, "outcomes": outcomes}, separators=(",", ":"))
    return f"(window.hopperlabPanels = window.hopperlabPanels || {{}})[{json.dumps(name)}] = {data};\n"


def _start(panel: Panel) -> int:
    """The number of the setting that the panel begins with."""
    number = 0
    for control in panel.controls:
        number = number * len(control.values) + control.start
    return number
