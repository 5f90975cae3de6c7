# SPDX-License-Identifier: Apache-2.0
"""Weights made smaller, and laid out offline as lesson 15x's kernels want them: 4 or 8 bits with scales, and two of four with metadata.

Everything works on arrays of NumPy or CuPy. w is n x k (rows of w are columns of the result), n a multiple of 64. A thread of a warpgroup is (w, g, q): warp
t // 32, g = t % 32 // 4, q = t % 4. Where an element stands in wgmma's fragment: hopper.fragments.wgmma_a.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import operand_checks as checks
from .operands import bf16_bits, bf16_values

if TYPE_CHECKING:
    from ...runtime.arrays import Array

LARGEST = {4: 7, 8: 127}                # of a weight's size; -8 and -128 exist too


@dataclass(frozen=True)
class IntWeights:
    """Prepared weights. words: uint8, (n / 64) x (k / WORD_K) blocks of 2048 bytes, thread t's part of the fragments at 16 t; scales: uint32, (n / 64) x (k / group) x 32
    pairs of bf16, rows g and g + 8 of warp w at 8 w + g. WORD_K is 256 / bits columns."""

    words: Array
    scales: Array
    bits: int
    group: int
    n: int
    k: int

    @property
    def nbytes(self) -> int:
        """Bytes that a product reads of it."""
        return int(self.words.nbytes + self.scales.nbytes)


@dataclass(frozen=True)
class SparseWeights:
    """Prepared weights. stored: bf16 bits, n x k / 2; metadata: uint32, (n / 64) x (k / 64) x 128, a word a thread."""

    stored: Array
    metadata: Array
    n: int
    k: int

    @property
    def nbytes(self) -> int:
        """Bytes that a product reads of it."""
        return int(self.stored.nbytes + self.metadata.nbytes)


def quantised(values: Array, bits: int, group: int, xp: Any = np) -> tuple[Array, Array]:
    """(q int8 n x k, scales bf16 bits n x k / group): w is about q * scale, each group of a row scaled so that its largest value is LARGEST. values: float32 n x k."""
    n, k = values.shape
    parts = values.reshape(n, k // group, group)
    scales = bf16_bits(xp.maximum(xp.abs(parts).max(axis=-1) / np.float32(LARGEST[bits]), np.float32(2.0 ** -60)))
    q = xp.rint(parts / bf16_values(scales)[..., None]).clip(-LARGEST[bits] - 1, LARGEST[bits])
    return q.reshape(n, k).astype(np.int8), scales


def dequantised(q: Array, scales: Array, group: int) -> Array:
    """float32 n x k: what the kernel multiplies by, q * scale rounded to bf16 once."""
    n, k = q.shape
    product = q.astype(np.float32).reshape(n, k // group, group) * bf16_values(scales)[..., None]
    return bf16_values(bf16_bits(product)).reshape(n, k)


def prepared(q: Array, scales: Array, bits: int, group: int, xp: Any = np) -> IntWeights:
    """Weights as int_weights.cu reads them. q: int8 n x k, scales: bf16 bits n x k / group. Raises OperandError."""
    n, k = q.shape
    if bits not in LARGEST or n % 64 or k % 64 or k % group or tuple(scales.shape) != (n, k // group):
        raise checks.OperandError("shape", f"q is {n} x {k} and scales are {tuple(scales.shape)} for {bits} bits in groups of {group}: "
                                           "bits is 4 or 8, n and k are multiples of 64, k of the group, and scales are n x k / group")
    steps = q.astype(np.int32).reshape(n // 64, 4, 2, 8, k // 16, 2, 4, 2)          # block, w, row half, g, step, k half, q, element
    fields = (steps + 8 if bits == 4 else steps & 0xFF).astype(np.uint32)
    halves, sides, elements = (xp.arange(2, dtype=np.uint32).reshape(shape) for shape in ((2, 1, 1, 1, 1, 1), (2, 1, 1), (2,)))
    if bits == 4:                       # register r = row half + 2 * k half, in bits 4 r and 16 + 4 r of one word
        words = (fields << (4 * halves + 8 * sides + 16 * elements)).sum(axis=(2, 5, 7), dtype=np.uint32)[..., None]
    else:                               # a word a k half: register r in byte r % 2 and 2 + r % 2
        words = (fields << (8 * halves + 16 * elements)).sum(axis=(2, 7), dtype=np.uint32).transpose(0, 1, 2, 3, 5, 4)
    each = 16 // bits                   # k-steps in a thread's 16 bytes
    words = words.reshape(n // 64, 4, 8, k // 16 // each, each, 4, bits // 4).transpose(0, 3, 1, 2, 5, 4, 6)
    pairs = scales.reshape(n // 64, 4, 2, 8, k // group).astype(np.uint32)
    pairs = (pairs[:, :, 0] | pairs[:, :, 1] << np.uint32(16)).reshape(n // 64, 32, k // group).transpose(0, 2, 1)
    return IntWeights(xp.ascontiguousarray(words).view(np.uint8).reshape(-1), xp.ascontiguousarray(pairs), bits, group, n, k)


def pruned(values: Array, xp: Any = np) -> Array:
    """float32 n x k with the two smallest of every four neighbours in a row set to 0."""
    n, k = values.shape
    fours = values.reshape(n, k // 4, 4)
    sizes, kept = xp.abs(fours), fours.copy()
    for place in range(4):              # by counting, since nobody sorts four numbers quickly
        larger = sum((sizes[..., other] >= sizes[..., place] if other < place else sizes[..., other] > sizes[..., place]).astype(np.int8) for other in range(4)
                     if other != place)
        kept[..., place] *= larger < 2
    return kept.reshape(n, k)


def compressed(values: Array, xp: Any = np) -> tuple[Array, Array]:
    """(stored float32 n x k / 2, places uint8 n x k / 2): of every four, the two that are kept in order, and where each stands, 0 to 3. Where less than two are not
    zero, zeros stand in. Raises OperandError where more are."""
    n, k = values.shape
    fours = values.reshape(n, k // 4, 4)
    filled = fours != 0
    if bool((filled.sum(axis=-1) > 2).any()):
        raise checks.OperandError("array", "there are four neighbours with more than two that are not zero: prune first")
    for place in range(4):              # zeros stand in from the front
        filled[..., place] |= filled.sum(axis=-1) < 2
    places = xp.stack([filled.argmax(axis=-1), 3 - filled[..., ::-1].argmax(axis=-1)], axis=-1)
    stored = xp.take_along_axis(fours, places, axis=-1)
    return stored.reshape(n, k // 2), places.astype(np.uint8).reshape(n, k // 2)


def metadata_words(places: Array, xp: Any = np) -> Array:
    """uint32 (n / 64) x (k / 64) x 128: thread (w, g, q)'s word of 64 columns: rows 16 w + g (low half) and 16 w + g + 8, of 16 columns, the q-th of the four sixteens.
    So q = 0, 1 have the first k-step of 32 (selector 0), q = 2, 3 the second (selector 1). places: n x k / 2, as `compressed` returns them."""
    n, half = places.shape
    codes = places.reshape(n // 64, 4, 2, 8, half // 32, 4, 8).astype(np.uint32)     # block, w, row half, g, k-block, q, stored number
    shifts = 2 * xp.arange(8, dtype=np.uint32) + 16 * xp.arange(2, dtype=np.uint32).reshape(2, 1, 1, 1, 1)
    words = (codes << shifts).sum(axis=(2, 6), dtype=np.uint32)                       # block, w, g, k-block, q
    return xp.ascontiguousarray(words.transpose(0, 3, 1, 2, 4)).reshape(n // 64, half // 32, 128)


def prepared_sparse(values: Array, xp: Any = np) -> SparseWeights:
    """Weights as sparse.cu reads them. values: float32 n x k that hold bf16 numbers, at most two of four not zero. Raises OperandError."""
    n, k = values.shape
    if n % 64 or k % 64:
        raise checks.OperandError("shape", f"w is {n} x {k}: n and k are multiples of 64")
    stored, places = compressed(values, xp)
    return SparseWeights(bf16_bits(stored), metadata_words(places, xp), n, k)
