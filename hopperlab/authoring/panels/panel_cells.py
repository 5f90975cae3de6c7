# SPDX-License-Identifier: Apache-2.0
"""The lessons' panels, found in their sources: which cells one needs, what it launches, its controls, and a hash of all that its outcomes are made of."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...measure import recordings
from ...show import panels
from ...show.panels import Choice, Slider
from ...show.style import Picture
from .. import hashes
from ..notebooks import build, lesson_source
from ..stamps import cell_flow, drawing

ROOMS = ("hopper", "emulator", "runtime", "measure", "estimates")        # whose code runs in a launch; of show/ and lessons/ only what the panel reaches counts


@dataclass(frozen=True)
class PanelCell:
    """A cell that ends in `show.panel(launch, name=control, …)`. lesson: the notebook's name; cell: its id; sources: the text of the cells it needs, by id,
    in order, itself the last."""

    lesson: str
    cell: str
    sources: Mapping[str, str] = field(hash=False)

    @property
    def name(self) -> str:
        """What files and messages call it, such as '05_tma_tiles-panel'."""
        return f"{self.lesson}-{self.cell}"


def cells(names: list[str] | None = None, folder: Path = build.SOURCES) -> Iterator[PanelCell]:
    """The panels of these lessons (all when none is named), in order. Raises FileNotFoundError for a name without a lesson."""
    for path in build.sources(names, folder):
        sources = {cell.id: cell.text for cell in lesson_source.read(path).cells if cell.kind == "code"}
        for name in [name for name, text in sources.items() if "panel(" in text and _call(cell_flow.tree_of(text)) is not None]:
            yield PanelCell(path.stem, name, {needed: sources[needed] for needed in cell_flow.needed(sources, name)})


def _call(tree: ast.Module) -> ast.Call | None:
    """The call of `show.panel` that a cell ends in; None where it ends in anything else."""
    last = tree.body[-1] if tree.body else None
    call = last.value if isinstance(last, ast.Expr) else None
    return call if isinstance(call, ast.Call) and ast.unparse(call.func) == "show.panel" else None


def load(panel: PanelCell) -> tuple[Callable[..., Picture], dict[str, Slider | Choice]]:
    """Run the cells that the panel needs; returns what it launches, and its controls by name. What the cells print is dropped.

    Raises whatever a cell raises.
    """
    space: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()):
        for name, text in panel.sources.items():
            tree = cell_flow.tree_of(text)
            call = _call(tree) if name == panel.cell else None
            tree.body = tree.body[:-1] if call else tree.body
            exec(compile(tree, f"<{panel.lesson} {name}>", "exec"), space)        # noqa: S102 - a lesson's own cell
    assert call is not None

    def value(node: ast.expr) -> Any:
        return eval(compile(ast.Expression(node), f"<{panel.name}>", "eval"), space)
    launch, given = value(call.args[0]), {str(word.arg): value(word.value) for word in call.keywords}
    clock = given.pop("clock", None)
    if clock is None:
        return launch, given
    return lambda **values: panels.pictured(launch, {name: values[name] for name in given}, clock, values[panels.CLOCK])[0], {**given, panels.CLOCK: panels.TIME}


def made_of(panel: PanelCell) -> str:
    """One hash of the cells, of the code that launches and draws, of the kernels and the recordings: outcomes with another hash are no longer true."""
    trees = [cell_flow.tree_of(text) for text in panel.sources.values()]
    names = {name: means for tree in trees for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))
             for name, means in drawing.imported(node, "").items()}
    found = _drawing()
    drawn = found.digest(found.reached([root for tree in trees for root in found.meant(tree, names)]))
    return _hash(str([*panel.sources.items(), drawn, _below(), hashes.toolchain()]))


@lru_cache(maxsize=1)
def _drawing() -> drawing.Drawing:
    return drawing.Drawing()


@lru_cache(maxsize=1)
def _below() -> str:
    """One hash of the rooms that a launch runs in (without comments), of every kernel and recording."""
    code = [drawing.shape(ast.parse(path.read_bytes())) for room in ROOMS for path in sorted((hashes.PACKAGE / room).rglob("*.py"))]
    files = [path for path in sorted((hashes.PACKAGE / "kernels").rglob("*.cu*")) if path.is_file()] + sorted(recordings.FOLDER.rglob("*.json"))
    return _hash(str([code, *((path.name, path.read_bytes()) for path in files)]))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
