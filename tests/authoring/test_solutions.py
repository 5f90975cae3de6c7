# SPDX-License-Identifier: Apache-2.0
"""Exercises from their Markdown sources: sources and notebooks agree, cells carry nbgrader's metadata, and a check without points is an error."""

import nbformat
import pytest

from hopperlab.authoring.notebooks import build, lesson_source, solutions, stored
from hopperlab.grading import generate

TEXT = """---
title: Exercises
minutes: 30
---

# Exercises

```python id=setup ignore
import hopperlab as hl
```

## 05.1 · One

```python id=answer-05-1
# BEGIN SOLUTION
x = 1
# END SOLUTION
```

```python id=check-05-1 points=2
hl.check("05.1", x)
```

```python id=hidden-05-1 points=1
### BEGIN HIDDEN TESTS
hl.check("05.1", x, hidden="public")
### END HIDDEN TESTS
```
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "solutions" / "sources" / "05_one.md"
    path.parent.mkdir(parents=True)
    path.write_text(TEXT)
    return path


def test_every_exercise_has_a_source_and_every_source_a_notebook():
    folder = solutions.SOURCES.parent
    assert {path.stem for path in solutions.sources()} == {path.stem for path in folder.glob("[0-9]*.ipynb")} and len(solutions.sources()) >= 16
    assert [path.stem[:2] for path in solutions.sources(["05", "08"])] == ["05", "08"]


@pytest.mark.parametrize("path", solutions.sources(), ids=lambda path: path.stem)
def test_source_and_notebook_agree_and_outputs_are_fresh(path):
    assert stored.check_solution(path) == []


def test_cells_are_marked_by_their_ids(source):
    made = nbformat.read(solutions.write(source), as_version=4)
    cells = {cell.id: cell for cell in made.cells}
    assert cells["answer-05-1"].metadata == {"tags": ["nbval-ignore-output"], "nbgrader": {
        "schema_version": 3, "grade_id": "answer-05-1", "grade": False, "locked": False, "solution": True, "task": False}}
    assert [cells[name].metadata.nbgrader["points"] for name in ("check-05-1", "hidden-05-1")] == [2, 1]
    assert cells["check-05-1"].metadata.tags == [] and "nbgrader" not in cells["setup"].metadata
    given = generate.exercise_notebook(made)
    assert [cell.source for cell in given.cells if cell.id.startswith(("answer", "hidden"))] == [
        "# your code here", "# Hidden checks: the grader tries other shapes and seeds here."]


def test_a_changed_source_is_found_until_it_is_built_again(source):
    solutions.write(source)
    assert not any("differs from its source" in finding for finding in stored.check_solution(source))
    source.write_text(TEXT.replace("points=2", "points=3"))
    assert any("differs from its source from cell 'check-05-1'" in finding for finding in stored.check_solution(source))
    build.notebook_path(source).unlink()
    assert "missing" in stored.check_solution(source)[0]


def test_a_check_without_points_is_named(source):
    source.write_text(TEXT.replace(" points=1", ""))
    with pytest.raises(lesson_source.SourceError, match="05_one.md: the cell 'hidden-05-1' needs points=N"):
        solutions.write(source)
