# SPDX-License-Identifier: Apache-2.0
"""Every documented rule of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col, one small function a rule.

A rule yields a sentence for each breach, with the numbers and what is allowed. The driver itself returns
CUDA_ERROR_INVALID_VALUE for all of them alike. Add a rule by adding a function to RULES. Rules that the documents leave out
were found by asking driver 580 on an H200 (80,000 random maps): _inner for im2col and interleaved maps,
the range of element_strides[0], _tile_size, _corner_limit. It does not enforce _swizzle_interleave, which the documents demand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import NamedTuple

from hopperlab.hopper import swizzle as _swizzle
from hopperlab.hopper.tensormap_fields import (
    DTYPES, INTERLEAVES, L2_PROMOTIONS, MAX_RANK, OOB_FILLS, TensorMapFields,
)

Breaches = Iterator[str]

CORNER_RANGE = {3: (-(1 << 15), (1 << 15) - 1), 4: (-128, 127), 5: (-16, 15)}
"""Range of each im2col corner entry by rank: the same 16 bits are shared by one, two or three entries."""

MAX_TILE_BYTES = 228 * 1024
"""Most bytes one box may hold: the shared memory of a multiprocessor, although a block gets 227 KiB at most."""


class Rule(NamedTuple):
    """A rule: its name, the driver's parameter it speaks of, what mode it holds in ("tiled", "im2col", "both")."""

    name: str
    parameter: str
    mode: str
    breaches: Callable[[TensorMapFields], Breaches]


def _dtype(f: TensorMapFields) -> Breaches:
    if f.dtype not in DTYPES:
        yield f"dtype {f.dtype!r} has no tensor-map code on sm_90: choose one of {', '.join(DTYPES)}"


def _names(f: TensorMapFields) -> Breaches:
    if f.interleave not in INTERLEAVES:
        yield f"interleave {f.interleave!r} is not one of {', '.join(INTERLEAVES)}"
    if f.swizzle not in _swizzle.SWIZZLES:
        yield f"swizzle {f.swizzle!r} is not one of {', '.join(_swizzle.SWIZZLES)} (the ATOM variants need sm_100)"
    if f.l2_promotion not in L2_PROMOTIONS:
        yield f"l2_promotion {f.l2_promotion!r} is not one of {', '.join(L2_PROMOTIONS)}"
    if f.oob_fill not in OOB_FILLS:
        yield f"oob_fill {f.oob_fill!r} is not one of {', '.join(OOB_FILLS)}"


def _rank(f: TensorMapFields) -> Breaches:
    if not 1 <= f.rank <= MAX_RANK:
        yield f"rank = {f.rank}: a tensor map has 1 to {MAX_RANK} dimensions"
    elif f.mode == "im2col" and f.rank < 3:
        yield f"rank = {f.rank}: im2col needs 3, 4 or 5 dimensions (channels, one to three spatial ones, batch)"


def _rank_interleave(f: TensorMapFields) -> Breaches:
    if f.interleave != "none" and f.rank < 3:
        yield f"rank = {f.rank} with interleave {f.interleave}: an interleaved layout has 3 to 5 dimensions"


def _lengths(f: TensorMapFields) -> Breaches:
    wanted = {"global_dim": f.rank, "global_strides": f.rank - 1, "element_strides": f.rank}
    if f.mode == "tiled":
        wanted["box_dim"] = f.rank
    else:
        wanted |= {"pixel_box_lower_corner": f.rank - 2, "pixel_box_upper_corner": f.rank - 2}
    for name, count in wanted.items():
        values = getattr(f, name)
        if len(values) != count:
            yield f"{name} has {len(values)} entries {_braces(values)}: rank {f.rank} asks for {count}"


def _address(f: TensorMapFields) -> Breaches:
    if not 0 <= f.global_address < 1 << 64:
        yield f"global_address = {f.global_address}: not a 64-bit address"
    elif f.global_address % 16:
        yield _misaligned_address(f, 16, "it must be 16-byte aligned")


def _address_interleave(f: TensorMapFields) -> Breaches:
    if f.interleave == "32B" and f.global_address % 32:
        yield _misaligned_address(f, 32, "interleave 32B asks for 32-byte alignment")


def _misaligned_address(f: TensorMapFields, align: int, why: str) -> str:
    over = f.global_address % align
    return (
        f"global_address = {f.global_address:#x} is {over} bytes past a multiple of {align}: {why}; "
        "start the view elsewhere or copy it"
    )


