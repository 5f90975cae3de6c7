# SPDX-License-Identifier: Apache-2.0
"""The pins resolve on every Python and system that README names: uv answers for machines that are not here.

Only wheels count, as a learner has no compiler, and whatever is resolved must be pinned. Needs a package index; where none can be reached the tests are
skipped (a failure where HOPPERLAB_REQUIRE_INDEX is set, as in CI).
"""
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from support import index
from support.patience import PATIENCE

pytestmark = pytest.mark.thorough
ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.11.0", "3.12.0", "3.13.0", "3.14.0")
SYSTEMS = ("linux", "aarch64-apple-darwin", "windows")
COURSE = ("lab", "test", "site", "grading")
# What a hosted notebook has loaded before the first cell runs: an older NumPy and IPython than ours, and a newer set.
HOSTED = (("3.11.0", "numpy==2.0.2 ipython==7.34.0 ipykernel==6.17.1 ipywidgets==7.7.1 psutil==5.9.5 tqdm==4.67.1 matplotlib==3.10.0 platformdirs==4.3.6"),
          ("3.12.0", "numpy==2.0.2 ipython==7.34.0 ipykernel==6.17.1 ipywidgets==7.7.1 psutil==5.9.5 tqdm==4.67.1 matplotlib==3.10.0 platformdirs==4.3.6"),
          ("3.12.0", "numpy==2.2.6 ipython==8.30.0 ipykernel==6.29.5 psutil==6.1.1"), ("3.13.0", "numpy==2.4.6 ipython==9.18.1 ipykernel==7.4.0 psutil==7.2.2"))


def resolve(python: str, system: str, *what: str, **environment: str) -> dict[str, str]:
    """Name and version of every package that an installation of `what` takes there. Fails with uv's explanation, skips without an index."""
    done = subprocess.run([index.uv(), "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--only-binary", ":all:", "--no-python-downloads",
                           "--python-version", python, "--python-platform", system, *index.arguments(), *what], cwd=ROOT, capture_output=True, text=True,
                           check=False, timeout=240 * PATIENCE, env={**os.environ, **environment})
    if done.returncode and index.UNREACHABLE.search(done.stderr) and "No solution found" not in done.stderr:
        index.unreachable(done.stderr)
    assert done.returncode == 0, f"Python {python} on {system}:\n{done.stderr}"
    found = [Requirement(line) for line in done.stdout.splitlines() if line.strip() and not line.startswith(("#", "-e", "."))]
    return {each.name.lower().replace("_", "-"): str(each.specifier)[2:] for each in found}


def pinned(*files: str) -> dict[str, str]:
    found = {}
    for name in files:
        for line in (ROOT / name).read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                found[Requirement(line).name] = str(Requirement(line).specifier)[2:]
    return found


def differences(found: dict[str, str], pins: dict[str, str]) -> dict[str, tuple]:
    return {name: (version, pins.get(name)) for name, version in found.items() if pins.get(name) != version}


def on_every_system(python: str, *what: str) -> dict[str, dict[str, str]]:
    """What `resolve` finds on each system; it mostly waits for the index, so all are asked at once."""
    with ThreadPoolExecutor(len(SYSTEMS)) as pool:
        return dict(zip(SYSTEMS, pool.map(lambda system: resolve(python, system, *what), SYSTEMS), strict=True))


@pytest.mark.parametrize("python", PYTHONS)
def test_the_course_its_tests_and_its_site_resolve_to_the_pins(python):
    extras = [word for extra in COURSE for word in ("--extra", extra)]
    for system, found in on_every_system(python, "pyproject.toml", *extras, "-c", "constraints.txt").items():
        assert {"numpy", "jupyterlab", "pytest", "sphinx"} <= set(found)
        assert ("nvidia-cuda-nvrtc" in found) == (system != "aarch64-apple-darwin")
        assert differences(found, pinned("constraints.txt")) == {}, system


@pytest.mark.parametrize("extra, python", [("cuda13", "3.11.0"), ("cuda13", "3.14.0"), ("cuda12", "3.11.0"), ("cuda12", "3.14.0")])
def test_the_extras_with_cupy_resolve_to_the_pins(extra, python, tmp_path):
    older = pinned("constraints-cuda12.txt") if extra == "cuda12" else {}
    pins = pinned("constraints.txt") | older
    both = tmp_path / "constraints.txt"
    both.write_text("".join(f"{name}=={version}\n" for name, version in pins.items()))
    found = resolve(python, "linux", "pyproject.toml", "--extra", extra, "--extra", "lab", "-c", str(both))
    assert f"cupy-{extra}x" in found and differences(found, pins) == {}


def test_the_conda_environment_resolves_and_names_all_it_installs(tmp_path):
    document = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert "python=3.11" in document["dependencies"]
    listed = next(each["pip"] for each in document["dependencies"] if isinstance(each, dict))
    (tmp_path / "named.txt").write_text("\n".join(line for line in listed if line != "-e .") + "\n")
    for system, found in on_every_system("3.11.0", "pyproject.toml", "--extra", "lab", str(tmp_path / "named.txt")).items():
        assert differences(found, {Requirement(line).name: str(Requirement(line).specifier)[2:] for line in listed[:-1]}) == {}, system


@pytest.mark.parametrize("python, loaded", HOSTED)
def test_a_hosted_notebook_keeps_what_it_has_loaded(python, loaded, tmp_path):
    """The cell for hosted notebooks installs the course without extras: it must go with what is there, at the very version."""
    (tmp_path / "loaded.txt").write_text("\n".join(loaded.split()) + "\n")
    found = resolve(python, "linux", "pyproject.toml", str(tmp_path / "loaded.txt"))
    for each in map(Requirement, loaded.split()):
        assert found[each.name] == str(each.specifier)[2:]


def test_a_pin_that_an_old_python_cannot_take_is_found(tmp_path):
    (tmp_path / "wrong.txt").write_text((ROOT / "constraints.txt").read_text().replace("soupsieve==2.10", "soupsieve==4.1.1"))
    with pytest.raises(AssertionError, match=r"(?s)Python 3.11.2 on linux.*soupsieve"):
        resolve("3.11.2", "linux", "pyproject.toml", "--extra", "lab", "-c", str(tmp_path / "wrong.txt"))
    assert "soupsieve" in resolve("3.12.0", "linux", "pyproject.toml", "--extra", "lab", "-c", str(tmp_path / "wrong.txt"))


def test_without_an_index_the_tests_say_so(monkeypatch):
    monkeypatch.setattr(index, "arguments", lambda: ["--default-index", "http://127.0.0.1:9/simple", "--no-cache"])
    monkeypatch.delenv("HOPPERLAB_REQUIRE_INDEX", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no package index can be reached"):
        resolve("3.12.0", "linux", "pyproject.toml", UV_HTTP_RETRIES="0")
    monkeypatch.setenv("HOPPERLAB_REQUIRE_INDEX", "1")
    with pytest.raises(pytest.fail.Exception, match="no package index can be reached"):
        resolve("3.12.0", "linux", "pyproject.toml", UV_HTTP_RETRIES="0")
