# SPDX-License-Identifier: Apache-2.0
"""The lessons of other editions run: every compared output is the stored one, with its words in the edition's language."""

import os
import shutil
import subprocess
import sys

import pytest
from support.patience import PATIENCE

pytest.importorskip("nbval", reason="nbval is not installed: pip install -e .[test]")
from hopperlab.authoring import hashes
from hopperlab.authoring.editions import translation
from hopperlab.authoring.notebooks import build
from hopperlab.grading import nbval_run
from hopperlab.runtime import language

BEGUN = [path for path in build.lesson_sources() if translation.status(path, "zh").done]


@pytest.mark.thorough           # one lesson's cells again, in a kernel of Jupyter that speaks Chinese
@pytest.mark.parametrize("path", BEGUN[3:4], ids=lambda path: path.stem)
def test_outputs_come_out_the_same_in_a_kernel_that_speaks_chinese(path, chinese, tmp_path):
    copy = tmp_path / f"{path.stem}.ipynb"
    shutil.copy(chinese / copy.name, copy)
    env = {**os.environ, "PYTHONPATH": str(hashes.ROOT), language.VARIABLE: "zh"}
    done = subprocess.run([sys.executable, "-c", nbval_run.START, "--nbval", f"--nbval-cell-timeout={300 * PATIENCE:.0f}", "-q", "-p", "no:cacheprovider",
                           "-p", "no:xdist", "--rootdir", str(tmp_path), str(copy)], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
