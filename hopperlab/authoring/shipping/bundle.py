# SPDX-License-Identifier: Apache-2.0
"""A folder that installs and runs the course with no network: sources, notebooks, every wheel, and install.py.

`make bundle` writes build/bundle/hopperlab, for machines of the same kind (system, processor, Python) as the one that made it.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from .. import hashes

FOLDERS = ("hopperlab", "notebooks", "exercises", "docs")
FILES = ("pyproject.toml", "hatch_build.py", "constraints.txt", "README.md", "LICENSE")
START = """# hopperlab, offline

    python3 install.py          once: installs from wheels/ into .venv, with no network
    .venv/bin/hopperlab lab     opens the course (Windows: .venv\\Scripts\\hopperlab lab)

Made for {python}, {system} {machine}. site/index.html, where there is one, shows the lessons without installing anything.
"""


def build(root: Path = hashes.ROOT, out: Path | None = None, extras: Sequence[str] = ()) -> Path:
    """Write the bundle and return its folder. extras: further extras of the package, such as 'cuda13'.

    Raises subprocess.CalledProcessError when a wheel cannot be downloaded.
    """
    out = out or root / "build" / "bundle" / "hopperlab"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    copy_course(root, out)
    for name in FILES:
        shutil.copyfile(root / name, out / name)
    if (root / "build" / "site" / "html").is_dir():
        shutil.copytree(root / "build" / "site" / "html", out / "site")
    download(root, out / "wheels", extras)
    shutil.copyfile(Path(__file__).with_name("bundle_install.py"), out / "install.py")
    made_for = {"python": "{}.{}".format(*sys.version_info), "system": platform.system(), "machine": platform.machine(), "extras": list(extras)}
    (out / "bundle.json").write_text(json.dumps(made_for) + "\n", encoding="utf-8")
    (out / "START.md").write_text(START.format(**made_for | {"python": f"Python {made_for['python']}"}), encoding="utf-8")
    return out


def copy_course(root: Path, out: Path) -> None:
    """The folders a learner needs, without caches."""
    for name in FOLDERS:
        if (root / name).is_dir():
            shutil.copytree(root / name, out / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints", ".pytest_cache"))


def requirements(root: Path, extras: Sequence[str] = ()) -> list[str]:
    """What has to be in wheels/: the package's own requirements, those of the lab, of `extras`, and of the build."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    optional = project["project"]["optional-dependencies"]
    chosen = [*project["project"]["dependencies"], *(need for extra in ("lab", *extras) for need in optional[extra])]
    return [*chosen, *project["build-system"]["requires"], "editables"]


def download(root: Path, folder: Path, extras: Sequence[str] = ()) -> None:
    """Every wheel that an installation on this kind of machine takes, in the pinned versions."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--only-binary", ":all:", "-c", str(root / "constraints.txt"),
                    "-d", str(folder), *requirements(root, extras)], check=True)
