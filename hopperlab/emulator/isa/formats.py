# SPDX-License-Identifier: Apache-2.0
"""Floating-point formats and rounding: float32 to and from f16, bf16, tf32, e4m3 and e5m2, flushing, saturation.

Values of 16 bits and less travel as unsigned bit patterns; packed halves as uint32 with the first in the low half.
Every function takes arrays or NumPy scalars. NaN results are canonical (PTX ISA 9.7.3, 9.7.4, 9.7.9.21).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from .value import Value

# Constants are arrays of no dimension, which NumPy combines with arrays faster than scalars.
TINY32 = np.array(2.0**-126, dtype=np.float32)  # the smallest normal number of each type
TINY16 = np.array(2.0**-14, dtype=np.float32)
_NAN32 = np.uint32(0x7FFFFFFF).view(np.float32)

_U1 = np.array(1, dtype=np.uint32)
_U16 = np.array(16, dtype=np.uint32)
_LOW16 = np.array(0xFFFF, dtype=np.uint32)
_HALF16 = np.array(0x7FFF, dtype=np.uint32)

FP8 = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
LARGEST = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "tf32": 3.4011621342146535e38, "e4m3": 448.0, "e5m2": 57344.0}


def flush(x: Value) -> Value:
    """Subnormal numbers to zero of the same sign (.ftz)."""
    small = np.abs(x) < (TINY32 if x.dtype == np.float32 else np.finfo(x.dtype).tiny)
    return np.where(small, x * x.dtype.type(0), x) if np.count_nonzero(small) else x


def flush16(x: Value) -> Value:
    """float32 values: what is subnormal in f16 to zero of the same sign."""
    small = np.abs(x) < TINY16
    return np.where(small, x * np.float32(0), x) if np.count_nonzero(small) else x


def saturate(x: Value) -> Value:
    """Clamp to [0, 1]; NaN becomes +0 (.sat)."""
    kind = x.dtype.type
    return np.where(x > 0, np.minimum(x, kind(1)), kind(0))


def relu(x: Value) -> Value:
    """Negative numbers and -0 to +0; NaN stays (.relu)."""
    return np.where(x <= 0, x.dtype.type(0), x)


def clamp_finite(x: Value, limit: float) -> Value:
    """Clamp to ±limit; NaN stays (.satfinite)."""
    kind = x.dtype.type
    return np.minimum(np.maximum(x, kind(-limit)), kind(limit))


def nudge(r: Value, error: Value, mode: str) -> Value:
    """From round-to-nearest to rz, rm or rp. `error` has the sign of (exact value - r); 0 or NaN where r is exact."""
    kind = r.dtype.type
    if mode == "rz":
        return np.where(((r > 0) & (error < 0)) | ((r < 0) & (error > 0)), np.nextafter(r, kind(0)), r)
    if mode == "rm":
        return np.where(error < 0, np.nextafter(r, kind(-np.inf)), r)
    return np.where(error > 0, np.nextafter(r, kind(np.inf)), r)


def two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """(s, e): the rounded sum and its exact error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def to_odd(s: Value, e: Value) -> Value:
    """Round the float64 sum s + e to odd, after which one more rounding to 51 bits or fewer is correct in any mode."""
    bits = s.view(np.int64)
    step = np.where((e > 0) == (s > 0), np.int64(1), np.int64(-1))
    inexact = ((e > 0) | (e < 0)) & (bits & np.int64(1) == 0)
    return np.where(inexact, bits + step, bits).view(np.float64)


def bf16_f32(bits: Value) -> Value:
    """bf16 patterns (uint16) as float32."""
    return (bits.astype(np.uint32) << _U16).view(np.float32)


def f16_f32(bits: Value) -> Value:
    """f16 patterns (uint16) as float32."""
    return bits.view(np.float16).astype(np.float32)


def _bits32_bf16(bits, mode: str):
    """float32 patterns rounded to bf16, in the high half of a uint32 (the low half is not cleared)."""
    if mode == "rn":
        return bits + ((bits >> _U16) & _U1) + _HALF16
    if mode == "rz":
        return bits
    if mode == "rna":
        return bits + np.uint32(0x8000)
    negative = bits >> np.uint32(31)
    away = negative if mode == "rm" else negative ^ np.uint32(1)
    return bits + away * _LOW16


def f32_bf16_high(x: Value, mode: str = "rn") -> Value:
    """float32 values as bf16, in the high half of a uint32; the low half is undefined. NaN is 0x7fff."""
    high = _bits32_bf16(x.view(np.uint32), mode)
    nan = x != x
    return np.where(nan, np.uint32(0x7FFF0000), high) if np.count_nonzero(nan) else high


def f32_bf16(x: Value, mode: str = "rn") -> Value:
    """float32 values as bf16 patterns (uint16)."""
    return (f32_bf16_high(x, mode) >> _U16).astype(np.uint16)


