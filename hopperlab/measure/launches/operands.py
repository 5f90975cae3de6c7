# SPDX-License-Identifier: Apache-2.0
"""Operands and references for products and copies, seeded, in either place."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ...runtime.arrays import Array


def bf16_bits(values: Array) -> Array:
    """Round float32 to the nearest bfloat16 (ties to even) and return its bits as uint16. NumPy or CuPy, finite values."""
    bits = values.astype("float32").view("uint32")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("uint16")


def bf16_values(bits: Array) -> Array:
    """The float32 numbers that bfloat16 bits (uint16) stand for. NumPy or CuPy."""
    return (bits.astype("uint32") << 16).view("float32")


def normal_bf16(xp: Any, shape: tuple[int, ...], seed: int) -> Array:
    """Standard normal numbers as bf16 bits (uint16), on the array module's device."""
    if xp.__name__ == "cupy":
        return bf16_bits(xp.random.default_rng(seed).standard_normal(shape, dtype=xp.float32))
    return xp.asarray(bf16_bits(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)))


def integer_bf16(xp: Any, shape: tuple[int, ...], seed: int, largest: int = 4) -> Array:
    """Integers from -largest to largest as bf16 bits: fp32 sums of up to 2^24 / largest^2 products are exact."""
    values = np.random.default_rng(seed).integers(-largest, largest + 1, shape).astype(np.float32)
    return xp.asarray(bf16_bits(values))


def product_bound(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Largest error that a correct bf16 product may have, element by element.

    a: m x k, b: n x k float arrays holding bf16 values. Products are exact in fp32; k additions, in any order, err by at
    most k * 2^-24 of the sum of absolute values each (doubled here, since the order of fp32 rounding is the hardware's);
    the result is rounded once to bf16, by 2^-9 of its size (doubled likewise).
    """
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    sizes = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64).T
    return 2.0 ** -8 * np.abs(exact) + a.shape[1] * 2.0 ** -23 * sizes


def folded(x: np.ndarray) -> np.ndarray:
    """What the kernels of lesson 00 and the rings of lesson 04 compute: every run of 128 numbers plus its mirror image (include/hopperlab/fold.cuh)."""
    runs = x.reshape(-1, 128)
    return (runs + runs[:, ::-1]).reshape(-1)
