# SPDX-License-Identifier: Apache-2.0
"""The offline bundle: what is in it, that it refuses a machine of another kind, and (slow) that lesson 05 runs from it with the network off."""
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.patience import PATIENCE

from hopperlab.authoring.shipping import bundle

ROOT = Path(__file__).resolve().parents[2]
slow = pytest.mark.skipif(os.environ.get("HOPPERLAB_SLOW") != "1", reason="takes a minute or two and downloads wheels: set HOPPERLAB_SLOW=1 (as .ci/run does)")


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """A bundle without wheels."""
    monkeypatch.setattr(bundle, "download", lambda root, folder, extras: folder.mkdir())
    return bundle.build(ROOT, tmp_path / "bundle")


def test_it_holds_the_course_and_how_to_start(empty):
    for name in ("notebooks/05_tma_tiles.ipynb", "notebooks/index.ipynb", "hopperlab/kernels/copy/tma_copy.cu", "docs/glossary.md", "install.py", "START.md",
                 "constraints.txt",
                 "hopperlab/recordings/h200/gemm.json", "LICENSE"):
        assert (empty / name).is_file(), name
    assert not list(empty.rglob("__pycache__"))


def test_every_requirement_of_the_lab_and_the_build_is_downloaded():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs = bundle.requirements(ROOT, ["cuda13"])
    assert {*project["dependencies"], *project["optional-dependencies"]["lab"], *project["optional-dependencies"]["cuda13"]} <= set(needs)
    assert any(need.startswith("hatchling") for need in needs) and "editables" in needs
    assert not any(need.startswith("cupy") for need in bundle.requirements(ROOT))


def test_a_machine_of_another_kind_is_told_so(empty):
    made_for = json.loads((empty / "bundle.json").read_text()) | {"python": "3.99"}
    (empty / "bundle.json").write_text(json.dumps(made_for))
    done = subprocess.run([sys.executable, str(empty / "install.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "made for python 3.99, not 3." in done.stdout and not (empty / ".venv").exists()


def offline(command: list[str]) -> list[str]:
    """The command with no network but the loopback, by a network namespace where the system lets us."""
    if shutil.which("unshare") and shutil.which("ip") and subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode == 0:
        return ["unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *command]
    return ["env", "https_proxy=http://127.0.0.1:9", "http_proxy=http://127.0.0.1:9", *command]


@slow
@pytest.mark.timeout(600 * PATIENCE)
def test_lesson_05_runs_from_it_with_the_network_off(tmp_path):
    made = bundle.build(ROOT, tmp_path / "made" / "bundle")
    folder = tmp_path / "moved"
    made.rename(folder)
    home = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "HOPPERLAB_CACHE_DIR": str(tmp_path / "cache")}
    probe = "import urllib.request\ntry:\n    urllib.request.urlopen('https://example.org', timeout=3)\nexcept OSError as problem:\n    print('offline')"
    assert subprocess.run(offline([sys.executable, "-c", probe]), capture_output=True, text=True, check=True).stdout == "offline\n"
    installed = subprocess.run(offline([sys.executable, str(folder / "install.py")]), env=home, capture_output=True, text=True, check=False)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    python = re.search(r"(\S+python\S*) -m hopperlab lab", installed.stdout)[1]
    where = subprocess.run([python, "-c", "import hopperlab; print(hopperlab.__file__)"], env=home, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert where.startswith(str(folder)), f"the package comes from {where}"
    lesson = folder / "notebooks" / "05_tma_tiles.ipynb"
    ran = subprocess.run(offline([python, "-m", "pytest", "--nbval", f"--nbval-cell-timeout={120 * PATIENCE:.0f}", "-q", "-p", "no:cacheprovider", "--rootdir",
                                  str(folder / "notebooks"),
                                  str(lesson)]), cwd=folder / "notebooks", env=home, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-4000:]
    again = subprocess.run(offline([sys.executable, str(folder / "install.py")]), env=home, capture_output=True, text=True, check=True)
    assert "Installing" not in again.stdout
