# SPDX-License-Identifier: Apache-2.0
"""The fields of a tensor map and the tables of names and codes they are written with.

`tensormap` is the module to import; this one holds the data that its rules, image and geometry share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields as _dataclass_fields
from typing import NamedTuple

from hopperlab.hopper.swizzle import SWIZZLES

__all__ = [
    "ALIASES", "DTYPES", "INTERLEAVES", "L2_PROMOTIONS", "MAX_RANK", "OOB_FILLS", "SWIZZLES", "ElementType", "TensorMapError",
    "TensorMapFields", "dtype_name",
]


class TensorMapError(ValueError):
    """A tensor map that breaks a documented rule, or bytes that are no tensor map.

    `rule` is the rule's short name (such as "box_dim"), "" where no rule of the encode calls is meant.
    """

    def __init__(self, message: str, rule: str = "") -> None:
        super().__init__(message)
        self.rule = rule


class ElementType(NamedTuple):
    """One tensor-map element type: its CUtensorMapDataType code, its tensormap.replace code, bytes, and float or not."""

    code: int
    replace_code: int
    elem_bytes: int
    is_float: bool


DTYPES: dict[str, ElementType] = {
    "uint8": ElementType(0, 0, 1, False),
    "uint16": ElementType(1, 1, 2, False),
    "uint32": ElementType(2, 2, 4, False),
    "int32": ElementType(3, 3, 4, False),
    "uint64": ElementType(4, 4, 8, False),
    "int64": ElementType(5, 5, 8, False),
    "float16": ElementType(6, 6, 2, True),
    "float32": ElementType(7, 7, 4, True),
    "float64": ElementType(8, 9, 8, True),
    "bfloat16": ElementType(9, 10, 2, True),
    "float32_ftz": ElementType(10, 8, 4, True),
    "tfloat32": ElementType(11, 11, 4, True),
    "tfloat32_ftz": ElementType(12, 12, 4, True),
}
"""Element types by name (CUDA driver API, CUtensorMapDataType; PTX ISA 9.7.9.26 tensormap.replace, elemtype)."""

ALIASES = {
    "int8": "uint8", "bool": "uint8", "int16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8",
    "float8_e4m3": "uint8", "e4m3": "uint8", "e5m2": "uint8",
}
"""Types a tensor map has no code for and moves as plain bytes: TMA copies them bit by bit, zero fill is zero in all."""

INTERLEAVES = ("none", "16B", "32B")
L2_PROMOTIONS = ("none", "64B", "128B", "256B")
OOB_FILLS = ("zero", "nan")
"""Names in the order of their codes, from 0 (CUDA driver API: CUtensorMapInterleave, L2promotion, FloatOOBfill).

The codes of CUtensorMapSwizzle are the places in SWIZZLES."""

MAX_RANK = 5


def dtype_name(name: str) -> str:
    """The tensor-map type that carries elements of `name` ("float8_e4m3fn" -> "uint8"); unknown names come back as given."""
    return ALIASES.get(str(name), str(name))


@dataclass(frozen=True, slots=True)
class TensorMapFields:
    """Everything cuTensorMapEncodeTiled or cuTensorMapEncodeIm2col is told, in the driver's order.

    Arrays are innermost dimension first, and become tuples of int. global_dim, box_dim and element_strides count
    elements (rank entries); global_strides counts bytes (rank - 1 entries, for dimensions 1 and up); element_strides
    may be left empty for all ones. A map is in im2col mode when `pixels_per_column` is given: then box_dim is empty, the
    two corners have rank - 2 entries in the order of the inner dimensions (W, H, D), and `channels_per_pixel` says how
    many elements of dimension 0 are read. Nothing is checked here: `tensormap.check` does that.
    Source: CUDA driver API, Tensor Map Object Management.
    """

    dtype: str
    rank: int
    global_address: int
    global_dim: Sequence[int]
    global_strides: Sequence[int]
    box_dim: Sequence[int] = ()
    element_strides: Sequence[int] = ()
    interleave: str = "none"
    swizzle: str = "none"
    l2_promotion: str = "none"
    oob_fill: str = "zero"
    pixel_box_lower_corner: Sequence[int] = ()
    pixel_box_upper_corner: Sequence[int] = ()
    channels_per_pixel: int | None = None
    pixels_per_column: int | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "dtype", dtype_name(self.dtype))
        put(self, "rank", int(self.rank))
        put(self, "global_address", int(self.global_address))
        if not len(self.element_strides):
            put(self, "element_strides", (1,) * max(0, self.rank))
        for field in _dataclass_fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, (str, int, type(None))):
                put(self, field.name, tuple(int(v) for v in value))

    @property
    def mode(self) -> str:
        """"tiled" or "im2col"."""
        return "tiled" if self.pixels_per_column is None else "im2col"

    @property
    def elem_bytes(self) -> int:
        """Bytes of one element; raises TensorMapError for an unknown dtype."""
        if self.dtype not in DTYPES:
            raise TensorMapError(f"dtype {self.dtype!r} has no tensor-map code: choose one of {', '.join(DTYPES)}", "dtype")
        return DTYPES[self.dtype].elem_bytes

    @property
    def inner_elements(self) -> int:
        """Elements of the innermost dimension in one row of the box: box_dim[0], or channels_per_pixel in im2col mode."""
        return int(self.box_dim[0] if self.mode == "tiled" else self.channels_per_pixel or 0)

    @property
    def inner_bytes(self) -> int:
        """Bytes of one row of the box, without the gap that a narrow swizzled row leaves behind it."""
        return self.inner_elements * self.elem_bytes
