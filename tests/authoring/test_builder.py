# SPDX-License-Identifier: Apache-2.0
"""The notebook builder: sources to cells, hashes that notice every change, and a check that finds each kind of fault."""

import nbformat
import pytest

from hopperlab.authoring import hashes
from hopperlab.authoring.notebooks import build, execute, lesson_source, stored

TEXT = """---
title: A lesson
minutes: 20
---

# A lesson

Words.

```python id=one
print(1)
```

Between.

```python id=two ignore hide
2 + 2
```

## Next

```python
not_a_cell()
```

```cpp
# include "not a heading"
```
"""


@pytest.fixture
def lesson(tmp_path):
    """A lesson's source in its folder, as in notebooks/sources."""
    folder = tmp_path / "notebooks" / "sources"
    folder.mkdir(parents=True)
    path = folder / "99_lesson.md"
    path.write_text(TEXT)
    return path


def executed(path):
    """Build, and store outputs as an execution would."""
    build.build(path)
    target = build.notebook_path(path)
    notebook = nbformat.read(target, as_version=4)
    for count, cell in enumerate(build.code_cells(notebook), 1):
        cell.execution_count = count
        cell.outputs = [nbformat.v4.new_output("stream", text=f"{count}\n")]
    nothing = {"compiled": [], "launched": [], "read": [], "place": [], "recordings": []}
    execute.stamp(notebook, execute.Ran({"backend": "emulator", "nvrtc": "13.0"}, [nothing] * len(build.code_cells(notebook))))
    build.write(notebook, target)
    return target


def change(target, edit):
    notebook = nbformat.read(target, as_version=4)
    edit(build.own_cells(notebook))
    build.write(notebook, target)


def test_cells_ids_and_tags(lesson):
    cells = lesson_source.read(lesson).cells
    assert [(c.id, c.kind) for c in cells] == [("text-a-lesson", "markdown"), ("one", "code"), ("text-after-one", "markdown"),
                                               ("two", "code"), ("text-next", "markdown")]
    notebook = build.assemble(lesson_source.read(lesson))
    assert notebook.metadata.hopperlab == {"title": "A lesson", "minutes": 20}
    two, last = notebook.cells[-2:]
    assert two.metadata.tags == ["nbval-ignore-output"] and two.metadata.jupyter.source_hidden
    assert "not_a_cell" in last.source


@pytest.mark.parametrize("old, new, message", [
    ("title: A lesson\n", "", "title"), ("minutes: 20", "minutes: soon", "minutes"), ("minutes: 20", "minutes: 20\ngpu: H100", "gpu: not yet"),
    ("id=two", "id=one", "two cells have the id 'one'"),
    ("ignore hide", "ignore hid", "unknown flag"), ("## Next\n\n```python\nnot_a_cell()\n```\n\n```cpp\n# include \"not a heading\"\n```",
                                                    "```python id=x\nopen", "never closed")])
def test_bad_sources_are_named(lesson, old, new, message):
    lesson.write_text(TEXT.replace(old, new))
    with pytest.raises(lesson_source.SourceError, match=message):
        lesson_source.read(lesson)


def test_a_source_says_that_no_gpu_has_run_it_and_no_notebook_changes_by_that(lesson):
    at_once, root = lesson_source.read(lesson), lesson.parents[2]
    before = hashes.catalogue(root)
    lesson.write_text(TEXT.replace("minutes: 20\n", "minutes: 20\ngpu: not yet\n"))
    later = lesson_source.read(lesson)
    assert at_once.on_gpu and not later.on_gpu and later.cells == at_once.cells
    assert build.assemble(later).metadata == build.assemble(at_once).metadata and hashes.catalogue(root) == before
    lesson.write_text(TEXT.replace("title: A lesson", "title: Another"))
    assert hashes.catalogue(root) != before


def test_build_keeps_outputs_and_the_check_says_which_are_stale(lesson):
    target = executed(lesson)
    lesson.write_text(TEXT.replace("print(1)", "print(1 + 0)").replace("Between.", "Other words."))
    build.build(lesson)
    assert [cell.execution_count for cell in build.code_cells(nbformat.read(target, as_version=4))] == [1, 2, 3]
    assert stored.check(lesson) == ["99_lesson.ipynb: cell 'one' is stale: its source changed since its output was stored; run `make restamp`"]


