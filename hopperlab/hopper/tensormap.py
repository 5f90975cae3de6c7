# SPDX-License-Identifier: Apache-2.0
"""Tensor maps: the fields TMA is told, the rules they must keep, the bytes they become, and how to print them.

The face of `tensormap_fields` (data), `tensormap_rules` (every rule), `tensormap_image` (128 bytes) and `tile` (geometry).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from hopperlab.hopper import tile as _tile
from hopperlab.hopper.tensormap_fields import (
    ALIASES, DTYPES, INTERLEAVES, L2_PROMOTIONS, MAX_RANK, OOB_FILLS, SWIZZLES, ElementType, TensorMapError,
    TensorMapFields, dtype_name,
)
from hopperlab.hopper.tensormap_image import IMAGE_BYTES, MAGIC, REPLACE_BITS, pack, replace, unpack
from hopperlab.hopper.tensormap_rules import RULES, violations
from hopperlab.hopper.tile import (
    GlobalRows, box_counts, element_address, global_rows, granule_addresses, im2col_rows, row_count, row_pitch, smem_bytes,
    store_rows, tile_bytes, tile_offsets,
)

__all__ = [
    "ALIASES", "DTYPES", "IMAGE_BYTES", "INTERLEAVES", "L2_PROMOTIONS", "MAGIC", "MAX_RANK", "OOB_FILLS", "REPLACE_BITS",
    "RULES", "SWIZZLES", "ElementType", "GlobalRows", "TensorMapError", "TensorMapFields", "box_counts", "check",
    "describe", "dtype_name", "element_address", "global_rows", "granule_addresses", "im2col_rows", "load", "pack", "replace",
    "row_count", "row_pitch", "smem_bytes", "store_rows", "tile_bytes", "tile_offsets", "unpack", "violations",
]


def check(fields: TensorMapFields) -> None:
    """Raise TensorMapError for the first documented rule that `fields` breaks; its `rule` attribute names it.

    The message gives the numbers, what is allowed and the driver's parameter; `violations` lists every broken rule.
    Source: CUDA driver API, cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col.
    """
    broken = violations(fields)
    if broken:
        rule, text = broken[0]
        raise TensorMapError(text, rule)


@lru_cache(maxsize=512)
def load(image: bytes) -> TensorMapFields:
    """The fields of a 128-byte image that TMA is about to use: unpacked and checked, remembered by content.

    Raises TensorMapError as `unpack` and `check` do; a map edited by tensormap.replace may break a rule.
    """
    fields = unpack(image)
    check(fields)
    return fields


def _list(values: Sequence[int]) -> str:
    return "{" + ", ".join(str(v) for v in values) + "}" if values else "{}"


def describe(fields: TensorMapFields, address: bool = True) -> str:
    """Every field by the driver's parameter name, in its order and units, one per line, aligned.

    Arrays are innermost dimension first. address=False leaves the global address out, for output that must be the
    same on every machine. Two closing lines say how the box lies in shared memory; a map that breaks a rule says so instead.
    """
    kind = DTYPES.get(fields.dtype)
    rows = [
        ("tensorDataType", fields.dtype, f"code {kind.code}, {kind.elem_bytes} bytes per element" if kind else "no such type"),
        ("tensorRank", str(fields.rank), "dimensions, innermost first below"),
        ("globalAddress", hex(fields.global_address), "bytes"),
        ("globalDim", _list(fields.global_dim), "elements"),
        ("globalStrides", _list(fields.global_strides), "bytes, of dimension 1 and up"),
    ]
    if fields.mode == "tiled":
        rows.append(("boxDim", _list(fields.box_dim), "elements"))
    else:
        rows += [
            ("pixelBoxLowerCorner", _list(fields.pixel_box_lower_corner), "pixels"),
            ("pixelBoxUpperCorner", _list(fields.pixel_box_upper_corner), "pixels"),
            ("channelsPerPixel", str(fields.channels_per_pixel), "elements"),
            ("pixelsPerColumn", str(fields.pixels_per_column), "pixels"),
        ]
    rows += [
        ("elementStrides", _list(fields.element_strides), "elements"),
        ("interleave", fields.interleave, ""), ("swizzle", fields.swizzle, ""),
        ("l2Promotion", fields.l2_promotion, ""), ("oobFill", fields.oob_fill, ""),
    ]
    if not address:
        rows = [row for row in rows if row[0] != "globalAddress"]
    return "\n".join([f"tensor map, {fields.mode}", *_aligned(rows), *_closing(fields)])


def _aligned(rows: list[tuple[str, str, str]]) -> list[str]:
    name_width = max(len(name) for name, _, _ in rows)
    value_width = max(len(value) for _, value, _ in rows)
    return [f"  {name:<{name_width}}  {value:<{value_width}}  {unit}".rstrip() for name, value, unit in rows]


def _closing(fields: TensorMapFields) -> list[str]:
    broken = violations(fields)
    if broken:
        return [f"  broken: {text}" for _, text in broken]
    if fields.interleave != "none":
        return []
    pitch, count = _tile.row_pitch(fields), _tile.row_count(fields)
    gap = f", {fields.inner_bytes} of them filled" if pitch > fields.inner_bytes else ""
    return [
        f"  in shared memory: {count} rows, {pitch} bytes apart{gap} = {_tile.smem_bytes(fields)} bytes",
        f"  counted by the mbarrier: {_tile.tile_bytes(fields)} bytes a copy",
    ]
