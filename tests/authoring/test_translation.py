# SPDX-License-Identifier: Apache-2.0
"""Translations: which cells have one, which are stale since the English changed, what one lost; and the editions made of them."""

import json
import os
import re

import nbformat
import pytest

from hopperlab.authoring import hashes
from hopperlab.authoring.__main__ import main
from hopperlab.authoring.editions import language_edition, translation
from hopperlab.authoring.learner import workspace
from hopperlab.authoring.notebooks import build, glossary, lesson_source, solutions
from hopperlab.runtime import language

ROOT = hashes.ROOT
EVERY = [*build.sources(), *solutions.sources()]
SOURCE = """---
title: A lesson
minutes: 10
---

# 01 · A lesson

A tile of 16 rows, see [lesson 02](02_x.ipynb) and `cp.async`.

```python id=one
print("a")
```

## Second

Text, $x^2$.

## Third

```text
a -> b
```
"""


@pytest.fixture
def lesson(tmp_path):
    path = tmp_path / "01_a.md"
    path.write_text(SOURCE)
    (tmp_path / "zh").mkdir()
    return path


def cells_of(path):
    return translation.texts(lesson_source.read(path))


def write(path, texts, title="一课"):
    blocks = [f"<!-- cell {translation.digest(cell.text)} -->\n{text}" for cell, text in zip(cells_of(path), texts, strict=False) if text]
    head = f"---\ntitle: {title}\nof: {translation.digest(lesson_source.read(path).title)}\n---\n"
    translation.file_of(path, "zh").write_text("\n\n".join([head, *blocks]))


WHOLE = ("# 01 · 一课\n\n16 行的 tile，见[第 02 课](02_x.ipynb)和 `cp.async`。", "## 二\n\n文字，$x^2$。", "## 三\n\n```text\na -> b\n```")


def test_a_whole_translation_has_nothing_to_do(lesson):
    write(lesson, WHOLE)
    assert translation.status(lesson, "zh").whole


def test_a_cell_that_changed_is_stale_and_named(lesson):
    write(lesson, WHOLE)
    lesson.write_text(SOURCE.replace("Text, $x^2$.", "Other text, $x^2$."))
    found = translation.status(lesson, "zh")
    assert [cell.id for cell in found.missing] == ["text-second"] and len(found.stale) == 1 and found.done == 2 and not found.whole
    report = "\n".join(translation.report([found]))
    assert "translate 'text-second'" in report and f"block {found.stale[0]} is of an English text that is gone" in report


def test_a_title_that_changed_is_stale(lesson):
    write(lesson, WHOLE)
    lesson.write_text(SOURCE.replace("title: A lesson", "title: Another"))
    assert not translation.status(lesson, "zh").title and f"no title (of: {translation.digest('Another')})" in "\n".join(translation.report([translation.status(lesson,
            "zh")]))


def test_a_cell_whose_code_changed_is_not_stale(lesson):
    write(lesson, WHOLE)
    lesson.write_text(SOURCE.replace('print("a")', 'print("b")'))
    assert translation.status(lesson, "zh").whole


@pytest.mark.parametrize(("old", "new", "fault"), [
    ("(02_x.ipynb)", "(03_x.ipynb)", "link '02_x.ipynb'"), ("`cp.async`", "cp.async", "code 'cp.async'"), ("16 行", "很多行", "number '16'"),
    ("$x^2$", "x²", "formula 'x^2'"),
    ("```text\na -> b\n```", "a -> b", "block 'text'"), ("16 行", "16 行 `made_up`", "code 'made_up' is not in the English"),
    ("文字，", "**文字，**又", "is not shown as emphasis")])
def test_what_a_translation_lost_is_named(old, new, fault, lesson):
    write(lesson, [text.replace(old, new) for text in WHOLE])
    faults = translation.status(lesson, "zh").faults
    assert any(fault in one for one in faults), faults


