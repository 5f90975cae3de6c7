"""What a stored output depends on, as one hash: the cell's source, the kernels that its notebook names so far, the recordings that it names or
that a cell before it has kept, and the toolchain pinned.

The check recomputes these; a stored output whose hash differs is stale.
"""

from __future__ import annotations

import ast
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


def _only_shown(source: str, package: Path) -> set[Path]:
    """The recordings that a cell loads inside a bare expression, such as print(…), and keeps under no name: no later cell can depend on them."""
    try:
        statements = ast.parse(source).body
    except SyntaxError:                                     # a magic
        return set()
    texts = {bare: "\n".join(ast.unparse(node) for node in statements if isinstance(node, ast.Expr) == bare) for bare in (True, False)}
    shown, kept = ({path for path in files_used(texts[bare], package) if path.suffix == ".json"} for bare in (True, False))
    return shown - kept


def cell_hashes(sources: Sequence[str], package: Path = PACKAGE, tools: str | None = None) -> Iterator[str]:
    """One hash for each code cell, in order. A cell answers for the files named by it and by every cell before it, but not for a recording
    that a cell before it only showed; one that lists the lessons, for their front matter."""
    tools = toolchain() if tools is None else tools
    used: dict[Path, str] = {}
    for source in sources:
        here = {path: used.get(path) or hashlib.sha256(path.read_bytes()).hexdigest() for path in files_used(source, package)}
        digest = hashlib.sha256(f"{tools}\n{source}".encode())
        for path, content in sorted((used | here).items()):
            digest.update(f"\n{path.relative_to(package).as_posix()} {content}".encode())
        if LISTING.search(source):
            digest.update(catalogue(package).encode())
        yield digest.hexdigest()[:16]
        for path in set(here) - _only_shown(source, package):
            used[path] = here[path]
