# SPDX-License-Identifier: Apache-2.0
"""Words of the tables that a program writes into pages of docs/, in another language: docs/zh/tables.toml has English = 中文, cell by cell.

The sentences that explain kinds of hazards are those of their translated pages (hazard_pages). A table that is written anew needs nothing: a cell whose English
changed is shown in English until it has a line. Numbers, code and links are no words.
"""
from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from . import hazard_pages

NAME = "tables.toml"
CELL = re.compile(r"(?<=\| )[^|\n]+?(?= \|)")
HEADING = re.compile(r"(?<=^## ).+$", re.MULTILINE)
PART = re.compile(r"(?P<link>\[[^\]]+\]\([^)]*\): )?(?P<words>.*)")
NO_WORDS = re.compile(r"`[^`]*`|\[[^\]]*\]\([^)]*\)|<br>")


def words(root: Path, to: str) -> Mapping[str, str]:
    """The words of docs/zh (or another language), English first: its table's, and its sentences for kinds of hazards; empty where there is neither."""
    path = root / "docs" / to / NAME
    return (tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}) | hazard_pages.sentences(root, to)


def said(rows: str, known: Mapping[str, str]) -> str:
    """The lines of a table, or of several under headings, with what `known` has in its place."""
    return CELL.sub(lambda cell: _cell(cell[0], known), HEADING.sub(lambda title: known.get(title[0], title[0]), rows))


def texts(rows: str) -> Iterator[str]:
    """What there is to translate: headings and the words of cells, those of a cell that names several hazards one by one."""
    for found in (*HEADING.findall(rows), *(part["words"] for cell in CELL.findall(rows) for part in _parts(cell))):
        if re.search(r"[A-Za-z]{2}", NO_WORDS.sub("", found)):
            yield found


def _cell(cell: str, known: Mapping[str, str]) -> str:
    parts = [(part["link"] or "", part["words"]) for part in _parts(cell)]
    if not any(text in known for _, text in parts):
        return cell
    return "；".join(f"{link.removesuffix(': ')}{'：' if link else ''}{known.get(text, text)}" for link, text in parts)


def _parts(cell: str) -> Iterator[re.Match[str]]:
    """The pieces of a cell that "; " and a link part: `[race](hazards/race.md): words`, or words alone."""
    yield from filter(None, map(PART.fullmatch, re.split(r"; (?=\[)", cell)))
