# SPDX-License-Identifier: Apache-2.0
"""Pictures beside the exercises of lesson 13x: the moments of a chain, and a ring whose slots are half full when the kernel in front ends."""
from __future__ import annotations

from matplotlib.patches import Rectangle

from ...show import style
from .chain_model import chain_picture


def draw_starts(kernels: int = 3) -> style.Picture:
    """The moments of a chain: each kernel begins, reads, and ends."""
    return chain_picture(kernels, heading="Each row is a kernel: it begins, does its head, waits, reads, and ends", launch_at="start")


def draw_wait(stages: int) -> style.Picture:
    """A product's ring at the moment in which its producer waits for the kernel in front: which tiles may be there?"""
    figure, (axis,) = style.new_figure(2.4)
    words = [f"A ring of {stages} slots when the producer waits for the kernel in front"]
    for slot in range(stages):
        for row, (name, colour, text) in enumerate((("x", style.EMPTY, "x: written in front"), ("w", style.SKY, "w: nobody writes it"))):
            axis.add_patch(Rectangle((slot + 0.06, row + 0.08), 0.88, 0.84, facecolor=colour, edgecolor=style.INK, linewidth=1))
            axis.text(slot + 0.5, row + 0.5, text, ha="center", va="center", fontsize=9, color=style.ink_on(colour))
            words.append(f"  slot {slot}, tile of {name}: {text.split(': ')[1]}")
    axis.set(xlim=(0, stages), ylim=(2, 0), xlabel="slot of the ring", yticks=[], xticks=[])
    axis.set_xticks([slot + 0.5 for slot in range(stages)], range(stages))
    axis.spines["left"].set_visible(False)
    style.title(axis, "Which half of a slot may be on its way before the wait?")
    return style.Picture(figure, "\n".join(words))
