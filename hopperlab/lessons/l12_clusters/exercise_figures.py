# SPDX-License-Identifier: Apache-2.0
"""Pictures beside the exercises of lesson 12: a cluster whose ranks run down its columns, and a slot of the ring in a cluster of CTAs."""

from __future__ import annotations

from typing import Any

from matplotlib.patches import FancyArrowPatch, Rectangle

from ...show import style


def draw_shares(rows: int, cols: int) -> style.Picture:
    """A cluster of rows x cols CTAs, ranks counted down the columns: which CTAs need the same rows of A, which the same of B."""
    figure, (axis,) = style.new_figure(1.0 + 0.62 * rows)
    words = [f"A cluster of {rows} x {cols} CTAs, ranks counted down the columns"]
    for rank in range(rows * cols):
        col, row = divmod(rank, rows)
        axis.add_patch(Rectangle((col + 0.06, row + 0.12), 0.88, 0.76, facecolor=style.EMPTY, edgecolor=style.INK, linewidth=1))
        axis.add_patch(Rectangle((col + 0.06, row + 0.12), 0.07, 0.76, facecolor=style.PALETTE[(0, 1, 2, 3, 4, 5, 6, 7)[row]], edgecolor=style.INK, linewidth=0.6))
        axis.text(col + 0.5, row + 0.5, f"rank {rank}\nrows {row} of A, columns {col} of B", ha="center", va="center", fontsize=9, color=style.INK)
        words.append(f"  rank {rank}: rows {row} of A, columns {col} of B")
    axis.set(xlim=(0, cols), ylim=(rows, 0), xlabel="column of the cluster (CTAs)", ylabel="row of the cluster (CTAs)")
    axis.set_xticks([i + 0.5 for i in range(cols)], range(cols))
    axis.set_yticks([i + 0.5 for i in range(rows)], range(rows))
    style.title(axis, "One colour: CTAs that need the same tile of A. One column: the same tile of B")
    return style.Picture(figure, "\n".join(words))


def draw_multicast(cluster: int) -> style.Picture:
    """One slot in each CTA of a cluster side by side: its tile of A in parts, one colour a loader, and its own tile of B."""
    figure, (axis,) = style.new_figure(3.1)
    words = [f"One slot in a cluster of {cluster} CTAs"]
    width = 10 / cluster
    for rank in range(cluster):
        left = rank * width
        _slot(axis, left, width, rank, cluster)
        words.append(f"  CTA {rank}: loads part {rank} of the tile of A for all {cluster}, and its own tile of B")
    for target in range(1, cluster):
        axis.add_patch(FancyArrowPatch((0.3 * width, 0.3), (target * width + 0.3 * width, 0.3), arrowstyle="-|>", mutation_scale=12, linewidth=1.4,
                                       color=style.INK, connectionstyle="arc3,rad=-0.16"))
    axis.set(xlim=(0, 10), ylim=(3.1, -0.6), xticks=[(r + 0.5) * width for r in range(cluster)], yticks=[], xlabel="CTA of the cluster (rank)")
    axis.set_xticklabels(range(cluster))
    axis.spines["left"].set_visible(False)
    style.title(axis, "A part of A is loaded once and lands in every CTA (arrows: those of rank 0)")
    return style.Picture(figure, "\n".join(words))


def _slot(axis: Any, left: float, width: float, rank: int, cluster: int) -> None:
    """The tiles of A and B of one CTA's slot, and what is asked of its barriers."""
    for part in range(cluster):
        height = 1.5 / cluster
        axis.add_patch(Rectangle((left + 0.06 * width, 0.3 + part * height), 0.4 * width, height, facecolor=style.PALETTE[part], edgecolor=style.CARD, linewidth=1.5))
        axis.text(left + 0.26 * width, 0.3 + (part + 0.5) * height, f"from {part}", ha="center", va="center", fontsize=9,
                  color=style.ink_on(style.PALETTE[part]))
    axis.add_patch(Rectangle((left + 0.54 * width, 0.3), 0.4 * width, 1.5, facecolor=style.PALETTE[rank], edgecolor=style.CARD, linewidth=1.5))
    axis.text(left + 0.74 * width, 1.05, f"B\nfrom {rank}", ha="center", va="center", fontsize=9, color=style.ink_on(style.PALETTE[rank]))
    axis.text(left + 0.07 * width, 0.2, "A", ha="left", va="bottom", fontsize=9, color=style.INK)
    axis.text(left + 0.5 * width, 2.15, "full: how many bytes?", ha="center", va="center", fontsize=9, color=style.INK)
    axis.text(left + 0.5 * width, 2.6, "empty: how many arrivals?", ha="center", va="center", fontsize=9, color=style.INK)
