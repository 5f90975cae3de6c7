# SPDX-License-Identifier: Apache-2.0
"""cvt against Python's integers, fractions and ml_dtypes casts."""

import itertools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from hopperlab.emulator.isa import UnsupportedInstruction

INTS = {"u8": 8, "u16": 16, "u32": 32, "u64": 64, "s8": 8, "s16": 16, "s32": 32, "s64": 64}


def limits(kind):
    width = INTS[kind]
    return (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if kind[0] == "s" else (0, 2**width - 1)


def register(values, kind):
    """Values of an integer type in a register of at least 16 bits, whose upper bits are garbage."""
    width = max(16, INTS[kind])
    bits = [(v & 2 ** INTS[kind] - 1) | (0xA500 if INTS[kind] == 8 else 0) for v in values]
    return np.array(bits, dtype=f"u{width // 8}")


def samples(kind):
    low, high = limits(kind)
    rng = np.random.default_rng(INTS[kind])
    width = INTS[kind]
    random = [limits(kind)[0] + int(rng.integers(0, 2**width - 1, dtype=np.uint64, endpoint=True)) for _ in range(20)]
    edges = [low, low + 1, 0, 1, 5, 127, 128 & high, high - 1, high]
    return [v for v in [*edges, *random, 200, 40000, -3] if low <= v <= high]


def read(result, kind):
    """The value that a register holds, after checking that it is extended by its own sign."""
    wide = int(result)
    assert limits(kind)[0] <= wide <= limits(kind)[1]
    return wide


@pytest.mark.parametrize("source, target", list(itertools.product(INTS, INTS)))
def test_integers(run, source, target):
    values = samples(source)
    dst = f"b{max(16, INTS[target])}"
    low, high = limits(target)
    width = INTS[target]
    wrapped = [((v - low) % 2**width) + low for v in values]
    result = run(f"cvt.{target}.{source}", register(values, source), dst=dst)
    assert [read(r, target) for r in result] == wrapped
    if limits(source)[0] < low or limits(source)[1] > high:
        result = run(f"cvt.sat.{target}.{source}", register(values, source), dst=dst)
        assert [read(r, target) for r in result] == [min(max(v, low), high) for v in values]
    else:
        with pytest.raises(UnsupportedInstruction, match="nothing to clamp"):
            run.resolve(f"cvt.sat.{target}.{source}", register(values, source), dst=dst)


def test_wider_registers(run):
    word = np.array([0x1FF80, 0x0007F, 0x123FF], np.uint32)
    assert run("cvt.s32.s8", word).tolist() == [-128, 127, -1]
    assert run("cvt.u64.u16", word, dst="b64").tolist() == [0xFF80, 0x7F, 0x23FF]
    assert run("cvt.s8.s32", word, dst="b32").tolist() == [-128, 127, -1]


FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
DIGITS = {"f16": (11, -24, 65504), "bf16": (8, -133, None), "f32": (24, -149, None), "f64": (53, -1074, None)}


def nearest(value: Fraction, kind, mode):
    """A finite non-zero number rounded to a format, as a float; overflow as IEEE 754 has it."""
    digits, least, top = DIGITS[kind]
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > abs(value)
    unit = Fraction(2) ** max(exponent - digits + 1, least)
    down, up = math.floor(value / unit), math.ceil(value / unit)
    chosen = {"rm": down, "rp": up, "rz": down if value > 0 else up, "rn": round(value / unit)}[mode] * unit
    largest = Fraction(top or float(ml_dtypes.finfo(FLOATS[kind]).max))
    if abs(chosen) > largest:
        inward = mode == "rz" or mode == ("rm" if value > 0 else "rp")
        return math.copysign(float(largest) if inward else math.inf, value)
    return math.copysign(float(abs(chosen)), value)


def as_floats(result, kind):
    return (result.view(FLOATS[kind]) if kind in ("f16", "bf16") else result).astype(np.float64)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("source, target", list(itertools.product(INTS, FLOATS)))
def test_integer_to_float(run, source, target, mode):
    if target == "bf16" and INTS[source] == 8:
        with pytest.raises(UnsupportedInstruction):
            run.resolve(f"cvt.{mode}.bf16.{source}", np.uint16(0), dst="b16")
        return
    values = samples(source)
    values += [
        v for v in (2**24 + 1, 2**25 + 2, 2**53 + 1, 2**54 + 6, 2049, 65519, 65520, 257) if v <= limits(source)[1]
    ]
    result = as_floats(run(f"cvt.{mode}.{target}.{source}", register(values, source), dst="b16"), target)
    assert result.tolist() == [nearest(Fraction(v), target, mode) if v else 0.0 for v in values]


ROUND = {"rni": lambda x: round(x), "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


def float_samples(kind):
    rng = np.random.default_rng(3)
    values = [0.0, -0.0, 0.5, 1.5, -0.5, -1.5, 2.5, 127.5, -128.5, 255.5, 32767.5, 65535.0, 1e-5, -1e-5, 300.25]
    values += (rng.normal(size=20) * 2.0 ** rng.integers(0, 15, 20)).tolist()
    if kind in ("f32", "f64", "bf16"):
        values += [2.0**31, -(2.0**31), 2.0**32, 2.0**63, -(2.0**63), 2.0**64, 1e30, -1e30, 2147483520.0]
    if kind == "f64":
        values += [2147483647.5, -2147483648.5, 4294967295.5, 2.0**53 + 2]
    values = [v for v in values if abs(v) <= (DIGITS[kind][2] or math.inf)]
    return np.array(values).astype(FLOATS[kind])


@pytest.mark.parametrize("rounding", ROUND)
@pytest.mark.parametrize("source, target", list(itertools.product(FLOATS, INTS)))
def test_float_to_integer_saturates(run, source, target, rounding):
    if source == "bf16" and INTS[target] == 8:
        return
    values = np.concatenate([float_samples(source), np.array([np.inf, -np.inf]).astype(FLOATS[source])])
    low, high = limits(target)
    operand = values.view(np.uint16) if source in ("f16", "bf16") else values
    result = run(f"cvt.{rounding}.{target}.{source}", operand, dst=f"b{max(16, INTS[target])}")
    expected = [
        (high if x > 0 else low) if math.isinf(x) else min(max(ROUND[rounding](Fraction(x)), low), high)
        for x in values.astype(np.float64).tolist()
    ]
    assert [int(r) for r in result] == expected


def test_nan_to_integer(run):
    """PTX ISA 9.7.9.21: zero, but for 64 bits on either side the most significant bit alone."""
    nan32, nan64 = np.full(3, np.nan, np.float32), np.full(3, np.nan)
    assert run("cvt.rzi.s32.f32", nan32).tolist() == run("cvt.rzi.u32.f32", nan32).tolist() == [0] * 3
    assert run("cvt.rzi.u64.f32", nan32).tolist() == [2**63] * 3
    assert run("cvt.rzi.s64.f32", nan32).tolist() == [-(2**63)] * 3
    assert run("cvt.rzi.s32.f64", nan64).tolist() == [-(2**31)] * 3
    assert run("cvt.rzi.u32.f64", nan64).tolist() == [2**31] * 3


NARROWING = [
    ("f32", "f16"),
    ("f32", "bf16"),
    ("f64", "f32"),
    ("f64", "f16"),
    ("f64", "bf16"),
    ("f16", "bf16"),
    ("bf16", "f16"),
]


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("source, target", NARROWING)
def test_float_to_float(run, source, target, mode):
    rng = np.random.default_rng(8)
    values = rng.normal(size=200) * 2.0 ** rng.integers(-40, 20, 200)
    ties = (1 + rng.integers(0, 2**12, 100) * 2.0**-12) * 2.0 ** rng.integers(-20, 5, 100)
    tiny = rng.integers(1, 2**12, 50) * 2.0**-140
    values = np.concatenate([values, ties, -ties, tiny, -tiny, [65519.0, 65520.0, -65536.0]])
    values = values[np.abs(values) <= (DIGITS[source][2] or np.inf)].astype(FLOATS[source])
    operand = values.view(np.uint16) if source in ("f16", "bf16") else values
    result = as_floats(run(f"cvt.{mode}.{target}.{source}", operand, dst="b16"), target)
    for x, r in zip(values.astype(np.float64).tolist(), result.tolist()):
        expected = nearest(Fraction(x), target, mode) if x else x
        assert r == expected and math.copysign(1, r) == math.copysign(1, expected), x


def test_double_rounding_to_bf16(run):
    # To float32 first this would be a tie.
    x = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8 - 2.0**-40, 1 + 2.0**-8])
    assert as_floats(run("cvt.rn.bf16.f64", x, dst="b16"), "bf16").tolist() == [1 + 2.0**-7, 1, 1]


