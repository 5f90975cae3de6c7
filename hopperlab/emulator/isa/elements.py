# SPDX-License-Identifier: Apache-2.0
"""How 32-bit words hold the elements of a matrix fragment, and how they become numbers: one row a type.

`decode` takes uint32 words (…, W) in the order of k and returns float32 (…, W * per_register), lowest bits first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .formats import FP8_F32

_HIGH16 = np.uint32(0xFFFF0000)


@dataclass(frozen=True, slots=True)
class Element:
    """An element type of A or B: how many a register holds, the dtype of the register, and its decoder."""

    per_register: int
    register: str
    decode: Callable[[np.ndarray], np.ndarray] | None


def _flat(words: np.ndarray, count: int) -> tuple[np.ndarray, tuple[int, ...]]:
    """(empty float32 of shape (words, count), the shape that the result shall have)."""
    return np.empty((words.size, count), dtype=np.float32), (*words.shape[:-1], words.shape[-1] * count)


def bf16_pairs(words: np.ndarray) -> np.ndarray:
    """Two bf16 a word: a bf16 is the upper half of a float32."""
    out, shape = _flat(words, 2)
    bits, words = out.view(np.uint32), words.reshape(-1)
    np.left_shift(words, np.uint32(16), out=bits[:, 0])
    np.bitwise_and(words, _HIGH16, out=bits[:, 1])
    return out.reshape(shape)


def f16_pairs(words: np.ndarray) -> np.ndarray:
    """Two f16 a word."""
    return words.view(np.float16).astype(np.float32)


def tf32(words: np.ndarray) -> np.ndarray:
    """One tf32 a word: the low 13 bits do not count."""
    return (words & np.uint32(0xFFFFE000)).view(np.float32)


def _bytes(dtype: type) -> Callable:
    """Four 8-bit integers a word."""
    return lambda words: words.view(dtype).astype(np.float32)


def _fp8(kind: str) -> Callable:
    """Four fp8 a word, through the table of their values."""
    table = FP8_F32[kind]
    return lambda words: table.take(words.view(np.uint8))


def _nibbles(dtype: type) -> Callable:
    """Eight 4-bit integers a word."""
    four = dtype(4)

    def decode(words):
        out, shape = _flat(words, 8)
        pairs = words.reshape(-1, 1).view(np.uint8).view(dtype)
        out[:, 0::2] = pairs << four >> four
        out[:, 1::2] = pairs >> four
        return out.reshape(shape)

    return decode


def single_bits(words: np.ndarray) -> np.ndarray:
    """32 bits a word."""
    return np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little").astype(np.float32)


ELEMENTS = {
    "f16": Element(2, "u32", f16_pairs),
    "bf16": Element(2, "u32", bf16_pairs),
    "tf32": Element(1, "u32", tf32),
    "f64": Element(1, "f64", None),
    "e4m3": Element(4, "u32", _fp8("e4m3")),
    "e5m2": Element(4, "u32", _fp8("e5m2")),
    "s8": Element(4, "u32", _bytes(np.int8)),
    "u8": Element(4, "u32", _bytes(np.uint8)),
    "s4": Element(8, "u32", _nibbles(np.int8)),
    "u4": Element(8, "u32", _nibbles(np.uint8)),
    "b1": Element(32, "u32", single_bits),
}
