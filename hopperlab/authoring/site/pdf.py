# SPDX-License-Identifier: Apache-2.0
"""The site on paper: the whole course as one PDF, and the cheat sheet as another, printed by a Chromium from the rendered pages (`make pdf`)."""

from __future__ import annotations

import html
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from ...runtime.language import ENGLISH, say
from .. import course

COURSE, SHEET = "hopperlab-course.pdf", "hopperlab-cheat-sheet.pdf"
FILES = {COURSE: "The course as PDF", SHEET: "Cheat sheet as PDF"}
"""What is printed, beside the site's first page: file and the words of its link."""

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge", "microsoft-edge")
PLACES = ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", "/Applications/Chromium.app/Contents/MacOS/Chromium",
          "C:/Program Files/Google/Chrome/Application/chrome.exe", "C:/Program Files (x86)/Microsoft/Edge/Application/msedge.exe")
LIMIT = 600             # seconds for one file
APPENDIX = ("docs/cheat-sheet", "docs/glossary", "docs/troubleshooting", "docs/emulator", "docs/hazards/README")
PAGE = """<!doctype html>
<html lang="{language}"><head><meta charset="utf-8"><title>{title}</title>{styles}
<link rel="stylesheet" href="_static/print.css"></head><body class="{kind}" data-theme="light">{body}</body></html>
"""


def find_browser(purpose: str = "PDFs are printed by") -> str:
    """A Chromium, Chrome or Edge: CHROMIUM in the environment, one on the PATH, or in one of the usual places. Raises RuntimeError, with what to do, where there is none.
    purpose: the beginning of its sentence."""
    given = os.environ.get("CHROMIUM")
    if given:
        if shutil.which(given):
            return given
        raise RuntimeError(f"CHROMIUM={given} is no program")
    found = next((path for path in (*map(shutil.which, NAMES), *(place for place in PLACES if Path(place).is_file())) if path), None)
    if found is None:
        raise RuntimeError(f"{purpose} a browser, and there is none: install Chromium (Debian, Ubuntu: apt install chromium), Chrome or Edge, or set CHROMIUM "
                           f"to its path")
    return found


def write(browser: str, rendered: Path, lessons: list[course.Entry], to: str = ENGLISH) -> None:
    """Print both PDFs into the folder of the rendered edition in the language `to`. Raises RuntimeError with the browser's words when it prints nothing."""
    pages = [name for name in order(rendered, lessons) if (rendered / f"{name}.html").is_file()]
    for file, title, kind, body in ((COURSE, "hopperlab: asynchronous programming on Hopper", "course", whole(rendered, pages, to=to)),
                                    (SHEET, "hopperlab: cheat sheet", "sheet", whole(rendered, ["docs/cheat-sheet"], front=False))):
        page = rendered / f"_print_{kind}.html"
        page.write_text(PAGE.format(language=to, title=say(title, to), kind=kind, body=body, styles=_styles(rendered)), encoding="utf-8")
        try:
            to_pdf(browser, page, rendered / file)
        finally:
            page.unlink()


def to_pdf(browser: str, page: Path, out: Path) -> None:
    """Print one HTML file. Raises RuntimeError with the browser's words when it prints nothing."""
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, "--headless", "--disable-gpu", "--no-first-run", "--disable-extensions", "--no-pdf-header-footer", "--generate-pdf-document-outline",
                   f"--user-data-dir={profile}",
                   f"--print-to-pdf={out}", page.resolve().as_uri()]
        if sys.platform == "linux" and os.geteuid() == 0:
            command.insert(1, "--no-sandbox")           # Chromium's sandbox refuses to work for root; the page is our own
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{browser} did not print {out.name} within {LIMIT} s") from None
    if done.returncode or not out.is_file() or not out.read_bytes().startswith(b"%PDF"):
        raise RuntimeError(f"{browser} did not print {out.name}:\n{done.stderr[-2000:]}")


def order(rendered: Path, lessons: Iterable[course.Entry]) -> list[str]:
    """The pages of the course on paper: each lesson with its exercises behind it, then what one looks up."""
    found = [page for entry in lessons for page in (f"notebooks/{entry.notebook.stem}", *([f"exercises/{entry.exercise.stem}"] if entry.exercise else []))]
    hazards = sorted(path.stem for path in (rendered / "docs" / "hazards").glob("*.html") if path.stem != "README")
    return [*found, *APPENDIX, *(f"docs/hazards/{name}" for name in hazards)]


def whole(rendered: Path, pages: list[str], front: bool = True, to: str = ENGLISH) -> str:
    """Rendered pages as one body: anchors carry the page's name, links between these pages lead inside, others within the site become words. front:
    a title page with contents, in the language `to`."""
    parts, contents = [], []
    for page in pages:
        text = (rendered / f"{page}.html").read_text(encoding="utf-8")
        article = text[text.index('<article role="main"'):text.index("</article>")].split(">", 1)[1]
        article = re.sub(r'<nav class="page-bar".*?</nav>|<a class="headerlink".*?</a>|<a class="back-to-top.*?</a>', "", article, flags=re.DOTALL)
        heading = re.search(r"<h1[^>]*>(.*?)</h1>", article, flags=re.DOTALL)
        contents.append(f'<li class="{page.split("/")[0]}"><a href="#{anchor_of(page)}">{re.sub("<[^>]+>", "", heading[1]) if heading else page}</a></li>')
        parts.append(f'<article id="{anchor_of(page)}">{_inside(article, page, set(pages))}</article>')
    home = (rendered / "index.html").read_text(encoding="utf-8")
    picture = re.search(r'<img[^>]*alt="[^"]*"[^>]*>', home)
    title = (f'<header class="front"><h1>hopperlab</h1><p>{say("Asynchronous programming on NVIDIA Hopper", to)}</p>{picture[0] if picture else ""}</header>'
             f'<nav class="pages"><h1>{say("Contents", to)}</h1><ol>{"".join(contents)}</ol></nav>') if front else ""
    return title + "".join(parts)


def anchor_of(page: str, anchor: str = "") -> str:
    """The name of a page, or of a place on it, where all pages are one."""
    name = page.replace("/", "-")
    return f"{name}--{anchor}" if anchor else name


def _inside(article: str, page: str, pages: set[str]) -> str:
    folder = posixpath.dirname(page)

    def target(found: re.Match[str]) -> str:
        href = html.unescape(found[1])
        if re.match(r"[a-z]+:", href):
            return found[0]
        path, _, anchor = href.partition("#")
        there = posixpath.normpath(posixpath.join(folder, path)).removesuffix(".html") if path else page
        return f' href="#{anchor_of(there, anchor)}"' if there in pages else ""
    article = re.sub(r'\bid="([^"]+)"', lambda found: f'id="{anchor_of(page, found[1])}"', article)
    article = re.sub(r'<a\b[^>]*>', lambda tag: re.sub(r' href="([^"]*)"', target, tag[0]), article)
    return re.sub(r'(<img\b[^>]*\bsrc=")(?!data:|[a-z]+://)([^"]+)', lambda found: found[1] + posixpath.normpath(posixpath.join(folder, found[2])), article)


def _styles(rendered: Path) -> str:
    """The links to the style sheets of the rendered pages, and the theme's variables."""
    home = (rendered / "index.html").read_text(encoding="utf-8")
    return "".join(_found(r'<link rel="stylesheet"[^>]*>', home)) + "".join(_found(r"<style>.*?</style>", home))


def _found(pattern: str, text: str) -> Iterator[str]:
    return (match[0] for match in re.finditer(pattern, text, flags=re.DOTALL))
