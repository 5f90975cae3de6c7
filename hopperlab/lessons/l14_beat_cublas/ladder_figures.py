# SPDX-License-Identifier: Apache-2.0
"""The product ladder as a picture: the roofline with every step below it, and a bar a step beside cuBLAS's line.

`told` is a measure.story.Story; the roof comes from the recording `ceilings` of the same kind of GPU.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ... import measure
from ...show import style
from ...show.recorded import ceilings
from ..l00_start_here.rooflines import gemm_intensity


def ladder(told: Any = None, roof: Any = None) -> style.Picture:
    """Left: the roofline, each step at its rate (TFLOP/s) over the product's intensity (FLOP/byte, each matrix moved once).
    Right: a bar a step, its share of cuBLAS at its end. Edges and sustained speed are neither drawn nor told.
    told: a Story (default: the recording's); roof: the recording `ceilings`.
    """
    if told is None:
        from ...measure import story
        told = story.tell(story.read())
    peaks, bandwidth = ceilings(roof or measure.load("ceilings"), ("bfloat16",))
    figure, (left, right) = style.new_figure(1.5 + 0.26 * (len(told.steps) + 1), 2, (1, 1.5))
    _roof(left, told, max(peaks.values()), bandwidth)
    _bars(right, told)
    figure.supxlabel(told.source, fontsize=8, color=style.INK, x=0.01, ha="left")
    return style.Picture(figure, f"roofline: {max(peaks.values()):.0f} TFLOP/s, {bandwidth:.2f} TB/s\n{replace(told, more=())}")


def _roof(axis: Any, told: Any, peak: float, bandwidth: float) -> None:
    where = gemm_intensity(told.size, told.size, told.size, 2, 2)
    intensity = np.logspace(0, 4.3, 100)
    axis.plot(intensity, np.minimum(peak, bandwidth * intensity), color=style.INK, linewidth=2)
    axis.plot([where] * len(told.steps), [step.tflops for step in told.steps], color=style.FAINT, linewidth=1)
    for index, step in enumerate(told.steps):
        last = index == len(told.steps) - 1
        marker, colour, size = ("*", style.VERMILION, 12) if last else ("o", style.BLUE, 6)
        axis.plot([where], [step.tflops], marker, color=colour, markersize=size)
    axis.text(12, bandwidth * 12 / 2.4, f"{bandwidth:.2f} TB/s", fontsize=9, color=style.INK)
    axis.text(20000, peak * 1.5, f"best cuBLAS {peak:.0f} TFLOP/s", fontsize=9, color=style.INK, ha="right", va="bottom")
    axis.set(xscale="log", yscale="log", xlim=(1, 10 ** 4.3), xlabel="intensity (FLOP per byte)", ylabel="rate (TFLOP/s)")
    axis.set_ylim(bottom=min(1.0, *(0.5 * step.tflops for step in told.steps)), top=3 * peak)
    axis.grid(True, color=style.EMPTY)
    style.title(axis, f"{told.size}³ on the roof")


def _bars(axis: Any, told: Any) -> None:
    rows = range(len(told.steps))
    top = max(told.peer_tflops, *(step.tflops for step in told.steps))
    colours = [style.SKY] * (len(told.steps) - 1) + [style.ORANGE]
    axis.barh(rows, [step.tflops for step in told.steps], color=colours, edgecolor=style.INK, linewidth=0.6, height=0.7)
    for row, step in zip(rows, told.steps, strict=True):
        axis.text(1.34 * top, row, f"{step.tflops:.0f} ({100 * step.share:.0f}%)", va="center", ha="right", fontsize=9,
                  color=style.INK)
    axis.axvline(told.peer_tflops, color=style.INK, linestyle="--", linewidth=1.2)
    axis.text(told.peer_tflops, -0.75, f"cuBLAS {told.peer_tflops:.0f} ", fontsize=9, color=style.INK, ha="right", va="bottom")
    axis.set_yticks(list(rows), [step.name for step in told.steps])
    axis.set(xlim=(0, 1.34 * top), ylim=(len(told.steps) - 0.4, -1.3), xlabel="rate (TFLOP/s), share of cuBLAS")
    style.title(axis, "Each step")
