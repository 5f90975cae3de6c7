# SPDX-License-Identifier: Apache-2.0
"""Stale outputs that are proved to be what they were: a notebook with stale cells is run here, and what came out is compared with what is stored.

With `every`, all compared cells are run and judged, also where nothing that they are made of changed: what their words come from may have (emulator/hazards/kinds.py).

A compared text must be equal, as nbval compares; where only lines of kernels moved, it may name other lines and is stored anew. An output that nbval
ignores stays when it came out the same (but for a panel's times on a GPU); it is
drawn anew when nothing in it depends on the place; else a GPU has to make it, unless its author vouches for it. On a GPU everything stale is stored.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from ..stamps import made_of
from . import build, execute, mutations

ON_GPU = "On this GPU ("            # how a panel's line of times begins (show/panel_on_gpu.py)


@dataclass
class Outcome:
    """What became of a notebook's stale cells, by id. kept: proved the same; anew: the output of this run is stored; gpu: needs one, and why; different: a
    compared text that differs, and how."""

    notebook: str
    kept: list[str] = field(default_factory=list)
    anew: list[str] = field(default_factory=list)
    gpu: dict[str, str] = field(default_factory=dict)
    different: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        told = [f"{self.notebook}: {len(self.kept)} outputs are what they were" + (f"; stored anew: {', '.join(self.anew)}" if self.anew else "")]
        told += [f"  needs a GPU: {name}: {why}" for name, why in self.gpu.items()]
        return "\n".join(told + [f"  differs: {name}: {how}" for name, how in self.different.items()])


def restamp(path: Path, backend: str | None = "emulator", vouched: bool = False, progress: Callable[[int, int], None] | None = None, every: bool = False,
            accepted: bool = False) -> Outcome | None:
    """Bring the stamps of one notebook up to date and write it; None when nothing in it is stale.

    vouched: the author says that ignored outputs from a GPU, which nothing here can make, are still right where no kernel changed; also where nobody
    noted what they were made of. accepted: the author says that compared texts which differ are right as they are now. Raises CellExecutionError,
    with the stored file as it was, when a cell raises.
    """
    notebook = nbformat.read(path, as_version=4)
    stale = made_of.stale(notebook)
    if every:
        stale = {cell.id: [] for cell in build.code_cells(notebook) if not made_of.is_ignored(cell)} | stale
    if not stale:
        return None
    fresh = copy.deepcopy(notebook)
    ran = execute.run(fresh, path.parent, backend, progress)
    execute.clean(fresh)
    execute.stamp(fresh, ran)
    outcome = Outcome(path.stem)
    for old, new in zip(build.code_cells(notebook), build.code_cells(fresh), strict=True):
        if old.id in stale:
            _judge(old, new, stale[old.id], outcome, ran.place["backend"] == "gpu", vouched, made_of.asks_for_the_place(fresh, new))
        if accepted and outcome.different.pop(old.id, None):
            _take(old, new, outcome)
        _take_uses(old, new, "source" in stale.get(old.id, ()))
    remaining = {*outcome.gpu, *outcome.different}
    today = made_of.now(notebook)
    for count, cell in enumerate(build.code_cells(notebook), 1):
        execute.recount(cell, count)
        if cell.id not in remaining:
            cell.metadata["hopperlab"]["made_of"] = today[cell.id]
    build.write(notebook, path)
    return outcome


def _judge(old: nbformat.NotebookNode, new: nbformat.NotebookNode, parts: list[str], outcome: Outcome, on_gpu: bool, vouched: bool, asks: bool) -> None:
    """Decide what becomes of one stale cell, and take the new output where that is the decision. parts: what changed (made_of.PARTS)."""
    before = old.metadata.get("hopperlab", {}).get("place", {})
    ran_before = bool(before) and old.execution_count is not None
    if ran_before and not made_of.is_ignored(old):
        difference = mutations.compare(new.outputs, old.outputs)
        if not difference:
            outcome.kept.append(old.id)
        elif "source" in parts or parts == ["lines"] and _without_lines(old) == _without_lines(new):
            _take(old, new, outcome)
        else:
            outcome.different[old.id] = difference
    elif ran_before and not on_gpu and same(old, new):
        outcome.kept.append(old.id)
    elif on_gpu or not asks or not made_of.is_ignored(old) or before.get("backend") == "emulator":
        _take(old, new, outcome)
    elif ran_before and vouched and "kernels" not in parts:
        outcome.kept.append(old.id)
    else:
        outcome.gpu[old.id] = f"{' and '.join(made_of.WORDS[part] for part in parts) or 'what it is made of'} changed, and its output depends on the place"


def _without_lines(cell: nbformat.NotebookNode) -> str:
    """What the cell shows, but for line numbers of kernels and for where its sentences are broken, which these decide."""
    return " ".join(made_of.LINES.sub(".cu:_", str(_shown(cell)).replace("\\n", " ")).split())


def same(old: nbformat.NotebookNode, new: nbformat.NotebookNode) -> bool:
    """True when two cells show the same, but for a panel's times on a GPU."""
    return _shown(old) == _shown(new)


def _shown(cell: nbformat.NotebookNode) -> list:
    shown = []
    for output in cell.outputs:
        data = {kind: _without_times(value) if kind == "text/plain" else value for kind, value in output.get("data", {}).items()}
        shown.append((output.output_type, output.get("name"), output.get("text"), data))
    return shown


def _without_times(text: str | list[str]) -> str:
    lines = text if isinstance(text, list) else text.split("\n")
    return "\n".join(line.rstrip("\n") for line in lines if not line.startswith(ON_GPU))


def _take(old: nbformat.NotebookNode, new: nbformat.NotebookNode, outcome: Outcome) -> None:
    outcome.anew.append(old.id)
    old.outputs = new.outputs
    old.metadata.setdefault("hopperlab", {})["place"] = new.metadata["hopperlab"]["place"]


def _take_uses(old: nbformat.NotebookNode, new: nbformat.NotebookNode, edited: bool) -> None:
    """What the new run noted; of an output made on a GPU by the same cell also the kernels that it used there and nothing used here."""
    record, found = old.metadata.setdefault("hopperlab", {}), new.metadata["hopperlab"]["uses"]
    if not edited and record.get("place", {}).get("backend") == "gpu" and new.metadata["hopperlab"]["place"]["backend"] != "gpu":
        known = record.get("uses", {}).get("kernels", ())
        kernels = [*found.get("kernels", ()), *(kernel for kernel in known if kernel not in found.get("kernels", ()))]
        found = {**found, **({"kernels": kernels} if kernels else {})}
    record["uses"] = found
    record.pop("hash", None)
