# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/hazards, one a kind, in English and in other languages: how they begin, and what is listed of them.

A page is the one place that explains its kind: `# KIND` (in a translation `# KIND：its name there`), and below it one sentence in bold.
"""
from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ...emulator.hazards.kinds import Kind

OPENING = re.compile(r"\A(?:<!-- .* -->\n+)?# (?P<kind>[a-z-]+)(?:：(?P<name>.+))?\n\n\*\*(?P<sentence>[^*]+)[.。]\*\*$", re.MULTILINE)


def path(root: Path, kind: Kind, to: str = "") -> Path:
    """A kind's page, in English or in the language `to`."""
    return root / "docs" / to / "hazards" / f"{kind}.md"


def opening(page: Path) -> Mapping[str, str]:
    """Kind, name (in a translation) and sentence with which a page begins. Raises ValueError where it is missing or begins otherwise."""
    found = OPENING.search(page.read_text(encoding="utf-8")) if page.is_file() else None
    if found is None or found["kind"] != page.stem:
        raise ValueError(f"{page.parent.name}/{page.name} is missing, or does not begin with # {page.stem} and a sentence in bold that explains it")
    return found.groupdict()


def table(root: Path, kinds: Iterable[Kind] = Kind, folder: str = "") -> list[str]:
    """Each kind with a link to its page and the sentence that explains it; folder: where the pages are, seen from the page that has the table."""
    return ["| kind | what |", "|---|---|", *(f"| [{kind}]({folder}{kind}.md) | {opening(path(root, kind))['sentence']} |" for kind in kinds)]


def sentences(root: Path, to: str) -> dict[str, str]:
    """The sentences of pages that are translated, English first."""
    translated = [kind for kind in Kind if path(root, kind, to).is_file()]
    return {opening(path(root, kind))["sentence"]: opening(path(root, kind, to))["sentence"] for kind in translated}


def names(root: Path, to: str) -> str:
    """All kinds in a line, as links to the pages of another language with their names there; to the English page where there is no other."""
    found = []
    for kind in Kind:
        page = path(root, kind, to)
        found.append(f"[{kind}]({kind}.md)（{opening(page)['name']}）" if page.is_file() else f"[{kind}](../../hazards/{kind}.md)")
    return "，".join(found) + "。"