def test_a_stub_keeps_what_is_done_and_shows_the_english_and_what_was_there(lesson):
    write(lesson, (WHOLE[0], WHOLE[1], ""))
    lesson.write_text(SOURCE.replace("Text, $x^2$.", "Other text, $x^2$."))
    text = translation.stub(lesson, "zh")
    assert WHOLE[0] in text and "<!-- English\n## Second\n\nOther text, $x^2$.\n-->\n<!-- before\n## 二\n\n文字，$x^2$。\n-->" in text
    translation.file_of(lesson, "zh").write_text(text)
    found = translation.status(lesson, "zh")
    assert [cell.id for cell in found.missing] == ["text-second", "text-third"] and not found.stale and found.title
    assert translation.stub(lesson, "zh").count("<!-- English") == 2


def test_cells_that_say_the_same_share_a_block(lesson):
    lesson.write_text(SOURCE + "".join(f"\n```python id={name}\nprint(2)\n```\n\n### Repair it\n" for name in ("two", "three")))
    write(lesson, ("", "", ""))
    text = translation.stub(lesson, "zh")
    translation.file_of(lesson, "zh").write_text(text)
    assert text.count("<!-- English\n### Repair it") == 1 and len(translation.status(lesson, "zh").missing) == len(cells_of(lesson)) == 5


@pytest.mark.parametrize(("text", "words"), [("no head", "must open with"), ("---\ntitle: x\n---\nloose\n", "stands in no block"),
                                             ("---\ntitle: x\n---\n<!-- cell 00000000 -->\na\n<!-- cell 00000000 -->\nb\n", "stands twice")])
def test_a_file_that_cannot_be_read_says_why(text, words, lesson):
    translation.file_of(lesson, "zh").write_text(text)
    with pytest.raises(translation.TranslationError, match=words):
        translation.status(lesson, "zh")


