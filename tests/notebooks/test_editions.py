# SPDX-License-Identifier: Apache-2.0
"""The lessons of other editions run: every compared output is the stored one, with its words in the edition's language."""

import os
import shutil
import subprocess
import sys

import nbformat
import pytest
from support.patience import PATIENCE

pytest.importorskip("nbval", reason="nbval is not installed: pip install -e .[test]")
from hopperlab.authoring import hashes
from hopperlab.authoring.editions import language_edition, translation
from hopperlab.authoring.notebooks import build, mutations
from hopperlab.grading import nbval_run
from hopperlab.runtime import language

SPEAKS = "from hopperlab.lessons.magic import translated_print as print"          # as magic.register does in a kernel
BEGUN = [path for path in build.lesson_sources() if translation.status(path, "zh").done]


@pytest.fixture(scope="module")
def chinese():
    """The folder of the Chinese edition's notebooks."""
    return language_edition.of(hashes.ROOT, "zh") / "notebooks"


@pytest.mark.thorough           # the same cells as in test_lessons.py, whose outputs tests/authoring/test_translation.py compares with these
@pytest.mark.parametrize("path", BEGUN, ids=lambda path: path.stem)
def test_every_compared_cell_comes_out_the_same_in_chinese(path, chinese, monkeypatch):
    """Every cell runs, in this process; nbval's own comparison sees those that it compares."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    monkeypatch.setenv(language.VARIABLE, "zh")
    cells = build.code_cells(nbformat.read(chinese / f"{path.stem}.ipynb", as_version=4))
    differ = {}
    ran = mutations.run_each([SPEAKS, *(cell.source for cell in cells)])
    assert next(ran) == []
    for cell, outputs in zip(cells, ran, strict=True):
        if "nbval-ignore-output" not in cell.metadata.get("tags", []):
            differ[cell.id] = mutations.compare(outputs, cell.outputs)
        pyplot.close("all")
    assert differ and not {cell: verdict for cell, verdict in differ.items() if verdict}


@pytest.mark.thorough           # the same cells again, in a kernel of Jupyter that speaks Chinese
@pytest.mark.parametrize("path", BEGUN[3::8], ids=lambda path: path.stem)
def test_outputs_come_out_the_same_in_a_kernel_that_speaks_chinese(path, chinese, tmp_path):
    copy = tmp_path / f"{path.stem}.ipynb"
    shutil.copy(chinese / copy.name, copy)
    env = {**os.environ, "PYTHONPATH": str(hashes.ROOT), language.VARIABLE: "zh"}
    done = subprocess.run([sys.executable, "-c", nbval_run.START, "--nbval", f"--nbval-cell-timeout={300 * PATIENCE:.0f}", "-q", "-p", "no:cacheprovider",
                           "-p", "no:xdist", "--rootdir", str(tmp_path), str(copy)], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
