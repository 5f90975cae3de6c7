# SPDX-License-Identifier: Apache-2.0
"""Outputs go stale for a reason: a small course in a copy of the package is run once, then its kernels, headers, figures and recordings are changed one by one."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from support.patience import PATIENCE

from hopperlab.authoring import hashes
from hopperlab.authoring.stamps import made_of

SOURCE = '''---
title: A small lesson
minutes: 10
---

# A small lesson

```python id=setup ignore
import numpy as np
import hopperlab as hl
from hopperlab import measure, show
from hopperlab.lessons import l99_small as lesson

xp = hl.array_module()
recorded = measure.load("bugs")
```

```python id=values
flat = (xp.arange(40_000) % 251).astype(xp.uint8)
copied = xp.zeros_like(flat)
bulk = hl.load_kernel("copy/bulk_copy.cu", "bulk_copy")
bulk((2,), (32,), (flat, copied, np.int64(flat.size)), shared_mem=4 * 16384)
```

```python id=shown
print("every byte copied:", bool((copied == flat).all()))
```

```python id=hazards
print(lesson.broken())
```

```python id=figure ignore
lesson.figure([3, 1, 2])
```

```python id=other-figure ignore
show.bars({"a": 1.0, "b": 2.0}, "x", "Two bars")
```

```python id=timed ignore
print(lesson.timed(bulk, flat, copied))
```

```python id=reads ignore
print(recorded.source)
```

```python id=reads-nothing
print(1 + 1)
```

```python id=listing ignore
show.source("copy/bulk_copy.cu", kernel="bulk_copy")
```
'''

ROOM = '''"""Figures of the small lesson."""

import numpy as np

import hopperlab as hl

from ...show import style

HEIGHT = 2.0


def figure(values):
    """Bars, HEIGHT inches high."""
    import matplotlib.pyplot as plt

    made, axes = plt.subplots(figsize=(4, HEIGHT))
    axes.bar(range(len(values)), values)
    return style.Picture(made, f"bars of {values}")


def broken():
    """The hazards of a copy that forgets its expect_tx."""
    a, b = np.ones((128, 64), np.float16), hl.array_module("emulator").zeros((128, 64), np.float16)
    a = hl.array_module("emulator").array(a)
    maps = [hl.TensorMap.tiled(array, box=(64, 64), swizzle="128B") for array in (a, b)]
    kernel = hl.load_kernel("copy/tma_copy.cu", "tma_copy", ("-DBUG_NO_FULL_WAIT=1",), backend="emulator")
    with hl.emulate(hazards="collect") as run:
        kernel((1, 2), (32,), (*maps,), shared_mem=64 * 128)
    return "\\n".join(sorted(f"{hazard.kind}: {hazard}" for hazard in run.hazards))


def timed(kernel, flat, copied):
    """What a GPU would be asked for: where it ran, and for how long."""
    kernel((2,), (32,), (flat, copied, np.int64(flat.size)), shared_mem=4 * 16384)
    return f"launched in the {hl.backend()}"
'''

@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The small course, run once in the emulator and then said to come from a GPU; `timed` shows what a GPU would."""
    root = tmp_path_factory.mktemp("course")
    shutil.copytree(hashes.PACKAGE, root / "hopperlab", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(hashes.ROOT / "constraints.txt", root)
    (root / "docs").mkdir()
    shutil.copy(hashes.ROOT / "docs" / "glossary.md", root / "docs")
    room = root / "hopperlab" / "lessons" / "l99_small"
    room.mkdir()
    (room / "__init__.py").write_text('"""The small lesson\'s room."""\n\nfrom .figures import broken, figure, timed\n\n__all__ = ["broken", "figure", "timed"]\n')
    (room / "figures.py").write_text(ROOM)
    (root / "notebooks" / "sources").mkdir(parents=True)
    (root / "notebooks" / "sources" / "99_small.md").write_text(SOURCE)
    done = authoring(root, "execute", "--backend", "emulator")
    assert done.returncode == 0, done.stdout + done.stderr
    stored = nbformat.read(root / "notebooks" / "99_small.ipynb", as_version=4)
    for cell in stored.cells:
        if cell.cell_type == "code":
            cell.metadata["hopperlab"]["place"] = {"backend": "gpu", "gpu": "NVIDIA H200", "driver": "580", "cuda": "13.0"}
            if cell.id == "timed":
                cell.outputs[0]["text"] = "launched in the gpu\n"
    nbformat.write(stored, root / "notebooks" / "99_small.ipynb")
    return root


@pytest.fixture
def small(course, tmp_path):
    """A copy of it to change."""
    shutil.copytree(course, tmp_path / "course")
    return tmp_path / "course"


def run(root, *command):
    env = {**os.environ, "PYTHONPATH": str(root), "HOPPERLAB_BACKEND": "emulator"}
    return subprocess.run([sys.executable, *command], cwd=root, env=env, capture_output=True, text=True, timeout=300 * PATIENCE, check=False)


def authoring(root, *words):
    return run(root, "-m", "hopperlab.authoring", *words)


def stale(root):
    """The stale cells and what changed, as a fresh process sees them."""
    done = run(root, "-c", "import json, nbformat; from hopperlab.authoring.stamps import made_of; "
                           "print(json.dumps(made_of.stale(nbformat.read('notebooks/99_small.ipynb', as_version=4))))")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def outputs(root):
    return {cell.id: cell.outputs for cell in nbformat.read(root / "notebooks" / "99_small.ipynb", as_version=4).cells if cell.cell_type == "code"}


def places(root):
    return {cell.id: cell.metadata["hopperlab"]["place"]["backend"] for cell in nbformat.read(root / "notebooks" / "99_small.ipynb", as_version=4).cells
            if cell.cell_type == "code"}


def change(file: Path, old: str, new: str):
    text = file.read_text()
    assert text.count(old) >= 1, f"{old!r} is not in {file.name}"
    file.write_text(text.replace(old, new, 1))


KERNEL, HEADER, FIGURES = "hopperlab/kernels/copy/bulk_copy.cu", "hopperlab/kernels/include/hopperlab/tma.cuh", "hopperlab/lessons/l99_small/figures.py"
RECORDING = "hopperlab/recordings/h200/bugs.json"


def test_what_was_just_stored_is_fresh(small):
    assert stale(small) == {}
    assert "BUG" not in str(outputs(small)["hazards"]) and "tma_copy.cu:" in str(outputs(small)["hazards"])


def test_a_comment_in_every_header_stales_nothing(small):
    headers = sorted((small / "hopperlab/kernels/include/hopperlab").glob("*.cuh"))
    for header in headers:
        header.write_text(re.sub(r"(?m)$(?=\n(?!#))", "    // a remark", header.read_text(), count=1) + "// another\n")
    assert len(headers) >= 10 and stale(small) == {}
    done = authoring(small, "restamp")
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "no output is stale" and "stored anew" not in done.stdout, done.stdout + done.stderr


def test_a_comment_or_docstring_of_a_figure_stales_nothing(small):
    change(small / FIGURES, "    made, axes", "    # a comment\n    made, axes")
    change(small / FIGURES, '"""Bars, HEIGHT inches high."""', '"""Bars."""')
    assert stale(small) == {}


def dated(root, date):
    """The recording, as if from another day."""
    data = json.loads((root / RECORDING).read_text())
    data["header"]["date"] = date
    (root / RECORDING).write_text(json.dumps(data))


def named_by_check(root):
    """What `authoring check` says of stale cells: {cell: what changed}."""
    done = authoring(root, "check")
    found = dict(re.findall(r"^99_small\.ipynb: cell '([\w-]+)' is stale: (.*) changed since its output was stored", done.stdout, re.MULTILINE))
    assert done.returncode == bool(found) and f"{len(found)} findings" in done.stdout, done.stdout + done.stderr
    return found


SINGLE = {                          # one change -> how it is made, and the cells that check then names
    "a line of a header moves": (lambda root: change(root / HEADER, "#pragma once\n", "#pragma once\n// a remark of a line of its own\n"), {"hazards": "lines"}),
    "a comment in a line of a header": (lambda root: change(root / HEADER, "#pragma once\n", "#pragma once    // a remark\n"), {}),
    "a constant of a figure": (lambda root: change(root / FIGURES, "HEIGHT = 2.0", "HEIGHT = 3.0"), {"figure": "drawing"}),
    "a drawing function of the lesson": (lambda root: change(root / FIGURES, "axes.bar(range(len(values)), values)", "axes.bar(range(len(values)), values, width=0.5)"),
                                         {"figure": "drawing"}),
    "a drawing function of all lessons": (lambda root: change(root / "hopperlab/show/charts.py", "height=0.7", "height=0.6"), {"other-figure": "drawing"}),
    "the call that draws a figure": (lambda root: rebuilt(root, "lesson.figure([3, 1, 2])", "lesson.figure([3, 1, 4])"), {"figure": "source"}),
    "a recording": (lambda root: dated(root, "2031-01-01"), {"setup": "recordings", "reads": "recordings"}),
    "a kernel": (lambda root: change(root / KERNEL, "if (threadIdx.x != 0)", "if (threadIdx.x != 0 || blockIdx.y != 0)"),
                 {"values": "kernels", "shown": "kernels", "timed": "kernels", "listing": "texts"}),
}


def rebuilt(root, old, new):
    """A changed cell of the lesson's source, and the notebook built of it."""
    change(root / "notebooks/sources/99_small.md", old, new)
    assert authoring(root, "build").returncode == 0


AT_ONCE = ("a line of a header moves", "a drawing function of the lesson", "a recording")           # a kernel below, a comment above; digests in test_made_of.py


@pytest.mark.parametrize("what", [pytest.param(what, marks=() if what in AT_ONCE else pytest.mark.thorough) for what in SINGLE])
def test_a_single_change_is_named_at_exactly_the_cells_that_it_reaches(small, what):
    make, cells = SINGLE[what]
    make(small)
    assert named_by_check(small) == {cell: made_of.WORDS[part] for cell, part in cells.items()}


@pytest.mark.thorough           # what is restamped and what is left is shown by test_a_changed_kernel_stales_its_cells_and_the_timed_one_needs_a_gpu too
def test_what_is_stale_is_restamped_without_a_gpu_where_it_can_be(small):
    change(small / HEADER, "#pragma once\n", "#pragma once\n// a remark of a line of its own\n")
    change(small / FIGURES, "HEIGHT = 2.0", "HEIGHT = 3.0")
    dated(small, "2031-01-01")
    change(small / "notebooks/sources/99_small.md", "print(1 + 1)", "print(1 + 2)")
    assert authoring(small, "build").returncode == 0
    assert stale(small) == {"setup": ["recordings"], "hazards": ["lines"], "figure": ["drawing"], "reads": ["recordings"], "reads-nothing": ["source"]}
    before = outputs(small)
    done = authoring(small, "restamp")
    assert done.returncode == 0 and "no output is stale" in done.stdout and "stored anew: hazards, figure, reads, reads-nothing" in done.stdout, done.stdout + done.stderr
    after, anew = outputs(small), ("hazards", "figure", "reads", "reads-nothing")
    assert stale(small) == {} and {name: after[name] == before[name] for name in after} == {name: name not in anew for name in after}
    lines = [[int(line) for line in re.findall(r"tma\.cuh:(\d+)", str(told["hazards"]))] for told in (before, after)]
    assert lines[0] and lines[1] == [line + 1 for line in lines[0]]
    assert "2031-01-01" in str(after["reads"]) and after["reads-nothing"][0]["text"] == "3\n"
    assert {name for name, place in places(small).items() if place == "emulator"} == set(anew)


def test_a_changed_kernel_stales_its_cells_and_the_timed_one_needs_a_gpu(small):
    change(small / KERNEL, "if (threadIdx.x != 0)", "if (threadIdx.x != 0 || blockIdx.y != 0)")
    found = stale(small)
    assert {name: parts for name, parts in found.items() if "kernels" in parts} == {name: ["kernels"] for name in ("values", "shown", "timed")}
    assert {name for name, parts in found.items() if parts == ["texts"]} == {"listing"}
    before = outputs(small)
    done = authoring(small, "restamp", "--vouch")
    assert done.returncode == 1 and "needs a GPU: timed: a kernel changed" in done.stdout and "1 outputs are left" in done.stdout, done.stdout + done.stderr
    after = outputs(small)
    assert after.pop("listing") != before.pop("listing") and after == before and list(stale(small)) == ["timed"]


@pytest.mark.thorough
def test_words_of_hazards_are_compared_and_taken_on_request(small):
    """Nothing that hashes see has changed: the sentences of hazards are no part of a cell."""
    file = small / "hopperlab/emulator/hazards/kinds.py"
    word = next(word for word in ("which had not been waited for", "no wait lies between", "Wait", "wait") if word in str(outputs(small)["hazards"])
                and word in file.read_text())
    file.write_text(file.read_text().replace(word, word + " indeed"))
    assert stale(small) == {}
    done = authoring(small, "restamp", "--all")
    assert done.returncode == 1 and "differs: hazards" in done.stdout, done.stdout + done.stderr
    assert authoring(small, "restamp", "--all", "--take").returncode == 0 and f"{word} indeed" in str(outputs(small)["hazards"])
    assert authoring(small, "restamp", "--all").returncode == 0


@pytest.mark.thorough
def test_a_kernel_that_computes_something_else_is_listed_with_the_difference(small):
    change(small / KERNEL, "slots + s * CHUNK_BYTES, size);", "slots + s * CHUNK_BYTES, size - 16);")
    done = authoring(small, "restamp")
    assert done.returncode == 1 and "differs: shown" in done.stdout and "True" in done.stdout, done.stdout + done.stderr
    assert "shown" in stale(small) and "True" in str(outputs(small)["shown"])


@pytest.mark.thorough
def test_without_the_pinned_compiler_kernels_are_not_compared_and_it_says_so(small):
    change(small / "constraints.txt", "nvidia-cuda-nvrtc==", "nvidia-cuda-nvrtc==99.")
    assert stale(small) == {}
    done = authoring(small, "check")
    assert "whether the kernels of" in done.stdout and "nvrtc 99." in done.stdout, done.stdout + done.stderr
    assert authoring(small, "restamp").returncode == 1
