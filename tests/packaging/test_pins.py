# SPDX-License-Identifier: Apache-2.0
"""One set of versions: constraints.txt pins everything, environment.yml repeats it, and what is installed agrees."""
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(name: str) -> dict[str, str]:
    lines = [line.split("#")[0].strip() for line in (ROOT / name).read_text().splitlines()]
    found = {}
    for line in filter(None, lines):
        requirement = Requirement(line)
        assert re.fullmatch(r"==[\w.]+", str(requirement.specifier)), f"{line} is not an exact pin"
        assert normal(requirement.name) not in found, f"{requirement.name} is pinned twice"
        found[normal(requirement.name)] = str(requirement.specifier)[2:]
    return found


def environment() -> dict[str, str]:
    document = yaml.safe_load((ROOT / "environment.yml").read_text())
    listed = next(d["pip"] for d in document["dependencies"] if isinstance(d, dict))
    assert listed[-1] == "-e .", "the course itself comes last, when all it needs is there"
    return {normal(Requirement(line).name): str(Requirement(line).specifier)[2:] for line in listed[:-1]}


def closure(distribution: str, extras: set[str]) -> set[str]:
    """Every installed distribution that `distribution[extras]` needs here, directly or not."""
    seen, todo = set(), [(distribution, frozenset(extras))]
    while todo:
        name, wanted = item = todo.pop()
        if item in seen:
            continue
        seen.add(item)
        for text in metadata.requires(name) or []:
            need = Requirement(text)
            if need.marker is None or any(need.marker.evaluate({"extra": e}) for e in wanted or {""}):
                todo.append((normal(need.name), frozenset(need.extras)))
    return {name for name, _ in seen} - {distribution}


def test_no_urls():
    for name in ("constraints.txt", "constraints-cuda12.txt", "environment.yml"):
        assert "://" not in (ROOT / name).read_text()


def test_the_environment_has_the_same_pins():
    drifted = {name: (version, pins("constraints.txt").get(name)) for name, version in environment().items()
               if pins("constraints.txt").get(name) != version}
    assert not drifted


def test_the_environment_has_everything_lessons_need():
    assert closure("hopperlab", {"lab"}) <= set(environment())


def test_whatever_is_needed_is_pinned():
    assert closure("hopperlab", {"lab", "test"}) <= set(pins("constraints.txt"))


def test_what_is_installed_is_what_is_pinned():
    pinned = pins("constraints.txt")
    if metadata.version("cuda-bindings").startswith("12."):
        pinned |= pins("constraints-cuda12.txt")
    wrong = {name: (metadata.version(name), pinned[name]) for name in closure("hopperlab", {"lab", "test"})
             if metadata.version(name) != pinned[name]}
    assert not wrong, "install with: pip install -c constraints.txt"


@pytest.mark.parametrize("extra, constraints", [(None, "constraints.txt"), ("lab", "constraints.txt"), ("test", "constraints.txt"),
                                                ("grading", "constraints.txt"), ("site", "constraints.txt"), ("triton", "constraints.txt"),
                                                ("cuda13", "constraints.txt"), ("cuda12", "constraints-cuda12.txt")])
def test_every_requirement_admits_its_pin(extra, constraints):
    needs = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    pinned = pins(constraints)
    for text in needs:
        need = Requirement(text)
        assert normal(need.name) in pinned, f"{need.name} is not in {constraints}"
        assert need.specifier.contains(pinned[normal(need.name)]), f"{text} excludes {pinned[normal(need.name)]}"


def test_reading_a_notebook_builds_no_grammar():
    """jsonschema's later versions bring one of addresses, which costs every process more than a second (constraints.txt)."""
    asked = subprocess.run([sys.executable, "-c", "import sys, nbformat; print(sorted({'lark', 'rfc3987_syntax'} & set(sys.modules)))"], capture_output=True,
                           text=True, check=True)
    assert asked.stdout == "[]\n", "install with: pip install -c constraints.txt"


def test_the_build_backend_is_pinned():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert {normal(Requirement(text).name) for text in build} <= set(pins("constraints.txt"))


def test_the_licence_is_apache_2():
    assert PROJECT["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text()[:200]
