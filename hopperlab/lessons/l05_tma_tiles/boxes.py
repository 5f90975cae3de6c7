# SPDX-License-Identifier: Apache-2.0
"""What a TMA load brings where: the tensor with the box laid over it, and the box as shared memory holds it afterwards.

The box may hang over any edge; what lies outside the tensor is filled. Drawn for the two innermost dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from ...show import style

MAX_LABELS = 160      # above this many cells, values are drawn as colour only


def reference_box(tensor: np.ndarray, start: Sequence[int], box: Sequence[int], fill: float = 0.0,
                  element_strides: Sequence[int] | None = None) -> np.ndarray:
    """The box a TMA load delivers, in NumPy: shape ceil(box / stride) (the innermost stride is ignored), `fill` where a coordinate leaves the tensor.

    tensor: any rank; start, box, element_strides: one entry a dimension, in the tensor's (array) order; start may be negative.
    Source: CUDA driver API, cuTensorMapEncodeTiled; PTX ISA 9.7.9.25, tiled mode.
    """
    steps = _steps(tensor.ndim, element_strides)
    shape = tuple(-(-b // s) for b, s in zip(box, steps))
    out = np.full(shape, fill, dtype=tensor.dtype)
    for index in np.ndindex(*shape):
        where = tuple(c + i * s for c, i, s in zip(start, index, steps))
        if all(0 <= w < extent for w, extent in zip(where, tensor.shape)):
            out[index] = tensor[where]
    return out


def _steps(rank: int, element_strides: Sequence[int] | None) -> tuple[int, ...]:
    """The traversal strides that act, in array order: that of the innermost dimension is ignored (no interleave)."""
    return (*(element_strides or (1,) * rank)[:-1], 1)


def inside(shape: Sequence[int], start: Sequence[int], box: Sequence[int], element_strides: Sequence[int] | None = None) -> int:
    """How many elements of the box lie inside a tensor of this shape."""
    steps = _steps(len(shape), element_strides)
    count = 1
    for extent, first, width, step in zip(shape, start, box, steps):
        count *= sum(0 <= first + i * step < extent for i in range(-(-width // step)))
    return count


def box_explorer(tensor: np.ndarray, start: Sequence[int], box: Sequence[int], landed: np.ndarray,
                 heading: str = "What lands where", element_strides: Sequence[int] | None = None) -> style.Picture:
    """Left: the tensor (its last two dimensions, at the slice the box starts in) with the box outlined. Right: `landed`, the shared-memory bytes as
    the kernel read them back.

    tensor: rank 1 to 5; start, box: array order; landed: array of the box's shape. Filled elements stand on the bare card, in red.
    """
    plane = _plane(tensor, start)
    view = np.asarray(landed, dtype=np.float64).reshape(-1, landed.shape[-1])
    figure, (left, right) = style.new_figure(3.9, columns=2, ratios=(1.25, 1))
    first = (start[-2] if len(start) > 1 else 0, start[-1])
    extent = (box[-2] if len(box) > 1 else 1, box[-1])
    _draw_tensor(left, plane, first, extent)
    rows, columns = plane.shape
    left.set_xlim(min(0, first[1]) - 0.6, max(columns, first[1] + extent[1]) + 0.6)
    left.set_ylim(max(rows, first[0] + extent[0]) + 0.6, min(0, first[0]) - 0.6)
    left.set(xlabel="innermost coordinate (elements)", ylabel="next coordinate (elements)")
    style.title(left, "global memory")
    known = _is_inside(tensor.shape, start, landed.shape, element_strides).reshape(view.shape)
    _draw_landed(right, view, known)
    right.set(xlabel="element in the row", ylabel="row of the box, slice by slice" if landed.ndim > 2 else "row of the box")
    style.title(right, "shared memory")
    figure.suptitle(heading, fontsize=11, color=style.INK)
    return style.Picture(figure, box_words(tensor, start, box, landed, heading, element_strides))


def _plane(tensor: np.ndarray, start: Sequence[int]) -> np.ndarray:
    if tensor.ndim == 1:
        return np.asarray(tensor, dtype=np.float64)[None, :]
    outer = tuple(min(max(c, 0), n - 1) for c, n in zip(start[:-2], tensor.shape[:-2]))
    return np.asarray(tensor[outer], dtype=np.float64)


def _is_inside(shape: Sequence[int], start: Sequence[int], landed: Sequence[int], steps: Sequence[int] | None) -> np.ndarray:
    steps = _steps(len(shape), steps)
    grids = np.meshgrid(*[c + np.arange(n) * s for c, n, s in zip(start, landed, steps)], indexing="ij")
    result = np.ones(tuple(landed), dtype=bool)
    for grid, extent in zip(grids, shape):
        result &= (grid >= 0) & (grid < extent)
    return result


def _draw_tensor(axis: Axes, plane: np.ndarray, first: tuple[int, int], extent: tuple[int, int]) -> None:
    rows, columns = plane.shape
    axis.add_patch(Rectangle((0, 0), columns, rows, facecolor=style.EMPTY, edgecolor=style.INK, linewidth=1))
    top, left = max(0, first[0]), max(0, first[1])
    bottom, right = min(rows, first[0] + extent[0]), min(columns, first[1] + extent[1])
    axis.add_patch(Rectangle((first[1], first[0]), extent[1], extent[0], facecolor="none", edgecolor=style.VERMILION, hatch="//", linewidth=2, alpha=0.5))
    if bottom > top and right > left:
        axis.add_patch(Rectangle((left, top), right - left, bottom - top, facecolor=style.SKY, edgecolor="none"))
    axis.add_patch(Rectangle((first[1], first[0]), extent[1], extent[0], facecolor="none", edgecolor=style.VERMILION, linewidth=2.5))
    if plane.size <= MAX_LABELS:
        for (row, column), value in np.ndenumerate(plane):
            axis.text(column + 0.5, row + 0.5, f"{value:g}", ha="center", va="center", fontsize=8, color=style.INK)


def _draw_landed(axis: Axes, view: np.ndarray, known: np.ndarray) -> None:
    rows, columns = view.shape
    for (row, column), value in np.ndenumerate(view):
        colour, edge = (style.SKY, style.CARD) if known[row, column] else (style.CARD, style.VERMILION)
        axis.add_patch(Rectangle((column, row), 1, 1, facecolor=colour, edgecolor=edge, linewidth=0.8))
        if view.size <= MAX_LABELS:
            axis.text(column + 0.5, row + 0.5, f"{value:g}", ha="center", va="center", fontsize=8,
                      color=style.INK if known[row, column] else style.VERMILION)
    axis.set(xlim=(0, columns), ylim=(rows, 0))
    axis.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axis.yaxis.set_major_locator(MaxNLocator(8, integer=True))


def box_words(tensor: np.ndarray, start: Sequence[int], box: Sequence[int], landed: np.ndarray, heading: str = "What lands where",
              element_strides: Sequence[int] | None = None) -> str:
    """The same in words: counts, bytes, and for small boxes the values in the order shared memory holds them."""
    count = inside(tensor.shape, start, box, element_strides)
    lines = [heading, f"  tensor {tensor.shape} of {tensor.dtype}, box {tuple(box)} at {tuple(start)}",
             f"  {count} of {landed.size} elements come from the tensor, {landed.size - count} are filled; "
             f"the barrier counts {landed.size * landed.dtype.itemsize} bytes"]
    if landed.size <= MAX_LABELS:
        for row in np.asarray(landed, dtype=np.float64).reshape(-1, landed.shape[-1]):
            lines.append("  " + " ".join(f"{value:4g}" for value in row))
    return "\n".join(lines)
