# SPDX-License-Identifier: Apache-2.0
"""Pictures beside the exercises of lesson 16b: which block of a row is seen, and the five products of a block with what the threads do beside them."""
from __future__ import annotations

from matplotlib.patches import Rectangle

from ...show import style
from ...show.timelines import Span, gantt


def draw_row(keys: int = 4, others: int = 8) -> style.Picture:
    """A row of scores: a block of it, and the keys that are in other CTAs; beside it o and do of the query, which know of them all."""
    figure, (axis,) = style.new_figure(1.9)
    for key in range(keys + others):
        mine = key < keys
        axis.add_patch(Rectangle((key + 0.05, 0.1), 0.9, 0.8, facecolor=style.SKY if mine else style.EMPTY, edgecolor=style.INK, linewidth=1))
        axis.text(key + 0.5, 0.5, "s, v" if mine else "?", ha="center", va="center", fontsize=9, color=style.INK)
    axis.set(xlim=(0, keys + others), ylim=(1, 0), xlabel="key", yticks=[])
    axis.set_xticks([key + 0.5 for key in range(keys + others)], range(keys + others))
    axis.spines["left"].set_visible(False)
    style.title(axis, "This CTA has four keys of the row, and o, do and lse of the query")
    words = f"A row of {keys + others} keys: s and v of keys 0 to {keys - 1} are here, the others in other CTAs; o, do and lse of the query are here"
    return style.Picture(figure, words)


def draw_starts_of_products(product: int = 4) -> style.Picture:
    """The five products of a block and what the threads do beside them, where everything takes as long as a product; a drawing, not a run."""
    spans = [Span("tensor core", i * product, (i + 1) * product, "product", name) for i, name in enumerate(("s", "dp", "dv"))]
    spans += [Span("tensor core", (i + 3) * product, (i + 4) * product, "product", name) for i, name in enumerate(("dq", "dk"))]
    spans += [Span("threads", product, 2 * product, "exponentials", "p"), Span("threads", 2 * product, 3 * product, "gradients of scores", "ds"),
              Span("threads", 4 * product, 5 * product, "dq goes out", "out")]
    return gantt(spans, "Where everything takes as long as a product, the tensor core never waits", "time (a drawing; the order counts)",
                 {"product": style.BLUE, "exponentials": style.ORANGE, "gradients of scores": style.VERMILION, "dq goes out": style.GREEN})
