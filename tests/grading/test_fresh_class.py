# SPDX-License-Identifier: Apache-2.0
"""A class from its first command to its grades: an edition is given out, attacked, collected and graded, and a disk that fills up on the way costs nothing."""
import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from support.answer_texts import solution_cell

from hopperlab.checking import check
from hopperlab.grading import regions, sandbox
from hopperlab.lessons import catalogue

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(sandbox.kind() is None, reason="no sandbox (bubblewrap, podman or docker) works on this machine")]
ROOT = Path(__file__).resolve().parents[2]
PHASES = catalogue.find("04.1")


def hopperlab(folder: Path, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "hopperlab", *words], cwd=folder, capture_output=True, text=True)


def hand_in(folder: Path, who: str, phases: str, ring: str) -> None:
    """The learners' own notebook with two answers in it."""
    notebook = nbformat.read(folder / "autumn/learners/04_mbarrier.ipynb", as_version=4)
    for cell in notebook.cells:
        cell.source = {"answer-04-1": phases, "answer-04-2": ring}.get(cell.id, cell.source)
    (folder / "class" / who).mkdir(parents=True)
    nbformat.write(notebook, folder / "class" / who / "04_mbarrier.ipynb")


def table(constants: dict) -> str:
    """An answer that knows what the notebook's check asks, as everybody can find out."""
    def listed(value):
        return [listed(one) for one in value] if isinstance(value, (list, tuple)) else value
    cases = [PHASES.case(check.random("public", "04.1", shape), shape, **constants) for shape in PHASES.shapes]
    known = {repr(listed(case.arguments)): listed(case.expected) for case in cases}
    return f"KNOWN = {known!r}\n\n\ndef phases(*given):\n    return KNOWN.get(repr(list(given)), [])\n"


def with_constants(text: str, constants: dict) -> str:
    for name, value in constants.items():
        text = re.sub(rf"\b{name} = \d+", f"{name} = {value}", text, count=1)
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An edition of lesson 04, and what three learners hand in: the solution for their constants, a table and the published solution, nothing."""
    where = tmp_path_factory.mktemp("course")
    given = hopperlab(where, "assign", "04", "--out", "autumn")
    assert given.returncode == 0 and "TCP" not in given.stdout + given.stderr, given.stderr
    edition = json.loads((where / "autumn/instructor/edition.json").read_text())
    phases, ring = (regions.solution_without_stubs(solution_cell(name)) for name in ("04.1", "04.2"))
    hand_in(where, "ada", with_constants(phases, edition["exercises"]["04.1"]), with_constants(ring, edition["exercises"]["04.2"]))
    hand_in(where, "bob", table(edition["exercises"]["04.1"]), ring)
    hand_in(where, "eve", "# nothing", "%%cuda ring\n")
    return where


def test_nothing_that_learners_have_holds_the_key_and_no_word_draws_as_it_does(folder):
    edition = json.loads((folder / "autumn/instructor/edition.json").read_text())
    key, facts = edition["key"], edition["exercises"]
    assert len(key) == 32
    assert not any(key in path.read_text(errors="replace") for path in (folder / "autumn/learners").rglob("*") if path.is_file())
    words = {*(ROOT / "README.md").read_text(encoding="utf-8").split(), "autumn", "04"}
    fitting = [word for word in words if all(catalogue.find(name).edition(word) == constants for name, constants in facts.items())]
    assert len(fitting) > 3, "the constants alone fit many words"
    drawn = PHASES.case(check.random(key, "04.1", 12), 12, **facts["04.1"]).arguments
    assert not [word for word in fitting if PHASES.case(check.random(word, "04.1", 12), 12, **facts["04.1"]).arguments == drawn]


def test_a_table_and_the_published_solution_earn_nothing_and_their_author_has_flags(folder):
    graded = hopperlab(folder, "grade", "class", "--assignment", "autumn/instructor", "--out", "report", "--workers", "1")
    assert graded.returncode == 0, graded.stdout + graded.stderr
    points = {line.split(",")[0]: line.split(",")[2:5] for line in (folder / "report/grades.csv").read_text().splitlines()}
    assert points["ada"] == ["3", "8", "11"] and points["bob"] == ["0", "0", "0"] and points["eve"] == ["0", "0", "0"]
    assert "matches the public solution" in (folder / "report/findings.csv").read_text()


def test_on_a_disk_that_is_full_it_says_so_and_goes_on_when_there_is_room(folder, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24k", "tmpfs", str(small)], capture_output=True).returncode:
        pytest.skip("a small disk needs the right to mount one")
    command = ("grade", str(folder / "class"), "--assignment", "autumn/instructor", "--out", str(small / "report"), "--workers", "1")
    try:
        full = hopperlab(folder, *command)
        assert full.returncode == 3 and "no space is left on the disk" in full.stdout + full.stderr
        kept = list((small / "report/results").rglob("*.json"))
        subprocess.run(["mount", "-o", "remount,size=8m", str(small)], check=True)
        again = hopperlab(folder, *command)
        assert kept and again.returncode == 0 and (small / "report/grades.csv").read_text().splitlines()[1].startswith("ada,ada,3,8,11")
    finally:
        subprocess.run(["umount", str(small)], check=True)
