# SPDX-License-Identifier: Apache-2.0
"""The rendered site in a browser, opened from its folder: it fits a phone, a tablet and a desk, in both themes; the search works; it prints."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from support import rendered
from support.patience import PATIENCE

from hopperlab import show
from hopperlab.authoring import course, hashes
from hopperlab.authoring.site import pdf

pytestmark = [pytest.mark.browser, pytest.mark.thorough]
PAGES = ("index", "search", "notebooks/00_start_here", "notebooks/05_tma_tiles", "notebooks/09x_profiling", "notebooks/17_claims_measured", "exercises/08_wgmma",
         "docs/cheat-sheet",
         "docs/glossary", "docs/hazards/race", "reference/hopperlab")
WIDTHS = (390, 1024, 1440)
# Lines of code that reach out of their block, with how far; text in columns may, on a phone.
CUT = """() => [...document.querySelectorAll('pre:not(.table-in-text) .ln')].filter(line => {
    const block = line.closest('pre').getBoundingClientRect(), range = document.createRange();
    range.selectNodeContents(line);
    return [...range.getClientRects()].some(part => part.width && part.right > block.right + 1);
}).map(line => line.textContent.slice(0, 120))"""
COLOURS = "selector => { const style = getComputedStyle(document.querySelector(selector)); return [style.color, style.backgroundColor, style.filter]; }"

TURNED_OVER = """() => [...document.querySelectorAll('.text_html [style*="FBFBF8"]')].every(
    e => getComputedStyle(e.closest('.text_html > div')).filter !== 'none')"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return rendered.site(tmp_path_factory)


@pytest.fixture
def open_page(chromium, folder):
    """open_page(name, width, theme) gives a page of the site; everything is closed at the end."""
    contexts = []

    def open_it(name, width=1440, theme="light", query=""):
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000 * PATIENCE)
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("console", lambda message: page.problems.append(message.text) if message.type == "error" else None)
        page.goto(f"{(folder / name).as_uri()}.html{query}")
        return page
    yield open_it
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.sampled(ci=2)
def test_a_page_fits_and_no_line_of_code_is_cut(open_page, shots, name):
    page = open_page(name)
    for width, theme in (*((width, "light") for width in WIDTHS), (WIDTHS[-1], "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)
        shots(page, f"site_{name.replace('/', '_')}_{width}_{theme}.png")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"wider than the window of {width}"
        assert page.evaluate(CUT) == [], width
    assert page.problems == []


def test_a_line_that_fits_the_column_is_not_wrapped(open_page):
    """On a desk, 110 characters of a listing stand in one line."""
    page = open_page("notebooks/05_tma_tiles", 1440)
    heights = page.evaluate("""() => [...document.querySelectorAll('.listing .ln')].filter(line => line.textContent.length <= 110)
        .map(line => line.getBoundingClientRect().height / parseFloat(getComputedStyle(line).lineHeight))""")
    assert len(heights) > 20 and max(heights) < 1.5


def test_a_wrapped_comment_goes_on_under_itself(open_page):
    page = open_page("notebooks/05_tma_tiles", 1024)
    lefts = page.evaluate("""() => { const line = [...document.querySelectorAll('.listing .ln')].find(line => line.textContent.includes('the bytes just stored'));
        return [...line.querySelector('.hl-comment').getClientRects()].map(part => part.left); }""")
    assert len(lefts) > 1 and 0 < lefts[-1] - lefts[0] < 40


def test_a_row_of_numbers_stays_one_line(open_page):
    page = open_page("notebooks/09x_profiling", width=1024)
    heights = page.evaluate("[...document.querySelectorAll('pre.of-numbers .ln')].map(line => line.getClientRects()[0].height)")
    assert len(heights) > 30 and max(heights) < 1.5 * min(heights), "at 1024 pixels a table's last column is not torn from its row"


def test_copied_code_is_the_code(open_page):
    page = open_page("notebooks/05_tma_tiles")
    copied = page.evaluate("""() => { const code = document.querySelector('.listing pre'); getSelection().selectAllChildren(code); return getSelection().toString(); }""")
    assert copied.rstrip("\n") == show.source("copy/tma_copy.cu", kernel="tma_landing").text


def test_figures_and_listings_are_dark_in_the_dark_theme(open_page):
    for theme, dark in (("light", False), ("dark", True)):
        page = open_page("notebooks/05_tma_tiles", theme=theme)
        background = [int(part) for part in re.findall(r"\d+", page.evaluate(COLOURS, ".listing .highlight")[1])[:3]]
        ink = [int(part) for part in re.findall(r"\d+", page.evaluate(COLOURS, ".listing pre")[0])[:3]]
        assert (max(background) < 70 and min(ink) > 200) if dark else (min(background) > 220 and max(ink) < 60)
        assert (page.evaluate(COLOURS, ".cell_output img")[2] != "none") == dark
        assert page.evaluate(TURNED_OVER) or not dark


def test_the_theme_button_turns_figures_over_too(open_page):
    page = open_page("notebooks/05_tma_tiles")
    seen = set()
    for _ in range(3):
        page.locator(".theme-toggle-content .theme-toggle").click()
        seen.add((page.evaluate("document.body.dataset.theme"), page.evaluate(COLOURS, ".cell_output img")[2] != "none"))
    assert ("dark", True) in seen and ("light", False) in seen


def test_the_search_works_from_a_folder(open_page):
    page = open_page("notebooks/05_tma_tiles")
    page.locator(".sidebar-search").fill("cp.async.bulk.wait_group.read")
    page.locator(".sidebar-search").press("Enter")
    page.wait_for_selector("#search-found li")
    found = page.locator("#search-found li")
    assert "07" in found.first.inner_text() or "cheat" in found.first.inner_text().lower()
    assert all("cp.async.bulk.wait_group.read" in text.lower() for text in found.locator("mark").all_inner_texts())
    found.locator("a", has_text="07").first.click()
    page.wait_for_load_state()
    assert "notebooks/07_tma_stores.html" in page.url and page.problems == []


def test_the_search_finds_what_is_typed_and_says_when_there_is_nothing(open_page):
    page = open_page("search", query="?q=phase+parity")
    assert page.locator("#search-words").input_value() == "phase parity" and page.locator("#search-found li").count() > 5
    page.locator("#search-words").fill("屏障")
    assert page.locator("#search-found a", has_text="Glossary").count() > 0
    page.locator("#search-words").fill("<b>nowhere</b>")
    assert page.locator("#search-found li").count() == 0 and "Nothing found for <b>nowhere</b>" in page.locator("#search-status").inner_text()
    page.locator("#search-words").fill("")
    assert page.locator("#search-status").inner_text() == ""


def test_the_course_and_the_cheat_sheet_print(folder, chromium, tmp_path):
    lessons = course.entries(hashes.ROOT)
    folder = Path(shutil.copytree(folder, tmp_path / "site", copy_function=os.link))
    pdf.write(pdf.find_browser(), folder, lessons)
    whole, sheet = ((folder / name).read_bytes() for name in (pdf.COURSE, pdf.SHEET))
    assert whole.startswith(b"%PDF") and sheet.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", whole)) > 8 * len(lessons) and len(re.findall(rb"/Type\s*/Page\b", sheet)) == 2
    assert b"/Outlines" in whole and not list(folder.glob("_print_*"))
