# SPDX-License-Identifier: Apache-2.0
"""Logic, shifts and bit fields against Python's integers."""

import numpy as np
import pytest

from hopperlab.emulator.isa import UnsupportedInstruction, bits

RNG = np.random.default_rng(77)
A, B, C = (RNG.integers(0, 2**32, 200, dtype=np.uint32) for _ in range(3))
A[:6] = [0, 1, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 2]
WIDE = A.astype(np.uint64) << np.uint64(32) | B
AMOUNTS = np.resize(np.array([0, 1, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 2**31, 2**32 - 1], np.uint32), 200)


def ints(*arrays):
    return [tuple(int(v) for v in row) for row in zip(*arrays)]


def signed(value, width):
    value &= 2**width - 1
    return value - 2**width if value >> width - 1 else value


@pytest.mark.parametrize("name, op", [("and", int.__and__), ("or", int.__or__), ("xor", int.__xor__)])
def test_logic(run, name, op):
    assert run(f"{name}.b32", A, B).tolist() == [op(x, y) for x, y in ints(A, B)]
    assert run(f"{name}.b64", WIDE, WIDE[::-1]).tolist() == [op(x, y) for x, y in ints(WIDE, WIDE[::-1])]
    p, q = A % 2 == 0, B % 3 == 0
    assert run(f"{name}.pred", p, q, dst="pred").tolist() == [op(x, y) for x, y in zip(p.tolist(), q.tolist())]


def test_not_and_cnot(run):
    assert run("not.b32", A).tolist() == [x ^ 0xFFFFFFFF for (x,) in ints(A)]
    assert run("cnot.b32", A).tolist() == [int(x == 0) for (x,) in ints(A)]
    assert run("not.pred", A == 0, dst="pred").tolist() == [x != 0 for (x,) in ints(A)]


@pytest.mark.parametrize("width", [16, 32, 64])
def test_shifts_clamp_the_amount(run, width):
    x = WIDE.astype(f"u{width // 8}")
    rows = ints(x, AMOUNTS)
    left = [v << min(n, width) & 2**width - 1 for v, n in rows]
    right = [v >> min(n, width) for v, n in rows]
    arithmetic = [signed(v, width) >> min(n, width) for v, n in rows]
    assert run(f"shl.b{width}", x, AMOUNTS).tolist() == left
    assert run(f"shr.u{width}", x, AMOUNTS).tolist() == right
    assert run(f"shr.s{width}", x, AMOUNTS).tolist() == arithmetic
    for n in (0, 5, width - 1, width, width + 1, 1000):
        assert run(f"shl.b{width}", x, n).tolist() == [v << min(n, width) & 2**width - 1 for v, _ in rows]
        assert run(f"shr.s{width}", x, n).tolist() == [signed(v, width) >> min(n, width) for v, _ in rows]


@pytest.mark.parametrize("mode", ["wrap", "clamp"])
def test_funnel_shift(run, mode):
    def expected(direction, n):
        n = n & 31 if mode == "wrap" else min(n, 32)
        both = [(b << 32 | a) for a, b in ints(A, B)]
        return [(v << n >> 32 if direction == "l" else v >> n) & 0xFFFFFFFF for v in both]

    for direction in "lr":
        for n in (0, 1, 13, 31, 32, 33, 70):
            assert run(f"shf.{direction}.{mode}.b32", A, B, n).tolist() == expected(direction, n)
        variable = run(f"shf.{direction}.{mode}.b32", A, B, AMOUNTS).tolist()
        assert variable == [expected(direction, int(n))[i] for i, n in enumerate(AMOUNTS)]


def test_every_lop3_table():
    a, b, c = np.uint32(0xF0), np.uint32(0xCC), np.uint32(0xAA)
    for table in range(256):
        value = eval(bits.lop3_template(table).format("a", "b", "c"), {"a": a, "b": b, "c": c})
        assert value & np.uint32(0xFF) == table


def test_lop3_with_predicate(run):
    q = C % 2 == 0
    d, p = run("lop3.and.b32", A, B, C, 0x80, q, dst=("b32", "pred"))
    assert d.tolist() == [x & y & z for x, y, z in ints(A, B, C)]
    assert p.tolist() == [(x & y & z) != 0 and z % 2 == 0 for x, y, z in ints(A, B, C)]


def permuted(a, b, selector):
    data = [(b << 32 | a) >> 8 * i & 255 for i in range(8)]
    out = 0
    for i in range(4):
        nibble = selector >> 4 * i & 15
        byte = data[nibble & 7]
        out |= (255 * (byte >> 7) if nibble & 8 else byte) << 8 * i
    return out


def test_prmt(run):
    for selector in (0x3210, 0x5410, 0x7632, 0x0123, 0x1032, 0x4444, 0x3340, 0xBA98, 0x8F6D, 0x7771):
        assert run("prmt.b32", A, B, selector).tolist() == [permuted(x, y, selector) for x, y in ints(A, B)]
    assert run("prmt.b32", A, B, C).tolist() == [permuted(*row) for row in ints(A, B, C)]


