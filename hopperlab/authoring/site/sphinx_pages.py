# SPDX-License-Identifier: Apache-2.0
"""A Sphinx extension for the site (site.py names it in conf.py): lines that wrap, the bar of links on each page, and the texts that the search looks through.

The search has no server and no index of stems: every section's text stands in _static/search-texts.js, which a page opened from a folder may load, and
theme/static/search.js finds words and symbols in it as they are written (`cp.async.bulk`, 屏障).
"""

from __future__ import annotations

import json
import re
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from ...runtime.language import ENGLISH, LANGUAGES, say
from . import wrapping

TEXTS = "search-texts.js"


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_config_value("hopperlab_site", {}, "html")
    app.connect("builder-inited", _own_search)
    app.connect("html-page-context", _page)
    app.connect("build-finished", _write_texts)
    return {"parallel_read_safe": True, "parallel_write_safe": False}


def _own_search(app: Any) -> None:
    """No index by Sphinx: its page cannot show excerpts from a folder, and splits symbols into words."""
    app.builder.search = False
    app.hopperlab_texts = []


def _page(app: Any, name: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """Give the template its links, wrap the page's lines, and keep its text for the search."""
    told = app.config.hopperlab_site
    context["page_links"] = links(name, told, set(app.env.found_docs))
    context["say"] = partial(say, into=told.get("language", ENGLISH))
    if context.get("body"):
        app.hopperlab_texts += sections(name, context["body"])
        context["body"] = wrapping.by_lines(context["body"])


def links(page: str, settings: dict[str, Any], pages: set[str]) -> list[dict[str, str]]:
    """The links of a page's bar: words, href (seen from the page), and a title. settings: repository, branch and root_files (sources that the repository holds)."""
    up, to = "../" * page.count("/"), settings.get("language", ENGLISH)
    found = _other_edition(page, up, settings)
    folder, _, stem = page.partition("/")
    twin = {"notebooks": "exercises", "exercises": "notebooks"}.get(folder)
    if twin and f"{twin}/{stem}" in pages:
        found.append({"words": say("Exercises" if twin == "exercises" else "Lesson", to), "href": f"{up}{twin}/{stem}.html",
                      "title": say("The page that belongs to this one", to)})
    if twin:
        found.append({"words": say("Notebook", to), "href": f"{up}{page}.ipynb", "title": say("Download this page's notebook", to), "download": f"{stem}.ipynb"})
    repository, branch = settings.get("repository"), settings.get("branch", "main")
    if not repository:
        return found
    file = next((f"{page}{ending}" for ending in (".ipynb", ".md") if f"{page}{ending}" in settings["files"]), None)
    if twin and repository.startswith("https://github.com/"):
        place = repository.removeprefix("https://github.com/")
        found.append({"words": "Colab", "href": f"https://colab.research.google.com/github/{place}/blob/{branch}/{page}.ipynb",
                      "title": say(f"Run it in Google Colab: write {repository} into the field of the first cell", to)})
    found.append({"words": say("Repository", to), "href": f"{repository}/blob/{branch}/{file}" if file else repository,
                  "title": say(f"{file or 'The course'} in the repository", to)})
    return found


def _other_edition(page: str, up: str, settings: dict[str, Any]) -> list[dict[str, str]]:
    """The way to the same page in the other language, or to its first page where it has none like this."""
    other = settings.get("other")
    if not other:
        return []
    there = page if page in settings["pages"] else "index"
    return [{"words": LANGUAGES[other], "href": f"{up}{settings['way']}{there}.html", "title": LANGUAGES[other], "lang": other}]


class _Sections(HTMLParser):
    """Splits a page into its sections: (anchor, heading, words)."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[list[str]] = [["", "", ""]]
        self.open: list[int] = []
        self.heading, self.silent = False, 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a section, a heading, or what nobody looks for."""
        given = dict(attrs)
        if tag == "section":
            self.found.append([given.get("id") or "", "", ""])
            self.open.append(len(self.found) - 1)
        self.heading = self.heading or re.fullmatch(r"h[1-6]", tag) is not None
        if tag in ("script", "style") or "headerlink" in (given.get("class") or ""):
            self.silent += 1

    def handle_endtag(self, tag: str) -> None:
        """End it."""
        if tag == "section" and self.open:
            self.open.pop()
        self.heading = self.heading and re.fullmatch(r"h[1-6]", tag) is None
        if self.silent and tag in ("script", "style", "a"):
            self.silent -= 1
        if tag in ("p", "li", "td", "th", "div", "pre") and not self.silent:
            self.handle_data("\n")

    def handle_data(self, data: str) -> None:
        """Words of the innermost section, or of its heading."""
        if not self.silent:
            section = self.found[self.open[-1] if self.open else 0]
            section[1 if self.heading else 2] += data


def sections(page: str, body: str) -> list[list[str]]:
    """What the search looks through: [page, its title, anchor, heading, words] a section of the page."""
    parser = _Sections()
    parser.feed(body)
    parser.close()
    rows = [[anchor, " ".join(heading.split()), " ".join(words.split())] for anchor, heading, words in parser.found]
    title = next((heading for _, heading, _ in rows if heading), page)
    return [[page, title, "" if heading == title else anchor, heading, words] for anchor, heading, words in rows if heading or words]


def _write_texts(app: Any, problem: Exception | None) -> None:
    if problem is None:
        text = json.dumps(app.hopperlab_texts, ensure_ascii=False, separators=(",", ":"))
        (Path(app.outdir) / "_static" / TEXTS).write_text(f"const SEARCH_TEXTS = {text};\n", encoding="utf-8")
