# SPDX-License-Identifier: Apache-2.0
"""Containers, Binder and Colab: their files name what exists, install what the pins say, and open the landing notebook."""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from support.patience import PATIENCE
import yaml

from hopperlab.authoring.learner import workspace
from hopperlab.authoring.notebooks import build, colab, execute, lesson_source
from hopperlab.authoring.site import sphinx_build

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_the_container_copies_what_exists_and_installs_the_pins():
    copied = [word for line in re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE) for word in line.split()[1:-1]]
    assert copied and [word for word in copied if not (ROOT / word).exists()] == []
    assert {"constraints.txt", "pyproject.toml", "README.md", "LICENSE", "hopperlab"} <= set(copied[:copied.index(".")]), "the build backend reads these"
    assert DOCKERFILE.count("pip install -c constraints.txt") == 2 and '".[${EXTRAS}]"' in DOCKERFILE
    assert "USER learner" in DOCKERFILE and DOCKERFILE.index("USER learner") < DOCKERFILE.index("RUN python -m venv")
    command = json.loads(re.search(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)[1])
    assert command[:2] == ["hopperlab", "lab"] and "--port=8888" in command and "EXPOSE 8888" in DOCKERFILE


def test_the_extras_that_containers_name_exist():
    import tomllib
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    development = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    named = [development["build"]["args"]["EXTRAS"], *re.findall(r"EXTRAS=([\w,]+)", DOCKERFILE + (ROOT / "docs" / "running.md").read_text())]
    assert named and {name for text in named for name in text.split(",")} <= extras
    folder = ROOT / ".devcontainer"
    assert (folder / development["build"]["dockerfile"]).resolve() == ROOT / "Dockerfile" and (folder / development["build"]["context"]).resolve() == ROOT
    assert development["remoteUser"] in DOCKERFILE


def test_what_is_built_or_private_stays_out_of_the_container():
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv", "work", "build"} <= set(ignored)


def test_binder_fills_the_copies(tmp_path):
    assert os.access(ROOT / "postBuild", os.X_OK) and yaml.safe_load((ROOT / "environment.yml").read_text())["name"] == "hopperlab"
    for name in ("notebooks", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "hopperlab").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / "bin" / "python").chmod(0o755)
    # The folder is found from where it runs; the package itself comes from the repository, as an installed one would.
    env = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYTHONSAFEPATH": "1", "PYTHONPATH": str(ROOT)}
    subprocess.run([str(ROOT / "postBuild")], cwd=tmp_path, env=env, check=True, timeout=60 * PATIENCE)
    assert (tmp_path / "work" / "index.ipynb").is_file() and (tmp_path / "work" / "docs" / "glossary.md").is_file()
    assert "urlpath=lab/tree/work/index.ipynb" in (ROOT / "docs" / "running.md").read_text()


@pytest.mark.parametrize("path", build.lesson_sources(), ids=lambda path: path.stem)
def test_every_lesson_begins_with_its_title_and_then_colabs_cell(path):
    notebook = nbformat.read(build.notebook_path(path), as_version=4)
    title, cell = notebook.cells[:2]
    assert title.cell_type == "markdown" and title.source.startswith("# ")
    assert colab.is_it(cell) and cell.source == colab.SOURCE
    assert cell.execution_count == 1 and not cell.outputs
    assert sum(map(colab.is_it, notebook.cells)) == 1


def run_cell(modules: dict, repository: str = "") -> list:
    """Execute the cell with `modules` loaded; returns the commands it ran."""
    code = ("import sys, types, subprocess\nran = []\nsubprocess.run = lambda command, check: ran.append(command)\n"
            f"sys.modules.update({{name: types.ModuleType(name) for name in {modules!r}}})\n"
            + colab.SOURCE.replace('repository = ""', f"repository = {repository!r}") + "\nprint(ran)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60 * PATIENCE, check=False)
    return [done.returncode, done.stdout.strip() or done.stderr.strip()]


def test_the_cell_installs_in_colab_only():
    assert run_cell({}) == [0, "[]"]
    code, shown = run_cell({"google.colab"}, "https://host/owner/course")
    assert code == 0 and "hopperlab @ git+https://host/owner/course" in shown and "'pip', 'install'" in shown
    code, shown = run_cell({"google.colab"})
    assert code and "address of the course's repository" in shown


def test_the_cell_is_run_and_counted_but_neither_copied_nor_rendered(tmp_path):
    folder = tmp_path / "notebooks" / "sources"
    folder.mkdir(parents=True)
    (tmp_path / "hopperlab").mkdir()
    path = folder / "98_tiny.md"
    path.write_text("---\ntitle: Tiny\nminutes: 10\n---\n# Tiny\n\n```python id=one\nprint(1)\n```\n")
    build.build(path)
    execute.execute(build.notebook_path(path), "emulator")
    notebook = nbformat.read(build.notebook_path(path), as_version=4)
    assert [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"] == [1, 2]
    assert not notebook.cells[1].outputs and len(build.own_cells(notebook)) == 1 and lesson_source.read(path).cells[0].id == "text-tiny"
    workspace.fill(tmp_path)
    copy = json.loads((tmp_path / "work" / "98_tiny.ipynb").read_text())
    assert "google.colab" not in str(copy) and len(copy["cells"]) == 2
    assert "google.colab" not in str(sphinx_build.readable(notebook))
