# SPDX-License-Identifier: Apache-2.0
"""Integer arithmetic against Python's integers."""

import numpy as np
import pytest

from hopperlab.emulator.isa import UnsupportedInstruction

BITS = {"u16": 16, "s16": 16, "u32": 32, "s32": 32, "u64": 64, "s64": 64}


def numbers(kind, seed, n=300):
    """Random patterns, small numbers and the edges of a type."""
    rng = np.random.default_rng(seed)
    width = BITS[kind]
    full = rng.integers(0, 2**width - 1, n, dtype=np.uint64, endpoint=True)
    small = rng.integers(-5, 6, n).astype(np.uint64)
    edges = np.array([0, 1, 2**width - 1, 2 ** (width - 1), 2 ** (width - 1) - 1], dtype=np.uint64)
    mixed = np.where(rng.integers(0, 2, n) == 1, full, small)
    mixed[: n // 4] = edges[rng.integers(0, 5, n // 4)]
    return mixed.astype(f"u{width // 8}").view(f"{'i' if kind[0] == 's' else 'u'}{width // 8}")


def wrap(value, kind):
    width = BITS[kind]
    value &= 2**width - 1
    return value - 2**width if kind[0] == "s" and value >> width - 1 else value


def truncated(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


REFERENCE = {
    "add": lambda a, b, k: a + b,
    "sub": lambda a, b, k: a - b,
    "mul.lo": lambda a, b, k: a * b,
    "mul.hi": lambda a, b, k: a * b >> BITS[k],
    "min": lambda a, b, k: min(a, b),
    "max": lambda a, b, k: max(a, b),
    "div": lambda a, b, k: truncated(a, b) if b else -1,
    "rem": lambda a, b, k: a - b * truncated(a, b) if b else -1,
}


@pytest.mark.parametrize("kind", BITS)
@pytest.mark.parametrize("name", REFERENCE)
def test_two_operands(run, name, kind):
    a, b = numbers(kind, 1), numbers(kind, 2)
    result = run(f"{name}.{kind}", a, b, dst=f"b{BITS[kind]}")
    expected = [wrap(REFERENCE[name](int(x), int(y), kind), kind) for x, y in zip(a, b)]
    assert result.tolist() == expected


@pytest.mark.parametrize("kind", BITS)
def test_mad_and_sad(run, kind):
    a, b, c = (numbers(kind, s) for s in (3, 4, 5))
    dst = f"b{BITS[kind]}"
    rows = [(int(x), int(y), int(z)) for x, y, z in zip(a, b, c)]
    assert run(f"mad.lo.{kind}", a, b, c, dst=dst).tolist() == [wrap(x * y + z, kind) for x, y, z in rows]
    assert run(f"mad.hi.{kind}", a, b, c, dst=dst).tolist() == [
        wrap((x * y >> BITS[kind]) + z, kind) for x, y, z in rows
    ]
    assert run(f"sad.{kind}", a, b, c, dst=dst).tolist() == [wrap(z + abs(x - y), kind) for x, y, z in rows]


@pytest.mark.parametrize("kind, wide", [("u16", "u32"), ("s16", "s32"), ("u32", "u64"), ("s32", "s64")])
def test_wide_products(run, kind, wide):
    a, b, c = numbers(kind, 6), numbers(kind, 7), numbers(wide, 8)
    assert run(f"mul.wide.{kind}", a, b).tolist() == [int(x) * int(y) for x, y in zip(a, b)]
    expected = [wrap(int(x) * int(y) + int(z), wide) for x, y, z in zip(a, b, c)]
    assert run(f"mad.wide.{kind}", a, b, c).tolist() == expected


def test_saturation(run):
    a, b, c = (numbers("s32", s) for s in (9, 10, 11))
    clamp = lambda v: max(-(2**31), min(2**31 - 1, v))
    assert run("add.sat.s32", a, b).tolist() == [clamp(int(x) + int(y)) for x, y in zip(a, b)]
    assert run("sub.sat.s32", a, b).tolist() == [clamp(int(x) - int(y)) for x, y in zip(a, b)]
    expected = [clamp((int(x) * int(y) >> 32) + int(z)) for x, y, z in zip(a, b, c)]
    assert run("mad.hi.sat.s32", a, b, c).tolist() == expected


def test_the_least_number_divided_by_minus_one(run):
    for kind in ("s32", "s64"):
        least = np.array([-(2 ** (BITS[kind] - 1))] * 3, dtype=f"i{BITS[kind] // 8}")
        assert run(f"div.{kind}", least, np.full_like(least, -1)).tolist() == least.tolist()
        assert run(f"rem.{kind}", least, np.full_like(least, -1)).tolist() == [0, 0, 0]
        assert run(f"abs.{kind}", least).tolist() == run(f"neg.{kind}", least).tolist() == least.tolist()


@pytest.mark.parametrize("kind", ["u32", "s64"])
def test_carry_chain_adds_and_subtracts_long_numbers(run, kind):
    width, dtype = BITS[kind], f"u{BITS[kind] // 8}"
    parts = [numbers("u" + kind[1:], seed).astype(dtype) for seed in range(20, 26)]
    a, b = parts[:3], parts[3:]
    whole = lambda p: [sum(int(x) << width * i for i, x in enumerate(row)) for row in zip(*p)]
    for name, sign in (("add", 1), ("sub", -1)):
        low, carry = run(f"{name}.cc.{kind}", a[0], b[0])
        mid, carry = run(f"{name}c.cc.{kind}", a[1], b[1], carry=carry)
        high = run(f"{name}c.{kind}", a[2], b[2], carry=carry)
        expected = [(x + sign * y) % 2 ** (3 * width) for x, y in zip(whole(a), whole(b))]
        assert whole([low, mid, high]) == expected


def test_a_subtraction_sets_the_carry_where_it_does_not_borrow(run):
    a, b = np.array([5, 3, 3], np.uint32), np.array([3, 3, 5], np.uint32)
    _, carry = run("sub.cc.u32", a, b)
    zero = np.zeros(3, np.uint32)
    assert run("addc.u32", zero, zero, carry=carry).tolist() == [1, 1, 0]
    assert run("subc.u32", zero, zero, carry=carry).tolist() == [0, 0, 2**32 - 1]


def test_mad_carry(run):
    a, b, c, d = (numbers("u32", s).astype(np.uint32) for s in range(30, 34))
    low, carry = run("mad.lo.cc.u32", a, b, c)
    high = run("madc.hi.u32", a, b, d, carry=carry)
    expected = [(int(x) * int(y) + int(z) + (int(w) << 32)) % 2**64 for x, y, z, w in zip(a, b, c, d)]
    assert [int(lo) + (int(hi) << 32) for lo, hi in zip(low, high)] == expected


def test_mul24(run):
    for kind in ("u32", "s32"):
        a, b, c = (numbers(kind, s) for s in (40, 41, 42))
        cut = lambda v, kind=kind: (int(v) & 0xFFFFFF) - (2**24 if kind[0] == "s" and int(v) >> 23 & 1 else 0)
        products = [cut(x) * cut(y) for x, y in zip(a, b)]
        assert run(f"mul24.lo.{kind}", a, b).tolist() == [wrap(p, kind) for p in products]
        assert run(f"mul24.hi.{kind}", a, b).tolist() == [wrap(p >> 16, kind) for p in products]
        assert run(f"mad24.lo.{kind}", a, b, c).tolist() == [wrap(p + int(z), kind) for p, z in zip(products, c)]


def lanes(word, width, signed):
    values = [int(word) >> i & 2**width - 1 for i in range(0, 32, width)]
    return [v - 2**width if signed and v >> width - 1 else v for v in values]


@pytest.mark.parametrize("a_kind", ["u32", "s32"])
@pytest.mark.parametrize("b_kind", ["u32", "s32"])
def test_dot_products(run, a_kind, b_kind):
    a, b = numbers("u32", 50), numbers("u32", 51)
    out = "u32" if a_kind == b_kind == "u32" else "s32"
    c = numbers(out, 52)
    dot = [sum(x * y for x, y in zip(lanes(p, 8, a_kind == "s32"), lanes(q, 8, b_kind == "s32"))) for p, q in zip(a, b)]
    assert run(f"dp4a.{a_kind}.{b_kind}", a, b, c).tolist() == [wrap(d + int(z), out) for d, z in zip(dot, c)]
    for half, pick in (("lo", slice(0, 2)), ("hi", slice(2, 4))):
        dot = [
            sum(x * y for x, y in zip(lanes(p, 16, a_kind == "s32"), lanes(q, 8, b_kind == "s32")[pick]))
            for p, q in zip(a, b)
        ]
        assert run(f"dp2a.{half}.{a_kind}.{b_kind}", a, b, c).tolist() == [
            wrap(d + int(z), out) for d, z in zip(dot, c)
        ]


def test_packed_16_bit(run):
    a, b = numbers("u32", 60), numbers("u32", 61)
    for kind, signed in (("u16x2", False), ("s16x2", True)):
        pairs = [(lanes(x, 16, signed), lanes(y, 16, signed)) for x, y in zip(a, b)]
        for name, op in (("add", lambda x, y: x + y), ("min", min), ("max", max)):
            expected = [sum((op(x[i], y[i]) & 0xFFFF) << 16 * i for i in range(2)) for x, y in pairs]
            assert run(f"{name}.{kind}", a, b).tolist() == expected


@pytest.mark.parametrize(
    "opcode, why",
    [
        ("add.f32x2", "sm_100"),
        ("add.sat.u32", ".sat"),
        ("mul.u32", "needs one of .lo, .hi, .wide"),
        ("mul.wide.u64", "128 bits"),
        ("add.cc.u16", "carry"),
        ("max.foo.s32", ".foo"),
    ],
)
def test_what_is_not_there_is_named(run, opcode, why):
    with pytest.raises(UnsupportedInstruction) as error:
        run.resolve(opcode, np.uint32(1), np.uint32(2))
    assert (error.value.opcode, error.value.ptx_line) == (opcode, 12)
    assert why in str(error.value)


def test_three_inputs_need_a_newer_gpu(run):
    with pytest.raises(UnsupportedInstruction, match="sm_100"):
        run.resolve("min.s32", np.int32(1), np.int32(2), np.int32(3))
    with pytest.raises(UnsupportedInstruction, match="sm_100"):
        run.resolve("max.f32", np.float32(1), np.float32(2), np.float32(3))


def test_relu_before_and_after_the_type(run):
    a, b = np.array([-5, 3, -1], np.int32), np.array([-7, 2, 4], np.int32)
    assert run("max.relu.s32", a, b).tolist() == run("max.s32.relu", a, b).tolist() == [0, 3, 4]
    with pytest.raises(UnsupportedInstruction, match="relu"):
        run.resolve("max.u32.relu", np.uint32(1), np.uint32(2))


def test_simd_video(run):
    a, b, c = (numbers("u32", s) for s in (70, 71, 72))
    rows = [(lanes(x, 8, False), lanes(y, 8, False), int(z)) for x, y, z in zip(a, b, c)]
    pack = lambda values: sum((v & 0xFF) << 8 * i for i, v in enumerate(values))
    differences = [[abs(x - y) for x, y in zip(p, q)] for p, q, _ in rows]
    assert run("vabsdiff4.u32.u32.u32", a, b, c).tolist() == [pack(d) for d in differences]
    expected = [(sum(d) + row[2]) % 2**32 for d, row in zip(differences, rows)]
    assert run("vabsdiff4.u32.u32.u32.add", a, b, c).tolist() == expected
    expected = [pack(min(255, x + y) for x, y in zip(p, q)) for p, q, _ in rows]
    assert run("vadd4.u32.u32.u32.sat", a, b, c).tolist() == expected
    assert run("vset4.u32.u32.lt", a, b, c).tolist() == [pack(int(x < y) for x, y in zip(p, q)) for p, q, _ in rows]
