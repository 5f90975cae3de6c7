# SPDX-License-Identifier: Apache-2.0
"""Matrix descriptors of wgmma, the shared-memory addresses they stand for, and the legal shapes and types.

Fragments (which thread holds which register of A and D) are in `fragments`; the swizzle is in `swizzle`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hopperlab.hopper import swizzle as _swizzle

M = 64
"""Rows of D in every wgmma instruction (PTX ISA 9.7.15.2)."""

K_BY_DTYPE = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32, "b1": 256}
"""K of one instruction by PTX operand type: 32 bytes of every row (PTX ISA 9.7.15.2)."""

ELEM_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}
"""Bits of one A or B element in memory, by PTX operand type."""

ACCUMULATORS = {
    "f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "e4m3": ("f16", "f32"), "e5m2": ("f16", "f32"),
    "s8": ("s32",), "u8": ("s32",), "b1": ("s32",),
}
"""Types D may have, by operand type (PTX ISA 9.7.15.3)."""

MN_MAJOR_DTYPES = ("f16", "bf16")
"""Only these may be read MN-major (imm-trans = 1); all others are K-major (PTX ISA 9.7.15.5.2)."""

SWIZZLE_CODE = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
"""Bits 63:62 of a descriptor. These are not the codes of CUtensorMapSwizzle (0, 3, 2, 1)."""

_MODE_OF_CODE = {code: mode for mode, code in SWIZZLE_CODE.items()}
_FIELD = 0x3FFF
_LIMIT = 0x3FFF0


class DescriptorError(ValueError):
    """A matrix descriptor, or a field of one, that wgmma cannot use."""


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A decoded matrix descriptor; all lengths in bytes (PTX ISA 9.7.15.5.1.2.2).

    start: shared address of the operand (18 bits, a multiple of 16). leading_bytes (LBO) and stride_bytes (SBO):
    what they step over depends on major and swizzle, see `offsets`. swizzle: one of SWIZZLES. base_offset: 0..7.
    """

    start: int
    leading_bytes: int
    stride_bytes: int
    swizzle: str
    base_offset: int = 0


def legal_n(dtype: str) -> tuple[int, ...]:
    """Every N that wgmma accepts for a PTX operand type: 8..256 step 8; for s8, u8, b1 8, 16, 24, then step 16.

    Raises ValueError for an unknown type. Source: PTX ISA 9.7.15.2; ptxas 13.0 accepts 240 and 256 for the
    integer types too, and rejects 40 and 56.
    """
    if dtype not in K_BY_DTYPE:
        raise ValueError(f"wgmma has no operand type {dtype!r}: choose one of {', '.join(K_BY_DTYPE)}")
    if dtype in ("s8", "u8", "b1"):
        return (8, 16, 24, *range(32, 257, 16))
    return tuple(range(8, 257, 8))


def _field(name: str, value: int) -> int:
    if value % 16 or not 0 <= value <= _LIMIT:
        raise DescriptorError(
            f"{name} = {value}: a descriptor field is a multiple of 16 bytes from 0 to {_LIMIT} (PTX ISA 9.7.15.5.1.2.2)"
        )
    return value >> 4


def encode(start: int, leading_bytes: int, stride_bytes: int, swizzle: str, base_offset: int = 0) -> int:
    """The 64-bit matrix descriptor: start at bits 13:0, LBO 29:16, SBO 45:32 (all >> 4), base offset 51:49, swizzle 63:62.

    `start` is a shared address; only its low 18 bits count, as in hardware, and it must be a multiple of 16. The two
    byte offsets must be multiples of 16 up to 0x3FFF0. Raises DescriptorError with the field that does not fit.
    Source: PTX ISA 9.7.15.5.1.2.2.
    """
    if swizzle not in SWIZZLE_CODE:
        raise DescriptorError(f"swizzle {swizzle!r} is not known: choose one of {', '.join(_swizzle.SWIZZLES)}")
    if not 0 <= base_offset <= 7:
        raise DescriptorError(f"base_offset = {base_offset}: it is 0 to 7 (PTX ISA 9.7.15.5.1.2.2)")
    return (
        _field("start", start & 0x3FFFF)
        | _field("leading_bytes", leading_bytes) << 16
        | _field("stride_bytes", stride_bytes) << 32
        | base_offset << 49
        | SWIZZLE_CODE[swizzle] << 62
    )


@lru_cache(maxsize=4096)
def decode(desc: int) -> Descriptor:
    """The fields of a 64-bit matrix descriptor, in bytes; unused bits are ignored (PTX ISA 9.7.15.5.1.2.2)."""
    desc = int(desc)
    return Descriptor(
        start=(desc & _FIELD) << 4,
        leading_bytes=(desc >> 16 & _FIELD) << 4,
        stride_bytes=(desc >> 32 & _FIELD) << 4,
        swizzle=_MODE_OF_CODE[desc >> 62 & 3],
        base_offset=desc >> 49 & 7,
    )


def advance(desc: int, offset_bytes: int) -> int:
    """The descriptor of an operand `offset_bytes` further on: only the 14 address bits change.

    Inside a swizzled tile the next k-step is +32 bytes although the chunks are shuffled, because the XOR acts on the
    absolute address (measured on an H200). Raises DescriptorError if the step is not a multiple of 16 or leaves the
    18-bit shared window.
    """
    start = _field("start + offset", ((desc & _FIELD) << 4) + offset_bytes)
    return desc & ~_FIELD | start


