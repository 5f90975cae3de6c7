# SPDX-License-Identifier: Apache-2.0
"""Lesson 05x: what the recording `engine` says of the maps that the copy engine keeps, and of a barrier that was told of fewer bytes than its box has."""
from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.tables import text_table
from ...show import style

ORDERS = ("forwards", "there and back")
NEAR, FAR = 1.08, 1.5                   # times a single map's cycles: kept in the engine; kept in a cache before the L2


def map_uses(recording: Any, order: str = "forwards", stride: int = 128, use: str = "again") -> dict[int, float]:
    """Maps used in turn -> cycles of a copy of 128 bytes from the L2 (median). order: of ORDERS; stride: bytes from map to map; use: 'first' or 'again'."""
    found = recording.where(suite="maps")
    words = {f"stride={stride}", f"order={order}", f"use={use}"}
    return {int(record.options[0].removeprefix("maps=")): record.value for record in found if words <= set(record.options)}


def maps_chart(recording: Any) -> style.Picture:
    """Cycles of a copy against the number of maps that are used in turn: first uses, and uses again in either order."""
    series = {"first use": map_uses(recording, use="first"), **{f"used again, {order}": map_uses(recording, order) for order in ORDERS}}
    figure, (axis,) = style.new_figure(3.5)
    words = ["Cycles of a copy of 128 bytes, by the number of maps used in turn", f"  {recording.source}"]
    for index, (name, found) in enumerate(series.items()):
        axis.plot(list(found), list(found.values()), color=style.PALETTE[index], marker=style.MARKERS[index], markersize=4, linewidth=2, label=name)
        words.append(f"  {name}: " + ", ".join(f"{count}: {cycles:.0f}" for count, cycles in found.items()))
    most = max(map(max, series.values()))
    axis.set_xscale("log", base=2)
    powers = [1 << power for power in range(0, most.bit_length(), 2)]
    axis.set_xticks(powers, [str(power) for power in powers])
    axis.set(xlabel="maps used in turn", ylabel="cycles until 128 bytes have landed")
    axis.set_ylim(bottom=0)
    axis.grid(True, color=style.EMPTY)
    axis.legend(fontsize=9, frameon=False, loc="lower right")
    style.title(axis, "How many maps does the engine keep?")
    figure.supxlabel(recording.source, fontsize=8, color=style.INK, x=0.01, ha="left")
    return style.Picture(figure, "\n".join(words))


def kept(recording: Any, slower: float, order: str = "forwards", stride: int = 128) -> tuple[int, int | None]:
    """(the largest number of maps up to which every use again takes less than `slower` times that of a single map, the next number that was tried)."""
    again = map_uses(recording, order, stride)
    quick = 0
    for count, cycles in again.items():
        if cycles >= slower * again[1]:
            return quick, count
        quick = count
    return quick, None


def maps_table(recording: Any) -> str:
    """Where the cycles of a use again rise, by the distance from map to map: first by about a tenth, then to what a map from the L2 costs."""
    rows = []
    for stride in (128, 1024):
        again = map_uses(recording, stride=stride)
        most, beyond = kept(recording, FAR, stride=stride)
        last = max(again)
        rows.append((f"{stride} bytes", most, f"{most * stride // 1024} KiB", beyond, f"{again[1]:.0f}", f"{again[most]:.0f}", f"{again[last]:.0f}"))
    head = ("map to map", "still quick", "span", "no more", "one map", "that many", f"{last} maps")
    return "\n".join([recording.source, *text_table("{:<*}  {:>*}  {:>*}  {:>*}  {:>*}  {:>*}  {:>*}", rows, head)])


def pieces(recording: Any, rows: int, columns: int, source: str) -> dict[int, tuple[float, float | None]]:
    """Announced bytes -> (share of the trials in which the barrier opened, the least that was there of the box when the thread then looked, in bytes), for a box, from
    'memory' or 'L2'."""
    return {int(record.options[0].removeprefix("announced=")): (int(record.note.split()[-1]) / record.runs, record.value_min)
            for record in recording.where(suite="pieces", shape=(rows, columns)) if f"from={source}" in record.options}


def pieces_table(recording: Any, boxes: tuple[tuple[int, int], ...] = ((64, 64), (64, 16), (8, 256))) -> str:
    """For each box: how often the barrier opened when it was told of all bytes, which announcements that were too small opened it, how often, and how much of the box was
    there."""
    rows = []
    for box in boxes:
        for source in ("memory", "L2"):
            found = pieces(recording, *box, source)
            whole = 2 * box[0] * box[1]
            early = {told: share for told, (share, _) in found.items() if share and told < whole}
            step = int(np.gcd.reduce(list(early))) if early else 0
            never = [str(told) for told, (share, _) in found.items() if not share]
            rows.append((f"{box[0]} x {box[1]}", f"{2 * box[1]} B", source, f"{found[whole][0]:.0%}", f"{len(early)} of {sum(told < whole for told in found)}",
                         f"{step}" if step else "none", ", ".join(never) or "none", f"{min(early.values()):.0%} to {max(early.values()):.0%}" if early else "never",
                         f"{min(least for told, (share, least) in found.items() if told in early) / whole:.0%}" if early else "–"))
    head = ("box (bf16)", "row", "from", "told of all", "too small, and opened", "all multiples of", "never opened", "of the trials", "least there")
    return "\n".join([recording.source, *text_table("{:<*}  {:>*}  {:<*}  {:>*}  {:>*}  {:>*}  {:<*}  {:>*}  {:>*}", rows, head)])
