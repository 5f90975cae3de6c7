# SPDX-License-Identifier: Apache-2.0
"""What a wheel contains: the package, with kernels, headers and recordings, and the course; and that it is a course where it is installed alone."""
import os
import re
import signal
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest
from support import index
from support.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)],
                   check=True, capture_output=True, timeout=300 * PATIENCE)
    made, = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def names(wheel):
    return set(zipfile.ZipFile(wheel).namelist())


def test_kernels_headers_and_recordings_are_in_it(names):
    for folder, pattern in (("kernels", "*.cu"), ("kernels/include", "*.cuh"), ("recordings", "*.json")):
        files = [p.relative_to(ROOT).as_posix() for p in (ROOT / "hopperlab" / folder).rglob(pattern)]
        assert set(files) <= names, f"{folder} is incomplete"
    assert {"hopperlab/kernels/include/hopperlab/tma.cuh", "hopperlab/runtime/compile/clang/include/prelude.h",
            "hopperlab/runtime/compile/clang/include/cuda/barrier"} <= names


def test_it_says_that_it_is_typed(names):
    assert {"hopperlab/py.typed", "hopperlab/__init__.pyi"} <= names


def test_nothing_else_is_in_it(names):
    assert {name.split("/")[0].split("-")[0] for name in names} == {"hopperlab"}
    other = {name for name in names if not re.fullmatch(r"hopperlab/course/(?:notebooks|solutions)/sources/zh/\w+\.md", name)}
    assert not [name for name in other if "__pycache__" in name or name.startswith("hopperlab/course/solutions") or "/sources/" in name]
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_course_is_in_it(names):
    course = [path.relative_to(ROOT).as_posix() for pattern in ("notebooks/sources/zh/*.md", "solutions/sources/zh/*.md", "notebooks/*.ipynb",
                                                                "exercises/*.ipynb", "exercises/.pristine/*.ipynb", "docs/**/*.md", "docs/images/*")
              for path in ROOT.glob(pattern)]
    assert len(course) > 60 and {f"hopperlab/course/{name}" for name in [*course, "exercises/conftest.py"]} <= names


def test_it_stays_small(wheel):
    assert wheel.stat().st_size < 10e6, "bytes; docs/running.md says 9 MB"


@pytest.mark.thorough
@pytest.mark.skipif(os.name == "nt", reason="ends the server by SIGTERM")
@pytest.mark.timeout(900 * PATIENCE)
def test_installed_alone_it_is_a_course(wheel, tmp_path):
    """An empty environment outside the clone: doctor, start, an exercise judged wrong and then right, and the lab answers in a folder of its own."""
    command = installed(wheel, tmp_path / "environment")
    here = tmp_path / "elsewhere"
    here.mkdir()
    assert "your copies: none yet" in said(command, here, "doctor") and "Lessons can run: hopperlab lab" in said(command, here, "doctor")
    assert "new)" in said(command, here, "start", "mine") and "nothing overwritten" in said(command, here, "start", "mine")
    work = here / "mine"
    assert f"your copies: {work}" in said(command, work, "doctor")
    assert "04.1 is not right yet" in said(command, work, "check", "04", code=1)
    answer_exercise(work / "exercises" / "04_mbarrier.ipynb")
    assert "not right yet" not in said(command, work, "check", "04")
    assert "restored" in said(command, work, "restore", "04")
    said(command, here, "start", "chinese", "--lang", "zh")
    assert "从这里开始" in (here / "chinese" / "00_start_here.ipynb").read_text(encoding="utf-8") and "restored" in said(command, here / "chinese", "restore", "00")
    said(command, here, "restore", "04", code=2)
    server = subprocess.Popen([command, "lab", "--no-browser"], cwd=here, env=alone(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        url = next(match[1] for line in server.stdout if (match := re.search(r"hopperlab: open\s+(\S+)", line)))
        assert "/lab/tree/index.ipynb?token=" in url and (here / "hopperlab-course" / "05_tma_tiles.ipynb").is_file()
        with urllib.request.urlopen(url, timeout=30 * PATIENCE) as answer:
            assert answer.status == 200 and b"JupyterLab" in answer.read()
        assert "not your copy" not in (here / "hopperlab-course" / "index.ipynb").read_text()
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=60 * PATIENCE)


def installed(wheel: Path, environment: Path) -> Path:
    """The `hopperlab` command of a fresh environment with the wheel and JupyterLab in it; skips without a package index. uv takes a quarter of pip's time."""
    subprocess.run([index.uv(), "venv", "--quiet", "--python", sys.executable, str(environment)], check=True, env=alone())
    done = subprocess.run([index.uv(), "pip", "install", "--quiet", "--python", str(environment), *index.arguments(), "-c", str(ROOT / "constraints.txt"),
                           f"{wheel}[lab]"],
                          env=alone(), capture_output=True, text=True, timeout=600 * PATIENCE, check=False)
    if done.returncode and index.UNREACHABLE.search(done.stderr) and "No solution found" not in done.stderr:
        index.unreachable(done.stderr)
    assert done.returncode == 0, done.stderr
    return environment / "bin" / "hopperlab"


def alone() -> dict[str, str]:
    """The environment without what points at the clone."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")} | {"HOPPERLAB_BACKEND": "emulator"}


def said(command: Path, folder: Path, *words: str, code: int = 0) -> str:
    done = subprocess.run([str(command), *words], cwd=folder, env=alone(), capture_output=True, text=True, timeout=300 * PATIENCE, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def answer_exercise(path: Path) -> None:
    """Put the published answers into a copy of an exercise notebook."""
    import nbformat

    from hopperlab.grading import generate
    answers = {cell.id: cell.source for cell in nbformat.read(ROOT / "solutions" / path.name, as_version=4).cells
               if (generate.role(cell) or "")[:1] == (generate.ANSWER,)}
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.source = answers.get(cell.id, cell.source)
    assert answers and answers.keys() <= {cell.id for cell in notebook.cells}
    nbformat.write(notebook, path)
