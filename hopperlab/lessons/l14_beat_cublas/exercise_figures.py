# SPDX-License-Identifier: Apache-2.0
"""Pictures beside the exercises of lesson 14: the waves of a result's tiles over the SMs, and what an answer's plan and kernel are to each other."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.patches import FancyArrowPatch, Rectangle

from ...show import style


def draw_waves(m: int, n: int, tiles: Sequence[tuple[int, int]], sms: int) -> style.Picture:
    """A row a tile size: its waves over `sms` SMs side by side, as long as a wave takes (rows x columns of the tile), as full as its tiles fill it."""
    figure, (axis,) = style.new_figure(1.1 + 0.62 * len(tiles))
    words = [f"A result of {m} x {n} on {sms} SMs"]
    unit = 128 * 128
    for row, (bm, bn) in enumerate(tiles):
        count = math.ceil(m / bm) * math.ceil(n / bn)
        waves = math.ceil(count / sms)
        last = count - (waves - 1) * sms
        length = bm * bn / unit
        for wave in range(waves):
            full = (sms if wave < waves - 1 else last) / sms
            axis.add_patch(Rectangle((wave * length, row + 0.1), length, 0.8, facecolor=style.EMPTY, edgecolor=style.CARD, linewidth=1.5))
            axis.add_patch(Rectangle((wave * length, row + 0.1 + 0.8 * (1 - full)), length, 0.8 * full, facecolor=style.PALETTE[row], edgecolor=style.CARD,
                                     linewidth=1.5))
        axis.text(waves * length + 0.1, row + 0.5, f"{count} tiles, last wave {last} of {sms}", va="center", fontsize=9, color=style.INK)
        words.append(f"  {bm} x {bn}: {count} tiles, {waves} waves, the last with {last} of {sms}; {waves * length:g} times a tile of 128 x 128")
    longest = max(math.ceil(math.ceil(m / bm) * math.ceil(n / bn) / sms) * bm * bn / unit for bm, bn in tiles)
    axis.set(xlim=(0, longest * 1.45), ylim=(len(tiles), 0), xlabel="time (tiles of 128 x 128 that one SM could multiply)")
    axis.set_yticks([i + 0.5 for i in range(len(tiles))], [f"{bm} x {bn}" for bm, bn in tiles])
    axis.set_ylabel("tile (rows x columns)")
    style.title(axis, f"{m} x {n} on {sms} SMs: coloured is busy, grey is idle")
    return style.Picture(figure, "\n".join(words))


BOXES = (("plan", "one thread\nwrites 7 numbers"), ("check or leaderboard", "makes the tensor maps,\nlaunches what was asked"),
         ("gemm", "your tile, roles, ring,\ncluster, stores"))
HANDED = ("grid, threads,\nbytes, boxes", "maps, C,\nm, n, k")


def draw_contract() -> style.Picture:
    """The two kernels of the answer, and what goes from one to the other."""
    figure, (axis,) = style.new_figure(1.75)
    for place, (name, what) in enumerate(BOXES):
        left = place * 4.1
        own = place != 1
        axis.add_patch(Rectangle((left, 0.35), 2.75, 1.1, facecolor=style.SKY if own else style.EMPTY, edgecolor=style.INK, linewidth=1))
        axis.text(left + 1.375, 0.6, name, ha="center", va="center", fontsize=10, color=style.INK, fontweight="bold")
        axis.text(left + 1.375, 1.08, what, ha="center", va="center", fontsize=9, color=style.INK)
    for place, text in enumerate(HANDED):
        left = place * 4.1 + 2.75
        axis.add_patch(FancyArrowPatch((left + 0.05, 0.9), (left + 1.3, 0.9), arrowstyle="-|>", mutation_scale=12, linewidth=1.4, color=style.INK))
        axis.text(left + 0.67, 0.8, text, ha="center", va="bottom", fontsize=9, color=style.INK)
    axis.set(xlim=(-0.05, 11.0), ylim=(1.6, 0.0), xticks=[], yticks=[])
    for side in ("left", "bottom"):
        axis.spines[side].set_visible(False)
    style.title(axis, "Blue is yours: plan says how gemm is to be launched")
    return style.Picture(figure, "plan(launch, m, n, k, sms) writes grid, threads, shared bytes and the rows of three "
                                 "boxes; the check makes the tensor maps and launches gemm(a, b, c_map, c, m, n, k) so.")
