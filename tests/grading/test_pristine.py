# SPDX-License-Identifier: Apache-2.0
"""Tampering with a saved notebook proves nothing: nbval sees the pristine notebook with the answers in it."""
import json
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from support.patience import PATIENCE

from hopperlab.grading import generate, nbval_run, pristine, regions

ROOT = Path(__file__).resolve().parents[2]
NAME = "04_mbarrier.ipynb"


@pytest.fixture
def desk(tmp_path):
    """A folder like exercises/ with one notebook; `solve` writes the published solutions into it."""
    shutil.copytree(ROOT / "exercises", tmp_path / "exercises", ignore=shutil.ignore_patterns("[0-9]*.ipynb", "__pycache__"))
    (tmp_path / "exercises" / generate.PRISTINE).mkdir(exist_ok=True)
    for folder in ("", generate.PRISTINE):
        shutil.copyfile(ROOT / "exercises" / generate.PRISTINE / NAME, tmp_path / "exercises" / folder / NAME)
    return tmp_path / "exercises" / NAME


def change(path, edit):
    notebook = nbformat.read(path, as_version=4)
    edit(notebook)
    nbformat.write(notebook, path)


def solve(notebook):
    solved = generate.answers_of(nbformat.read(ROOT / "solutions" / NAME, as_version=4))
    for cell in notebook.cells:
        if cell.id in solved:
            cell.source = regions.solution_without_stubs(solved[cell.id])


def nbval(path):
    done = subprocess.run([sys.executable, "-c", nbval_run.START, "--nbval", "-q", "-p", "no:cacheprovider", f"--nbval-cell-timeout={120 * PATIENCE:.0f}", str(path)],
                          capture_output=True, text=True, cwd=path.parent)
    return done.returncode, done.stdout


def check_cells(notebook):
    return [cell for cell in notebook.cells if (generate.role(cell) or ("",))[0] == "check"]


@pytest.mark.thorough           # the solved one below takes the same way
def test_unsolved_notebook_fails(desk):
    code, printed = nbval(desk)
    assert code == 1 and "is not right yet" in printed


@pytest.mark.thorough
def test_solved_notebook_passes(desk):
    change(desk, solve)
    code, printed = nbval(desk)
    assert code == 0, printed


@pytest.mark.thorough
def test_a_warning_is_no_reason_to_fail(desk):
    """It stands on the standard error output, which is not compared here."""
    change(desk, solve)
    def unfenced(notebook):
        cell = next(cell for cell in notebook.cells if cell.id == "answer-04-2")
        assert "fence_proxy_async_shared_cta();" in cell.source
        cell.source = cell.source.replace("fence_proxy_async_shared_cta();", "")
    change(desk, unfenced)
    code, printed = nbval(desk)
    assert code == 0, printed


def clear_counts(notebook):
    for cell in check_cells(notebook):
        cell.execution_count, cell.outputs = None, []


def delete_checks(notebook):
    for cell in check_cells(notebook):
        notebook.cells.remove(cell)


def ignore_checks(notebook):
    for cell in check_cells(notebook):
        cell.metadata["tags"] = ["nbval-skip"]


def weaken_checks(notebook):
    for cell in check_cells(notebook):
        cell.source, cell.outputs = "pass", []


def rebind_in_an_answer(notebook):
    for cell in notebook.cells:
        if cell.id == "answer-04-1":
            cell.source += "\nimport hopperlab\nhopperlab.check = print\n"


def rebind_in_a_new_cell(notebook):
    notebook.cells.insert(0, nbformat.v4.new_code_cell("import hopperlab\nhopperlab.check = lambda *a, **k: None"))


@pytest.mark.parametrize("tamper", [clear_counts, delete_checks, ignore_checks, weaken_checks, rebind_in_an_answer, rebind_in_a_new_cell],
                         ids=lambda f: f.__name__)
@pytest.mark.thorough
def test_tampering_does_not_make_an_unsolved_notebook_pass(desk, tamper):
    change(desk, tamper)
    code, printed = nbval(desk)
    assert code == 1, printed


def test_a_file_without_a_pristine_notebook_is_an_error(tmp_path):
    path = tmp_path / "other.ipynb"
    nbformat.write(nbformat.v4.new_notebook(), path)
    with pytest.raises(pristine.PristineError, match="no exercise notebook"):
        pristine.pristine_of(path)


def test_a_copy_anywhere_is_judged_against_the_course(tmp_path):
    """As `hopperlab start DIR` lays them out: no .pristine beside it, no course above it."""
    copy = tmp_path / "exercises" / "04_mbarrier.ipynb"
    copy.parent.mkdir()
    copy.write_bytes((ROOT / "exercises" / copy.name).read_bytes())
    assert pristine.pristine_of(copy) == ROOT / "exercises" / ".pristine" / copy.name
    assert [cell.source for cell in pristine.merged(copy).cells] == [cell.source for cell in nbformat.read(pristine.pristine_of(copy), 4).cells]


def test_constants_are_those_that_the_check_cell_names():
    assert pristine.constants_of('hl.check("04.2", ring, STAGES=3, hidden="key")') == {"STAGES": 3}
    assert pristine.constants_of('hl.check("09.2", gemm, STAGES=3, PENDING=1, fast=True)') == {"STAGES": 3, "PENDING": 1}


def test_check_command_judges_the_saved_answers(desk):
    def run():
        return subprocess.run([sys.executable, "-m", "hopperlab", "check", str(desk)], capture_output=True, text=True)
    before = run()
    assert before.returncode == 1 and "04.1 is not right yet" in before.stdout
    change(desk, solve)
    after = run()
    assert after.returncode == 0 and "04.2 is right" in after.stdout, after.stdout + after.stderr
    assert json.loads(desk.read_text())["nbformat"] == 4


def test_check_command_names_what_there_is():
    done = subprocess.run([sys.executable, "-m", "hopperlab", "check", "77", "--course", str(ROOT)], capture_output=True, text=True)
    assert done.returncode == 2 and "there are some to: " in done.stderr and "Traceback" not in done.stderr


def test_check_command_judges_a_plain_copy_of_the_folder(tmp_path):
    """exercises/ copied somewhere else, without a course around it: its notebooks are meant, from there and from inside."""
    from hopperlab.cli import exercises
    copy = tmp_path / "mine" / "exercises"
    copy.mkdir(parents=True)
    shutil.copyfile(ROOT / "exercises" / NAME, copy / NAME)
    for here in (copy.parent, copy):
        done = subprocess.run([sys.executable, "-m", "hopperlab", "check", "04.1"], capture_output=True, text=True, cwd=here)
        assert done.returncode == 1 and done.stdout.startswith(f"checking {copy / NAME}\n04.1 is not right yet"), done.stdout + done.stderr
    assert exercises._copies(ROOT / "exercises", ROOT, ROOT / "work") == [] == exercises._copies(copy, ROOT, copy.parent)
