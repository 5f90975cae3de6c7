# SPDX-License-Identifier: Apache-2.0
"""f16, bf16 and their pairs against ml_dtypes casts of exact float64 results."""

import ml_dtypes
import numpy as np
import pytest

DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


def patterns(kind, seed, n=400):
    """Normal values, random patterns, and infinities, zeros and subnormals."""
    rng = np.random.default_rng(seed)
    values = (rng.normal(size=n) * 2.0 ** rng.integers(-6, 7, n)).astype(DTYPES[kind]).view(np.uint16)
    anything = rng.integers(0, 2**16, n).astype(np.uint16)
    edges = rng.choice(np.array([0, 0x8000, 1, 0x8001, 0x7C00, 0x7F80, 0xFF80, 0x7FFF], np.uint16), n)
    return np.choose(rng.integers(0, 4, n), [values, values, anything, edges]).astype(np.uint16)


def wide(bits, kind):
    with np.errstate(invalid="ignore"):
        return bits.view(DTYPES[kind]).astype(np.float64)


def same(result, expected, kind):
    got, want = wide(result, kind), np.asarray(expected).astype(np.float64)
    both_nan = np.isnan(got) & np.isnan(want)
    return np.all((got == want) & (np.signbit(got) == np.signbit(want)) | both_nan)


def pair(low, high):
    return low.astype(np.uint32) | high.astype(np.uint32) << 16


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name, op", [("add", np.add), ("sub", np.subtract), ("mul", np.multiply)])
def test_arithmetic(run, kind, name, op):
    a, b = patterns(kind, 1), patterns(kind, 2)
    with np.errstate(all="ignore"):
        # float64 holds each product exactly and each sum to well over twice the target's digits.
        expected = op(wide(a, kind), wide(b, kind)).astype(DTYPES[kind])
        assert same(run(f"{name}.{kind}", a, b, dst="b16"), expected, kind)
        packed = run(f"{name}.rn.{kind}x2", pair(a, b), pair(b, a))
        assert same((packed & 0xFFFF).astype(np.uint16), expected, kind)
        assert same((packed >> 16).astype(np.uint16), op(wide(b, kind), wide(a, kind)).astype(DTYPES[kind]), kind)


@pytest.mark.parametrize("kind", DTYPES)
def test_fma_is_rounded_once(run, kind):
    a, b, c = (patterns(kind, s) for s in (3, 4, 5))
    with np.errstate(all="ignore"):
        x, y, z = (wide(v, kind).astype(np.longdouble) for v in (a, b, c))
        exact = x * y + z  # 64 digits
        expected = _round_longdouble(exact, kind)
        assert same(run(f"fma.rn.{kind}", a, b, c, dst="b16"), expected, kind)
        relu = run(f"fma.rn.relu.{kind}", a, b, c, dst="b16")
        assert same(relu, np.where(wide(expected.view(np.uint16), kind) <= 0, 0, expected.astype(float)), kind)


def _round_longdouble(exact, kind):
    """longdouble to the nearest 16-bit number, by choosing among the three patterns around the float64's."""
    near = exact.astype(np.float64).astype(DTYPES[kind])
    best = near.astype(np.longdouble)
    for toward in (-np.inf, np.inf):
        other = np.nextafter(near, np.full_like(near, toward))
        closer = np.abs(other.astype(np.longdouble) - exact) < np.abs(best - exact)
        best = np.where(np.isfinite(near.astype(float)) & closer, other.astype(np.longdouble), best)
    return best.astype(np.float64).astype(DTYPES[kind])


def test_bf16_fma_where_float64_would_round_twice(run):
    # 1.5 * (1 + 2^-7) lies midway between two bf16; 2^-120 decides.
    values = np.array([[1.5, 1 + 2**-7, 2.0**-120], [1.5, 1 + 2**-7, -(2.0**-120)]])
    a, b, c = (values[:, i].astype(ml_dtypes.bfloat16).view(np.uint16) for i in range(3))
    a, b, c = (np.resize(v, 4) for v in (a, b, c))
    result = wide(run("fma.rn.bf16", a, b, c, dst="b16"), "bf16")
    assert result[0] > 1.5 * (1 + 2**-7) > result[1]


def test_flush_and_saturate(run):
    x = np.array([0x0001, 0x8001, 0x03FF, 0x0400, 0x4000, 0xC000, 0x7FFF], np.uint16)
    zero = np.zeros_like(x)
    assert run("add.ftz.f16", x, zero, dst="b16").tolist() == [0, 0, 0, 0x0400, 0x4000, 0xC000, 0x7FFF]
    assert run("add.sat.f16", x, zero, dst="b16").tolist() == [1, 0, 0x03FF, 0x0400, 0x3C00, 0, 0]


def test_out_of_bounds_nan(run):
    a = np.array([0x7FF7, 0x3C00, 0x3C00, 0xFFF7], np.uint16)
    b = np.array([0x3C00, 0x7FF7, 0x3C00, 0x3C00], np.uint16)
    c = np.array([0x3C00, 0x3C00, 0x7FF7, 0x3C00], np.uint16)
    assert run("fma.rn.oob.f16", a, b, c, dst="b16").tolist() == [0, 0, 0x7FFF, 0]


@pytest.mark.parametrize("kind", DTYPES)
def test_min_max_and_signs(run, kind):
    a, b = patterns(kind, 6), patterns(kind, 7)
    x, y = wide(a, kind), wide(b, kind)
    number = np.isfinite(x) & np.isfinite(y)
    for name, op in (("min", np.fmin), ("max", np.fmax)):
        result = run(f"{name}.{kind}", a, b, dst="b16")
        assert np.array_equal(wide(result, kind), op(x, y), equal_nan=True)
        propagated = run(f"{name}.NaN.{kind}", a, b, dst="b16")
        assert np.all(propagated[np.isnan(x) | np.isnan(y)] == 0x7FFF)
        absolute = wide(run(f"{name}.xorsign.abs.{kind}", a, b, dst="b16"), kind)
        expected = np.copysign(op(np.abs(x), np.abs(y)), np.where(np.signbit(x) ^ np.signbit(y), -1, 1))
        assert np.array_equal(absolute[number], expected[number])
    assert run(f"neg.{kind}", np.array([0, 0x8000, 0x1234], np.uint16), dst="b16").tolist() == [0x8000, 0, 0x9234]
    assert run(f"abs.{kind}x2", np.full(3, 0x80009234, np.uint32)).tolist() == [0x1234] * 3


@pytest.mark.parametrize("kind", DTYPES)
def test_approximations(run, kind):
    x = np.linspace(-4, 4, 101).astype(DTYPES[kind]).view(np.uint16)
    unit = 2.0 ** (-10 if kind == "f16" else -7)
    for opcode, op in (
        (f"ex2.approx{'' if kind == 'f16' else '.ftz'}.{kind}", np.exp2),
        (f"tanh.approx.{kind}", np.tanh),
    ):
        exact = op(wide(x, kind))
        assert np.all(np.abs(wide(run(opcode, x, dst="b16"), kind) - exact) <= unit * np.abs(exact))