@pytest.mark.parametrize("path", EVERY, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_no_translation_of_the_course_is_stale_or_lost_anything(path):
    """Retranslate what this names: python -m hopperlab.authoring translation NN --stub (--exercises) shows the English beside what was there."""
    found = translation.status(path, "zh")
    assert not found.stale and not found.faults, "\n".join(translation.report([found]))


def test_every_translation_has_a_source():
    names = {path.relative_to(ROOT).as_posix() for path in EVERY}
    for folder in ("notebooks", "solutions"):
        for path in (ROOT / folder / "sources" / "zh").glob("*"):
            assert f"{folder}/sources/{path.name}" in names, path


def test_a_built_notebook_has_the_hashes_of_its_source():
    """An edition is made of built notebooks, whose text has links to the glossary that the source has not."""
    for path in build.sources()[:4]:
        built = [cell.source for cell in nbformat.read(build.notebook_path(path), 4).cells if cell.cell_type == "markdown" and not cell.id.startswith(translation.REPAIR)]
        assert [translation.digest(text) for text in built] == [translation.digest(cell.text) for cell in cells_of(path)]


@pytest.fixture(scope="module")
def chinese():
    return language_edition.of(ROOT, "zh")


@pytest.mark.thorough
def test_an_edition_has_every_notebook_with_the_same_code_and_pictures(chinese):
    for folder in ("notebooks", "exercises"):
        originals = sorted((ROOT / folder).glob("*.ipynb"))
        assert originals and [path.name for path in originals] == [path.name for path in sorted((chinese / folder).glob("*.ipynb"))]
        for path in originals:
            english, own = (nbformat.read(place, 4) for place in (path, chinese / folder / path.name))
            assert [(c.id, c.cell_type) for c in english.cells] == [(c.id, c.cell_type) for c in own.cells] and own.metadata.hopperlab.language == "zh"
            for ours, theirs in zip(own.cells, english.cells, strict=True):
                if ours.cell_type == "code":
                    assert (ours.source, ours.execution_count, ours.metadata) == (theirs.source, theirs.execution_count, theirs.metadata)
                    assert [out.get("data", {}).get("image/png") for out in ours.outputs] == [out.get("data", {}).get("image/png") for out in theirs.outputs]


def test_what_has_no_translation_is_english_with_one_note_a_run(lesson):
    write(lesson, ("", "", WHOLE[2]))
    notebook = build.assemble(lesson_source.read(lesson))
    made = language_edition.notebook_in(notebook, translation.read(translation.file_of(lesson, "zh")), "zh", {})
    texts = [cell.source for cell in made.cells if cell.cell_type == "markdown"]
    assert texts[0].startswith(f"{language_edition.NOTES['zh']}\n\n# 01") and texts[1].startswith("## Second") and texts[2] == WHOLE[2]
    assert made.metadata.hopperlab.title == "一课"


def test_lines_broken_between_chinese_characters_are_joined_outside_of_code():
    assert language_edition._one_line("一句。\n又一句 a\n> 引，\n> 文\n\n- 项\n- 目\n```text\n码\n码\n```") == "一句。又一句 a\n> 引，文\n\n- 项\n- 目\n```text\n码\n码\n```"


@pytest.mark.thorough
def test_words_of_outputs_and_under_repairs_come_from_the_table(chinese):
    cells = {cell.id: cell for cell in nbformat.read(chinese / "notebooks" / "00_start_here.ipynb", 4).cells}
    assert "你还没有投票" in str(cells["verdict"].outputs) and "<summary>提示</summary>" in cells["text-repair-kernel-1"].source
    assert "```cuda" in cells["text-repair-kernel-1"].source and "还没有修好" in str(cells["repair-kernel-1"].outputs)


def test_the_first_mention_of_a_term_leads_to_the_glossary():
    known = language_edition.names()
    assert known["屏障"] == "barrier" and known["warp"] == "warp"
    (linked,) = glossary.linked(["每个warp等一个 mbarrier，再等一个 mbarrier"], {"warp": "warp", "mbarrier": "mbarrier"}, re.ASCII)
    assert linked == "每个[warp](../docs/glossary.md#warp)等一个 [mbarrier](../docs/glossary.md#mbarrier)，再等一个 mbarrier"


def test_an_edition_is_made_anew_only_when_something_changed(chinese):
    mark = chinese / "notebooks" / "index.ipynb"
    before = mark.stat().st_mtime_ns
    assert language_edition.of(ROOT, "zh") == chinese and mark.stat().st_mtime_ns == before


def test_a_change_makes_another_folder_and_what_is_old_goes(tmp_path):
    for name in ("notebooks", "docs", "build/editions/zh/old"):
        (tmp_path / name).mkdir(parents=True)
    os.utime(tmp_path / "build" / "editions" / "zh" / "old", (0, 0))
    (tmp_path / "docs" / "a.md").write_text("a")
    first = language_edition.of(tmp_path, "zh")
    (tmp_path / "docs" / "a.md").write_text("changed")
    second = language_edition.of(tmp_path, "zh")
    assert first != second and (second / "docs" / "a.md").read_text() == "changed" and (first / "docs" / "a.md").read_text() == "a"
    assert sorted(path.name for path in first.parent.iterdir()) == sorted([first.name, second.name])


def test_english_is_the_course_itself_and_others_are_refused():
    assert language_edition.of(ROOT, "en") == ROOT
    with pytest.raises(language.LanguageError, match="'fr'"):
        language_edition.of(ROOT, "fr")


def test_a_working_folder_keeps_its_language(chinese, tmp_path):
    work = tmp_path / "kurs"
    assert len(workspace.lay_out(chinese, work, "zh")) == len(list((chinese / "notebooks").glob("*.ipynb"))) + len(list((chinese / "exercises").glob("*.ipynb")))
    assert workspace.language_of(work) == "zh" and workspace.find_work(ROOT, work) == work
    assert workspace.for_language(work, ROOT, tmp_path, None) == (work, "zh")
    assert workspace.for_language(work, ROOT, tmp_path, "en") == (ROOT / "work", "en")
    assert workspace.for_language(ROOT / "work", ROOT, tmp_path, "zh") == (ROOT / "work" / "zh", "zh")
    assert workspace.for_language(None, workspace.CARRIED, tmp_path, "zh") == (tmp_path / "hopperlab-course-zh", "zh")
    with pytest.raises(workspace.WorkspaceError, match="another language"):
        workspace.lay_out(ROOT, work)
    ((copy, kept),) = workspace.restore(chinese, "00", work)
    assert kept is not None and json.loads(copy.read_text())["metadata"]["hopperlab"]["language"] == "zh"


def test_the_verb_says_how_far_a_lesson_is(capsys):
    assert main(["translation", "00"]) == 0
    assert "00_start_here: 22 of 22 cells" in capsys.readouterr().out
