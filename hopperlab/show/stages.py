# SPDX-License-Identifier: Apache-2.0
"""The ring of stages of a software pipeline as a diagram: which k-step is copied into which slot, and when it is used.

A drawing of the schedule the source asks for, in steps of the main loop; `timelines` draws what a run did.
"""

from __future__ import annotations

from matplotlib.patches import Rectangle

from . import style


def stage_plan(stages: int, steps: int) -> list[tuple[int, int, int, int]]:
    """(k-step, slot, first iteration of its copy, iteration that uses it) for a ring of `stages` slots.

    The prologue issues stages - 1 copies before iteration 0; iteration i then issues the copy of step i + stages - 1 and uses step i.
    Raises ValueError below two stages: one slot cannot be filled and read at once.
    """
    if stages < 2:
        raise ValueError(f"a ring needs at least 2 stages to copy and compute at once, not {stages}")
    return [(step, step % stages, step - (stages - 1), step) for step in range(steps)]


def stage_diagram(stages: int = 3, steps: int = 8, heading: str | None = None) -> style.Picture:
    """Rows are slots, columns iterations: hatched while a copy may be in flight, solid when the tensor cores read the slot."""
    plan = stage_plan(stages, steps)
    figure, (axis,) = style.new_figure(0.95 + 0.42 * stages)
    for step, slot, issued, used in plan:
        axis.add_patch(Rectangle((issued, slot + 0.12), used - issued, 0.76, facecolor=style.SKY, edgecolor=style.CARD, hatch="//", linewidth=1))
        axis.add_patch(Rectangle((used, slot + 0.12), 1, 0.76, facecolor=style.BLUE, edgecolor=style.CARD, linewidth=1))
        axis.text(used + 0.5, slot + 0.5, f"use {step}", color="#FFFFFF", ha="center", va="center", fontsize=9)
        if used - issued >= 1:
            axis.text((issued + used) / 2, slot + 0.5, f"copy {step}", color=style.INK, ha="center", va="center", fontsize=9,
                      bbox={"facecolor": style.SKY, "edgecolor": "none", "pad": 1.0})
    axis.axvline(0, color=style.INK, linewidth=1)
    axis.text(0.05, -0.12, "main loop starts", fontsize=9, color=style.INK, va="bottom")
    axis.set(xlim=(-(stages - 1) - 0.1, steps), ylim=(stages, -0.55), xlabel="iteration of the main loop (k-steps)", ylabel="slot")
    axis.set_yticks([i + 0.5 for i in range(stages)], [str(i) for i in range(stages)])
    axis.set_xticks(range(-(stages - 1), steps + 1))
    style.title(axis, heading or f"{stages} stages: {stages - 1} copies are in flight while one tile is used")
    words = [f"{stages} stages, {steps} k-steps"] + [
        f"  step {step}: slot {slot}, copy issued in iteration {issued}, used in iteration {used}" for step, slot, issued, used in plan]
    return style.Picture(figure, "\n".join(words))
