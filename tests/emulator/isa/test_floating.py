# SPDX-License-Identifier: Apache-2.0
"""f32 and f64 arithmetic against exact fractions, in the four rounding modes."""

import math
from fractions import Fraction

import numpy as np
import pytest

from hopperlab.emulator.isa import UnsupportedInstruction

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, math.inf, -math.inf, math.nan]


def floats(kind, seed, n=250):
    """Random patterns of moderate exponents, numbers near each other, edges and special values."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(kind)
    info = np.finfo(dtype)
    scaled = rng.normal(size=n) * 2.0 ** rng.integers(-30, 31, n)
    whole = rng.integers(-8, 9, n).astype(float)
    near_one = 1 + rng.integers(-64, 65, n) * float(info.eps)
    tiny = rng.integers(-9, 10, n) * float(info.smallest_subnormal)
    huge = float(info.max) * rng.choice([1.0, -1.0, 0.5, 0.75], n)
    small = float(info.tiny) * rng.choice([1.0, -1.0, 0.5, 1.5], n)
    special = rng.choice(SPECIAL, n)
    pick = rng.integers(0, 8, n)
    choices = [scaled, scaled, whole, near_one, tiny, huge, small, special]
    return np.choose(pick, choices).astype(dtype)


def rounded(exact: Fraction, dtype, mode: str):
    """The float of `dtype` nearest to, or just on one side of, an exact non-zero number."""
    info = np.finfo(dtype)
    digits, low = info.nmant + 1, int(np.log2(float(info.smallest_subnormal)))
    exponent = max(math.floor(_log2(abs(exact))) - digits + 1, low)
    unit = Fraction(2) ** exponent
    down, up = math.floor(exact / unit), math.ceil(exact / unit)
    pick = {"rm": down, "rp": up, "rz": down if exact > 0 else up, "rn": round(exact / unit)}[mode]
    value = pick * unit
    limit = Fraction(float(info.max))
    if abs(value) > limit:
        toward_zero = mode == "rz" or (mode == "rm" and value > 0) or (mode == "rp" and value < 0)
        return dtype(math.copysign(float(info.max) if toward_zero else math.inf, 1 if value > 0 else -1))
    return dtype(math.copysign(float(abs(value)), 1 if exact > 0 else -1))


def _log2(x: Fraction) -> Fraction:
    guess = x.numerator.bit_length() - x.denominator.bit_length()
    return guess if Fraction(2) ** guess <= x else guess - 1


def check(result, operands, exact, ieee, dtype, mode):
    """Compare lane by lane: with fractions where everything is finite, else with what IEEE arithmetic gives."""
    for lane, values in enumerate(zip(*(x.tolist() for x in operands))):
        got = result[lane]
        value = exact(*map(Fraction, values)) if all(map(math.isfinite, values)) else None
        want = ieee(*(dtype(v) for v in values)) if not value else rounded(value, dtype, mode)
        same = got == want or (np.isnan(got) and np.isnan(want))
        assert same, (values, got, want, mode)
        if value:
            assert np.signbit(got) == np.signbit(want), (values, got, want, mode)


def plain_fma(x, y, z):
    """a*b+c of special values; a finite product never overflows on its way to an infinite sum."""
    return z if np.isinf(z) and np.isfinite(x) and np.isfinite(y) else x * y + z


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding(run, dtype, mode):
    kind = {np.float32: "f32", np.float64: "f64"}[dtype]
    seed = {"rn": 1, "rz": 2, "rm": 3, "rp": 4}[mode]
    a, b, c = (floats(dtype, 10 * seed + i) for i in range(3))
    b[:40] = -a[:40]
    with np.errstate(all="ignore"):
        c[40:80] = -(a[40:80] * b[40:80])
        check(run(f"add.{mode}.{kind}", a, b), (a, b), lambda x, y: x + y, lambda x, y: x + y, dtype, mode)
        check(run(f"sub.{mode}.{kind}", a, b), (a, b), lambda x, y: x - y, lambda x, y: x - y, dtype, mode)
        check(run(f"mul.{mode}.{kind}", a, b), (a, b), lambda x, y: x * y, lambda x, y: x * y, dtype, mode)
        fma = run(f"fma.{mode}.{kind}", a, b, c)
        check(fma, (a, b, c), lambda x, y, z: x * y + z, plain_fma, dtype, mode)
        divide = run(f"div.{mode}.{kind}", a, b)
        check(divide, (a, b), lambda x, y: x / y if y else None, lambda x, y: x / y, dtype, mode)
        assert np.array_equal(
            run(f"rcp.{mode}.{kind}", b), run(f"div.{mode}.{kind}", np.ones_like(b), b), equal_nan=True
        )


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_square_root(run, dtype, mode):
    kind = {np.float32: "f32", np.float64: "f64"}[dtype]
    a = np.abs(floats(dtype, 5))
    result = run(f"sqrt.{mode}.{kind}", a)
    for x, r in zip(a.tolist(), result):
        if not math.isfinite(x) or x == 0:
            assert r == x or math.isnan(x)
            continue
        below, above = Fraction(float(np.nextafter(r, dtype(0)))), Fraction(float(np.nextafter(r, dtype(np.inf))))
        square, value = Fraction(float(r)) ** 2, Fraction(x)
        if mode in ("rz", "rm"):
            assert square <= value < above**2
        elif mode == "rp":
            assert below**2 < value <= square
        else:
            assert ((below + Fraction(float(r))) / 2) ** 2 <= value <= ((above + Fraction(float(r))) / 2) ** 2


def test_fma_is_rounded_once(run):
    # 1 + 2^-23 squared minus a float32 midway: two roundings give another number.
    a = np.array([1 + 2**-12, 2.0**-75, 1 + 2**-23], np.float32)
    b = np.array([1 + 2**-12, 2.0**-75 * (1 + 2**-20), 1 - 2**-23], np.float32)
    c = np.array([2.0**-60, 2.0**-149, -1.0], np.float32)
    expected = [
        rounded(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)), np.float32, "rn")
        for x, y, z in zip(a, b, c)
    ]
    assert run("fma.rn.f32", a, b, c).tolist() == [float(x) for x in expected]
    assert expected[0] != np.float32(np.float64(a[0]) * np.float64(b[0]) + np.float64(c[0]))


def test_exact_cancellation_has_the_sign_of_the_mode(run):
    one, plus = np.full(3, 1, np.float32), np.zeros(3, np.float32)
    assert not np.signbit(run("add.rn.f32", one, -one)).any()
    assert np.signbit(run("add.rm.f32", one, -one)).all()
    assert np.signbit(run("fma.rm.f32", one, one, -one)).all()
    assert not np.signbit(run("add.rm.f32", plus, plus)).any()
    assert np.signbit(run("add.rm.f64", one.astype(float), -one.astype(float))).all()


def test_flush_and_saturate(run):
    tiny = np.float32(2.0**-126)
    x = np.array([tiny / 2, -tiny / 2, tiny, 0.5, 2, -3, np.nan, np.inf], np.float32)
    one = np.ones_like(x)
    flushed = run("mul.ftz.f32", x, one)
    assert flushed[:3].tolist() == [0, 0, tiny] and np.signbit(flushed[1])
    assert run("mul.ftz.f32", np.array([tiny] * 3), np.full(3, 0.5, np.float32)).tolist() == [0, 0, 0]
    assert run("mul.f32", x, one)[0] == tiny / 2
    assert run("add.sat.f32", x, np.zeros_like(x)).tolist() == [tiny / 2, 0, tiny, 0.5, 1, 0, 0, 1]


def test_min_and_max(run):
    nan, inf = np.nan, np.inf
    a = np.array([1, nan, 2, nan, 0.0, -0.0, -inf], np.float32)
    b = np.array([2, 3, nan, nan, -0.0, 0.0, inf], np.float32)
    low, high = run("min.f32", a, b), run("max.f32", a, b)
    assert low[:3].tolist() == [1, 3, 2] and high[:3].tolist() == [2, 3, 2]
    assert low.view(np.uint32)[3] == high.view(np.uint32)[3] == 0x7FFFFFFF
    assert np.signbit(low[4:6]).all() and not np.signbit(high[4:6]).any()
    assert low[6] == -inf and high[6] == inf
    assert np.isnan(run("min.NaN.f32", a, b)).tolist() == [False, True, True, True, False, False, False]
    product_sign = run("max.xorsign.abs.f32", np.array([-3, 2, -1.0], np.float32), np.array([2, 5, -4.0], np.float32))
    assert product_sign.tolist() == [-3, 5, 4]
    assert run("min.f64", a.astype(float), b.astype(float))[:3].tolist() == [1, 3, 2]


def test_signalling_nan_gives_way_like_a_quiet_one(run):
    signalling = np.full(5, 0x7F800001, np.uint32).view(np.float32)
    other = np.arange(5, dtype=np.float32)
    assert run("min.f32", signalling, other).tolist() == run("max.f32", other, signalling).tolist() == other.tolist()


def test_signs(run):
    x = np.array([-1.5, 0.0, 2.0], np.float32)
    assert run("abs.f32", x).tolist() == [1.5, 0, 2]
    assert np.signbit(run("neg.f32", x)).tolist() == [False, True, True]
    assert run("copysign.f32", x, np.array([3, -4, 5], np.float32)).tolist() == [-3, 4, 5]


def test_approximations(run):
    """Within the errors that the PTX ISA gives, special values exactly."""
    inf = np.inf
    x = np.linspace(-20, 20, 401, dtype=np.float32)
    positive = np.abs(x) + np.float32(0.01)
    wide = x.astype(np.float64)
    for name, values, expected, bound in (
        ("ex2", x, 2.0**wide, 2.0**-22),
        ("rcp", positive, 1 / positive.astype(np.float64), 2.0**-22),
        ("rsqrt", positive, positive.astype(np.float64) ** -0.5, 2.0**-22),
        ("sqrt", positive, positive.astype(np.float64) ** 0.5, 2.0**-22),
        ("tanh", x, np.tanh(wide), 2.0**-10),
    ):
        assert np.all(np.abs(run(f"{name}.approx.f32", values) - expected) <= bound * np.abs(expected))
    turn = x[np.abs(x) <= np.pi]
    for name, function in (("sin", np.sin), ("cos", np.cos)):
        assert np.all(np.abs(run(f"{name}.approx.f32", turn) - function(turn.astype(np.float64))) < 2.0**-20)
    edges = np.array([0.0, -0.0, inf, -inf, -1.0], np.float32)
    assert run("rcp.approx.f32", edges).tolist() == [inf, -inf, 0, 0, -1]
    assert run("lg2.approx.f32", edges)[:3].tolist() == [-inf, -inf, inf]
    assert np.isnan(run("lg2.approx.f32", edges)[3:]).all()
    assert run("rsqrt.approx.f32", edges)[:3].tolist() == [inf, -inf, 0]
    assert np.isnan(run("sin.approx.f32", edges)[2:4]).all()


def test_div_approx_beyond_the_reciprocal(run):
    a = np.array([1.0, np.inf, 6.0], np.float32)
    b = np.array([2.0**127, 2.0**127, 3.0], np.float32)
    result = run("div.approx.f32", a, b)
    assert result[0] == 0 and np.isnan(result[1]) and result[2] == 2
    assert run("div.full.f32", a, b)[0] == np.float32(2.0**-127)


@pytest.mark.parametrize(
    "opcode, count, why",
    [
        ("fma.f32", 3, "needs one of .rn"),
        ("add.rn.ftz.f64", 2, ".ftz"),
        ("add.rna.f32", 2, ".rna"),
        ("sqrt.approx.f64", 1, ".f64"),
        ("fma.rn.f32x2", 3, "sm_100"),
        ("add.rn.f32.f16", 2, "sm_100"),
    ],
)
def test_what_is_not_there_is_named(run, opcode, count, why):
    with pytest.raises(UnsupportedInstruction) as error:
        run.resolve(opcode, *[np.float32(1)] * count)
    assert why in error.value.why
