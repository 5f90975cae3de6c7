# SPDX-License-Identifier: Apache-2.0
"""A recorded kernel beside its peer, by shape: median, and lowest to highest round. The caller passes the recording in."""
from __future__ import annotations

from typing import Any

from . import style


def _as_launched(recording: Any) -> list[Any]:
    """The last step's records without a note: one a shape, beside the better cuBLAS entry point in the same rounds."""
    return sorted((r for r in recording if r.kernel == "final" and not r.note), key=lambda r: (len(set(r.shape)) > 1, r.shape[0] * r.shape[1] * r.shape[2]))


def shapes_chart(recording: Any, peer: str = "cuBLAS", span: tuple[int, int] | None = (84, 118)) -> style.Picture:
    """The last kernel's share of its peer's speed by shape: the median of the rounds, and a bar from the lowest round to the highest. span: of the axis, in per
    cent (None: what the rounds need)."""
    records = _as_launched(recording)
    span = span or (int(100 * min(r.ratio_min for r in records)) - 1, int(100 * max(r.ratio_max for r in records)) + 2)
    figure, (axis,) = style.new_figure(1.2 + 0.34 * len(records))
    words = [f"The last kernel over {peer}, by shape, {recording.source}"]
    for row, record in enumerate(records):
        colour = style.BLUE if record.ratio >= 1 else style.VERMILION
        axis.plot([100 * record.ratio_min, 100 * record.ratio_max], [row, row], color=colour, linewidth=3, alpha=0.45, solid_capstyle="butt")
        axis.plot([100 * record.ratio], [row], "o", color=colour, markersize=7)
        axis.text(span[1] + 1, row, f"{100 * record.ratio:.1f} %   {record.tflops:.0f} TFLOP/s", va="center", ha="left", fontsize=9, color=style.INK)
        words.append(f"  {by_x(record.shape)}: {100 * record.ratio:.1f} % ({100 * record.ratio_min:.1f} to {100 * record.ratio_max:.1f}), "
                     f"{record.tflops:.0f} and {record.peer_value:.0f} TFLOP/s")
    axis.axvline(100, color=style.INK, linewidth=1.2, linestyle="--")
    axis.set_yticks(range(len(records)), [by_x(record.shape) for record in records])
    axis.invert_yaxis()
    axis.set_xlim(*span)
    axis.grid(True, axis="x", color=style.EMPTY)
    axis.set_xlabel(f"speed, % of {peer} in the same round (dot: median; bar: lowest to highest round)")
    style.title(axis, "The last kernel by shape")
    figure.supxlabel(recording.source, fontsize=8, color=style.INK, x=0.01, ha="left")
    return style.Picture(figure, "\n".join(words))


def by_x(shape: Any) -> str:
    """A shape as '8192 x 8192 x 8192'."""
    return " x ".join(map(str, shape))
