# SPDX-License-Identifier: Apache-2.0
"""The course in another language, as a folder with notebooks/, exercises/ and docs/ like the course's own: made of the English notebooks, the translations
of their text (translation.py) and the tables of strings (runtime/language.py). Nothing of it is kept in the repository; it is made in a second or two.

Cells of code, their ids and what they store are the English ones. A cell without a translation is shown in English, with a note.
"""
from __future__ import annotations

import contextlib
import copy
import hashlib
import re
import shutil
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from ...lessons.repairs import every as repairs
from ...runtime.language import ENGLISH, STRINGS, known, say
from ..learner import workspace
from ..notebooks import glossary
from . import doc_pages
from .translation import REPAIR, Translation, digest, read

NOTES = {"zh": "*（以下内容尚未翻译，暂以英文原文显示。）*"}
PARTS = (("notebooks", "notebooks"), ("exercises", "solutions"))        # folder of notebooks, folder whose sources/zh has their translations
KEPT_SECONDS = 24 * 3600
SOFT = re.compile(r"(?<=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])\n(?:> )?(?=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])")


def of(root: Path, to: str) -> Path:
    """The folder of the course at `root` in the language `to`, made where there is none of what it is made of today; `root` itself for English.

    Raises LanguageError for a language without an edition.
    """
    if known(to) == ENGLISH:
        return root
    place = _place(root, to) / _stamp(root, to)
    if not place.is_dir():
        _outdated(place.parent)
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix="making-") as scratch:
            make(root, to, Path(scratch) / place.name)
            with contextlib.suppress(OSError):          # another process was quicker; what it made is the same
                (Path(scratch) / place.name).rename(place)
    return place


def _outdated(folder: Path) -> None:
    """Remove what nobody has made for a day: an edition has a folder for each state of the files, so that processes never see one half written."""
    for old in folder.glob("*"):
        if time.time() - old.stat().st_mtime > KEPT_SECONDS:
            shutil.rmtree(old, ignore_errors=True)


def _place(root: Path, to: str) -> Path:
    """The folder of its editions: in build/ of a clone; for a course that came with an installation, the user's cache."""
    if root != workspace.CARRIED:
        return root / "build" / "editions" / to
    import platformdirs

    return Path(platformdirs.user_cache_dir("hopperlab", appauthor=False)) / "editions" / digest(str(root)) / to


def _stamp(root: Path, to: str) -> str:
    """Changes whenever a file changes that the edition is made of."""
    files = [path for folder in ("notebooks", "exercises", "docs") for path in (root / folder).rglob("*")]
    files += [*(root / "solutions" / "sources" / to).glob("*.md"), *(STRINGS / to).glob("*.toml"), *Path(__file__).parents[1].rglob("*.py")]
    facts = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in sorted(files) if path.is_file()]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]


def make(root: Path, to: str, place: Path) -> list[Path]:
    """Write the edition into the new folder `place`; returns its notebooks."""
    shutil.copytree(root / "docs", place / "docs", ignore=shutil.ignore_patterns(".*", to))
    _pages(root, to, place / "docs")
    made, page = [], root / "docs" / glossary.FILE.name
    terms = names(page) if page.is_file() else {}
    for folder, sources in PARTS:
        for path in (p for name in workspace.NAMES for p in sorted((root / folder).glob(name))):
            target = place / folder / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            text = read(root / sources / "sources" / to / f"{path.stem}.md")
            notebook = notebook_in(nbformat.read(path, as_version=4), text, to, terms if folder == "notebooks" else {})
            for cell in (cell for cell in notebook.cells if cell.cell_type == "markdown"):
                cell.source = doc_pages.with_anchors(root, f"../{folder}/{path.name}", to, cell.source)
            nbformat.write(notebook, target)
            made.append(target)
    hook = root / "exercises" / "conftest.py"
    if hook.is_file():
        shutil.copyfile(hook, place / "exercises" / hook.name)
    return made


def _pages(root: Path, to: str, docs: Path) -> None:
    """Put the pages of docs/ that are translated, or exist in this language alone, in their places."""
    own = {path.relative_to(root / "docs" / to).as_posix() for path in (root / "docs" / to).rglob("*.md")}
    for path in docs.rglob("*.md"):
        page, text = path.relative_to(docs).as_posix(), path.read_text(encoding="utf-8")
        path.write_text(text if page in own else doc_pages.with_anchors(root, page, to, text), encoding="utf-8")
    for page in own:
        (docs / page).parent.mkdir(exist_ok=True)
        (docs / page).write_text(_one_line(doc_pages.shown(root, page, to)), encoding="utf-8")


def notebook_in(notebook: NotebookNode, text: Translation, to: str, terms: Mapping[str, str]) -> NotebookNode:
    """A notebook in the language `to`: text by its blocks, words of outputs by the tables. terms: anchors of the glossary by name; the first mention
    of each leads there."""
    made = copy.deepcopy(notebook)
    facts = made.metadata["hopperlab"]
    facts["title"], facts["language"] = text.title_for(facts["title"]) or facts["title"], to
    prose, noted = [], False
    for cell in made.cells:
        if cell.cell_type != "markdown":
            cell.outputs = [_output(output, to) for output in cell.outputs]
            continue
        found = _repair(cell, to) if cell.id.startswith(REPAIR) else text.blocks.get(digest(cell.source))
        if not found:
            cell.source = cell.source if noted else f"{NOTES[to]}\n\n{cell.source}"
        noted = not found
        cell.source = _one_line(found) if found else cell.source
        prose.append(cell)
    if terms:
        for cell, own in zip(prose, glossary.linked([cell.source for cell in prose], terms, re.ASCII), strict=True):
            cell.source = own
    return made


def _one_line(text: str) -> str:
    """Text whose lines are broken between Chinese characters, where a browser would show a blank, as one line a paragraph; code stays."""
    return "".join(part if part.startswith("```") else SOFT.sub("", part) for part in doc_pages.FENCED.split(text))


def _output(output: NotebookNode, to: str) -> NotebookNode:
    """Words of an output, line by line; pictures and HTML stay."""
    if "text" in output:
        output.text = say(output.text, to)
    data = output.get("data", {})
    if "text/plain" in data:
        data["text/plain"] = say(data["text/plain"], to)
    return output


def _repair(cell: NotebookNode, to: str) -> str:
    """The hint and the reference under a repair: words by the table, the reference as it is."""
    hint = next((repair.hint for (_, name), repair in repairs().items() if f"{REPAIR}{name}" == cell.id and repair.hint in cell.source), "")
    found = cell.source.replace(hint, say(hint, to)) if hint else cell.source
    return re.sub(r"(?<=<summary>)[^<]+", lambda words: say(words[0], to), found)


@cache
def names(page: Path = glossary.FILE) -> Mapping[str, str]:
    """Anchor by name, as `linked` takes it, of the glossary's entries: their names in English, which stay in use, and in Chinese."""
    chinese, english = {}, {}
    for term in glossary.terms(page):
        english |= dict.fromkeys((term.name.lower(), f"{term.name.lower()}s"), term.anchor)
        for name in filter(None, map(str.strip, re.split(r"[；;、/]", re.sub(r"（.*?）", "", term.chinese)))):
            chinese.setdefault(name.lower(), term.anchor)
    return {**chinese, **english}
