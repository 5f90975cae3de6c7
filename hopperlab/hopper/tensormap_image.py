# SPDX-License-Identifier: Apache-2.0
"""The 128 bytes that stand for a tensor map where there is no driver: pack, unpack and replace one field.

The driver's encoding is opaque, so this one is ours: a magic number, every field, and a checksum, so that a garbage or
half-copied descriptor is recognised as such. Only this file knows the layout.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace as _with
from functools import lru_cache

from hopperlab.hopper.tensormap_fields import (
    DTYPES, INTERLEAVES, L2_PROMOTIONS, MAX_RANK, OOB_FILLS, SWIZZLES, TensorMapError, TensorMapFields,
)

IMAGE_BYTES = 128
"""Size of a CUtensorMap (16 qwords, cuda.h)."""

MAGIC = 0x4D544C48
"""The first word of every image: the letters HLTM."""

BUILT = 0x42544C48
"""The first word of a map that began as 128 zero bytes and is made by tensormap.replace, as Triton's are: the letters HLTB. In place of the
corners, which a tiled map does not have, such an image says which fields have been set."""

_NAMES = tuple(DTYPES)
_MODES = ("tiled", "im2col")
# magic, checksum | mode dtype rank interleave swizzle l2 fill pad | address | 4 strides | 5 dims - 1 | 5 box | 5 steps | corners
_LAYOUT = struct.Struct("<II8BQ4Q5I5I5I3h3h")
assert _LAYOUT.size == IMAGE_BYTES

_REPLACE_DTYPE = {kind.replace_code: name for name, kind in DTYPES.items()}
_U32, _U64 = (1 << 32) - 1, (1 << 64) - 1

REPLACE_BITS = {
    "global_address": 64, "rank": 32, "box_dim": 32, "global_dim": 32, "global_stride": 64, "element_stride": 32,
    "elemtype": 32, "interleave_layout": 32, "swizzle_mode": 32, "fill_mode": 32,
}
"""Fields of tensormap.replace and the width of their new value (PTX ISA 9.7.9.26)."""

_ORDINALS = {"box_dim": 5, "global_dim": 5, "global_stride": 4, "element_stride": 5}
_PARTS = tuple((field, n) for field in REPLACE_BITS for n in (range(_ORDINALS[field]) if field in _ORDINALS else (None,)))
"""Everything that tensormap.replace can set, (field, ordinal or None): the bits of what a map that began as zeros has been given."""
_SET_LOW, _SET_HIGH, _SET_BITS = 30, 31, 15       # words of _LAYOUT that hold those bits, and how many the first of them holds


def _padded(values: Sequence[int], count: int, fill: int) -> tuple[int, ...]:
    return tuple(values) + (fill,) * (count - len(values))


def _code(names: tuple[str, ...], value: str, what: str) -> int:
    if value not in names:
        raise TensorMapError(f"{what} {value!r} has no code: choose one of {', '.join(names)}", "names")
    return names.index(value)


def _sealed(body: bytes) -> bytes:
    """The image with its checksum (over all bytes behind it) filled in."""
    return body[:4] + zlib.crc32(body[8:]).to_bytes(4, "little") + body[8:]


def pack(fields: TensorMapFields) -> bytes:
    """The 128-byte image of `fields`; `unpack` gives them back.

    Does not check the rules (a broken map must be showable), but raises TensorMapError for names without a code and for
    numbers that no tensor map could hold. In im2col mode the box words carry channels_per_pixel and pixels_per_column.
    """
    im2col = fields.mode == "im2col"
    box = (fields.channels_per_pixel or 0, fields.pixels_per_column or 0) if im2col else tuple(fields.box_dim)
    try:
        body = _LAYOUT.pack(
            MAGIC, 0, int(im2col), _code(_NAMES, fields.dtype, "dtype"), fields.rank,
            _code(INTERLEAVES, fields.interleave, "interleave"), _code(SWIZZLES, fields.swizzle, "swizzle"),
            _code(L2_PROMOTIONS, fields.l2_promotion, "l2_promotion"), _code(OOB_FILLS, fields.oob_fill, "oob_fill"), 0,
            fields.global_address, *_padded(fields.global_strides, 4, 0),
            *(size - 1 for size in _padded(fields.global_dim, 5, 1)),
            *_padded(box, 5, 1), *_padded(fields.element_strides, 5, 1),
            *_padded(fields.pixel_box_lower_corner, 3, 0), *_padded(fields.pixel_box_upper_corner, 3, 0),
        )
    except struct.error as error:
        raise TensorMapError(f"these fields do not fit a tensor map ({error}); tensormap.check names the broken rule") from None
    return _sealed(body)


@lru_cache(maxsize=512)
def unpack(image: bytes) -> TensorMapFields:
    """The fields in a 128-byte image.

    Raises TensorMapError when the bytes are no tensor map: wrong length, wrong magic number (an address that points
    somewhere else, memory that was never written), a checksum that does not fit (partly overwritten or half copied), or a map that
    began as zeros and of which tensormap.replace has not set everything.
    """
    words = _opened(image)
    _, _, mode, dtype, rank, interleave, swizzle, l2, fill, _, address, *rest = words
    if words[0] == BUILT:
        _complete(words)
    strides, dims, box, steps = rest[0:4], rest[4:9], rest[9:14], rest[14:19]
    fields = TensorMapFields(
        dtype=_NAMES[dtype], rank=rank, global_address=address, global_dim=[size + 1 for size in dims[:rank]],
        global_strides=strides[: rank - 1], box_dim=box[:rank], element_strides=steps[:rank],
        interleave=INTERLEAVES[interleave], swizzle=SWIZZLES[swizzle], l2_promotion=L2_PROMOTIONS[l2], oob_fill=OOB_FILLS[fill],
    )
    if _MODES[mode] == "tiled":
        return fields
    return _with(
        fields, box_dim=(), channels_per_pixel=box[0], pixels_per_column=box[1],
        pixel_box_lower_corner=rest[19 : 19 + rank - 2], pixel_box_upper_corner=rest[22 : 22 + rank - 2],
    )


def _opened(image: bytes) -> list[int]:
    """The words of an image that is whole."""
    if len(image) != IMAGE_BYTES:
        raise TensorMapError(f"a tensor map is {IMAGE_BYTES} bytes, not {len(image)}")
    magic, checksum = struct.unpack_from("<II", image)
    if magic not in (MAGIC, BUILT):
        state = "all zero" if not any(image) else f"its first word is {magic:#010x}"
        raise TensorMapError(
            f"these 128 bytes are not a tensor map ({state}): is the address that of a `const __grid_constant__ TensorMap` "
            "parameter, and was the map encoded by hopperlab?"
        )
    if checksum != zlib.crc32(image[8:]):
        raise TensorMapError("this tensor map was partly overwritten: part of its 128 bytes come from elsewhere")
    return list(_LAYOUT.unpack(image))


def _complete(words: list[int]) -> None:
    """Raise TensorMapError unless everything has been set that a map of its rank needs; dimensions past the rank do not matter."""
    given = words[_SET_LOW] | words[_SET_HIGH] << _SET_BITS
    rank = words[4] or MAX_RANK
    needed = {field: min(count, rank) for field, count in _ORDINALS.items()} | {"global_stride": rank - 1}
    missing = [field if n is None else f"{field} {n}" for bit, (field, n) in enumerate(_PARTS)
               if not given >> bit & 1 and (n is None or n < needed[field])]
    if "rank" in missing:
        missing = [name for name in missing if " " not in name]         # of which dimensions, nobody knows
    if missing:
        raise TensorMapError(f"this map began as 128 zero bytes, and tensormap.replace has not set {', '.join(missing)}: a map that is made in the "
                             "kernel needs every field of its rank", "unset")


def _index(field: str, ordinal: int | None, count: int) -> int:
    if ordinal is None or not 0 <= ordinal < count:
        raise TensorMapError(f"tensormap.replace.{field}: ordinal {ordinal} is not 0 to {count - 1} (PTX ISA 9.7.9.26)")
    return ordinal


def _choice(field: str, names: tuple[str, ...] | dict[int, str], value: int) -> str:
    known = dict(enumerate(names)) if isinstance(names, tuple) else names
    if value not in known:
        raise TensorMapError(f"tensormap.replace.{field}: {value} is not a code sm_90a knows ({min(known)} to {max(known)})")
    return known[value]


def replace(image: bytes, field: str, ordinal: int | None, value: int) -> bytes:
    """tensormap.replace.tile.`field` on a 128-byte image: the image with that one field changed.

    field: global_address, rank (value is the rank minus one), box_dim, global_dim, element_stride (ordinal 0..4, elements),
    global_stride (ordinal 0..3, bytes), elemtype, interleave_layout, swizzle_mode, fill_mode (codes of the instruction, which
    for elemtype are not those of CUtensorMapDataType). `ordinal` is None for fields without one. Dimensions past the rank
    keep what they had, so that the order of replacements does not matter. The result is not checked against the rules. 128 zero bytes are a map of which
    nothing is set yet (measured on an H100: Triton makes its maps so).
    Raises TensorMapError for an unknown field, ordinal or code, a value that does not fit, and an im2col map.
    Source: PTX ISA 9.7.9.26 (tensormap.replace).
    """
    if field not in REPLACE_BITS:
        raise TensorMapError(f"tensormap.replace has no field {field!r}: choose one of {', '.join(REPLACE_BITS)}")
    value = int(value) & (_U64 if REPLACE_BITS[field] == 64 else _U32)
    image = bytes(image)
    words = _opened(image if any(image) or len(image) != IMAGE_BYTES else _sealed(BUILT.to_bytes(4, "little") + bytes(IMAGE_BYTES - 4)))
    if _MODES[words[2]] != "tiled":
        raise TensorMapError("tensormap.replace.tile on an im2col tensor map: only tiled maps can be edited this way")
    _put(words, field, ordinal, value)
    if words[0] == BUILT:
        bit = _PARTS.index((field, ordinal if field in _ORDINALS else None))
        words[_SET_LOW if bit < _SET_BITS else _SET_HIGH] |= 1 << bit % _SET_BITS
    try:
        return _sealed(_LAYOUT.pack(*words))
    except struct.error:
        raise TensorMapError(f"tensormap.replace.{field}: {value} does not fit this field") from None


def _put(words: list[int], field: str, ordinal: int | None, value: int) -> None:
    """Write `value` into the place that `field` has among the words of _LAYOUT."""
    if field == "global_address":
        words[10] = value
    elif field == "rank":
        if value >= MAX_RANK:
            raise TensorMapError(f"tensormap.replace.rank: {value} is not 0 to 4 (the rank minus one, PTX ISA 9.7.9.26)")
        words[4] = value + 1
    elif field == "global_stride":
        words[11 + _index(field, ordinal, 4)] = value
    elif field == "global_dim":
        if value == 0:
            raise TensorMapError("tensormap.replace.global_dim: 0 elements; a tensor dimension is at least 1")
        words[15 + _index(field, ordinal, 5)] = value - 1
    elif field == "box_dim":
        words[20 + _index(field, ordinal, 5)] = value
    elif field == "element_stride":
        words[25 + _index(field, ordinal, 5)] = value
    elif field == "elemtype":
        words[3] = _NAMES.index(_choice(field, _REPLACE_DTYPE, value))
    elif field == "interleave_layout":
        words[5] = INTERLEAVES.index(_choice(field, INTERLEAVES, value))
    elif field == "swizzle_mode":
        words[6] = SWIZZLES.index(_choice(field, SWIZZLES, value))
    else:
        words[8] = OOB_FILLS.index(_choice(field, OOB_FILLS, value))
