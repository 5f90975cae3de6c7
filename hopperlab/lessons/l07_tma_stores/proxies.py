# SPDX-License-Identifier: Apache-2.0
"""Lesson 07's memory model, drawn: what happens in which thread and proxy, and which edges order it.

The five places of a fence are those of stores/fence_places.cu; whether a place is right is what the emulator says of a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from ...show import style

PLACES = ("nowhere", "every writer, before the barrier", "the issuing thread, after the barrier", "the issuing thread, before the barrier",
          "another thread, after the barrier")
COLUMNS = ("a thread that wrote", "thread 0, which issues", "thread 32", "copy engine")
WRITER, ISSUER, OTHER, ENGINE = range(4)


@dataclass(frozen=True)
class Step:
    """One box of the diagram: column, row from the top, its words, and the proxy that acts ('generic', 'async' or 'fence', 'barrier')."""

    column: int
    row: float
    words: str
    kind: str


def order_steps(place: int) -> tuple[list[Step], list[tuple[int, int]]]:
    """The steps of fence_places.cu with the fence at PLACES[place], and the edges (from, to) that order them, as indices.

    Raises ValueError for a place that is not one of the five. Source: PTX ISA 8 (memory consistency model), 9.7.13.4 (fence.proxy).
    """
    if not 0 <= place < len(PLACES):
        raise ValueError(f"place {place}: there are 0 to {len(PLACES) - 1}: {', '.join(PLACES)}")
    steps = [Step(WRITER, 0, "st.shared: my part of the tile", "generic"), Step(ISSUER, 0, "st.shared: my part of the tile", "generic"),
             Step(WRITER, 2, "bar.sync", "barrier"), Step(ISSUER, 2, "bar.sync", "barrier"), Step(ISSUER, 4, "cp.async.bulk: issue", "async"),
             Step(ENGINE, 4, "reads the tile", "async")]
    edges = [(2, 3), (4, 5)]
    fences = {1: ((WRITER, 1), (ISSUER, 1)), 2: ((ISSUER, 3),), 3: ((ISSUER, 1),), 4: ((OTHER, 3),)}.get(place, ())
    if place == 4:
        steps.append(Step(OTHER, 2, "bar.sync", "barrier"))
        edges.append((2, 6))
    for column, row in fences:
        steps.append(Step(column, row, "fence.proxy.async", "fence"))
    for column in range(ENGINE):
        chain = sorted((i for i, step in enumerate(steps) if step.column == column), key=lambda i: steps[i].row)
        edges += list(pairwise(chain))
    return steps, edges


def ordering_path(place: int) -> list[tuple[int, int]]:
    """The edges from the writer's store (step 0) to the engine's read (step 5): a path that passes a proxy fence where there is one, else any."""
    steps, edges = order_steps(place)

    def paths(at: int, taken: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
        return [taken] if at == 5 else [path for edge in edges if edge[0] == at for path in paths(edge[1], [*taken, edge])]
    found = paths(0, [])
    return next((path for path in found if any(steps[to].kind == "fence" for _, to in path)), found[0])


def fenced(place: int) -> bool:
    """Does a path from the writer's store to the engine's read pass a proxy fence?"""
    steps, _ = order_steps(place)
    return any(steps[to].kind == "fence" for _, to in ordering_path(place))


def run_places(floats: int = 1024) -> list[tuple[str, bool, Any]]:
    """(place, right answer?, run) of stores/fence_places.cu in the emulator, for each of the five places."""
    import hopperlab as hl

    xp = hl.array_module()
    numbers = xp.arange(floats, dtype=xp.float32)
    found = []
    for place, name in enumerate(PLACES):
        out = xp.zeros_like(numbers)
        kernel = hl.load_kernel("stores/fence_places.cu", "doubled", (f"-DPLACE={place}",))
        with hl.emulate(hazards="collect") as run:
            kernel((floats // 512,), (128,), (numbers, out))
        found.append((name, bool(np.array_equal(hl.asnumpy(out), 2 * hl.asnumpy(numbers))), run))
    return found


def order_diagram(place: int) -> style.Picture:
    """Threads and the copy engine as columns, order downwards, the edges as arrows.

    Thick and green: the path from a writer's store to the engine's read that passes a proxy fence. Thick, red and dashed: a path, but none with a fence.
    """
    steps, edges = order_steps(place)
    right = fenced(place)
    verdict = "ordered: the path\npasses a fence" if right else "not ordered: threads meet,\nbut no fence on the path"
    figure = _draw(steps, edges, ordering_path(place), right, COLUMNS, f"The fence: {PLACES[place]}", verdict)
    return style.Picture(figure, order_words(place))


HANDOVER = ("copy engine", "thread 0 of block 0", "thread 0 of block 1", "the others of block 1")


def handover_steps(scope: str) -> tuple[list[Step], list[tuple[int, int]]]:
    """The steps of stores/handover.cu with release and acquire at `scope` ('cta' or 'gpu'), and the edges that order them.

    At 'cta' there is no edge from the release to the acquire: the two threads are in different blocks (PTX ISA 8.5, scope).
    """
    if scope not in ("cta", "gpu"):
        raise ValueError(f"scope {scope!r}: this kernel knows 'cta' and 'gpu'")
    steps = [Step(1, 0, "cp.async.bulk: issue", "async"), Step(0, 1, "writes global memory", "async"), Step(1, 2, "wait_group 0", "barrier"),
             Step(1, 3, f"st.release.{scope}: flag", "generic"), Step(2, 3, f"ld.acquire.{scope}: flag", "generic"), Step(2, 4, "bar.sync", "barrier"),
             Step(3, 4, "bar.sync", "barrier"), Step(3, 5, "reads the numbers", "generic")]
    edges = [(0, 1), (1, 2), (0, 2), (2, 3), (4, 5), (5, 6), (6, 7)]
    return steps, [*edges, (3, 4)] if scope == "gpu" else edges


def handover_diagram(scope: str) -> style.Picture:
    """Numbers on their way from one block's TMA store to another block's loads, as `order_diagram` draws it; at scope 'cta' the path breaks."""
    steps, edges = handover_steps(scope)
    right = scope == "gpu"
    path = [(1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7)] if right else [(1, 2), (2, 3), (4, 5), (5, 6), (6, 7)]
    verdict = "ordered: a path leads\nfrom the write to the read" if right else "not ordered: the scope does\nnot reach the other block"
    figure = _draw(steps, edges, path, right, HANDOVER, f"From block to block, release and acquire at scope .{scope}", verdict)
    words = [f"From block to block, scope .{scope}"] + [f"  {HANDOVER[steps[a].column]}: {steps[a].words}  ->  {HANDOVER[steps[b].column]}: {steps[b].words}"
                                                        for a, b in sorted(edges)]
    return style.Picture(figure, "\n".join([*words, "  " + verdict.replace("\n", " ")]))


def _draw(steps: list[Step], edges: list[tuple[int, int]], path: list[tuple[int, int]], right: bool, names: tuple[str, ...], heading: str, verdict: str):
    columns = [c for c in range(len(names)) if any(step.column == c for step in steps)]
    bottom = max(step.row for step in steps)
    figure, (axis,) = style.new_figure(1.4 + 0.55 * bottom)
    x = {column: i for i, column in enumerate(columns)}
    for edge in edges:
        chosen = edge in path
        colour = style.INK if not chosen else style.GREEN if right else style.VERMILION
        _arrow(axis, steps[edge[0]], steps[edge[1]], x, colour, "-" if right or not chosen else (0, (1.5, 0.8)), 2.8 if chosen else 1.0)
    for step in steps:
        _box(axis, step, x)
    last = len(columns) - 1
    axis.text(last, 0.5, verdict, ha="center", va="center", fontsize=10, color=style.INK, fontweight="bold")
    axis.set(xlim=(-0.55, last + 0.55), ylim=(bottom + 0.6, -0.5), xlabel="who acts (blue: generic proxy, orange: async proxy)", ylabel="order, downwards")
    axis.set_xticks(list(x.values()), [names[column] for column in columns])
    axis.set_yticks([])
    style.title(axis, heading)
    return figure


def _box(axis: Axes, step: Step, x: dict[int, int]) -> None:
    colour = {"generic": style.SKY, "async": style.ORANGE, "fence": style.GREEN, "barrier": style.EMPTY}[step.kind]
    axis.add_patch(FancyBboxPatch((x[step.column] - 0.42, step.row - 0.26), 0.84, 0.52, boxstyle="round,pad=0.02", facecolor=colour, edgecolor=style.INK,
                                  linewidth=0.8, zorder=3))
    axis.text(x[step.column], step.row, step.words, ha="center", va="center", fontsize=8, color=style.ink_on(colour), zorder=4)


def _arrow(axis: Axes, start: Step, end: Step, x: dict[int, int], colour: str, line: Any, width: float) -> None:
    across = x[end.column] - x[start.column]
    if across:
        side = 0.45 if across > 0 else -0.45
        a, b = (x[start.column] + side, start.row), (x[end.column] - side, end.row)
    else:
        a, b = (x[start.column], start.row + 0.29), (x[end.column], end.row - 0.29)
    axis.add_patch(FancyArrowPatch(a, b, arrowstyle="-|>", mutation_scale=11, color=colour, linestyle=line, linewidth=width, zorder=2,
                                   shrinkA=0, shrinkB=0))


def order_words(place: int) -> str:
    """The diagram in words."""
    steps, edges = order_steps(place)
    lines = [f"The fence: {PLACES[place]}"]
    for source, to in sorted(edges, key=lambda e: (steps[e[0]].row, e)):
        a, b = steps[source], steps[to]
        lines.append(f"  {COLUMNS[a.column]}: {a.words}  ->  {COLUMNS[b.column]}: {b.words}")
    lines.append("  the store comes before the engine's read: " + ("yes, a path passes the fence" if fenced(place) else "no path passes a fence"))
    return "\n".join(lines)
