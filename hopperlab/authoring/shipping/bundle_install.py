# SPDX-License-Identifier: Apache-2.0
"""Install the course from this folder, without a network: python3 install.py. Makes .venv beside it; a second call starts at once.

Copied into a bundle as install.py by `make bundle`; needs nothing but Python's standard library.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Install and say how to start; returns 1, with what is wrong, on a machine of another kind than the bundle's."""
    made_for = json.loads((HERE / "bundle.json").read_text(encoding="utf-8"))
    here = {"python": "{}.{}".format(*sys.version_info), "system": platform.system(), "machine": platform.machine()}
    wrong = [f"{name} {made_for[name]}, not {here[name]}" for name in here if here[name] != made_for[name]]
    if wrong:
        print(f"This bundle was made for {'; '.join(wrong)}. Make one on a machine of this kind: make bundle PYTHON=python{here['python']}")
        return 1
    folder = HERE / ".venv"
    python = folder / ("Scripts/python.exe" if here["system"] == "Windows" else "bin/python")
    if not (folder / "installed").exists():
        print("Installing from wheels/ into .venv; a minute or two, once", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile", "--no-index", "--find-links", str(HERE / "wheels"),
               "-c", str(HERE / "constraints.txt")]
        subprocess.run([*pip, "hatchling", "editables"], check=True)
        extras = ",".join(["lab", *made_for["extras"]])
        subprocess.run([*pip, "--no-build-isolation", "-e", f"{HERE}[{extras}]"], check=True)
        (folder / "installed").touch()
    print(f"Start the course with:\n    {python} -m hopperlab lab")
    return 0


if __name__ == "__main__":
    sys.exit(main())