def _global_dim(f: TensorMapFields) -> Breaches:
    for i, size in enumerate(f.global_dim):
        if not 1 <= size <= 1 << 32:
            yield f"global_dim[{i}] = {size}: a tensor dimension is 1 to 2^32 elements"


def _strides(f: TensorMapFields) -> Breaches:
    for i, stride in enumerate(f.global_strides):
        if stride % 16:
            padded = -(-stride // 16) * 16
            yield f"global_strides[{i}] = {stride} bytes: a stride is a multiple of 16 bytes; pad the rows to {padded}"


def _strides_range(f: TensorMapFields) -> Breaches:
    for i, stride in enumerate(f.global_strides):
        if not 0 <= stride < 1 << 40:
            yield f"global_strides[{i}] = {stride} bytes: a stride is less than 2^40 bytes and not negative"


def _strides_interleave(f: TensorMapFields) -> Breaches:
    for i, stride in enumerate(f.global_strides):
        if f.interleave == "32B" and stride % 32:
            yield f"global_strides[{i}] = {stride} bytes: with interleave 32B a stride is a multiple of 32 bytes"


def _box(f: TensorMapFields) -> Breaches:
    for i, edge in enumerate(f.box_dim):
        if not 1 <= edge <= 256:
            yield f"box_dim[{i}] = {edge}: a box edge is 1 to 256 elements"


def _inner(f: TensorMapFields) -> Breaches:
    if f.inner_bytes % 16:
        yield f"{_inner_text(f)}: the inner box edge is a multiple of 16 bytes ({16 // f.elem_bytes} elements here)"


def _inner_text(f: TensorMapFields) -> str:
    name = "box_dim[0]" if f.mode == "tiled" else "channels_per_pixel"
    return f"{name} = {f.inner_elements} elements x {f.elem_bytes} bytes = {f.inner_bytes} bytes"


def _element_strides(f: TensorMapFields) -> Breaches:
    for i, step in enumerate(f.element_strides):
        if not 1 <= step <= 8:
            ignored = i == 0 and f.interleave == "none"
            note = " (its value is ignored without interleave, but its range is not)" if ignored else ""
            yield f"element_strides[{i}] = {step}: a step is 1 to 8 elements{note}"


def _tile_size(f: TensorMapFields) -> Breaches:
    counts: tuple[int, ...] = (f.channels_per_pixel or 0, f.pixels_per_column or 0)
    if f.mode == "tiled":
        counts = tuple(edge // max(1, step) for edge, step in zip(f.box_dim, f.element_strides))
    size = prod(counts) * f.elem_bytes
    if size > MAX_TILE_BYTES:
        box = " x ".join(map(str, counts))
        yield f"the box holds {box} elements x {f.elem_bytes} bytes = {size} bytes: at most {MAX_TILE_BYTES} fit"


def _swizzle_inner(f: TensorMapFields) -> Breaches:
    if f.interleave != "none" or f.swizzle == "none":
        return
    span = _swizzle.span_bytes(f.swizzle)
    if f.inner_bytes > span:
        yield (
            f"{_inner_text(f)}: swizzle {f.swizzle} holds inner boxes of at most {span} bytes "
            f"({span // f.elem_bytes} elements here)"
        )


def _swizzle_interleave(f: TensorMapFields) -> Breaches:
    if f.interleave == "32B" and f.swizzle != "32B":
        yield f"interleave 32B with swizzle {f.swizzle}: interleave 32B goes only with swizzle 32B"


def _fill(f: TensorMapFields) -> Breaches:
    if f.oob_fill == "nan" and not DTYPES[f.dtype].is_float:
        yield f"oob_fill nan with dtype {f.dtype}: NaN fill needs a floating-point type; use zero"


def _corners(f: TensorMapFields) -> Breaches:
    low, high = CORNER_RANGE[f.rank]
    for name in ("pixel_box_lower_corner", "pixel_box_upper_corner"):
        for i, value in enumerate(getattr(f, name)):
            if not low <= value <= high:
                yield f"{name}[{i}] = {value}: with rank {f.rank} a corner offset is {low} to {high}"


def _pixel_box(f: TensorMapFields) -> Iterator[tuple[int, int, int, int]]:
    """(dimension, size, lower corner, upper corner) of each spatial dimension; interleaved maps count them from 0."""
    first = 1 if f.interleave == "none" else 0
    for i, (low, high) in enumerate(zip(f.pixel_box_lower_corner, f.pixel_box_upper_corner)):
        yield first + i, f.global_dim[first + i], low, high


def _corner_area(f: TensorMapFields) -> Breaches:
    for dim, size, low, high in _pixel_box(f):
        if size - low + high < 1:
            yield (
                f"the pixel box has {size - low + high} pixels along dimension {dim} "
                f"(size {size} - lower corner {low} + upper corner {high}): its area must not be zero"
            )


def _corner_limit(f: TensorMapFields) -> Breaches:
    for dim, size, low, high in _pixel_box(f):
        end = (size + high + (1 << 31)) % (1 << 32) - (1 << 31)  # the driver counts in 32 signed bits
        if size - low + high >= 1 and end <= low:
            yield f"global_dim[{dim}] = {size} with upper corner {high}: a spatial size plus its upper corner stays below 2^31"


def _channels(f: TensorMapFields) -> Breaches:
    if not 1 <= (f.channels_per_pixel or 0) <= 256:
        yield f"channels_per_pixel = {f.channels_per_pixel}: one pixel gives 1 to 256 channels"


def _pixels(f: TensorMapFields) -> Breaches:
    if not 1 <= (f.pixels_per_column or 0) <= 1024:
        yield f"pixels_per_column = {f.pixels_per_column}: a column has 1 to 1024 pixels"


def _braces(values: tuple[int, ...]) -> str:
    return "{" + ", ".join(str(v) for v in values) + "}"


SHAPE_RULES: tuple[Rule, ...] = (
    Rule("dtype", "tensorDataType", "both", _dtype),
    Rule("names", "interleave, swizzle, l2Promotion, oobFill", "both", _names),
    Rule("rank", "tensorRank", "both", _rank),
    Rule("rank_interleave", "tensorRank", "both", _rank_interleave),
    Rule("lengths", "array lengths", "both", _lengths),
)
"""Rules that come first: where one of these is broken the others have nothing to count on."""

RULES: tuple[Rule, ...] = SHAPE_RULES + (
    Rule("global_address", "globalAddress", "both", _address),
    Rule("global_address_interleave", "globalAddress", "both", _address_interleave),
    Rule("global_dim", "globalDim", "both", _global_dim),
    Rule("global_strides", "globalStrides", "both", _strides),
    Rule("global_strides_range", "globalStrides", "both", _strides_range),
    Rule("global_strides_interleave", "globalStrides", "both", _strides_interleave),
    Rule("box_dim", "boxDim", "tiled", _box),
    Rule("box_inner", "boxDim", "tiled", _inner),
    Rule("corners", "pixelBoxLowerCorner, pixelBoxUpperCorner", "im2col", _corners),
    Rule("corner_area", "pixelBoxLowerCorner, pixelBoxUpperCorner", "im2col", _corner_area),
    Rule("corner_limit", "globalDim", "im2col", _corner_limit),
    Rule("channels_per_pixel", "channelsPerPixel", "im2col", _channels),
    Rule("channels_inner", "channelsPerPixel", "im2col", _inner),
    Rule("pixels_per_column", "pixelsPerColumn", "im2col", _pixels),
    Rule("element_strides", "elementStrides", "both", _element_strides),
    Rule("tile_size", "boxDim", "tiled", _tile_size),
    Rule("tile_size", "channelsPerPixel, pixelsPerColumn", "im2col", _tile_size),
    Rule("swizzle_inner", "swizzle", "both", _swizzle_inner),
    Rule("swizzle_interleave", "swizzle", "both", _swizzle_interleave),
    Rule("oob_fill", "oobFill", "both", _fill),
)
"""Every rule, in the order in which `tensormap.check` reports them."""


def violations(fields: TensorMapFields) -> list[tuple[str, str]]:
    """Every broken rule as (rule name, sentence); empty for a map the driver would encode.

    Rules about names, rank and array lengths come first and hide the rest while one of them is broken.
    Source: CUDA driver API, cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col.
    """
    call = "cuTensorMapEncodeTiled" if fields.mode == "tiled" else "cuTensorMapEncodeIm2col"
    found: list[tuple[str, str]] = []
    for rule in RULES:
        if rule.mode in ("both", fields.mode):
            found += [(rule.name, f"{text} ({call}, {rule.parameter})") for text in rule.breaches(fields)]
        if rule is SHAPE_RULES[-1] and found:
            break
    return found