def offsets(mn: np.ndarray, k: np.ndarray, descriptor: Descriptor, elem_bytes: int, major: str = "K") -> np.ndarray:
    """Byte offset from the descriptor's start, before the swizzle, of elements (mn, k); the arrays broadcast.

    mn is the row of A or the column of B; k counts from the start of this instruction. With W = 1, 2, 4, 8 for
    none, 32B, 64B, 128B, LBO = leading_bytes, SBO = stride_bytes and kb = k * elem_bytes:

        K none       (mn//8)*SBO + (mn%8)*16 + (kb//16)*LBO + kb%16
        K swizzled   (mn//8)*SBO + (mn%8)*16*W + kb                          LBO is not used
        MN none      (mn//T)*SBO + (mn%T)*es + (k//8)*LBO + (k%8)*16         T = 16/es
        MN swizzled  (mn//(T*W))*LBO + (mn%(T*W))*es + (k//8)*SBO + (k%8)*16*W

    Raises DescriptorError for a major other than "K" or "MN", or MN-major with elements that are not 2 bytes.
    Source: PTX ISA 9.7.15.5.1.2.1 (canonical layouts).
    """
    lbo, sbo = descriptor.leading_bytes, descriptor.stride_bytes
    wide = _swizzle.span_bytes(descriptor.swizzle) // 16
    plain = descriptor.swizzle == "none"
    if major == "K":
        kb = k * elem_bytes
        inside = kb // 16 * lbo + kb % 16 if plain else kb
        places: np.ndarray = mn // 8 * sbo + mn % 8 * 16 * wide + inside
        return places
    if major != "MN":
        raise DescriptorError(f"major {major!r} is not known: 'K' or 'MN'")
    if elem_bytes != 2:
        raise DescriptorError(
            f"MN-major with {elem_bytes}-byte elements: wgmma transposes f16 and bf16 only (PTX ISA 9.7.15.5.2)"
        )
    row = 8 * wide
    mn_step, k_step = (sbo, lbo) if plain else (lbo, sbo)
    places = mn % row * 2 + mn // row * mn_step + k % 8 * 16 * wide + k // 8 * k_step
    return places


def _usable(desc: int | Descriptor) -> Descriptor:
    d = desc if isinstance(desc, Descriptor) else decode(int(desc))
    if d.base_offset:
        raise DescriptorError(
            f"base_offset = {d.base_offset}: on an H200 only base_offset 0 reads what TMA wrote, whatever 128-byte line the "
            "tile starts on, because the swizzle acts on the absolute address. Encode 0."
        )
    return d


@lru_cache(maxsize=1024)
def _relative(phase: int, d: Descriptor, rows: int, k_elems: int, elem_bytes: int, major: str) -> np.ndarray:
    """Swizzled offsets (rows, k_elems) from `start - phase`, phase = start modulo the swizzle's period.

    Addresses that differ by whole periods swizzle alike, so one cached array serves every start of that phase.
    """
    mn, k = np.arange(rows)[:, None], np.arange(k_elems)[None, :]
    moved = _swizzle.apply(phase + offsets(mn, k, d, elem_bytes, major), d.swizzle)
    moved.setflags(write=False)
    return moved


@lru_cache(maxsize=1024)
def _relative_granules(phase: int, d: Descriptor, rows: int, k_bytes: int, major: str) -> np.ndarray:
    """As `_relative`, one entry a 16-byte granule: K-major (rows, k_bytes//16), MN-major (k_bytes//2, rows//8)."""
    if major == "K":
        mn, k, elem_bytes = np.arange(rows)[:, None], np.arange(k_bytes // 16)[None, :], 16
    else:
        mn, k, elem_bytes = 8 * np.arange(rows // 8)[None, :], np.arange(k_bytes // 2)[:, None], 2
    moved = _swizzle.apply(phase + offsets(mn, k, d, elem_bytes, major), d.swizzle)
    moved.setflags(write=False)
    return moved


def _split(d: Descriptor) -> tuple[int, int, Descriptor]:
    phase = d.start % _swizzle.period_bytes(d.swizzle)
    return d.start - phase, phase, Descriptor(0, d.leading_bytes, d.stride_bytes, d.swizzle)


def operand_addresses(
    desc: int | Descriptor, rows: int, k_elems: int, elem_bytes: int, major: str = "K"
) -> np.ndarray:
    """Absolute shared byte address, after the swizzle, of every element of one operand: int64 (rows, k_elems).

    rows: M = 64 for A, N for B. k_elems: K of the instruction (or less). elem_bytes: 1, 2 or 4. major: "K", or "MN"
    for 2-byte types. Raises DescriptorError for a base offset other than 0 (measured on an H200: only 0 reads a tile
    that TMA wrote) and for a layout wgmma does not have. Source: PTX ISA 9.7.15.5.1.2; see `offsets`.
    """
    base, phase, key = _split(_usable(desc))
    return base + _relative(phase, key, rows, k_elems, elem_bytes, major)


def operand_granules(desc: int | Descriptor, rows: int, k_bytes: int = 32, major: str = "K") -> np.ndarray:
    """Absolute shared address, after the swizzle, of every 16-byte granule of one operand, int64.

    A swizzle never splits a granule, so gathering these is the quick way to read an operand.
    major "K": (rows, k_bytes // 16); granule [r, j] holds bytes 16j..16j+15 of row r.
    major "MN" (2-byte elements): (k_bytes // 2, rows // 8); granule [k, j] holds rows 8j..8j+7 at k.
    Raises DescriptorError as `operand_addresses` does.
    """
    base, phase, key = _split(_usable(desc))
    return base + _relative_granules(phase, key, rows, k_bytes, major)