def test_rounding_to_integral_floats(run):
    x = np.array([0.5, 1.5, -0.5, -1.5, 2.25, -2.75, 1e10], np.float32)
    for name, op in (("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)):
        assert run(f"cvt.{name}.f32.f32", x).tolist() == op(x).tolist()
    assert np.signbit(run("cvt.rni.f32.f32", x))[2]


def test_saturation_relu_and_satfinite(run):
    x = np.array([-2, -0.0, 0.25, 3, np.inf, -np.inf, np.nan], np.float32)
    assert run("cvt.sat.f32.f32", x).tolist() == [0, 0, 0.25, 1, 1, 0, 0]
    relu = as_floats(run("cvt.rn.relu.bf16.f32", x, dst="b16"), "bf16")
    assert relu[:6].tolist() == [0, 0, 0.25, 3, np.inf, 0] and np.isnan(relu[6]) and not np.signbit(relu[1])
    finite = as_floats(run("cvt.rn.satfinite.f16.f32", x, dst="b16"), "f16")
    assert finite[4:6].tolist() == [65504, -65504]


def test_tf32(run):
    x = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-11 - 2.0**-20, -1 - 2.0**-11, np.inf], np.float32)
    read = lambda bits: bits.view(np.float32).tolist()
    assert read(run("cvt.rna.tf32.f32", x)) == [1 + 2.0**-10, 1 + 2.0**-9, 1, -1 - 2.0**-10, np.inf]
    assert read(run("cvt.rn.tf32.f32", x)) == [1, 1 + 2.0**-9, 1, -1, np.inf]
    assert read(run("cvt.rz.tf32.f32", x)) == [1, 1 + 2.0**-10, 1, -1, np.inf]
    assert np.isfinite(run("cvt.rna.satfinite.tf32.f32", x).view(np.float32)).all()


