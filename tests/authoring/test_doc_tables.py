# SPDX-License-Identifier: Apache-2.0
"""Words of the tables in pages of docs/, in Chinese: none missing where the course is looked up, none left over, and links, code and numbers as they were."""

import pytest

from hopperlab.authoring import hashes
from hopperlab.authoring.editions import doc_pages, doc_tables, translation

ROOT = hashes.ROOT
KNOWN = doc_tables.words(ROOT, "zh")
WHOLE = ["cheat-sheet.md", "hazards/README.md"]         # the tables of docs/estimates.md name recordings and constants, which stay
ROWS = """## Clusters

| to | wrapper | forgotten | lesson |
|---|---|---|---|
| meet | `meet`<br>`meet_2` | [race](hazards/race.md): nothing between; at all; [deadlock](hazards/deadlock.md): not all come | 12 |
| part |  | nothing |  |
"""
WORDS = {"Clusters": "集群", "to": "做什么", "meet": "会合", "nothing between; at all": "之间什么也没有", "nothing": "没有"}


def tables(page):
    return [found["rows"] for found in doc_pages.TABLE.finditer((ROOT / "docs" / page).read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", WHOLE)
def test_every_cell_is_translated(page):
    missing = {text for rows in tables(page) for text in doc_tables.texts(rows)} - set(KNOWN)
    assert not missing, f"docs/zh/{doc_tables.NAME} has no line for: {sorted(missing)}"


def test_no_line_is_left_over():
    there = {text for page in doc_pages.pages(ROOT, "zh") for rows in tables(page) for text in doc_tables.texts(rows)}
    assert not set(KNOWN) - there, f"docs/zh/{doc_tables.NAME} has lines that no table says: {sorted(set(KNOWN) - there)}"


@pytest.mark.parametrize("english", KNOWN)
def test_numbers_and_code_stay(english):
    for kind, pattern in translation.KEPT:
        assert set(pattern.findall(english)) == set(pattern.findall(KNOWN[english])), f"{kind} of {english!r}"


def test_cells_change_and_links_code_and_empty_cells_stay():
    assert doc_tables.said(ROWS, WORDS) == """## 集群

| 做什么 | wrapper | forgotten | lesson |
|---|---|---|---|
| 会合 | `meet`<br>`meet_2` | [race](hazards/race.md)：之间什么也没有；[deadlock](hazards/deadlock.md)：not all come | 12 |
| part |  | 没有 |  |
"""
    assert list(doc_tables.texts(ROWS)) == ["Clusters", "to", "wrapper", "forgotten", "lesson", "meet", "nothing between; at all", "not all come", "part", "nothing"]


def test_without_words_a_table_stays_as_it_is(tmp_path):
    assert doc_tables.words(tmp_path, "zh") == {}
    assert all(doc_tables.said(rows, {}) == rows for page in WHOLE for rows in tables(page))
