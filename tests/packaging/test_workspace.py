"""Copies in work/: filled without overwriting, restored with the old one kept."""
import json

import pytest

from hopperlab import workspace
from hopperlab.workspace import WorkspaceError


def pristine(name: str, count: int | None = 1, link: str = "../docs/glossary.md#tma") -> dict:
    """A notebook of one code and one text cell."""
    return {"cells": [{"cell_type": "code", "source": name, "execution_count": count, "outputs": [{"text": "kept"}]},
                      {"cell_type": "markdown", "source": [f"[TMA]({link})\n", "the ../docs/ folder"]}]}


@pytest.fixture
def course(tmp_path):
    for folder, names in (("notebooks", ("00_start_here", "05_tma_tiles", "05x_inside_tma")), ("exercises", ("05_tma_tiles",))):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / f"{name}.ipynb").write_text(json.dumps(pristine(f"{folder}/{name}")))
    (tmp_path / "notebooks" / "index.ipynb").write_text(json.dumps(pristine("index")))
    (tmp_path / "notebooks" / "src").mkdir()
    (tmp_path / "hopperlab").mkdir()
    return tmp_path


def test_the_course_is_found_from_below(course, tmp_path):
    below = course / "notebooks" / "src"
    assert workspace.find_root(below) == course
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert workspace.find_root(elsewhere) == course


def test_fill_copies_what_is_missing_and_overwrites_nothing(course):
    made = workspace.fill(course)
    assert [p.relative_to(course / "work").as_posix() for p in made] == [
        "index.ipynb", "00_start_here.ipynb", "05_tma_tiles.ipynb", "05x_inside_tma.ipynb", "exercises/05_tma_tiles.ipynb"]
    mine = course / "work" / "05_tma_tiles.ipynb"
    mine.write_text("my own work")
    (course / "work" / "00_start_here.ipynb").unlink()
    assert workspace.fill(course) == [course / "work" / "00_start_here.ipynb"]
    assert mine.read_text() == "my own work"


@pytest.mark.parametrize("lesson", ["05", "5", "05_tma_tiles", "05_tma_tiles.ipynb", "work/05_tma_tiles.ipynb"])
def test_restore_resets_one_lesson_and_keeps_the_old_one(course, lesson):
    workspace.fill(course)
    for path in (course / "work").rglob("*.ipynb"):
        path.write_text("my own work")
    done = workspace.restore(course, lesson)
    assert [copy.name for copy, _ in done] == ["05_tma_tiles.ipynb"] * 2
    assert (course / "work" / "05_tma_tiles.ipynb").read_text().count("notebooks/05_tma_tiles") == 1
    assert all(kept.read_text() == "my own work" for _, kept in done)
    assert (course / "work" / "00_start_here.ipynb").read_text() == "my own work"
    assert (course / "work" / "05x_inside_tma.ipynb").read_text() == "my own work"


def test_restoring_twice_in_a_second_keeps_both(course):
    workspace.fill(course)
    first = workspace.restore(course, "00")[0][1]
    second = workspace.restore(course, "00")[0][1]
    assert first != second and first.exists() and second.exists()


def test_restoring_what_was_never_opened(course):
    copy, kept = workspace.restore(course, "5x")[0]
    assert kept is None and "notebooks/05x_inside_tma" in copy.read_text()


def test_an_unknown_lesson_is_named_with_the_ones_there_are(course):
    with pytest.raises(WorkspaceError, match="no lesson '77'; there are: 00_start_here, 05_tma_tiles, 05x_inside_tma, index"):
        workspace.restore(course, "77")


def test_a_copy_has_no_counts_keeps_its_outputs_and_its_links_hold(course):
    (course / "docs").mkdir()
    (course / "docs" / "glossary.md").write_text("# Glossary\n\n### TMA\n\n### Little's law\n")
    workspace.fill(course)
    mine = json.loads((course / "work" / "05_tma_tiles.ipynb").read_text())
    assert mine == pristine("notebooks/05_tma_tiles", None, "docs/glossary.md#TMA")
    assert workspace._headings(course / "docs" / "glossary.md")["littles-law"] == "Little%27s-law"
    assert json.loads((course / "work" / "exercises" / "05_tma_tiles.ipynb").read_text()) == pristine("exercises/05_tma_tiles", None)


def test_pages_are_brought_up_to_date(course):
    page = course / "docs" / "hazards" / "race.md"
    page.parent.mkdir(parents=True)
    for text in ("old", "new"):
        page.write_text(text)
        workspace.fill_pages(course)
        assert (course / "work" / "docs" / "hazards" / "race.md").read_text() == text
