# SPDX-License-Identifier: Apache-2.0
"""Slides for a workshop, from decks in notebooks/slides: `python -m hopperlab.authoring slides` writes build/slides/html.

A deck is Markdown for sphinx-revealjs (a heading of level 2 begins a part, one of level 3 a slide; `revealjs-notes` are the speaker's). What stands on the
slides comes from the lessons' stored outputs, so that no number is typed twice:

    ![](stored:LESSON/CELL)         the figure that the cell shows, with its words as alt text
    {{stored LESSON/CELL}}          the text that it printed; {{stored LESSON/CELL 1-6}}: lines 1 to 6 of it
    {{title LESSON}}, {{minutes LESSON}}

The result needs no network: reveal.js comes with sphinx-revealjs.
"""

from __future__ import annotations

import base64
import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import nbformat

from .. import hashes
from . import sphinx_build

CONFIGURATION = """# Written by hopperlab.authoring.site.slides.
project = author = "hopperlab"
extensions = ["myst_parser", "sphinx_revealjs"]
language = "en"
html_show_copyright = html_show_sphinx = False
revealjs_static_path = ["_static"]
revealjs_css_files = ["slides.css"]
revealjs_style_theme = "white"
revealjs_script_conf = {"width": 1280, "height": 720, "margin": 0.03, "hash": True, "center": False, "slideNumber": "c/t", "transition": "none"}
revealjs_script_plugins = [{"name": "RevealNotes", "src": "revealjs/plugin/notes/notes.js"}]
"""
LOOK = Path(__file__).with_name("slides_page") / "slides.css"
FIGURE = re.compile(r"!\[\]\(stored:(?P<lesson>\w+)/(?P<cell>[\w-]+)\)")
WORDS = re.compile(r"\{\{(?P<what>stored|title|minutes) (?P<lesson>\w+)(?:/(?P<cell>[\w-]+))?(?: (?P<first>\d+)-(?P<last>\d+))?\}\}")


class DeckError(ValueError):
    """A deck that names a lesson, cell, figure or lines that are not there; the message says where."""


def build(root: Path = hashes.ROOT, out: Path | None = None) -> list[Path]:
    """Render every deck below `root`; returns the pages. Raises DeckError, and RuntimeError with what Sphinx finds wrong or what is missing."""
    if importlib.util.find_spec("sphinx_revealjs") is None:
        raise RuntimeError("what renders slides is not installed: make slides installs it, or python -m pip install -c constraints.txt -e .[site]")
    out = out or root / "build" / "slides"
    source, rendered = out / "source", out / "html"
    for folder in (source, rendered):
        shutil.rmtree(folder, ignore_errors=True)
    decks = prepare(root, source)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "revealjs", "-d", str(out / "doctrees"), str(source), str(rendered)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"Sphinx found faults:\n{(done.stdout + done.stderr).replace(str(source), '…')}")
    return [rendered / f"{deck}.html" for deck in decks]


def prepare(root: Path, source: Path) -> list[str]:
    """Lay out the decks with their figures in `source`; returns their names. The first is the page that opens. Raises DeckError."""
    decks = sorted((root / "notebooks" / "slides").glob("*.md"))
    if not decks:
        raise DeckError(f"there is no deck in {root / 'notebooks' / 'slides'}")
    (source / "_static").mkdir(parents=True)
    (source / "conf.py").write_text(f'{CONFIGURATION}root_doc = "{decks[0].stem}"\n', encoding="utf-8")
    shutil.copyfile(LOOK, source / "_static" / LOOK.name)
    for path in decks:
        (source / path.name).write_text(filled(path, root, source / "figures"), encoding="utf-8")
    return [path.stem for path in decks]


def filled(path: Path, root: Path, figures: Path) -> str:
    """The deck's Markdown with what it takes from the lessons; its figures are written into `figures`. Raises DeckError."""
    lessons = lru_cache(maxsize=None)(lambda name: _lesson(root, name))

    def figure(match: re.Match) -> str:
        output = next((one for one in _outputs(lessons(match["lesson"]), match["cell"]) if "image/png" in one.get("data", {})), None)
        if output is None:
            raise DeckError(f"the cell {match['cell']} of {match['lesson']} shows no figure")
        figures.mkdir(exist_ok=True)
        name = f"{match['lesson']}-{match['cell']}.png"
        (figures / name).write_bytes(base64.b64decode(output["data"]["image/png"]))
        return f"![{sphinx_build.alt_text(output['data'].get('text/plain', '')).replace(']', ')').replace('[', '(')}]({figures.name}/{name})"
    return _replaced(_replaced(path.read_text(encoding="utf-8"), FIGURE, figure, path), WORDS, lambda match: _words(match, lessons(match["lesson"])), path)


def _replaced(text: str, pattern: re.Pattern, by: Callable[[re.Match], str], path: Path) -> str:
    def told(match: re.Match) -> str:
        try:
            return by(match)
        except DeckError as problem:
            raise DeckError(f"{path.name}:{text.count(chr(10), 0, match.start()) + 1}: {problem}") from None
    return pattern.sub(told, text)


def _words(match: re.Match, notebook: nbformat.NotebookNode) -> str:
    if match["what"] != "stored":
        return str(notebook.metadata["hopperlab"][match["what"]])
    printed = "".join(output.text for output in _outputs(notebook, match["cell"]) if output.output_type == "stream").rstrip("\n")
    if not printed:
        raise DeckError(f"the cell {match['cell']} of {match['lesson']} prints nothing")
    lines = printed.split("\n")
    if match["last"] and not 0 < int(match["first"]) <= int(match["last"]) <= len(lines):
        raise DeckError(f"the cell {match['cell']} of {match['lesson']} prints {len(lines)} lines, not {match['last']}")
    return "```text\n" + "\n".join(lines[int(match["first"] or 1) - 1:int(match["last"] or len(lines))]) + "\n```"


def _lesson(root: Path, name: str) -> nbformat.NotebookNode:
    path = root / "notebooks" / f"{name}.ipynb"
    if not path.is_file():
        raise DeckError(f"there is no lesson {name}")
    return nbformat.read(path, as_version=4)


def _outputs(notebook: nbformat.NotebookNode, name: str | None) -> list[nbformat.NotebookNode]:
    found = next((cell for cell in notebook.cells if cell.id == name and cell.cell_type == "code"), None)
    if found is None:
        raise DeckError(f"the lesson has no code cell {name}")
    return found.outputs
