# SPDX-License-Identifier: Apache-2.0
"""The course's folder, the compiler it pins, and the lessons' names."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
ROOT = PACKAGE.parent


def toolchain(root: Path = ROOT) -> str:
    """The NVRTC version pinned in constraints.txt, such as 'nvrtc 13.0.88'; 'nvrtc unpinned' where the file has none."""
    pins = root / "constraints.txt"
    found = re.search(r"^nvidia-cuda-nvrtc==([\w.]+)", pins.read_text() if pins.exists() else "", re.MULTILINE)
    return f"nvrtc {found[1]}" if found else "nvrtc unpinned"


def catalogue(root: Path = ROOT) -> str:
    """Name, title and minutes of every lesson's source: what the landing notebook's tables are made of."""
    heads = []
    for path in sorted((root / "notebooks" / "sources").glob("[0-9]*.md")):
        head = path.read_text(encoding="utf-8").split("\n---", 1)[0].split("\n")
        heads.append("\n".join([path.stem + head[0], *(line for line in head[1:] if line.startswith(("title:", "minutes:")))]))
    return "\n".join(heads)
