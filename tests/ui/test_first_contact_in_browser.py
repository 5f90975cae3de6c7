# SPDX-License-Identifier: Apache-2.0
"""What a learner sees first: `hopperlab lab` opens a page that nothing covers, and a notebook starts its kernel without asking which."""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.patience import PATIENCE

pytestmark = [pytest.mark.browser, pytest.mark.thorough]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """(address, course folder) of a lab started in a home that has never seen JupyterLab."""
    course, home = tmp_path_factory.mktemp("course"), tmp_path_factory.mktemp("home")
    (course / "hopperlab").mkdir()
    (course / "notebooks").mkdir()
    for name in ("index.ipynb", "00_start_here.ipynb"):
        shutil.copy(ROOT / "notebooks" / name, course / "notebooks")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY", "PYTEST"))}
    env |= {"JUPYTER_CONFIG_DIR": str(home / "config"), "JUPYTER_DATA_DIR": str(home / "data"), "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
            "HOPPERLAB_BACKEND": "emulator",
            "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-u", "-m", "hopperlab", "lab", "--course", str(course), "--no-browser"], env=env, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        yield next(match[1] for line in process.stdout if (match := re.search(r"hopperlab: open\s+(\S+)", line))), course
    finally:
        process.terminate()
        process.wait(timeout=60 * PATIENCE)


def covered(page, seconds: float) -> list[str]:
    """The words of every dialogue and notice on the page, after the time in which JupyterLab brings them up: news at once in its first minutes, the question
    for a kernel with the notebook."""
    page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell", timeout=60_000 * PATIENCE)
    page.wait_for_timeout(1000 * seconds * PATIENCE)
    return [element.inner_text() for selector in (".jp-Dialog", ".Toastify__toast") for element in page.locator(selector).all()]


def test_nothing_covers_the_landing_page(chromium, first, shots):
    page = chromium.new_page(viewport={"width": 1300, "height": 900})
    page.goto(first[0])
    found = covered(page, 8)
    shots(page, "first_contact.png")
    assert found == []
    assert page.locator("table:has-text('your progress')").count() and "Python 3" in page.locator(".jp-KernelName").first.inner_text()
    page.close()


def test_a_notebook_that_names_no_kernel_gets_one_without_being_asked(chromium, first):
    address, course = first
    document = json.loads((course / "work" / "00_start_here.ipynb").read_text())
    del document["metadata"]["kernelspec"]
    (course / "work" / "mine.ipynb").write_text(json.dumps(document))
    page = chromium.new_page(viewport={"width": 1300, "height": 900})
    page.goto(address.replace("index.ipynb", "mine.ipynb") + "&reset")
    assert covered(page, 2) == []
    page.close()


LONG = '''import hopperlab as hl, numpy as np
LOOP = """
extern "C" __global__ void turns(int* y) {
    for (int i = 0; i < 40000; ++i) y[blockIdx.x * blockDim.x + threadIdx.x] += i % 3;
}"""
y = hl.array_module().zeros(6000 * 128, np.int32)
hl.RawModule(code=LOOP).get_function("turns")((6000,), (128,), (y,))'''


def test_a_long_launch_says_how_far_it_is_and_an_interrupt_shows_no_frames(chromium, first, shots):
    address, course = first
    import nbformat
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(LONG)], metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    nbformat.write(notebook, course / "work" / "long.ipynb")
    page = chromium.new_page(viewport={"width": 1024, "height": 800})
    page.goto(address.replace("index.ipynb", "long.ipynb") + "&reset")
    assert covered(page, 2) == []
    page.locator(".jp-Cell:visible").first.click()
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("[role=status]:has-text('emulating turns')", timeout=60_000 * PATIENCE)
    page.keyboard.press("Escape")
    page.keyboard.press("i")
    page.keyboard.press("i")
    page.wait_for_selector(".jp-OutputArea-output:has-text('was interrupted when')", timeout=60_000 * PATIENCE)
    shots(page, "interrupted.png")
    said = page.locator(".jp-OutputArea:visible").first.inner_text()
    assert "emulating" not in said and "Traceback" not in said and "hopperlab/emulator" not in said
    page.close()
