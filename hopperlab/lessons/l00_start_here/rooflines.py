# SPDX-License-Identifier: Apache-2.0
"""The roofline: attainable arithmetic rate against arithmetic intensity, with kernels placed on it.

Ceilings come from the caller (a recording, or a measurement of this machine), never from this file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...show import style


@dataclass(frozen=True)
class Point:
    """One kernel: its name, arithmetic intensity in FLOP per byte of global traffic, and measured TFLOP/s (None: not measured)."""

    name: str
    intensity: float
    tflops: float | None = None


def gemm_intensity(m: int, n: int, k: int, bytes_in: int = 2, bytes_out: int = 4) -> float:
    """FLOP per byte of an m x n x k product when each matrix crosses the memory bus exactly once: 2mnk / ((mk + kn)·in + mn·out)."""
    return 2.0 * m * n * k / ((m * k + k * n) * bytes_in + m * n * bytes_out)


def attainable(intensity: float, peak_tflops: float, bandwidth_tbs: float) -> float:
    """min(peak, bandwidth x intensity) in TFLOP/s: Williams, Waterman and Patterson, CACM 52(4), 2009."""
    return min(peak_tflops, bandwidth_tbs * intensity)


def roofline(ceilings: Mapping[str, float], bandwidth_tbs: float, points: Sequence[Point] = (),
             heading: str = "Roofline") -> style.Picture:
    """Log-log roofline.

    `ceilings` maps a name to its peak in TFLOP/s, `bandwidth_tbs` is in TB/s, `points` are placed at their measured
    rate, or on the roof (hollow) when they have none. Raises ValueError when a ceiling or the bandwidth is not positive.
    """
    if bandwidth_tbs <= 0 or not ceilings or min(ceilings.values()) <= 0:
        raise ValueError(f"ceilings and bandwidth must be positive: {dict(ceilings)}, {bandwidth_tbs} TB/s")
    figure, (axis,) = style.new_figure(4.0)
    top = max(ceilings.values())
    intensity = np.logspace(-1.2, 4.3, 200)
    for index, (name, peak) in enumerate(ceilings.items()):
        colour = style.PALETTE[index]
        axis.plot(intensity, np.minimum(peak, bandwidth_tbs * intensity), color=colour, linewidth=2)
        axis.text(intensity[-1], peak * 1.38, f"{name}: {peak:.0f} TFLOP/s", color=style.INK, ha="right", va="bottom", fontsize=9)
    axis.text(0.09, bandwidth_tbs * 0.16, f"{bandwidth_tbs:.2f} TB/s", color=style.INK, fontsize=9, rotation=34)
    for index, point in enumerate(points):
        roof = attainable(point.intensity, top, bandwidth_tbs)
        height = point.tflops or roof
        axis.plot([point.intensity], [height], style.MARKERS[index % 8], markersize=9, color=style.VERMILION,
                  markerfacecolor=style.VERMILION if point.tflops else style.CARD, label=point.name)
    axis.set(xscale="log", yscale="log", xlabel="arithmetic intensity (FLOP per byte of global memory)", ylabel="rate (TFLOP/s)")
    axis.set_ylim(bottom=0.05, top=top * 3.5)
    axis.grid(True, which="major", color=style.EMPTY)
    if points:
        axis.legend(fontsize=9, frameon=False, loc="lower right")
    style.title(axis, heading)
    return style.Picture(figure, _words(ceilings, bandwidth_tbs, points, heading))


def _words(ceilings: Mapping[str, float], bandwidth: float, points: Sequence[Point], heading: str) -> str:
    lines = [heading]
    for name, peak in ceilings.items():
        lines.append(f"  {name}: {peak:.0f} TFLOP/s, reached from {peak / bandwidth:.0f} FLOP/byte at {bandwidth:.2f} TB/s")
    top = max(ceilings.values())
    for point in points:
        roof = attainable(point.intensity, top, bandwidth)
        side = "memory" if bandwidth * point.intensity < top else "arithmetic"
        measured = "" if point.tflops is None else f", measured {point.tflops:.1f}"
        lines.append(f"  {point.name}: {point.intensity:.2f} FLOP/byte, roof {roof:.1f} TFLOP/s (bound by {side}){measured}")
    return "\n".join(lines)
