# SPDX-License-Identifier: Apache-2.0
"""Pages of docs/ in Chinese: each is of the English text there is now and lost nothing of it, and links lead somewhere, in the repository and in the edition."""

import re
from pathlib import Path

import nbformat
import pytest

from hopperlab.authoring import hashes
from hopperlab.authoring.__main__ import main
from hopperlab.authoring.editions import doc_pages, doc_tables, language_edition, translation

ROOT = hashes.ROOT
PAGES = doc_pages.pages(ROOT, "zh")
ONLY_CHINESE = {"terms.md"}
ONLY_ENGLISH: set[str] = set()       # pages that nobody has translated yet
ENGLISH = """# A page

Run `make` 3 times, see [below](#second-part) and [the other](other.md#first).

<!-- sums: begin (some command) -->
| a | 1 |
<!-- sums: end -->

## Second part

```python
x = f[0](y)
```
"""
OTHER = "# Other\n\n## First\n\nSee [there](page.md#second-part), [it](https://a.b/page.md#second-part) and [a part](sub/deep.md).\n"
CHINESE = """<!-- of {} -->

# 一页

运行 `make` 3 次，见[下文](#第二-部分)和[另一页](../other.md#first)。

<!-- sums: table -->表在[英文页](../page.md)上。

## 第二 部分

```python
x = f[0](y)
```
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "docs" / "zh").mkdir(parents=True)
    (tmp_path / "docs" / "page.md").write_text(ENGLISH)
    (tmp_path / "docs" / "other.md").write_text(OTHER)
    write(tmp_path, CHINESE)
    return tmp_path


def write(root, text, page="page.md"):
    english = (root / "docs" / page).read_text()
    (root / "docs" / "zh" / page).write_text(text.format(translation.digest(doc_pages.told(english))))


def faults(root):
    return list(doc_pages.faults(root, "page.md", "zh"))


def lost_links(page: Path) -> list[str]:
    """Links of a page that lead to no file, or to no heading of one."""
    found, text = [], "".join(doc_pages.FENCED.split(page.read_text(encoding="utf-8"))[::2])
    for target, anchor in doc_pages.LINK.findall(text):
        there = page.parent / target if target else page
        if not there.exists() or anchor and there.suffix == ".md" and anchor not in doc_pages.anchors(there.read_text(encoding="utf-8")):
            found.append(f"{page.name}: {target}#{anchor}")
    return found


@pytest.mark.parametrize("page", PAGES)
def test_no_page_is_stale_or_lost_anything(page):
    """Adapt docs/zh/PAGE to what changed (git diff of the English page shows it), then write the hash that this names into its first line."""
    found = list(doc_pages.faults(ROOT, page, "zh"))
    assert not found, "\n".join(found)


def test_every_page_has_its_english_one():
    own = {path.relative_to(ROOT / "docs" / "zh").as_posix() for path in (ROOT / "docs" / "zh").rglob("*.md")}
    assert own - ONLY_CHINESE == set(PAGES) and {"running.md", "troubleshooting.md"} <= set(PAGES)


def test_every_page_is_translated_or_named():
    docs = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in docs if not page.startswith("zh/")} - set(PAGES) == ONLY_ENGLISH


@pytest.mark.parametrize("page", ["README.zh.md", "docs/zh/terms.md", *(f"docs/zh/{page}" for page in PAGES)])
def test_links_lead_somewhere(page):
    assert not lost_links(ROOT / page)


def test_the_readme_links_to_every_page_and_that_of_a_folder_to_the_others_in_it():
    listed = {"": ROOT / "README.zh.md", "hazards": ROOT / "docs" / "zh" / "hazards" / "README.md"}
    for page in PAGES:
        folder, _, name = page.rpartition("/")
        at, named = (folder, name) if name != "README.md" else ("", page)
        target = named if at else f"docs/zh/{named}"
        assert target in {link for link, _ in doc_pages.LINK.findall(listed[at].read_text(encoding="utf-8"))}, f"{listed[at].name}: no link to {target}"


def test_a_page_whose_english_changed_is_named_with_the_hash_to_write(root):
    assert not faults(root)
    (root / "docs" / "page.md").write_text(ENGLISH.replace("Run", "Always run"))
    (fault,) = faults(root)
    assert fault.startswith("docs/zh/page.md: docs/page.md has changed") and translation.digest(doc_pages.told(ENGLISH.replace("Run", "Always run"))) in fault


def test_a_table_that_is_written_anew_makes_nothing_stale(root):
    (root / "docs" / "page.md").write_text(ENGLISH.replace("| a | 1 |", "| a | 2 |\n| b | 9 |"))
    assert not faults(root)


@pytest.mark.parametrize(("old", "new", "fault"), [
    ("<!-- of {} -->\n\n", "", "does not say of which text"), ("(../other.md#first)", "(../other.md)", "link 'other.md#first'"),
    ("(#第二-部分)", "(#第三)", "link '#second-part'"),
    ("`make`", "make", "code 'make'"), ("3 次", "几次", "number '3'"), ("f[0](y)", "f[0](z)", "a listing differs"), ("## 第二 部分", "第二部分", "1 headings, 2 in English"),
    ("<!-- sums: table -->", "", "the table 'sums'")])
def test_what_a_page_lost_is_named(old, new, fault, root):
    assert old in CHINESE
    write(root, CHINESE.replace(old, new))
    assert any(fault in one for one in faults(root)), faults(root)


def test_in_an_edition_a_page_takes_the_english_ones_place(root):
    text = doc_pages.shown(root, "page.md", "zh")
    assert text.startswith("# 一页") and "(#第二-部分)和[另一页](other.md#first)" in text and "\n\n| a | 1 |\n\n" in text and "f[0](y)" in text
    assert doc_pages.with_anchors(root, "other.md", "zh", OTHER) == OTHER.replace("(page.md#second-part)", "(page.md#第二-部分)")


def test_a_notebook_links_to_the_headings_of_the_translated_page(root):
    text = "[a](../docs/page.md#second-part), [b](../docs/page.md), [c](../docs/other.md#first), [d](04_mbarrier.ipynb#phases)"
    assert doc_pages.with_anchors(root, "../notebooks/05_tma.ipynb", "zh", text) == text.replace("#second-part", "#第二-部分")


def test_headings_of_a_table_shift_no_anchor(root):
    (root / "docs" / "page.md").write_text(ENGLISH.replace("| a | 1 |", "## A part\n\n| a | 1 |"))
    assert "(page.md#第二-部分)" in doc_pages.with_anchors(root, "other.md", "zh", OTHER)


def test_links_between_folders_are_moved(root):
    (root / "docs" / "sub").mkdir()
    (root / "docs" / "zh" / "sub").mkdir()
    (root / "docs" / "sub" / "deep.md").write_text("# Deep\n\n[a](../page.md#second-part), [b](near.md), [c](../../README.md)\n")
    write(root, "<!-- of {} -->\n\n# 深\n\n[甲](../page.md#第二-部分)，[乙](../../sub/near.md)，[丙](../../../README.md)\n", "sub/deep.md")
    assert doc_pages.pages(root, "zh") == ["page.md", "sub/deep.md"] and not list(doc_pages.faults(root, "sub/deep.md", "zh"))
    assert doc_pages.shown(root, "sub/deep.md", "zh") == "# 深\n\n[甲](../page.md#第二-部分)，[乙](near.md)，[丙](../../README.md)\n"


@pytest.mark.thorough
def test_the_course_in_chinese_has_the_pages_with_their_tables():
    docs, known = language_edition.of(ROOT, "zh") / "docs", doc_tables.words(ROOT, "zh")
    for page in PAGES:
        text, english = ((folder / page).read_text(encoding="utf-8") for folder in (docs, ROOT / "docs"))
        assert re.match(r"# .*[\u4e00-\u9fff]", text) and ": table -->" not in text
        assert all(doc_tables.said(table["rows"], known).strip() in text for table in doc_pages.TABLE.finditer(english))
        assert not lost_links(docs / page)
    headings = {path.resolve(): doc_pages.anchors(path.read_text(encoding="utf-8")) for path in docs.rglob("*.md")}
    for notebook in sorted((docs.parent / "notebooks").glob("*.ipynb")):
        text = "\n\n".join(cell.source for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "markdown")
        for target, anchor in re.findall(r"\]\(((?:\.\./)+docs/[^)\s#]+\.md)#([^)\s]+)\)", text):
            assert anchor in headings[(notebook.parent / target).resolve()], f"{notebook.name}: {target}#{anchor}"
    assert not lost_links(docs / "teaching.md") and "](running.md#没有-nvrtc-时)" in (docs / "teaching.md").read_text(encoding="utf-8")


def test_the_verb_lists_the_pages_and_fails_for_a_stale_one(capsys, monkeypatch):
    assert main(["translation"]) == 0
    assert f"docs/: {len(PAGES)} pages translated (" in capsys.readouterr().out
    monkeypatch.setattr(doc_pages, "told", lambda english: f"{english} changed")
    assert main(["translation"]) == 1
    said = capsys.readouterr().out
    assert all(f"docs/zh/{page}: docs/{page} has changed" in said for page in PAGES)
