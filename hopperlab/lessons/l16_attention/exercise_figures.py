# SPDX-License-Identifier: Apache-2.0
"""Pictures beside the exercises of lesson 16: a row's running maximum over its blocks, and a warpgroup's softmax under its own products."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf

from ...show import style
from ...show.timelines import Span, gantt

SCORES, VALUES, SOFTMAX, RESCALE = "scores (Q K^T)", "product with V", "softmax", "rescale of the output"


def running(scores: Sequence[float], block: int) -> list[tuple[float, float]]:
    """(largest score so far, factor for everything summed up before) after each block of `block` scores."""
    most, steps = -inf, []
    for first in range(0, len(scores), block):
        high = max(most, *scores[first:first + block])
        steps.append((high, 0.0 if most == -inf else exp(most - high)))
        most = high
    return steps


def draw_running_maximum(scores: Sequence[float], block: int) -> style.Picture:
    """The scores of a row in the order in which its blocks are met, the running maximum over them, and each block's factor."""
    steps = running(scores, block)
    low, high = min(scores), max(scores)
    figure, (axis,) = style.new_figure(2.9)
    words = [f"{len(scores)} scores in blocks of {block}"]
    for i, (most, factor) in enumerate(steps):
        if i % 2 == 0:
            axis.axvspan(i * block - 0.5, (i + 1) * block - 0.5, color=style.EMPTY, zorder=0)
        axis.plot([i * block - 0.5, (i + 1) * block - 0.5], [most, most], color=style.VERMILION, linewidth=2, label="largest so far" if i == 0 else None)
        axis.text((i + 0.5) * block - 0.5, high + 0.9, f"× {factor:.2g}", ha="center", va="center", fontsize=9, color=style.INK)
        words.append(f"  block {i}: largest so far {most:g}, what was summed up before times {factor:.2g}")
    axis.plot(range(len(scores)), scores, style.MARKERS[0], color=style.BLUE, markersize=5, label="score of a key")
    axis.set(xlim=(-0.5, len(scores) - 0.5), ylim=(low - 1, high + 1.8), xlabel="key, in the order in which the blocks are met", ylabel="scaled score")
    axis.set_xticks(range(0, len(scores), block))
    figure.legend(fontsize=9, frameon=False, ncols=2, loc="outside lower center")
    style.title(axis, "When the maximum rises, what was summed up before must shrink")
    return style.Picture(figure, "\n".join(words))


def draw_attention_turns(blocks: int = 4) -> style.Picture:
    """What the tensor core and the threads do for `blocks` blocks, met from the last to the first; a drawing, not a run."""
    last = blocks - 1
    spans = [Span("tensor core", 0, 2, SCORES, f"S{last}")]
    work = [Span("threads", 2, 5, SOFTMAX, f"{last}")]
    now = 5.0
    for j in range(last - 1, -1, -1):
        spans += [Span("tensor core", now, now + 2, SCORES, f"S{j}"), Span("tensor core", now + 2, now + 4, VALUES, f"P{j + 1} V{j + 1}")]
        work += [Span("threads", now + 2, now + 5, SOFTMAX, f"{j}"), Span("threads", now + 5, round(now + 5.8, 1), RESCALE)]
        now = round(now + 5.8, 1)
    spans.append(Span("tensor core", now, now + 2, VALUES, "P0 V0"))
    heading = "The softmax of a block runs under the product of the block before"
    return gantt(spans + work, heading, "time (a drawing; the order counts)", {SCORES: style.BLUE, VALUES: style.GREEN, SOFTMAX: style.ORANGE, RESCALE: style.VERMILION})