def test_prmt_modes(run):
    tables = {
        "f4e": [0x3210, 0x4321, 0x5432, 0x6543],
        "b4e": [0x5670, 0x6701, 0x7012, 0x0123],
        "rc8": [0x0000, 0x1111, 0x2222, 0x3333],
        "ecl": [0x3210, 0x3211, 0x3222, 0x3333],
        "ecr": [0x0000, 0x1110, 0x2210, 0x3210],
        "rc16": [0x1010, 0x3232, 0x1010, 0x3232],
    }
    for mode, selectors in tables.items():
        for n in range(4):
            expected = [permuted(x, y, selectors[n]) for x, y in ints(A, B)]
            assert run(f"prmt.b32.{mode}", A, B, n).tolist() == expected
            assert run(f"prmt.b32.{mode}", A, B, np.full(200, n + 4, np.uint32)).tolist() == expected


@pytest.mark.parametrize("width, x", [(32, A), (64, WIDE), (64, WIDE >> np.uint64(40))])
def test_counting(run, width, x):
    rows = [v for (v,) in ints(x)]
    assert run(f"popc.b{width}", x).tolist() == [v.bit_count() for v in rows]
    assert run(f"clz.b{width}", x).tolist() == [width - v.bit_length() for v in rows]
    assert run(f"brev.b{width}", x).tolist() == [int(f"{v:0{width}b}"[::-1], 2) for v in rows]
    none = 0xFFFFFFFF
    found = [v.bit_length() - 1 for v in rows]
    assert run(f"bfind.u{width}", x).tolist() == [f if f >= 0 else none for f in found]
    assert run(f"bfind.shiftamt.u{width}", x).tolist() == [width - 1 - f if f >= 0 else none for f in found]
    magnitude = [s if (s := signed(v, width)) >= 0 else ~s for v in rows]
    assert run(f"bfind.s{width}", x).tolist() == [m.bit_length() - 1 if m else none for m in magnitude]


@pytest.mark.parametrize("width, x", [(32, A), (64, WIDE)])
def test_bit_fields(run, width, x):
    places = np.resize(np.array([0, 1, 5, 16, 31, 32, 40, 63, 64, 100, 255], np.uint32), 200)
    lengths = np.resize(np.array([0, 1, 3, 8, 24, 31, 32, 33, 64, 255], np.uint32), 200)
    other = x[::-1].copy()
    unsigned, with_sign, inserted = [], [], []
    for v, w, pos, n in ints(x, other, places, lengths):
        unsigned.append(v >> pos & (1 << n) - 1)
        sign_at = min(pos + n - 1, width - 1)
        sign = v >> sign_at & 1 if n else 0
        field = [(v >> pos + i & 1) if i < n and pos + i < width else sign for i in range(width)]
        with_sign.append(signed(sum(bit << i for i, bit in enumerate(field)), width))
        mask = ((1 << n) - 1) << pos & 2**width - 1
        inserted.append(w & ~mask | v << pos & mask)
    assert run(f"bfe.u{width}", x, places, lengths).tolist() == unsigned
    assert run(f"bfe.s{width}", x, places, lengths).tolist() == with_sign
    assert run(f"bfi.b{width}", x, other, places, lengths).tolist() == inserted


def test_szext_and_bmsk(run):
    for mode in ("wrap", "clamp"):
        n = [v & 31 if mode == "wrap" else min(v, 32) for (v,) in ints(AMOUNTS)]
        rows = [v for (v,) in ints(A)]
        assert run(f"szext.{mode}.u32", A, AMOUNTS).tolist() == [v & (1 << k) - 1 for v, k in zip(rows, n)]
        expected = [signed(v, k) if k else 0 for v, k in zip(rows, n)]
        assert run(f"szext.{mode}.s32", A, AMOUNTS).tolist() == expected
        start = AMOUNTS[::-1].copy()
        at = [v & 31 if mode == "wrap" else min(v, 32) for (v,) in ints(start)]
        expected = [((1 << k) - 1) << p & 0xFFFFFFFF for p, k in zip(at, n)]
        assert run(f"bmsk.{mode}.b32", start, AMOUNTS).tolist() == expected


def test_fns(run):
    mask = np.array([0b10110, 0b10110, 0b10110, 0b10110, 0b10110, 0, 0xFFFFFFFF], np.uint32)
    base = np.array([0, 2, 2, 4, 3, 5, 31], np.uint32)
    offset = np.array([2, 0, 1, -2, 0, 1, -32], np.int32).view(np.uint32)
    assert run("fns.b32", mask, base, offset).tolist() == [2, 2, 2, 2, 0xFFFFFFFF, 0xFFFFFFFF, 0]


def test_unknown_types(run):
    with pytest.raises(UnsupportedInstruction, match="u32"):
        run.resolve("and.u32", np.uint32(1), np.uint32(2))