def f32_f16(x: Value, mode: str = "rn") -> Value:
    """float32 or float64 values as f16 patterns (uint16). NaN is 0x7fff."""
    r = x.astype(np.float16)
    if mode != "rn":
        r = nudge(r, x - r.astype(x.dtype), mode)
    bits = r.view(np.uint16)
    nan = x != x
    return np.where(nan, np.uint16(0x7FFF), bits) if np.count_nonzero(nan) else bits


def f32_tf32(x: Value, mode: str = "rn") -> Value:
    """float32 values rounded to tf32 (19 bits), as uint32 patterns whose low 13 bits are zero. NaN is 0x7fffe000, but
    keeps its upper bits with `rna`."""
    bits = x.view(np.uint32)
    if mode == "rn":
        bits = bits + ((bits >> np.uint32(13)) & np.uint32(1)) + np.uint32(0xFFF)
    elif mode == "rna":
        bits = bits + np.uint32(0x1000)
    bits = bits & np.uint32(0xFFFFE000)
    nan = x.view(np.uint32) & np.uint32(0xFFFFE000) if mode == "rna" else np.uint32(0x7FFFE000)
    return np.where(x != x, nan, np.where(np.isinf(x), x.view(np.uint32), bits))


def f64_f32(x: Value, mode: str = "rn") -> Value:
    """float64 (exact, or rounded to odd) to float32."""
    r = x.astype(np.float32)
    return r if mode == "rn" else nudge(r, x - r.astype(np.float64), mode)


def f64_f32_odd(x: Value) -> Value:
    """float64 (exact, or rounded to odd) to float32, rounded to odd."""
    r = nudge(x.astype(np.float32), x - x.astype(np.float32).astype(np.float64), "rz")
    inexact = x != r.astype(np.float64)
    return np.where(inexact & (x == x), r.view(np.uint32) | np.uint32(1), r.view(np.uint32)).view(np.float32)


def _f64_bf16_normal(x):
    """float64 to bf16 to nearest, where the result is no subnormal number: 45 bits of the pattern are rounded off."""
    bits = x.view(np.uint64)
    bits = bits + ((bits >> np.uint64(45)) & np.uint64(1)) + np.uint64(2**44 - 1)
    high = (bits & np.uint64(0xFFFFE00000000000)).view(np.float64).astype(np.float32).view(np.uint32)
    return np.where(x != x, np.uint16(0x7FFF), (high >> _U16).astype(np.uint16))


def f64_half(x: Value, kind: str, mode: str = "rn") -> Value:
    """float64 (exact, or rounded to odd) to f16 or bf16 patterns."""
    if kind == "f16":
        return f32_f16(x, mode)
    if mode == "rn" and not np.count_nonzero((np.abs(x) < 2.0**-126) & (x != 0)):
        return _f64_bf16_normal(x)
    return f32_bf16(f64_f32_odd(x), mode)


def f32_fp8(x: Value, kind: str) -> Value:
    """float32 values as e4m3 or e5m2 patterns (uint8), to nearest, clamped to the largest finite one. NaN is 0x7f."""
    bits = clamp_finite(x, LARGEST[kind]).astype(FP8[kind]).view(np.uint8)
    return np.where(x != x, np.uint8(0x7F), bits)


def _fp8_table(kind: str, dtype) -> np.ndarray:
    return np.arange(256, dtype=np.uint8).view(FP8[kind]).astype(dtype)


FP8_F32 = {kind: _fp8_table(kind, np.float32) for kind in FP8}  # every pattern's value
FP8_F16 = {
    kind: np.where(table != table, np.uint16(0x7FFF), table.astype(np.float16).view(np.uint16))
    for kind, table in FP8_F32.items()
}  # the same as f16 patterns


def canonical(x: Value) -> Value:
    """float32 with every NaN as 0x7fffffff."""
    nan = x != x
    return np.where(nan, _NAN32, x) if np.count_nonzero(nan) else x


def join(low: Value, high: Value) -> Value:
    """Two uint16 patterns as one uint32."""
    return low.astype(np.uint32) | high.astype(np.uint32) << _U16


def split16(x: Value) -> np.ndarray:
    """uint32 of shape s as uint16 of shape s + (2,), the low half first."""
    return np.asarray(x)[..., None].view(np.uint16)


def unsplit16(x: np.ndarray) -> Value:
    """The inverse of split16; scalars come back as scalars."""
    return np.ascontiguousarray(x).view(np.uint32)[..., 0]


def to_f32(x: Value, kind: str, ftz: bool = False) -> Value:
    """A scalar value of type f16, bf16 (uint16 patterns) or f32 as float32, flushed if `ftz`."""
    if kind == "f16":
        x = f16_f32(x)
        return flush16(x) if ftz else x
    if kind == "bf16":
        x = bf16_f32(x)
    return flush(x) if ftz else x


def halves_f32(x: Value, kind: str, ftz: bool = False) -> Value:
    """f16x2 or bf16x2 (uint32 of shape s) as float32 of shape s + (2,)."""
    return to_f32(split16(x), kind[:-2], ftz)
