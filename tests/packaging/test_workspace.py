# SPDX-License-Identifier: Apache-2.0
"""Copies in work/: filled without overwriting, restored with the old one kept."""
import json

import pytest

from hopperlab.authoring.learner import workspace
from hopperlab.authoring.learner.workspace import WorkspaceError


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
    (tmp_path / "notebooks" / "sources").mkdir()
    (tmp_path / "hopperlab").mkdir()
    return tmp_path


def test_the_course_is_found_from_below(course, tmp_path):
    below = course / "notebooks" / "sources"
    assert workspace.find_root(below) == course
    with pytest.raises(WorkspaceError, match="there is no folder"):
        workspace.find_root(tmp_path / "elsewhere")


def test_fill_copies_what_is_missing_and_overwrites_nothing(course):
    made = workspace.fill(course)
    assert [p.relative_to(course / "work").as_posix() for p in made] == [
        "index.ipynb", "00_start_here.ipynb", "05_tma_tiles.ipynb", "05x_inside_tma.ipynb", "exercises/05_tma_tiles.ipynb"]
    mine = course / "work" / "05_tma_tiles.ipynb"
    mine.write_text("my own work")
    (course / "work" / "00_start_here.ipynb").unlink()
    assert workspace.fill(course) == [course / "work" / "00_start_here.ipynb"]
    assert mine.read_text() == "my own work"


@pytest.mark.parametrize("lesson", ["05x", "05X", "5X", "05X_inside_tma"])
def test_an_optional_lesson_is_found_in_either_case(course, lesson):
    workspace.fill(course)
    assert [copy.name for copy, _ in workspace.restore(course, lesson)] == ["05x_inside_tma.ipynb"]


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


@pytest.mark.parametrize("source", ["guess.beside(3, 'recorded')", ["print(table)\n", "ballot.beside(verdicts)"]])
def test_a_copy_does_not_answer_before_it_is_run(course, source):
    told = pristine("05")
    told["cells"][0]["source"] = source
    (course / "notebooks" / "05_tma_tiles.ipynb").write_text(json.dumps(told))
    workspace.fill(course)
    kept, emptied = (json.loads((course / "work" / f"{name}.ipynb").read_text())["cells"][0] for name in ("05x_inside_tma", "05_tma_tiles"))
    assert kept["outputs"] == [{"text": "kept"}] and emptied["outputs"] == [] and emptied["source"] == source


def test_pages_are_brought_up_to_date(course):
    page = course / "docs" / "hazards" / "race.md"
    page.parent.mkdir(parents=True)
    for text in ("old", "new"):
        page.write_text(text)
        workspace.fill_pages(course)
        assert (course / "work" / "docs" / "hazards" / "race.md").read_text() == text


@pytest.fixture
def carried(course, tmp_path, monkeypatch):
    """The same course as an installed wheel carries it, and an empty folder to stand in."""
    installed = tmp_path / "site-packages" / "hopperlab" / "course"
    (course / "docs").mkdir()
    (course / "docs" / "glossary.md").write_text("### TMA\n")
    installed.mkdir(parents=True)
    for name in ("notebooks", "exercises", "docs"):
        (course / name).rename(installed / name)
    (course / "hopperlab").rmdir()
    monkeypatch.setattr(workspace, "CARRIED", installed)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return installed


def test_a_wheels_course_is_laid_out_in_any_folder(carried, tmp_path):
    here = tmp_path / "here"
    assert workspace.find_root() == carried and workspace.find_work(carried) is None
    made = workspace.lay_out(carried, here / "mine")
    assert len(made) == 5 and all((here / "mine") in copy.parents for copy in made)
    assert (here / "mine" / "docs" / "glossary.md").is_file() and "](docs/glossary.md#TMA)" in (here / "mine" / "05_tma_tiles.ipynb").read_text()
    assert workspace.find_work(carried, here / "mine" / "exercises") == here / "mine" and workspace.find_work(carried) is None
    (here / "mine" / "05_tma_tiles.ipynb").write_text("my own work")
    assert workspace.lay_out(carried, here / "mine") == [] and (here / "mine" / "05_tma_tiles.ipynb").read_text() == "my own work"
    (copy, kept), _ = workspace.restore(carried, "05", here / "mine")
    assert copy == here / "mine" / "05_tma_tiles.ipynb" and kept.read_text() == "my own work"


def test_what_lab_laid_out_here_is_found_again(carried, tmp_path):
    workspace.lay_out(carried, tmp_path / "here" / workspace.FIRST_NAME)
    assert workspace.find_work(carried) == tmp_path / "here" / workspace.FIRST_NAME


def test_a_folder_with_something_else_in_it_is_refused(carried, tmp_path):
    here = tmp_path / "here"
    (here / ".venv").mkdir()
    assert workspace.lay_out(carried, here), "what is hidden does not count"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(WorkspaceError, match="is not empty"):
        workspace.lay_out(carried, tmp_path / "full")
    with pytest.raises(WorkspaceError, match="is a file"):
        workspace.lay_out(carried, tmp_path / "full" / "notes.txt")
    with pytest.raises(WorkspaceError, match="cannot be written to"):
        workspace.lay_out(carried, tmp_path / "full" / "notes.txt" / "below")
    assert sorted(path.name for path in (tmp_path / "full").iterdir()) == ["notes.txt"]


def test_a_clones_working_folder_is_its_own_unless_one_was_started(course, tmp_path):
    assert workspace.find_work(course, course / "notebooks") == course / "work"
    (tmp_path / "other").mkdir()
    workspace.lay_out(course, tmp_path / "other")
    assert workspace.find_work(course, tmp_path / "other") == tmp_path / "other"
    assert not (course / "work").exists() and workspace.lay_out(course, course / "work") and not (course / "work" / workspace.MARKER).exists()
