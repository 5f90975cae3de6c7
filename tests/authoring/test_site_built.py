# SPDX-License-Identifier: Apache-2.0
"""A whole build of the site: no warning, nothing loaded from elsewhere, and on every page the ways on, back, to the notebook and to the repository."""

import html
import json
import re
import shutil

import pytest
from support import rendered

from hopperlab import show
from hopperlab.authoring import course, hashes
from hopperlab.authoring.site import sphinx_build

pytestmark = pytest.mark.thorough
ROOT = hashes.ROOT


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return rendered.site(tmp_path_factory)


@pytest.fixture(scope="module")
def pages(folder):
    """{page of the English edition without ending: its HTML}."""
    return {page: text for page, text in _pages(folder).items() if not page.startswith("zh/")}


def _pages(folder):
    return {path.relative_to(folder).with_suffix("").as_posix(): path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.html"))}


def bar_of(text):
    """{words or class: href} of a page's bar."""
    bar = text.split('<nav class="page-bar"')[1].split("</nav>")[0]
    return {cls or html.unescape(words): html.unescape(href) for cls, href, words in re.findall(r'<a (?:class="([\w-]+)" )?href="([^"]*)"[^>]*>(.*?)</a>', bar)}


def test_outputs_and_glossary_are_there(pages):
    text = pages["notebooks/05_tma_tiles"]
    assert 'alt="' in text and "docs/glossary.html#tma" in text and "counted: 128 bytes" in re.sub(r"<[^>]+>", "", text)


def test_nothing_is_loaded_from_elsewhere(folder, pages):
    for name, text in pages.items():
        loaded = re.findall(r'<(?:script|img|iframe|source)\b[^>]*\bsrc="([^"]*)"|<link\b[^>]*\brel="(?:stylesheet|preload)"[^>]*\bhref="([^"]*)"', text)
        assert loaded and not [target for pair in loaded for target in pair if "//" in target], name
    for sheet in (folder / "_static").rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//|@import", sheet.read_text(encoding="utf-8")), sheet.name


def test_every_page_leads_on_and_back_and_to_the_repository(pages):
    ends = {"index": "bar-prev", "search": None}
    last = [name for name, text in pages.items() if "bar-next" not in bar_of(text) and name != "search"]
    assert len(last) == 1, "one page is the last"
    for name, text in pages.items():
        links = bar_of(text)
        assert links["Repository"].startswith(rendered.REPOSITORY), name
        if name != "search":
            assert ("bar-prev" in links) == (name != "index") and ("bar-next" in links) == (name != last[0]), (name, ends)


def test_following_next_visits_every_lesson_in_order_and_every_page(pages):
    at, seen = "index", []
    while True:
        seen.append(at)
        href = bar_of(pages[at]).get("bar-next")
        if href is None:
            break
        parts = [*at.split("/")[:-1]]
        for part in href.removesuffix(".html").split("/"):
            parts = parts[:-1] if part == ".." else [*parts, part]
        at = "/".join(parts)
        assert at not in seen
    assert set(seen) == set(pages) - {"search"}
    assert [page for page in seen if page.startswith("notebooks/")] == [f"notebooks/{entry.notebook.stem}" for entry in course.entries(ROOT)]


@pytest.mark.parametrize("kind", ["notebooks", "exercises"])
def test_notebooks_are_downloaded_as_they_are_and_open_in_colab(kind, folder, pages):
    found = [name for name in pages if name.startswith(f"{kind}/")]
    assert len(found) == len(list((ROOT / kind).glob("[0-9]*.ipynb")))
    for name in found:
        links = bar_of(pages[name])
        assert (folder / kind / links["Notebook"].removeprefix(f"../{kind}/")).read_bytes() == (ROOT / f"{name}.ipynb").read_bytes()
        assert links["Colab"] == f"https://colab.research.google.com/github/someone/course/blob/main/{name}.ipynb"
        assert links["Repository"] == f"{rendered.REPOSITORY}/blob/main/{name}.ipynb"


def test_every_stored_listing_is_shown_line_by_line_in_the_themes_colours(pages):
    stored = 0
    for entry in course.entries(ROOT):
        outputs = [out for cell in json.loads(entry.notebook.read_text(encoding="utf-8"))["cells"] for out in cell.get("outputs", [])]
        tables = sum("".join(out.get("data", {}).get("text/html", "")).count("<table style=\"table-layout: fixed; width: 100%; border-collapse") for out in outputs)
        assert pages[f"notebooks/{entry.notebook.stem}"].count('class="listing"') == tables
        stored += tables
    assert stored > 30
    text = pages["notebooks/05_tma_tiles"]
    lines = [html.unescape(re.sub(r"<[^>]+>", "", line)) for line in re.findall(r'<span class="ln" data-n="\d+"[^>]*>(.*?)\n</span>', text, flags=re.DOTALL)]
    assert "\n".join(lines).find(show.source("copy/tma_copy.cu", kernel="tma_landing").text) >= 0


def test_the_search_knows_every_page_and_its_anchors(folder, pages):
    rows = json.loads((folder / "_static" / "search-texts.js").read_text(encoding="utf-8").removeprefix("const SEARCH_TEXTS = ").rstrip().removesuffix(";"))
    assert {page for page, *_ in rows} == set(pages) - {"search"}
    for page, _, anchor, _, _ in rows:
        assert not anchor or f'id="{anchor}"' in pages[page]
    assert any("cp.async.bulk.wait_group.read" in words for *_, words in rows) and any("屏障" in words for *_, words in rows)


def test_every_page_leads_to_the_other_language_and_back(folder, pages):
    chinese = {page.removeprefix("zh/"): text for page, text in _pages(folder).items() if page.startswith("zh/")}
    assert {page for page in pages if not page.startswith("reference/")} == set(chinese) - {"docs/terms"}
    for page, text in pages.items():
        up = "../" * page.count("/")
        assert bar_of(text)["中文"] == f"{up}zh/{page if page in chinese else 'index'}.html"
    for page, text in chinese.items():
        up = "../" * page.count("/")
        assert bar_of(text)["English"] == f"{up}../{page if page in pages else 'index'}.html" and '<html class="no-js" lang="zh-CN"' in text
    assert "从这里开始" in chinese["notebooks/00_start_here"] and "学习路线" in chinese["index"]


def test_the_search_of_an_edition_knows_its_pages(folder):
    text = (folder / "zh" / "_static" / "search-texts.js").read_text(encoding="utf-8")
    assert "利特尔法则" in text and "没有找到" in (folder / "zh" / "_static" / "search.js").read_text(encoding="utf-8")


def test_a_broken_link_is_a_fault(folder, tmp_path):
    copy = tmp_path / "html"
    shutil.copytree(folder, copy)
    (copy / "docs" / "cheat-sheet.html").unlink()
    assert any("cheat-sheet.html, which does not exist" in fault for fault in sphinx_build.check(copy))
