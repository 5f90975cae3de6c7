# SPDX-License-Identifier: Apache-2.0
"""Pictures of the exercises of lesson 07: slots that are written and read in turn, and blocks that add to one tile of C.

Drawings of a schedule with made-up times, which show what must come after what.
"""

from __future__ import annotations

from ...show import style
from ...show.timelines import Span, gantt

WRITE, READ = "threads write the slot", "engine reads the slot"
PRODUCT, ADD, ARRIVE, FINISH = "writes its part of the tile", "engine adds it to C", "arrives at the counter", "reads C, stores y"
STEPS = "time (made-up steps; the order counts)"


def store_plan(slots: int, tiles: int, write: int = 3, read: int = 5) -> list[tuple[int, int, int, int]]:
    """(tile, slot, step at which its writing begins, step at which its reading ends): a slot is written again once it has been read.

    Raises ValueError without a slot.
    """
    if slots < 1:
        raise ValueError(f"{slots} slots: at least one is needed")
    plan: list[tuple[int, int, int, int]] = []
    for tile in range(tiles):
        begins = max(plan[-1][2] + write if plan else 0, plan[tile - slots][3] if tile >= slots else 0)
        ends = max(begins + write, plan[-1][3] if plan else 0) + read
        plan.append((tile, tile % slots, begins, ends))
    return plan


def draw_store_slots(slots: int = 2, tiles: int = 6, write: int = 3, read: int = 5) -> style.Picture:
    """A row a slot: when threads write it and when the engine reads it."""
    spans = []
    for tile, slot, begins, ends in store_plan(slots, tiles, write, read):
        spans += [Span(f"slot {slot}", begins, begins + write, WRITE, f"tile {tile}"), Span(f"slot {slot}", ends - read, ends, READ, f"tile {tile}")]
    spans.sort(key=lambda span: span.row)
    heading = f"{slots} slot{'s' * (slots > 1)}: a slot is written again when it has been read, not before and not later"
    return gantt(spans, heading, STEPS, {WRITE: style.SKY, READ: style.ORANGE})


def draw_split_k(parts: int = 3) -> style.Picture:
    """A row a block: its part of the product, the engine's addition, its arrival; the block that arrives last goes on."""
    order = [1, *(z for z in range(parts) if z != 1)][:parts] if parts > 1 else [0]        # the middle one is the slowest here
    spans = []
    for z in range(parts):
        late = parts - 1 - order.index(z)
        product, adds = 8 + 2 * z % 3, 6 + 4 * late
        row = f"block z = {z}"
        spans += [Span(row, 0, product, PRODUCT, "part"), Span(row, product, product + adds, ADD, "adds"),
                  Span(row, product + adds, product + adds + 2, ARRIVE, f"{late}")]
        if late == parts - 1:
            spans.append(Span(row, product + adds + 2, product + adds + 10, FINISH, "last: y"))
    heading = f"{parts} blocks share a tile of C; whoever arrives last (not the last z) finishes it"
    return gantt(spans, heading, f"{STEPS}; number: what arrive returns", {PRODUCT: style.SKY, ADD: style.ORANGE, ARRIVE: style.YELLOW, FINISH: style.GREEN})
