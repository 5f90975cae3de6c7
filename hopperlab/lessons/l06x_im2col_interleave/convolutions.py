# SPDX-License-Identifier: Apache-2.0
"""Lesson 06x: the matrix of a convolution in NumPy, the walk of an im2col load as a picture, launches with right and wrong corners,
interleaved tensors with their padded tail, and the check of the exercise.
"""
from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.patches import Rectangle

from ...hopper import tile
from ...measure.launches import copies
from ...runtime.tables import text_table
from ...show import style
from ..given import no_whole_numbers

SLICES = {"NC/8HWC8": "16B", "NC/16HWC16": "32B"}


def output_shape(image: Sequence[int], edges: Sequence[int], padding: int, stride: int) -> tuple[int, int]:
    """(rows, columns) of a convolution's output; image: (N, H, W, C). Raises ValueError when the filter does not fit."""
    rows, columns = ((size + 2 * padding - edge) // stride + 1 for size, edge in zip(image[1:3], edges))
    if min(rows, columns) < 1:
        raise ValueError(f"a filter of {edges[0]} x {edges[1]} does not fit into {image[1]} x {image[2]} pixels with padding {padding}")
    return rows, columns


def corners(edges: Sequence[int], padding: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """(lower, upper) corner offsets, in the array's order H, W: where a filter's first element may lie, from the first and the last pixel."""
    return (-padding, -padding), tuple(padding - (edge - 1) for edge in edges)


def convolution_matrix(image: np.ndarray, edges: Sequence[int], padding: int = 0, stride: int = 1) -> np.ndarray:
    """(output pixels, filter elements, channels) of an (N, H, W, C) image: what each output pixel needs, zeros outside the image."""
    padded = np.pad(image, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    rows, columns = output_shape(image.shape, edges, padding, stride)
    taps = [padded[:, y:y + stride * rows:stride, x:x + stride * columns:stride][:, :rows, :columns] for y, x in itertools.product(*map(range, edges))]
    return np.stack([tap.reshape(-1, image.shape[-1]) for tap in taps], axis=1)


def convolve(image: np.ndarray, filters: np.ndarray, padding: int = 0, stride: int = 1) -> np.ndarray:
    """The convolution itself, by its definition, in float64. image: (N, H, W, C); filters: (K, filter H, filter W, C); result (N, rows, columns, K)."""
    rows, columns = output_shape(image.shape, filters.shape[1:3], padding, stride)
    out = np.zeros((image.shape[0], rows, columns, filters.shape[0]))
    for n, y, x, fy, fx in itertools.product(range(image.shape[0]), range(rows), range(columns), *map(range, filters.shape[1:3])):
        h, w = y * stride - padding + fy, x * stride - padding + fx
        if 0 <= h < image.shape[1] and 0 <= w < image.shape[2]:
            out[n, y, x] += filters[:, fy, fx].astype(np.float64) @ image[n, h, w].astype(np.float64)
    return out


def load_matrix(image: Any, edges: Sequence[int], padding: int = 0, stride: int = 1, pixels: int = 128,
                lower: Sequence[int] | None = None, upper: Sequence[int] | None = None, made: Any = None) -> np.ndarray:
    """The same matrix laid out by TMA (copy/im2col_load.cu): in the emulator for a NumPy image, else where the image lies. lower, upper: other
    corners than the right ones, for breaking it; made: another map of the image altogether.

    Raises ValueError when the filter does not fit, TensorMapError for corners that the driver refuses.
    """
    import hopperlab as hl

    rows, columns = output_shape(image.shape, edges, padding, stride)
    channels = min(image.shape[-1], 64)
    place = "emulator" if isinstance(image, np.ndarray) else None
    out = (np if place else hl.array_module()).full((image.shape[0] * rows * columns, math.prod(edges), image.shape[-1]), np.nan, image.dtype)
    launch = copies.im2col_load(image, out, edges, padding, stride, pixels=pixels, channels=channels, backend=place)
    if lower is not None or upper is not None:
        right = corners(edges, padding)
        wrong = hl.TensorMap.im2col(image, lower or right[0], upper or right[1], channels, pixels, element_strides=(1, stride, stride, 1))
        launch = replace(launch, args=(wrong, *launch.args[1:]))
    if made is not None:
        launch = replace(launch, args=(made, *launch.args[1:]))
    launch()
    return hl.asnumpy(out)


def load_sliced(image: Any, edges: Sequence[int], padding: int = 0, stride: int = 1, layout: str = "NC/8HWC8") -> np.ndarray:
    """The same matrix of an image that lies in slices (`interleaved`), its tail included: (output pixels, filter elements, slices * channels of a slice).

    A slice is an NHWC image of 8 or 16 channels, so to the walk N images in S slices are N * S images. Errors as in `load_matrix`.
    """
    planes = _planes(image, layout)
    laid = load_matrix(planes, edges, padding, stride)
    parts = laid.reshape(image.shape[0], len(planes) // image.shape[0], -1, *laid.shape[1:])           # N, slices, outputs, elements, channels
    return np.moveaxis(parts, 1, 3).reshape(-1, laid.shape[1], parts.shape[1] * laid.shape[2])


def _planes(image: Any, layout: str) -> Any:
    """(N * slices, H, W, channels of a slice): every slice as an image."""
    return interleaved(image, layout).reshape(-1, *image.shape[1:3], int(SLICES[layout][:-1]) // image.itemsize)


def image_of(height: int, width: int, channels: int = 8, count: int = 1) -> np.ndarray:
    """(count, height, width, channels) float16 in which every pixel is its own number, from 1, in channel 0, and small integers elsewhere."""
    image = np.random.default_rng(height * width).integers(-3, 4, (count, height, width, channels)).astype(np.float16)
    image[..., 0] = np.arange(1, count * height * width + 1).reshape(count, height, width)
    return image


def walk(image: Any, edges: Sequence[int], padding: int, stride: int, tap: tuple[int, int], lower: Sequence[int] | None = None,
         upper: Sequence[int] | None = None) -> list[tuple[int, int]]:
    """(row, column) of the pixels of image 0 that one long load reads for a filter element, in the order they land. The walk is the emulator's."""
    import hopperlab as hl

    right = corners(edges, padding)
    count = math.prod(output_shape(image.shape, edges, padding, stride))
    fields = hl.TensorMap.im2col(image, lower or right[0], upper or right[1], 8, min(count, 1024), element_strides=(1, stride, stride, 1)).fields
    digits = replace(fields, global_address=0, global_strides=(1 << 4, 1 << 16, 1 << 32))     # an address that spells its coordinates
    first = (0, right[0][1], right[0][0], 0)                     # C, W, H, N: the kernel starts where the right corner is
    rows = tile.im2col_rows(digits, first, (tap[1] + 256, tap[0] + 256)).address // 16         # offsets keep both coordinates positive
    return [(int(at >> 12 & 0xFFF) - 256, int(at & 0xFFF) - 256) for at in rows if at >> 28 == 0]


def walk_picture(image: Any, edges: Sequence[int], padding: int = 0, stride: int = 1, tap: tuple[int, int] = (0, 0), heading: str = "",
                 lower: Sequence[int] | None = None, upper: Sequence[int] | None = None) -> style.Picture:
    """The image with its padding, the bounding box of the filter's first element (dashed), and the pixels one load reads, numbered as they land."""
    height, width = image.shape[1:3]
    right = corners(edges, padding)
    low, high = lower or right[0], upper or right[1]
    visited = walk(image, edges, padding, stride, tap, lower, upper)
    figure, (axis,) = style.new_figure(4.1)
    axis.add_patch(Rectangle((0, 0), width, height, facecolor=style.EMPTY, edgecolor=style.INK, linewidth=1.2))
    for y, x in itertools.product(range(height + 1), range(width + 1)):
        axis.plot([x, x], [0, height], color=style.CARD, linewidth=0.8, zorder=1)
        axis.plot([0, width], [y, y], color=style.CARD, linewidth=0.8, zorder=1)
    names: dict[tuple[int, int], list[str]] = {}
    for place, at in enumerate(visited):
        names.setdefault(at, []).append(str(place))
    for (y, x), places in names.items():
        outside = not (0 <= y < height and 0 <= x < width)
        axis.add_patch(Rectangle((x + 0.08, y + 0.08), 0.84, 0.84, facecolor=style.CARD if outside else style.SKY,
                                 edgecolor=style.VERMILION if outside else style.BLUE, linewidth=1.2, zorder=2))
        axis.text(x + 0.5, y + 0.5, ",".join(places), ha="center", va="center", fontsize=9, color=style.INK, zorder=3)
    top, left, bottom, side = low[0] + tap[0], low[1] + tap[1], height + high[0] + tap[0], width + high[1] + tap[1]
    axis.add_patch(Rectangle((left, top), side - left, bottom - top, facecolor="none", edgecolor=style.VERMILION, linestyle="--", linewidth=2.2, zorder=4))
    ys, xs = [y for y, _ in visited] + [0, height - 1, top], [x for _, x in visited] + [0, width - 1, left]
    axis.set(xlim=(min(xs) - 0.4, max(*xs, side - 1) + 1.4), ylim=(max(*ys, bottom - 1) + 1.4, min(ys) - 0.4), aspect="equal",
             xlabel="W (pixels)\ngrey: image; dashed: bounding box; red border: outside, filled with zeros", ylabel="H (pixels)")
    heading = heading or f"Filter element {tap} of {edges[0]} x {edges[1]}, padding {padding}, stride {stride}"
    style.title(axis, heading)
    outside = sum(not (0 <= y < height and 0 <= x < width) for y, x in visited)
    words = [heading, f"  image {height} x {width}; bounding box of the first element: rows {low[0]} to {height - 1 + high[0]}, columns {low[1]} to "
                      f"{width - 1 + high[1]}",
             f"  {len(visited)} pixels land, {outside} of them outside (zeros); the first are read at {visited[:4]}"]
    return style.Picture(figure, "\n".join(words))


def launch_im2col(edge: int, stride: int, padding: int, channels: int, layout: str, tap: str) -> style.Picture:
    """The panel: lay out the matrix of a convolution of 7 x 9 pixels, compare it with NumPy's, and draw the load of one filter element.

    layout: 'NHWC' or one of SLICES; tap: 'first', 'middle' or 'last'. Raises ValueError when the filter does not fit, TensorMapError for a map the
    driver refuses: NHWC with channels whose bytes are no multiple of 16.
    """
    image, edges = image_of(7, 9, channels), (edge, edge)
    rows, columns = output_shape(image.shape, edges, padding, stride)
    if layout == "NHWC":
        laid, read, words = load_matrix(image, edges, padding, stride), image, f"NHWC, {channels} channels"
    else:
        laid, read = load_sliced(image, edges, padding, stride, layout), _planes(image, layout)
        words = f"{layout}, {_slices(len(read))}, {laid.shape[2] - channels} of {laid.shape[2]} channels tail"
    same = np.array_equal(laid[..., :channels], convolution_matrix(image, edges, padding, stride)) and not laid[..., channels:].any()
    at = {"first": 0, "middle": edge // 2, "last": edge - 1}[tap]
    heading = (f"{edge} x {edge}, stride {stride}, padding {padding}: {rows} x {columns} outputs, "
               f"{'as NumPy says' if same else 'NOT as NumPy says'}\n" + textwrap.fill(f"{words}; read for filter element ({at}, {at})", 52))
    return walk_picture(read, edges, padding, stride, (at, at), heading)


def where_from(laid: np.ndarray, image: np.ndarray, tap: int = 0) -> list[tuple[int, int, int] | None]:
    """For each pixel of `laid` (from `image_of`): the (image, row, column) that channel 0 says it came from; None for zeros."""
    numbers = laid[:, tap, 0].astype(int)
    return [tuple(map(int, np.unravel_index(number - 1, image.shape[:3]))) if number else None for number in numbers]


def interleaved(image: np.ndarray, layout: str) -> np.ndarray:
    """An (N, H, W, C) image of 2-byte elements as (N, slices, H, W, channels of a slice), the last slice filled up with zeros. layout: one of SLICES."""
    channels = int(SLICES[layout][:-1]) // image.itemsize
    slices = -(-image.shape[-1] // channels)
    padded = np.pad(image, ((0, 0), (0, 0), (0, 0), (0, slices * channels - image.shape[-1])))
    return np.ascontiguousarray(np.moveaxis(padded.reshape(*image.shape[:3], slices, channels), 3, 1))


def _slices(count: int) -> str:
    return f"{count} slice" + "s" * (count > 1)


def tail_table(counts: Sequence[int] = (8, 12, 16, 20, 64)) -> str:
    """For each number of channels: slices, bytes of a pixel, and the share of padding, in both layouts."""
    rows = []
    for count in counts:
        cells = []
        for layout in SLICES.values():
            wide = int(layout[:-1]) // 2
            slices = -(-count // wide)
            cells.append(f"{_slices(slices)}, {100 * (1 - count / (slices * wide)):4.1f} % padding")
        rows.append((count, *cells))
    return "\n".join(text_table("{:8d}" + "  {:>30}" * len(SLICES), rows, ("channels", *SLICES)))


def layout_picture(channels: int = 12, pixels: int = 4) -> style.Picture:
    """Where the 2-byte elements of a few pixels lie in memory: NHWC above, NC/8HWC8 below; padding hatched, one colour a pixel."""
    figure, (axis,) = style.new_figure(2.9)
    slices = -(-channels // 8)
    for pixel, channel in itertools.product(range(pixels), range(channels)):
        axis.add_patch(Rectangle((pixel * channels + channel, 0), 1, 0.8, facecolor=style.PALETTE[(4, 1, 2, 5)[pixel % 4]], edgecolor=style.CARD, linewidth=0.6))
    for one, pixel, channel in itertools.product(range(slices), range(pixels), range(8)):
        real = one * 8 + channel < channels
        axis.add_patch(Rectangle((one * pixels * 8 + pixel * 8 + channel, 1.3), 1, 0.8, edgecolor=style.CARD if real else style.FAINT, linewidth=0.6,
                                 facecolor=style.PALETTE[(4, 1, 2, 5)[pixel % 4]] if real else style.CARD, hatch=None if real else "////"))
    for pixel in range(pixels):
        axis.text((pixel + 0.5) * channels, 0.4, f"pixel {pixel}", ha="center", va="center", fontsize=9, color=style.INK)
        for one in range(slices):
            axis.text(one * pixels * 8 + pixel * 8 + min(8, channels - one * 8) / 2, 1.7, f"{pixel}", ha="center", va="center", fontsize=9, color=style.INK)
    for one in range(slices):
        axis.text(one * pixels * 8 + 0.1, 2.42, f"slice {one}: channels {one * 8} to {min(channels, one * 8 + 8) - 1}", va="center", fontsize=9, color=style.INK)
    axis.set(xlim=(-0.2, slices * pixels * 8 + 0.2), ylim=(2.75, -0.2), yticks=[0.4, 1.7], yticklabels=["NHWC", "NC/8HWC8"],
             xlabel="element in memory (2 bytes each); hatched: the padded tail")
    style.title(axis, f"{pixels} pixels of {channels} channels")
    words = [f"{pixels} pixels of {channels} channels", f"  NHWC: {channels} elements per pixel, one pixel after the other",
             f"  NC/8HWC8: {slices} slices of {pixels} pixels x 8 channels; {slices * 8 - channels} of each pixel's {slices * 8} are padding"]
    return style.Picture(figure, "\n".join(words))


def check_corners(lower: Sequence[int] | None, upper: Sequence[int] | None) -> str:
    """Lesson 06x's exercise: corners (H, W) of a 5 x 3 filter with padding 1 on two images of 8 x 9."""
    import hopperlab as hl

    if lower is None or upper is None:
        return "Not answered yet: write both corners, then run the cell again."
    if wrong_form := no_whole_numbers(lower, 2) or no_whole_numbers(upper, 2):
        return f"Not yet: {wrong_form}."
    image, edges = image_of(8, 9, count=2), (5, 3)
    try:
        laid = load_matrix(image, edges, 1, 1, lower=tuple(lower), upper=tuple(upper))
    except hl.TensorMapError as error:
        return str(error).split("\n")[0]
    expected = convolution_matrix(image, edges, 1)
    wrong = np.flatnonzero((laid != expected).any(axis=(1, 2)))
    if wrong.size:
        found, meant = (where_from(values, image, 4)[wrong[0]] for values in (laid, expected))
        return (f"Not yet: {wrong.size} of {len(laid)} output pixels are wrong; the first is {wrong[0]}, which reads {found or 'zeros, outside of the image,'} "
                f"where {meant or 'zeros, outside of the image'} is meant (image, row, column).")
    return "Right: the walk covers exactly the places where the filter may lie, in both axes."


def corners_table(recording: Any) -> str:
    """From the recording `engine`: convolutions on the GPU with their corners and with the two exchanged, and whether the emulator lays out the same."""
    rows = []
    for record in recording.where(suite="corners"):
        edges, padding, stride, kind = (option.split("=")[1] for option in record.options)
        came = {"right": f"right, {record.note.rpartition(', ')[2]}", "wrong": record.note, "refused": "refused by the driver's rules"}
        rows.append((edges, padding, stride, kind, came.get(record.outcome, record.outcome)))
    return "\n".join([recording.source, *text_table("  {:6}  {:>7}  {:>6}  {:9}  {}", rows, ("filter", "padding", "stride", "corners", "on the GPU"))])


def layouts_table(recording: Any) -> str:
    """From the recording `micro`: the im2col and interleaved copies that were run on the GPU, and how they came out."""
    chosen = [r for r in recording.where(suite="layouts") if r.kernel == "im2col_load" or r.options[0].startswith("interleave=")]
    return "\n".join([recording.source, *text_table("  {:12} {:32} {}", [(r.kernel, ", ".join(r.options), r.outcome) for r in chosen])])