def test_a_fresh_notebook_has_no_findings(lesson):
    executed(lesson)
    assert stored.check(lesson) == []


@pytest.mark.parametrize("edit, message", [
    (lambda code: code[0].update(execution_count=7), "execution counts are [1, 7, 3], not 1..3"),
    (lambda code: code[0].outputs.append(nbformat.v4.new_output("error", ename="ValueError", evalue="no")), "stored an error: ValueError: no"),
    (lambda code: code[0].metadata.pop("hopperlab"), "is stale: it has not been run"),
    (lambda code: code[0].metadata["hopperlab"].update(place={}), "where its output came from"),
    (lambda code: code[0].update(source="print(2)"), "differs from its source from cell 'one'"),
    (lambda code: code[0].outputs.append(nbformat.v4.new_output("display_data", {"image/png": ""})), "is compared; mark it `ignore`"),
    (lambda code: code[0].outputs.append(nbformat.v4.new_output("stream", name="stderr", text="warning")), "wrote to stderr"),
    (lambda code: code[0].outputs.append(nbformat.v4.new_output("stream", text="see /home/someone/x")), "a folder of the machine it ran on: '/home/someone'"),
])
def test_each_fault_is_found(lesson, edit, message):
    target = executed(lesson)
    change(target, edit)
    assert any(message in finding for finding in stored.check(lesson)), stored.check(lesson)


def test_colabs_cell_is_counted_and_a_notebook_without_outputs_is_found(lesson):
    target = executed(lesson)
    notebook = nbformat.read(target, as_version=4)
    colab = build.code_cells(notebook)[0]
    colab.execution_count = None
    for cell in build.code_cells(notebook):
        cell.outputs = []
    build.write(notebook, target)
    findings = "\n".join(stored.check(lesson))
    assert "execution counts are [None, 2, 3], not 1..3" in findings and "no stored outputs" in findings


def test_missing_notebook_is_found(lesson):
    assert "missing" in stored.check(lesson)[0]


def test_long_cells_and_many_cells_are_found(lesson):
    lesson.write_text(TEXT + "".join(f"\n```python id=more{i}\nprint({i})\n```\n" for i in range(24))
                      + "\n```python id=long\n" + "x = 1\n" * 16 + "```\n")
    executed(lesson)
    findings = stored.check(lesson)
    assert any("27 code cells" in f for f in findings) and any("'long' has 16 lines" in f for f in findings)


def test_clean_drops_widgets_and_keeps_what_they_fall_back_to():
    cell = nbformat.v4.new_code_cell("panel", metadata={"execution": {"start": "now"}})
    cell.outputs = [nbformat.v4.new_output("display_data", {execute.WIDGET_VIEW: {"model_id": "x"}, "image/png": "AA", "text/plain": "words"}),
                    nbformat.v4.new_output("display_data", {execute.WIDGET_VIEW: {"model_id": "y"}}),
                    nbformat.v4.new_output("stream", name="stderr", text="hopperlab: kernels run in the emulator (no GPU)\n"),
                    nbformat.v4.new_output("stream", name="stdout", text="This notebook runs in this place: gpu\n")]
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"widgets": {}, "language_info": {"name": "python", "version": "3.11"}})
    execute.clean(notebook)
    assert [sorted(output["data"]) for output in cell.outputs] == [["image/png", "text/plain"]]
    assert "widgets" not in notebook.metadata and "execution" not in cell.metadata and notebook.metadata.language_info == {"name": "python"}


def test_places_are_named(lesson):
    assert stored.places(build.notebook_path(lesson)) == "nowhere"
    target = executed(lesson)
    assert stored.places(build.notebook_path(lesson)) == "emulator"
    change(target, lambda code: code[1].metadata["hopperlab"].update(place={"backend": "gpu", "gpu": "NVIDIA H200", "driver": "580", "cuda": "13.0"}))
    assert stored.places(build.notebook_path(lesson)) == "emulator; NVIDIA H200, driver 580, CUDA 13.0"
