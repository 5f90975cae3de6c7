"""What a stored output depends on, as one hash: the cell's source, the kernels and recordings its notebook names so far, and the toolchain pinned.

The check recomputes these; a stored output whose hash differs is stale.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
ROOT = PACKAGE.parent
KERNEL = re.compile(r"[\w./-]+\.cuh?\b")
INCLUDE = re.compile(r'^\s*#include\s+[<"]((?:hopperlab/)?[\w./-]+\.cuh)[>"]', re.MULTILINE)
RECORDING = re.compile(r"""measure\.load\(\s*["']([\w-]+)["']""")


LISTING = re.compile(r"\blanding\.(?:syllabus|paths)\(")


def toolchain(root: Path = ROOT) -> str:
    """The NVRTC version pinned in constraints.txt, such as 'nvrtc 13.0.88'; 'nvrtc unpinned' where the file has none."""
    pins = root / "constraints.txt"
    found = re.search(r"^nvidia-cuda-nvrtc==([\w.]+)", pins.read_text() if pins.exists() else "", re.MULTILINE)
    return f"nvrtc {found[1]}" if found else "nvrtc unpinned"


def files_used(text: str, package: Path = PACKAGE) -> list[Path]:
    """Kernel files (with the headers they include, transitively) and recordings that this cell source names, sorted."""
    found: set[Path] = set()
    pending = [package / "kernels" / name for name in KERNEL.findall(text)]
    while pending:
        path = pending.pop()
        if path in found or not path.is_file():
            continue
        found.add(path)
        for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
            pending += [package / "kernels" / "include" / name, path.parent / name]
    for name in RECORDING.findall(text):
        path = package / "recordings" / f"{name}.json"
        if path.is_file():
            found.add(path)
    return sorted(found)


def catalogue(package: Path = PACKAGE) -> str:
    """Name and front matter of every lesson's source: what the landing notebook's tables are made of."""
    heads = []
    for path in sorted((package.parent / "notebooks" / "src").glob("[0-9]*.md")):
        heads.append(path.stem + path.read_text(encoding="utf-8").split("\n---", 1)[0])
    return "\n".join(heads)


def cell_hashes(sources: Sequence[str], package: Path = PACKAGE, tools: str | None = None) -> Iterator[str]:
    """One hash for each code cell, in order. A cell answers for the files named by it and by every cell before it; one that lists
    the lessons, for their front matter."""
    tools = toolchain() if tools is None else tools
    used: dict[Path, str] = {}
    for source in sources:
        for path in files_used(source, package):
            used.setdefault(path, hashlib.sha256(path.read_bytes()).hexdigest())
        digest = hashlib.sha256(f"{tools}\n{source}".encode())
        for path in sorted(used):
            digest.update(f"\n{path.relative_to(package).as_posix()} {used[path]}".encode())
        if LISTING.search(source):
            digest.update(catalogue(package).encode())
        yield digest.hexdigest()[:16]
