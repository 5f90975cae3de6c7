# SPDX-License-Identifier: Apache-2.0
"""The command that installs what is missing: with the pins in a clone of the course, by the package's name where it came as a wheel."""
from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def from_clone() -> bool:
    """True where the package lies in a clone (or an offline bundle), whose constraints.txt pins every version."""
    return (ROOT / "constraints.txt").is_file() and (ROOT / "pyproject.toml").is_file()


def course(extra: str = "") -> str:
    """The command that installs the course again, with an extra such as 'lab'."""
    wanted = f"[{extra}]" if extra else ""
    if from_clone():
        return f"python -m pip install -c constraints.txt -e .{wanted}"
    return f'python -m pip install "hopperlab{wanted}"' if wanted else "python -m pip install --force-reinstall hopperlab"


def package(name: str) -> str:
    """The command that installs one package that the course needs."""
    return f"python -m pip install -c constraints.txt {name}" if from_clone() else f"python -m pip install {name}"
