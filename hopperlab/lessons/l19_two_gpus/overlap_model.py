# SPDX-License-Identifier: Apache-2.0
"""Lesson 19: a model of an all-gather under a product: when pieces arrive, when tiles begin, and who waits. And what all-reduces send.

Its numbers are free: a tile takes 1, a link brings a shard in LINK. They show what waits for what, not how long it takes on a GPU.
"""
from __future__ import annotations

from dataclasses import dataclass

from ...runtime.tables import counted, text_table
from ...show import style
from ...show.timelines import Span, gantt

ROWS, COLUMNS, CTAS, LINK, ENOUGH = 8, 4, 4, 2.0, 16        # rows and columns of tiles; CTAs; a shard's time over the link, when at least ENOUGH CTAs copy
OWN, OTHERS, WAITS, COPY = "tile of the own shard", "tile of another shard", "waits for its piece", "piece arrives"
KINDS = {COPY: style.PURPLE, WAITS: style.FAINT, OWN: style.BLUE, OTHERS: style.ORANGE}
ORDERS = ("own first", "as they lie", "own last")


@dataclass(frozen=True)
class Plan:
    """What the model says of one device: spans (row, kind, first, last), and the sum of all waits."""

    spans: tuple[tuple[str, str, float, float], ...]
    waits: float

    @property
    def ends(self) -> float:
        """When the last tile ends."""
        return max(last for _, _, _, last in self.spans)


def overlap(order: str = "own first", pieces: int = 2, copiers: int = 16, rank: int = 1, devices: int = 2) -> Plan:
    """Device `rank`. order: of ORDERS, with which shard's rows the tiles begin; pieces: of a shard; copiers: CTAs that copy, so that a shard takes longer with few."""
    shard, spans, arrives = ROWS // devices, [], {}
    time = 0.0
    each = LINK / (devices - 1) / pieces * max(1.0, ENOUGH / copiers)
    for other in range(1, devices):
        for piece in range(pieces):
            number = (rank + other) % devices * pieces + piece
            spans.append(("link", COPY, time, time + each))
            time += each
            arrives[number] = time
    start = {"own first": rank, "as they lie": 0, "own last": rank + 1}[order] % devices * shard
    free, waited = [0.0] * CTAS, 0.0
    for index in range(ROWS * COLUMNS):
        row, cta = (index // COLUMNS + start) % ROWS, index % CTAS
        begins = max(free[cta], arrives.get(row * pieces // shard, 0.0))
        if begins > free[cta]:
            spans.append((f"CTA {cta}", WAITS, free[cta], begins))
            waited += begins - free[cta]
        spans.append((f"CTA {cta}", OWN if row // shard == rank else OTHERS, begins, begins + 1))
        free[cta] = begins + 1
    return Plan(tuple(spans), round(waited, 3))


def overlap_picture(order: str = "own first", pieces: int = 2, copiers: int = 16, rank: int = 1, heading: str = "") -> style.Picture:
    """The model of device `rank` of two as a picture."""
    plan = overlap(order, pieces, copiers, rank)
    told = heading or f"{order}, {counted(pieces, 'piece')} per shard, {copiers} CTAs copy"
    return gantt([Span(row, first, last, kind) for row, kind, first, last in plan.spans], f"{told}: {plan.ends:.1f} units; waits of all CTAs together: {plan.waits:.1f}",
                 "time in the model (free units; what waits for what, not speed)", KINDS)


def waits_table(pieces: int = 2) -> str:
    """A line for each order of the tiles: units that the CTAs of each of two devices wait in the model, and when the last tile ends."""
    rows = []
    for order in ORDERS:
        plans = [overlap(order, pieces, rank=rank) for rank in (0, 1)]
        rows.append((order, *(f"{plan.waits:.1f}" for plan in plans), f"{max(plan.ends for plan in plans):.1f}"))
    return "\n".join(text_table("{:14} {:>10} {:>10} {:>16}", rows, ("tiles begin", "device 0", "device 1", "the last ends at")))


def reduce_table() -> str:
    """What one device sends for an all-reduce of V bytes, and how many ways over the link stand in line: counted from the kernels."""
    rows = []
    for devices in (2, 4, 8):
        for how, sent, ways in (("one-shot", devices - 1, 3), ("one-shot, words", 2 * (devices - 1), 1), ("two-shot", 2 * (devices - 1) / devices, 6)):
            rows.append((devices, how, f"{sent:.2f} V", ways))
    return "\n".join(text_table("{:7d} {:18} {:>14} {:>12d}", rows, ("devices", "all-reduce", "sent by each", "ways in line")))
