# SPDX-License-Identifier: Apache-2.0
"""Pictures of the exercises of lesson 09: the slots of a multistage loop over its k-blocks.

A drawing of the schedule that the source asks for, not of a run.
"""

from __future__ import annotations

from ...show import style
from ...show.timelines import Span, gantt

LOAD, READ = "load under way, at the latest until its use", "wgmma may read the slot"
WAITED = 0.7                # where in a step wgmma_wait_group stands


def loop_plan(stages: int, pending: int, tiles: int) -> list[tuple[int, int, float, float, float]]:
    """(tile, slot, its load is issued, its products are issued, the slot is handed back), in steps of the loop.

    The first loads are issued before step 0; step i hands back the slot of tile i - pending and loads into it.
    Raises ValueError where the ring waits for itself: at most stages - 1 products may stay in flight.
    """
    if not 0 <= pending < stages:
        raise ValueError(f"{pending} products in flight need more than {stages} stages: nothing would be handed back before it is needed")
    return [(tile, tile % stages, -0.5 if tile < stages else tile - stages + pending + WAITED, tile, min(tile + pending, tiles - 1) + WAITED)
            for tile in range(tiles)]


def draw_multistage(stages: int = 3, pending: int = 1, tiles: int = 8) -> style.Picture:
    """A row a slot: when a load into it may be under way, and when wgmma may still read it."""
    spans = []
    for tile, slot, load, use, back in sorted(loop_plan(stages, pending, tiles), key=lambda row: (row[1], row[0])):
        spans += [Span(f"slot {slot}", load, use, LOAD, f"load {tile}"), Span(f"slot {slot}", use, back, READ, f"tile {tile}")]
    heading = f"{stages} stages, wait_group<{pending}>: step i hands back the slot of tile i{f' - {pending}' if pending else ''}"
    return gantt(spans, heading, "step of the loop, one per k-block (a drawing; the order counts)", {LOAD: style.SKY, READ: style.ORANGE})
