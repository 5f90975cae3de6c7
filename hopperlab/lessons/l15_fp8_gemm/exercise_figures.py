# SPDX-License-Identifier: Apache-2.0
"""Pictures beside the exercises of lesson 15: the error of e4m3 over the size of a number, and promotions under the next k-block's product."""

from __future__ import annotations

import numpy as np

from ...show import style
from ...show.timelines import Span, gantt

LARGEST, SMALLEST_NORMAL, MANTISSA = 448.0, 2.0 ** -6, 3
PRODUCT, PROMOTION = "k-block multiplied by the tensor core", "k-block promoted by the threads"


def e4m3_error(x: np.ndarray) -> np.ndarray:
    """The relative error of rounding positive numbers, at most 448, to e4m3. [PTX ISA 5.2.3]"""
    distance = 2.0 ** (np.floor(np.log2(np.maximum(x, SMALLEST_NORMAL))) - MANTISSA)
    return np.abs(np.round(x / distance) * distance / x - 1)


def draw_e4m3_error() -> style.Picture:
    """The relative error of e4m3 for numbers from 2^-11 to 448."""
    x = 2.0 ** np.linspace(-11, np.log2(LARGEST), 4000)
    figure, (axis,) = style.new_figure(2.9)
    axis.plot(x, 100 * e4m3_error(x), color=style.BLUE, linewidth=1)
    axis.axvspan(x[0], SMALLEST_NORMAL, color=style.EMPTY, zorder=0)
    axis.text(2.0 ** -6.1, 80, "subnormal: 2⁻⁹ apart", fontsize=9, color=style.INK, ha="right", va="center")
    axis.axhline(100 / 16, color=style.VERMILION, linewidth=1.2, linestyle="--")
    axis.text(2.0 ** 1.2, 10, "normal: at most 1/16", fontsize=9, color=style.INK, va="bottom")
    axis.set_xscale("log", base=2)
    axis.set(xlim=(x[0], LARGEST), ylim=(0, 105), xlabel="value divided by the scale", ylabel="relative error (%)")
    style.title(axis, "Rounding to e4m3: what is small beside its block's largest number is lost")
    return style.Picture(figure, "Relative error of rounding to e4m3: at most 1/16 from 2^-6 to 448; below 2^-6 the numbers are 2^-9 apart, the error grows to 100 %, "
                                 "and what is below 2^-10 becomes zero.")


def draw_promotions(blocks: int = 5) -> style.Picture:
    """A row for each partial accumulator: when its k-blocks are multiplied and when they are promoted; a drawing, not a run."""
    spans = []
    for i in range(blocks):
        row = "even" if i % 2 == 0 else "odd"
        spans += [Span(row, 2 * i, 2 * i + 2, PRODUCT, f"{i}"), Span(row, 2 * i + 2, 2 * i + 3.5, PROMOTION, f"{i}")]
    spans.sort(key=lambda span: span.row)
    heading = f"{blocks} k-blocks: while one is promoted, the next is multiplied into the other accumulator"
    return gantt(spans, heading, "time (a drawing; the order counts)", {PRODUCT: style.BLUE, PROMOTION: style.ORANGE})
