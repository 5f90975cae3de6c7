# SPDX-License-Identifier: Apache-2.0
"""The lessons of other editions run: every compared output is the stored one, with its words in the edition's language (nbval, in a kernel that speaks it)."""

import os
import shutil
import subprocess
import sys

import pytest
from support.patience import PATIENCE

from hopperlab.authoring import hashes
from hopperlab.authoring.editions import language_edition, translation
from hopperlab.authoring.notebooks import build
from hopperlab.grading import nbval_run
from hopperlab.runtime import language

BEGUN = [path for path in build.lesson_sources() if translation.status(path, "zh").done]


@pytest.mark.thorough           # the same cells as in test_lessons.py, whose outputs tests/authoring/test_translation.py compares with these
@pytest.mark.parametrize("path", BEGUN, ids=lambda path: path.stem)
def test_outputs_come_out_the_same_in_chinese(path, tmp_path):
    pytest.importorskip("nbval", reason="nbval is not installed: pip install -e .[test]")
    copy = tmp_path / f"{path.stem}.ipynb"
    shutil.copy(language_edition.of(hashes.ROOT, "zh") / "notebooks" / copy.name, copy)
    env = {**os.environ, "PYTHONPATH": str(hashes.ROOT), language.VARIABLE: "zh"}
    done = subprocess.run([sys.executable, "-c", nbval_run.START, "--nbval", f"--nbval-cell-timeout={300 * PATIENCE:.0f}", "-q", "-p", "no:cacheprovider",
                           "-p", "no:xdist", "--rootdir", str(tmp_path), str(copy)], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
