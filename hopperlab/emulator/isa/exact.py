# SPDX-License-Identifier: Apache-2.0
"""Correctly rounded sums, products and quotients in the four IEEE modes, for float32 and float64.

NumPy has no fused multiply-add and rounds to nearest only. float32 goes through float64, where products are exact;
float64 through error-free transformations, and through fractions where those would over- or underflow.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from .formats import TINY32, f64_f32, nudge, to_odd, two_sum

if TYPE_CHECKING:
    from .value import Value

# Arrays of no dimension: NumPy combines them with arrays faster than scalars.
_TIE_MASK = np.array(0x1FFFFFFF, dtype=np.uint64)
_TIE = np.array(0x10000000, dtype=np.uint64)


def _negative_zero(r, s, p, c):
    """Rounding down, an exact zero sum is -0 unless both terms are +0 (IEEE 754, 6.3)."""
    positive = ~(np.signbit(p) | np.signbit(c))
    return np.where((s == 0) & ~positive, r.dtype.type(-0.0), r)


def fma32(a: Value, b: Value, c: Value) -> Value:
    """float32 a*b+c, rounded once to nearest."""
    p = a.astype(np.float64) * b.astype(np.float64)
    c = c.astype(np.float64)
    s = p + c
    r = s.astype(np.float32)
    # Rounding twice errs only if s lies midway between two float32 (normal) or r is subnormal.
    doubt = (s.view(np.uint64) & _TIE_MASK == _TIE) | (np.abs(r) < TINY32)
    if not np.count_nonzero(doubt):
        return r
    if not r.ndim:
        return to_odd(s, two_sum(p, c)[1]).astype(np.float32)
    where = np.nonzero(doubt)
    error = two_sum(*(np.broadcast_to(x, r.shape)[where] for x in (p, c)))[1]
    if np.count_nonzero(error):
        r[where] = to_odd(s[where], error).astype(np.float32)
    return r


def sum32(p: Value, c: Value, mode: str) -> Value:
    """float64 terms p + c, each exact, rounded once to float32 in any mode."""
    s, error = two_sum(p, c)
    r = f64_f32(to_odd(s, error), mode)
    return _negative_zero(r, s, p, c) if mode == "rm" else r


def fma32_directed(a: Value, b: Value, c: Value, mode: str) -> Value:
    """float32 a*b+c in any mode."""
    return sum32(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64), mode)


def add32_directed(a: Value, b: Value, mode: str) -> Value:
    """float32 a+b in any mode."""
    return sum32(a.astype(np.float64), b.astype(np.float64), mode)


def mul32_directed(a: Value, b: Value, mode: str) -> Value:
    """float32 a*b in any mode."""
    return f64_f32(a.astype(np.float64) * b.astype(np.float64), mode)


def div32_directed(a: Value, b: Value, mode: str) -> Value:
    """float32 a/b in any mode: the quotient to nearest, corrected by the sign of its exact remainder."""
    q = a / b
    rest = a.astype(np.float64) - q.astype(np.float64) * b.astype(np.float64)
    return nudge(q, np.where(np.signbit(b), -rest, rest), mode)


def sqrt32_directed(a: Value, mode: str) -> Value:
    """float32 square root in any mode."""
    r = np.sqrt(a)
    return nudge(r, a.astype(np.float64) - r.astype(np.float64) ** 2, mode)


def add64(a: Value, b: Value, mode: str = "rn") -> Value:
    """float64 a+b in any mode."""
    if mode == "rn":
        return a + b
    s, error = two_sum(a, b)
    error = np.where(np.isinf(s) & np.isfinite(a) & np.isfinite(b), -s, error)
    r = nudge(s, error, mode)
    return _negative_zero(r, s, a, b) if mode == "rm" else r


def _split(x):
    """x as the sum of two numbers of 26 bits (Veltkamp)."""
    t = x * 134217729.0
    high = t - (t - x)
    return high, x - high


def _exact_fma(a: float, b: float, c: float) -> tuple[float, float]:
    """(rounded to nearest, error's sign) of finite a*b+c, by fractions."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        r = float(exact)
    except OverflowError:
        r = np.inf if exact > 0 else -np.inf
        return r, -r
    if exact == 0:
        return a * b + c, 0.0
    if r == 0:
        return np.copysign(0.0, -1.0 if exact < 0 else 1.0), float(np.sign(exact.numerator))
    rest = exact - Fraction(r)
    return r, float((rest > 0) - (rest < 0))


def _fma64_parts(a, b, c):
    """(r, e): float64 a*b+c to nearest and a number with the sign of the error (Boldo and Melquiond, 2008)."""
    p = a * b
    (ah, al), (bh, bl) = _split(a), _split(b)
    pe = ((ah * bh - p) + ah * bl + al * bh) + al * bl
    th, tl = two_sum(c, pe)
    vh, vl = two_sum(p, th)
    z = to_odd(*two_sum(tl, vl))
    r = vh + z
    e = (vh - r) + z
    zero = (a == 0) | (b == 0)
    plain = zero | ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c))
    infinite = np.isinf(c) & np.isfinite(a) & np.isfinite(b)
    r = np.where(infinite, c, np.where(plain, p + c, r))
    e = np.where(plain, 0.0, e)
    size = np.abs(p)
    big = np.maximum(np.maximum(np.abs(a), np.abs(b)), np.abs(c))
    unsafe = ~plain & ~((size > 2.0**-900) & (size < 2.0**1000) & (big < 2.0**990))
    if np.count_nonzero(unsafe):
        a, b, c, r, e = (np.array(x) for x in np.broadcast_arrays(a, b, c, r, e))
        for i in map(tuple, np.argwhere(unsafe)):
            r[i], e[i] = _exact_fma(float(a[i]), float(b[i]), float(c[i]))
    return r, e


def fma64(a: Value, b: Value, c: Value, mode: str = "rn") -> Value:
    """float64 a*b+c rounded once, in any mode."""
    r, e = _fma64_parts(a, b, c)
    if mode != "rn":
        exact_zero = (r == 0) & (e == 0)
        r = nudge(r, e, mode)
        if mode == "rm":
            r = _negative_zero(r, np.where(exact_zero, 0.0, 1.0), a * b, c)
    return r[()]


def mul64(a: Value, b: Value, mode: str = "rn") -> Value:
    """float64 a*b in any mode."""
    if mode == "rn":
        return a * b
    p = a * b
    sign = np.where(np.signbit(p), np.float64(-0.0), np.float64(0.0))  # keeps the sign of a zero product
    r, e = _fma64_parts(a, b, sign)
    return np.where(p != p, p, nudge(r, e, mode))[()]


def _remainder_sign(x, y, z):
    """A number with the sign of z - x*y, exactly."""
    r, e = _fma64_parts(-x, y, z)
    return np.where(r != 0, r, e)


def div64(a: Value, b: Value, mode: str = "rn") -> Value:
    """float64 a/b in any mode."""
    q = a / b
    if mode == "rn":
        return q
    rest = np.where(np.isinf(q) & np.isfinite(a) & (b != 0), -q * np.sign(b), _remainder_sign(q, b, a))
    rest = np.where(np.isfinite(a) & np.isfinite(b) & (b != 0), rest, 0.0)
    return nudge(q, np.where(np.signbit(b), -rest, rest), mode)[()]


def sqrt64(a: Value, mode: str = "rn") -> Value:
    """float64 square root in any mode."""
    r = np.sqrt(a)
    if mode == "rn":
        return r
    return nudge(r, np.where(np.isfinite(r), _remainder_sign(r, r, a), 0.0), mode)[()]
