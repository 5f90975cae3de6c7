# SPDX-License-Identifier: Apache-2.0
"""The landing notebook: what it lists comes from the files, the paths' minutes add up, and progress is read from the copies."""

import json
import os
import re

import nbformat
import pytest

from hopperlab.authoring.learner import workspace
from hopperlab.authoring import course, hashes
from hopperlab.authoring.learner import landing_page, learner_progress
from hopperlab.authoring.notebooks import build, lesson_source, stored
from hopperlab.authoring.stamps import made_of

ROOT = hashes.ROOT


def write(path, title="A lesson", minutes=30, cells=()):
    path.parent.mkdir(parents=True, exist_ok=True)
    code = [{"cell_type": "code", "id": name, "metadata": {"tags": tags}, "source": ["x = 1\n", "check_it(x)"], "execution_count": count,
             "outputs": [{"output_type": "stream", "name": "stdout", "text": text}] if text else []} for name, count, text, tags in cells]
    path.write_text(json.dumps({"cells": code, "metadata": {"hopperlab": {"title": title, "minutes": minutes}}, "nbformat": 4, "nbformat_minor": 5}))


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A course of three lessons, one of them optional, with an exercise notebook; the working folder is its work/."""
    (tmp_path / "hopperlab").mkdir()
    write(tmp_path / "notebooks" / "00_start.ipynb", "Start", 20, [("a", 1, "1\n", []), ("exercise", 2, "Not answered yet", ["nbval-ignore-output"])])
    write(tmp_path / "notebooks" / "05_tiles.ipynb", "Tiles", 35, [("a", 1, "1\n", [])])
    write(tmp_path / "notebooks" / "05x_inside.ipynb", "Inside", 25, [("a", 1, "1\n", [])])
    write(tmp_path / "exercises" / "05_tiles.ipynb", "Tiles", 20, [("check", 1, "right answer: True\n", []), ("plot", 2, "a", ["nbval-ignore-output"])])
    workspace.fill(tmp_path)
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def run(path, **texts):
    """Give cells of a copy a count and an output, as JupyterLab would on saving."""
    document = json.loads(path.read_text())
    for number, cell in enumerate(c for c in document["cells"] if c["id"] in texts):
        cell["execution_count"] = number + 7
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": [texts[cell["id"]]]}]
    path.write_text(json.dumps(document))


def test_the_syllabus_is_what_the_files_say(small):
    shown = str(landing_page.syllabus())
    assert re.search(r"00 +Start +20 min +not begun +0 of 1 solved", shown) and re.search(r"05x +Inside +25 min, optional", shown)
    assert 'href="05_tiles.ipynb"' in landing_page.syllabus().html() and 'href="exercises/05_tiles.ipynb"' in landing_page.syllabus().html()
    write(small / "notebooks" / "07_new.ipynb", "New", 15)
    assert "New" in str(landing_page.syllabus())


def test_the_minutes_of_a_path_are_the_sum_of_its_lessons(small):
    shown = str(landing_page.paths()).splitlines()
    half = next(line for line in shown if line.startswith("Half a day"))
    assert "55 min, 55 left" in half and "not in this copy of the course: 04, 08, 10" in half, half
    run(small / "work" / "00_start.ipynb", a="1\n", exercise="Right: both")
    assert "55 min, 35 left" in str(landing_page.paths())


def test_the_real_paths_fit_their_hours_and_add_up():
    every = course.entries(ROOT)
    written = {path.stem.split("_")[0]: lesson_source.read(path).minutes for path in build.lesson_sources()}
    assert {entry.number: entry.minutes for entry in every} == written
    for way in course.WAYS:
        chosen, missing = course.on_way(way, every)
        assert course.minutes(chosen) == sum(written[n] for n in way.numbers if n in written)
        assert 30 * len(way.numbers) <= 60 * way.hours, "lessons of 30 minutes do not fit"
        assert course.minutes(chosen) + 30 * len(missing) <= 60 * way.hours, f"{way.name} takes longer than its hours"
        assert not any(entry.optional for entry in chosen)


def test_a_copy_begins_unrun_and_progress_follows_what_is_saved(small):
    entry = course.entries(small)[0]
    copy = small / "work" / "00_start.ipynb"
    assert learner_progress.of(entry, small / "work").words == "not begun"
    run(copy, a="1\n")
    assert learner_progress.of(entry, small / "work") == learner_progress.Progress(1, 2, 0, 1)
    assert learner_progress.of(entry, small / "work").words == "1 of 2 cells run"
    run(copy, a="1\n", exercise="axpy: right\nsum: no\n")
    assert learner_progress.of(entry, small / "work") == learner_progress.Progress(2, 2, 0, 1)
    run(copy, a="1\n", exercise="axpy: right\nsum: right\n")
    assert learner_progress.of(entry, small / "work") == learner_progress.Progress(2, 2, 1, 1)
    copy.unlink()
    assert learner_progress.of(entry, small / "work").words == "not begun"


def test_an_error_in_a_saved_copy_is_not_called_run(small):
    copy = small / "work" / "05_tiles.ipynb"
    document = json.loads(copy.read_text())
    document["cells"][0] |= {"execution_count": 1, "outputs": [{"output_type": "error", "ename": "E", "evalue": "", "traceback": []}]}
    copy.write_text(json.dumps(document))
    assert learner_progress.of(course.entries(small)[1], small / "work").words == "stopped at an error"


@pytest.mark.parametrize("saved, solved", [({"check": "right answer: True\n"}, 1), ({"check": "right answer: False\n"}, 0), ({"plot": "b"}, 0),
                                           ({"check": "right answer: True\n", "plot": "other"}, 1)])
def test_an_exercise_notebook_is_solved_when_its_compared_cells_print_what_is_stored(small, saved, solved):
    run(small / "work" / "exercises" / "05_tiles.ipynb", **saved)
    assert learner_progress.of(course.entries(small)[1], small / "work").solved == solved


@pytest.mark.parametrize("path", [path for path in build.lesson_sources() if "id=exercise" in path.read_text(encoding="utf-8")], ids=lambda path: path.stem)
def test_every_lesson_with_an_exercise_has_a_check_that_progress_finds(path):
    checks = [cell for cell in lesson_source.read(path).cells if cell.kind == "code" and cell.id.startswith("exercise") and "check_" in cell.text]
    assert len(checks) >= 1, f"{path.stem}: the check of the exercise stands in a cell whose id begins with `exercise` and calls a `check_…`"


def test_a_cell_of_the_exercise_that_checks_nothing_is_no_exercise(small):
    path = small / "notebooks" / "05_tiles.ipynb"
    write(path, "Tiles", 35, [("exercise-frame", 1, "1\n", []), ("exercise", 2, "Right", [])])
    document = json.loads(path.read_text())
    document["cells"][0]["source"] = "show.source('x.cu')"
    path.write_text(json.dumps(document))
    (small / "work" / "05_tiles.ipynb").unlink()
    workspace.fill(small)
    assert learner_progress.of(course.entries(small)[1], small / "work").exercises == 2, "the lesson's and the exercise notebook's"


def test_an_unrun_exercise_is_not_solved_although_its_outputs_are_stored(small):
    assert learner_progress.of(course.entries(small)[1], small / "work").solved == 0


def test_the_checks_of_the_lessons_say_right_in_a_way_that_progress_reads():
    from hopperlab.lessons import l00_start_here, l03_ampere_pipeline
    right = [l00_start_here.check_intensities({"axpy": 2 / 12, "sum": 0.5, "thin product": 15.94}),
             l03_ampere_pipeline.check_ring(lambda s: s - 1, lambda s: s - 2, lambda s, i: (i + s - 1) % s)]
    wrong = [l00_start_here.check_intensities({"axpy": 2 / 12}), l03_ampere_pipeline.check_ring(None, None, None),
             l03_ampere_pipeline.check_ring(lambda s: s - 1, lambda s: s - 1, lambda s, i: i % s)]
    def cell(text):
        return {"execution_count": 3, "outputs": [{"output_type": "stream", "text": text}]}
    assert [learner_progress.says_right(cell(text)) for text in right + wrong] == [True, True, False, False, False]
    said = {"Right, but never two copies at once": False, "Right: no hazard; but the GPU's sums differ.": False, "first: right, 0x40\nsecond: 0x3 is not it": False,
            "first: right, 0x40\nsecond: right, 0x80": True, "Right: no hazard; the GPU agrees.": True, "": False}
    assert {text: learner_progress.says_right(cell(text)) for text in said} == said
    assert not learner_progress.says_right(cell(right[0]) | {"execution_count": None})


def test_outside_work_no_progress_is_claimed(small, monkeypatch):
    monkeypatch.chdir(small / "notebooks")
    assert "not your copy" in str(landing_page.syllabus()) and "not begun" not in str(landing_page.syllabus())
    assert "left" not in str(landing_page.paths()).split("min", 1)[1].split("The rest")[0]


def test_this_machine_is_described(monkeypatch):
    shown = str(landing_page.machine())
    assert "emulator" in shown and "NVRTC 13" in shown
    from hopperlab.runtime.compile import toolchain
    from hopperlab.runtime.errors import ToolchainError

    def missing():
        raise ToolchainError("gone")
    monkeypatch.setattr(toolchain, "nvrtc_version", missing)
    assert "no NVRTC" in str(landing_page.machine())


def test_markup_in_titles_is_shown_as_text():
    table = landing_page.Table(("lesson",), ((("a < b & c", 'x"y.ipynb'),),), "1 < 2")
    assert "a &lt; b &amp; c" in table.html() and 'href="x&quot;y.ipynb"' in table.html() and "1 &lt; 2" in table.html()
    assert table._repr_mimebundle_()["text/plain"] == str(table)


def test_the_stored_landing_notebook_is_fresh_and_whole():
    path = build.sources(["index"])[0]
    assert stored.check(path) == []
    text = "\n".join(cell.source for cell in nbformat.read(build.notebook_path(path), as_version=4).cells)
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert "://" in target or os.path.exists(ROOT / "notebooks" / target), f"a link to {target}, which does not exist"


def test_its_tables_are_stale_when_a_lesson_comes_or_changes_its_title(tmp_path, monkeypatch):
    sources = tmp_path / "notebooks" / "sources"
    sources.mkdir(parents=True)
    (sources / "00_a.md").write_text("---\ntitle: A\nminutes: 3\n---\nWords")
    of_course = hashes.catalogue
    monkeypatch.setattr(hashes, "catalogue", lambda: of_course(tmp_path))
    cells = [nbformat.v4.new_code_cell(text, id=name, metadata={"hopperlab": {"uses": {}}}) for name, text in (("m", "landing.machine()"), ("s", "landing.syllabus()"))]
    made = [made_of.now(nbformat.v4.new_notebook(cells=cells))]
    for text in ("---\ntitle: A\nminutes: 3\n---\nOther words", "---\ntitle: B\nminutes: 3\n---\nOther words"):
        (sources / "00_a.md").write_text(text)
        made.append(made_of.now(nbformat.v4.new_notebook(cells=cells)))
    assert made[0] == made[1] and made[2]["m"] == made[0]["m"] and made[2]["s"] != made[0]["s"]
