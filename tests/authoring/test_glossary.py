# SPDX-License-Identifier: Apache-2.0
"""The glossary: complete entries, links from the lessons that lead somewhere, and linking that touches nothing else."""

import re

import nbformat
import pytest

from hopperlab.authoring import hashes
from hopperlab.authoring.notebooks import build, glossary, lesson_source

ROOT = hashes.ROOT
TERMS = glossary.terms()
PAGES = sorted((ROOT / "docs").rglob("*.md")) + [ROOT / "README.md"]


def test_there_are_enough_terms_and_each_is_complete():
    assert len(TERMS) >= 60
    assert len({term.anchor for term in TERMS}) == len(TERMS), "two terms share an anchor"
    for term in TERMS:
        assert re.search(r"[\u4e00-\u9fff]", term.chinese), f"{term.name} has no Chinese name"
        assert re.fullmatch(r"(0\d|1[0-9])[a-z]?", term.lesson), f"{term.name} names lesson {term.lesson}"
        assert 30 <= len(term.text) <= 400 and term.text.endswith((".", ")")), f"{term.name}: {term.text!r}"


def test_an_entry_without_its_line_or_definition_is_named(tmp_path):
    page = tmp_path / "glossary.md"
    page.write_text("### TMA\n张量 · lesson 05\n\nA unit.\n\n### box\nno lesson\n\nA part.\n")
    with pytest.raises(ValueError, match="'box' lacks"):
        glossary.terms(page)


def text_of(path):
    """Of a page, or of a lesson's notebook as its source makes it."""
    if path in PAGES:
        return path.read_text(encoding="utf-8")
    return "\n".join(cell.source for cell in build.assemble(lesson_source.read(path)).cells if cell.cell_type == "markdown")


@pytest.mark.parametrize("path", [*build.sources(), *PAGES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_glossary_link_leads_to_a_term(path):
    name, text = path.name, text_of(path)
    anchors = {term.anchor for term in TERMS}
    broken = [anchor for anchor in re.findall(r"glossary\.md#([^)\s\"]*)", text) if anchor not in anchors]
    assert not broken, f"{name} links to terms that do not exist: {broken}"


@pytest.mark.parametrize("path", build.lesson_sources(), ids=lambda path: path.stem)
def test_every_lesson_links_to_the_glossary(path):
    text = "\n".join(cell.source for cell in nbformat.read(build.notebook_path(path), as_version=4).cells if cell.cell_type == "markdown")
    assert text.count("(../docs/glossary.md#") >= 4, f"{path.stem} is built without its links; build it again"


KNOWN = {"mbarrier": "mbarrier", "stage": "stage", "stages": "stage", "bank conflict": "bank-conflict", "bank conflicts": "bank-conflict", "cp.async": "cpasync",
         "tma": "tma"}


@pytest.mark.parametrize("text, expected", [
    ("An mbarrier, and an mbarrier.", "An [mbarrier](#mbarrier), and an mbarrier."),
    ("A stage is a *stage*.", "A stage is a [*stage*](#stage)."),
    ("Two **bank conflicts**", "Two [**bank conflicts**](#bank-conflict)"),
    ("`cp.async` and `cp.async.bulk`", "[`cp.async`](#cpasync) and `cp.async.bulk`"),
    ("`cp.async.bulk` only, cp.async.bulk", "`cp.async.bulk` only, cp.async.bulk"),
    ("`STAGES` and `TMA`", "`STAGES` and [`TMA`](#tma)"),
    ("# TMA\nTMA", "# TMA\n[TMA](#tma)"),
    ("> TMA\n\nTMA-like, TMA", "> TMA\n\nTMA-like, [TMA](#tma)"),
    ("[TMA](x.md) TMA", "[TMA](x.md) [TMA](#tma)"),
    ("```\nTMA\n```\n$TMA$ <b title='TMA'>TMA</b>", "```\nTMA\n```\n$TMA$ <b title='TMA'>[TMA](#tma)</b>"),
    ("<details>TMA</details>", "<details>TMA</details>"),
    ("| TMA | mbarrier |", "| TMA | mbarrier |"),
    ("see [it](../docs/glossary.md#tma): TMA", "see [it](../docs/glossary.md#tma): TMA"),
])
def test_first_mentions_are_linked_and_nothing_else(text, expected):
    shown, = glossary.linked([text], KNOWN)
    assert shown == expected.replace("(#", f"({glossary.PAGE}#")


def test_a_term_is_linked_once_a_notebook():
    first, second = glossary.linked(["TMA", "TMA and mbarrier"], KNOWN)
    assert first.endswith("#tma)") and second.startswith("TMA and [mbarrier]")


def test_troubleshooting_names_commands_and_pages_that_exist():
    from hopperlab import cli
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`hopperlab (\w+)", page)) <= {command.name for command in cli.COMMANDS}
    assert all((ROOT / "docs" / target).is_file() for target in re.findall(r"\]\(([^)#:]+)\)", page))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)`", page)) <= targets
    for row in re.findall(r"^\|(?!---| symptom)(.*)\|$", page, re.MULTILINE):
        assert row.count(" | ") == 3, f"a row with other than four cells: {row}"
    for symptom in ("hangs", "garbage", "slow", "compile", "C7508", "C7510"):
        assert symptom in page


def test_hazard_pages_are_all_linked_from_somewhere():
    listed = (ROOT / "docs" / "hazards" / "README.md").read_text(encoding="utf-8")
    assert all(f"({path.name})" in listed for path in (ROOT / "docs" / "hazards").glob("*.md") if path.name != "README.md")


def test_what_to_read_on_leads_to_documents_and_not_to_the_glossary():
    texts = ["A tensor map, at last.\n\n**Read on.** PTX ISA 9.7.13.15 (`mbarrier`), 5.5\n(swizzle).\nLinks: [PTX ISA](https://example.org/).\n\nAn mbarrier."]
    made, = glossary.linked(texts)
    opened, rest = made.split("**Read on.**")
    assert "[tensor map](../docs/glossary.md#tensor-map)" in opened
    assert "glossary" not in rest.split("\n\n")[0] and "An [mbarrier](../docs/glossary.md#mbarrier)" in rest
