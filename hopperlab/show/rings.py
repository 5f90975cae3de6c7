# SPDX-License-Identifier: Apache-2.0
"""What a ring of slots did in a run in the emulator: copies under way, and slots in use, over the order of events.

The spans come from `run.timeline`; nothing here knows what a kernel should have done.
"""

from __future__ import annotations

from typing import Any

from .style import Picture
from .timelines import Span, gantt


def ring_spans(run: Any, stages: int, block: int = 0) -> list[Span]:
    """What block `block` did with its ring of `stages` slots: one row a slot.

    A copy lasts from its issue to its landing. A slot is in use from the flip of its full barrier to the flip of its
    empty barrier (the second group of `stages` barriers in shared memory), where the kernel has one; else the bulk store
    that takes the tile away is marked. Loads belong to tiles in the order of issue, equally many a tile. Time is the order of the
    block's events, counted from 0.
    """
    events = [event for event in run.timeline if event.block == block]
    issues, lands, stores = ([at for at, event in enumerate(events) if event.what == what] for what in ("issue cp", "land cp", "issue store cp"))
    flips: dict[str, list[int]] = {}
    for at, event in enumerate(events):
        if event.what == "phase flips":
            flips.setdefault(event.detail, []).append(at)
    barriers = sorted(flips, key=lambda name: int(name.split()[-1], 16))
    full = [flips[name] for name in barriers[:stages]]
    empty = [flips[name] for name in barriers[stages:2 * stages]]
    tiles = sum(len(steps) for steps in full)
    each = len(issues) // max(1, tiles)
    spans = []
    for tile in range(tiles):
        row, turn = f"slot {tile % stages}", tile // stages
        last = (tile + 1) * each - 1
        spans.append(Span(row, issues[tile * each], lands[last], "copy under way", f"copy {tile}"))
        if tile % stages < len(empty):
            released = [*empty[tile % stages], len(events)]    # the kernel may end before the last release is seen
            spans.append(Span(row, full[tile % stages][turn], released[turn], "in use by the tensor cores", f"use {tile}"))
        elif tile < len(stores):
            spans.append(Span(row, stores[tile], stores[tile], "store issued"))
    return sorted(spans, key=lambda span: int(span.row.split()[-1]))


def ring_timeline(run: Any, stages: int, heading: str, block: int = 0) -> Picture:
    """`ring_spans` as a picture: which copies were under way while which slot was in use."""
    return gantt(ring_spans(run, stages, block), heading, "order of events in the emulator (what came after what; not seconds)")