def test_pairs_put_the_first_input_into_the_upper_half(run):
    a, b = np.float32([1.0, 2.5, -3]), np.float32([0.5, 1e30, np.nan])
    for kind, dtype in (("f16x2", np.float16), ("bf16x2", ml_dtypes.bfloat16)):
        with np.errstate(over="ignore"):
            expected = [x.astype(dtype).view(np.uint16).astype(np.uint32) for x in (a, b)]
        expected[1][2] = 0x7FFF
        assert run(f"cvt.rn.{kind}.f32", a, b).tolist() == (expected[0] << 16 | expected[1]).tolist()


def closest_fp8(values, dtype):
    """The nearest finite number of an fp8 type (even pattern at a tie), by trying all of them."""
    patterns = np.arange(256, dtype=np.uint8)
    table = patterns.view(dtype).astype(np.float64)
    finite = np.isfinite(table)
    out = []
    for x in values:
        candidates = patterns[finite & (np.signbit(table) == np.signbit(x))]
        out.append(min(candidates, key=lambda p: (abs(table[p] - x), p & 1)))
    return np.array(out, np.uint8)


@pytest.mark.parametrize("kind, dtype", [("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2)])
def test_fp8(run, kind, dtype):
    rng = np.random.default_rng(4)
    a = (rng.normal(size=120) * 2.0 ** rng.integers(-12, 10, 120)).astype(np.float32)
    a[:8] = [0, -0.0, 448, 464, 1e9, -1e9, 2.0**-10, 3 * 2.0**-10]
    b = a[::-1].copy()
    packed = run(f"cvt.rn.satfinite.{kind}x2.f32", a, b, dst="b16")
    low, high = closest_fp8(b, dtype), closest_fp8(a, dtype)
    assert packed.tolist() == (low.astype(np.uint16) | high.astype(np.uint16) << 8).tolist()
    every = np.arange(256, dtype=np.uint16)
    pairs = run(f"cvt.rn.f16x2.{kind}x2", every | np.uint16(0x3800)).astype(np.uint32)
    values = every.astype(np.uint8).view(dtype).astype(np.float32)
    decoded = (pairs & 0xFFFF).astype(np.uint16).view(np.float16)[:256]
    keep = (every | 0x3800) & 0xFF == every
    assert np.array_equal(decoded[keep], values[keep].astype(np.float16), equal_nan=True)
    nan = np.full(3, np.nan, np.float32)
    assert run(f"cvt.rn.satfinite.{kind}x2.f32", nan, nan, dst="b16").tolist() == [0x7F7F] * 3
    halves = np.float16([1.5, -2.0]).view(np.uint32).repeat(3)
    expected = np.array([1.5, -2.0]).astype(dtype).view(np.uint16)[0]
    assert run(f"cvt.rn.satfinite.{kind}x2.f16x2", halves, dst="b16").tolist() == [expected] * 3


def test_pack(run):
    a, b = np.array([300, -5, 100], np.int32), np.array([-300, 70000, 7], np.int32)
    c = np.array([0xABCD1234] * 3, np.uint32)
    u8 = lambda v: max(0, min(255, int(v)))
    s16 = lambda v: max(-(2**15), min(2**15 - 1, int(v))) & 0xFFFF
    assert run("cvt.pack.sat.s16.s32", a, b).tolist() == [s16(x) << 16 | s16(y) for x, y in zip(a, b)]
    expected = [0x12340000 | u8(x) << 8 | u8(y) for x, y in zip(a, b)]
    assert run("cvt.pack.sat.u8.s32.b32", a, b, c).tolist() == expected


@pytest.mark.parametrize(
    "opcode, values, why",
    [
        ("cvt.f16.f32", [np.float32(1)], "needs a rounding"),
        ("cvt.rn.f32.f16", [np.uint16(1)], "nothing to round"),
        ("cvt.rni.f16.f32", [np.float32(1)], "same type"),
        ("cvt.rs.f16x2.f32", [np.float32(1)] * 3, "sm_100a"),
        ("cvt.rn.satfinite.e2m1x2.f32", [np.float32(1)] * 2, "sm_100a"),
        ("cvt.rn.e4m3x2.f32", [np.float32(1)] * 2, "satfinite"),
        ("cvt.rn.satfinite.tf32.f32", [np.float32(1)], "satfinite"),
        ("cvt.u32.b32", [np.uint32(1)], "b32"),
    ],
)
def test_what_is_not_there_is_named(run, opcode, values, why):
    with pytest.raises(UnsupportedInstruction) as error:
        run.resolve(opcode, *values)
    assert why in error.value.why
