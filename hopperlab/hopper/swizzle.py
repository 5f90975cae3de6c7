# SPDX-License-Identifier: Apache-2.0
"""The shared-memory swizzles of TMA and wgmma: one XOR on the absolute shared address.

Everything about swizzling comes from `apply`; change it here and the emulator, figures and checks follow.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

SWIZZLES = ("none", "32B", "64B", "128B")
"""The swizzle modes that sm_90a knows, in the order of CUtensorMapSwizzle (codes 0 to 3)."""

ATOM_BYTES = 16
"""The piece that moves as a whole: a swizzle never splits a 16-byte chunk."""

_SPAN = {"none": 16, "32B": 32, "64B": 64, "128B": 128}
ROW_BITS = {"none": 0, "32B": 0x080, "64B": 0x180, "128B": 0x380}
"""Address bits that a mode XORs onto the bits three places below them."""

Address = TypeVar("Address", int, np.ndarray)


def _known(mode: str) -> str:
    if mode not in _SPAN:
        raise ValueError(f"swizzle {mode!r} is not known: choose one of {', '.join(SWIZZLES)}")
    return mode


def span_bytes(mode: str) -> int:
    """Bytes inside which 16-byte chunks change places: 32, 64 or 128; 16 for "none" (nothing moves).

    It is also the widest inner box a tensor map with this swizzle may have, and the row pitch of a
    narrower one. Raises ValueError for an unknown mode. Source: PTX ISA 5.5.7 (swizzling modes).
    """
    return _SPAN[_known(mode)]


def period_bytes(mode: str) -> int:
    """Bytes after which the pattern repeats: 256, 512 or 1024; 16 for "none".

    A tile that starts on a multiple of it looks the same wherever it lies, which is why a 128B tile is
    aligned to 1024 bytes. Raises ValueError for an unknown mode. Source: PTX ISA 5.5.7.
    """
    span = _SPAN[_known(mode)]
    return 16 if mode == "none" else 8 * span


def apply(address: Address, mode: str) -> Address:
    """Where the byte of a plain tile that belongs at `address` really lies.

    `address` is an absolute shared-memory byte address (int or integer ndarray), not an offset into the
    tile; the result has its type and shape. Bits 4.. are XORed with bits 7..: 128B `a ^ ((a & 0x380) >> 3)`,
    64B with mask 0x180, 32B with 0x080. Applying it twice gives `address` back.
    Raises ValueError for an unknown mode. Source: PTX ISA 5.5.7 tables; CUDA Programming Guide,
    "The swizzle modes"; measured on an H200 for both TMA and wgmma at all eight 128-byte phases.
    """
    mask = ROW_BITS[_known(mode)]
    if not mask:
        return address
    moved: Address = address ^ ((address & mask) >> 3)
    return moved


def chunk_table(mode: str, base: int = 0, rows: int | None = None) -> np.ndarray:
    """The picture in the PTX ISA: which logical 16-byte chunk lies in each physical place.

    Returns int64 (rows, 8): entry [r, p] is the chunk of 128-byte line r that is found at physical chunk p,
    for a tile at absolute byte address `base` (a multiple of 128; rows defaults to one whole pattern: 8, 4, 2, 1).
    Raises ValueError for an unknown mode or a base off its 128-byte line. Source: PTX ISA 5.5.7 tables.
    """
    if base % 128:
        raise ValueError(f"base = {base}: a swizzle table starts on a multiple of 128 bytes")
    if rows is None:
        rows = max(1, period_bytes(mode) // 128)
    places = base + 128 * np.arange(rows)[:, None] + ATOM_BYTES * np.arange(8)[None, :]
    return apply(places, mode) % 128 // ATOM_BYTES
