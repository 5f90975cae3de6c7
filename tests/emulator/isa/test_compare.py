# SPDX-License-Identifier: Apache-2.0
"""setp, set, selp, slct, testp, and mov."""

import itertools
import operator

import ml_dtypes
import numpy as np
import pytest

from hopperlab.emulator.isa import UnsupportedInstruction, immediate, resolve
from hopperlab.emulator.ptx import ir

ORDERED = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
NAN = float("nan")
VALUES = [0.0, -0.0, 1.0, -2.5, float("inf"), NAN]
PAIRS = list(itertools.product(VALUES, VALUES))


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_integers(run, kind):
    numbers = [0, 1, 2, -1, -2, 2**15, 2**31 - 1, 2**63 - 1]
    dtype = f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}"
    values = np.array([v & 2 ** int(kind[1:]) - 1 for v in numbers], f"u{int(kind[1:]) // 8}").view(dtype)
    a, b = (np.array(x) for x in zip(*itertools.product(values, values)))
    rows = list(zip(a.tolist(), b.tolist()))
    names = dict(ORDERED)
    if kind[0] == "u":
        names |= {"lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge}
    for name, op in names.items():
        assert run(f"setp.{name}.{kind}", a, b, dst="pred").tolist() == [op(x, y) for x, y in rows]


def unordered_or(op):
    return lambda x, y: x != x or y != y or op(x, y)


FLOATING = {name: lambda x, y, op=op: x == x and y == y and op(x, y) for name, op in ORDERED.items()}
FLOATING |= {name + "u": unordered_or(op) for name, op in ORDERED.items()}
FLOATING |= {"num": lambda x, y: x == x and y == y, "nan": lambda x, y: x != x or y != y}


@pytest.mark.parametrize("name", FLOATING)
def test_floats_and_nan(run, name):
    expected = [FLOATING[name](x, y) for x, y in PAIRS]
    x, y = (np.array(v) for v in zip(*PAIRS))
    for kind, dtype in (("f32", np.float32), ("f64", np.float64), ("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        a, b = (v.astype(dtype) for v in (x, y))
        if kind in ("f16", "bf16"):
            a, b = a.view(np.uint16), b.view(np.uint16)
            packed = [np.stack([v, np.roll(v, 1)], axis=1).view(np.uint32)[:, 0] for v in (a, b)]
            low, high = run(f"setp.{name}.{kind}x2", *packed, dst=("pred", "pred"))
            assert low.tolist() == expected and high.tolist() == np.roll(expected, 1).tolist()
        assert run(f"setp.{name}.{kind}", a, b, dst="pred").tolist() == expected


@pytest.mark.parametrize("combine, op", [("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)])
def test_combination_and_inverse(run, combine, op):
    a, b = np.array([1, 2, 3, 4], np.int32), np.array([2, 2, 2, 2], np.int32)
    c = np.array([True, True, False, False])
    hit = (a < b).tolist()
    p, q = run(f"setp.lt.{combine}.s32", a, b, c, dst=("pred", "pred"))
    assert p.tolist() == [op(h, v) for h, v in zip(hit, c.tolist())]
    assert q.tolist() == [op(not h, v) for h, v in zip(hit, c.tolist())]
    assert run(f"setp.lt.{combine}.s32", a, b, c, dst="pred").tolist() == p.tolist()


def test_flushed_comparison(run):
    tiny = np.full(3, 2.0**-130, np.float32)
    zero = np.zeros(3, np.float32)
    assert run("setp.gt.f32", tiny, zero, dst="pred").all()
    assert not run("setp.gt.ftz.f32", tiny, zero, dst="pred").any()


def test_set(run):
    a, b = np.array([1, 5, 3], np.int32), np.array([2, 2, 3], np.int32)
    assert run("set.lt.u32.s32", a, b).tolist() == [0xFFFFFFFF, 0, 0]
    assert run("set.ge.f32.s32", a, b, dst="f32").tolist() == [0, 1, 1]
    low, high = np.float16([1, 5, 3]), np.float16([9, 1, 4])
    pairs = [
        np.stack(v, axis=1).view(np.uint32)[:, 0] for v in ((low, high), (np.float16([2, 2, 3]), np.float16([8, 2, 4])))
    ]
    assert run("set.eq.f16x2.f16x2", *pairs).tolist() == [0, 0, 0x3C003C00]


def test_select(run):
    a, b = np.array([1, 2, 3], np.uint32), np.array([9, 8, 7], np.uint32)
    assert run("selp.b32", a, b, np.array([True, False, True])).tolist() == [1, 8, 3]
    assert run("slct.u32.s32", a, b, np.array([0, -1, 5], np.int32)).tolist() == [1, 8, 3]
    assert run("slct.u32.f32", a, b, np.array([-0.0, NAN, -1e-42], np.float32)).tolist() == [1, 8, 7]
    assert run("slct.ftz.u32.f32", a, b, np.array([-0.0, NAN, -1e-42], np.float32)).tolist() == [1, 8, 3]


def test_testp(run):
    x = np.array([0.0, 1.0, 2.0**-130, np.inf, NAN], np.float32)
    expected = {
        "finite": [1, 1, 1, 0, 0], "infinite": [0, 0, 0, 1, 0], "number": [1, 1, 1, 1, 0],
        "notanumber": [0, 0, 0, 0, 1], "normal": [1, 1, 0, 0, 0], "subnormal": [0, 0, 1, 0, 0],
    }  # fmt: skip
    for name, truth in expected.items():
        assert run(f"testp.{name}.f32", x, dst="pred").tolist() == [bool(t) for t in truth]


@pytest.mark.parametrize(
    "opcode, why",
    [("setp.lo.f32", ".lo"), ("setp.equ.s32", ".equ"), ("setp.s32", "needs one of"), ("setp.lt.ftz.f64", ".f64")],
)
def test_operators_that_do_not_exist(run, opcode, why):
    with pytest.raises(UnsupportedInstruction) as error:
        run.resolve(opcode, np.float32(1), np.float32(2), dst="pred")
    assert why in error.value.why


def test_mov_packs_and_unpacks_from_the_lowest_bits(run):
    word = np.array([0x11223344, 0xAABBCCDD, 0], np.uint32)
    low, high = run("mov.b32", word, dst=["b16", "b16"])
    assert low.tolist() == [0x3344, 0xCCDD, 0] and high.tolist() == [0x1122, 0xAABB, 0]
    assert run("mov.b32", [low, high]).tolist() == word.tolist()
    wide = run("mov.b64", [word, word[::-1].copy()], dst="b64")
    assert wide.tolist() == [int(h) << 32 | int(lo) for lo, h in zip(word, word[::-1])]
    quarters = run("mov.b64", wide, dst=["b16"] * 4)
    assert run("mov.b64", list(quarters), dst="b64").tolist() == wide.tolist()
    assert run("mov.f32", word.view(np.float32), dst="f32").view(np.uint32).tolist() == word.tolist()


def test_mov_of_128_bits():
    low, high = np.array([1, 2, 3], np.uint64), np.array([7, 8, 9], np.uint64)
    registers = tuple(ir.Reg(f"%rd{i}", "b64") for i in range(2))
    whole = ir.Reg("%q", "b128")
    pack = resolve(ir.Instr("mov", ("b128",), (whole, ir.Vec(registers)), None, None, 1, 0))
    unpack = resolve(ir.Instr("mov", ("b128",), (ir.Vec(registers), whole), None, None, 1, 0))
    assert pack.outs == ("b128",) and unpack.ins == ("b128",)
    assert [x.tolist() for x in unpack.fn(pack.fn(low, high))] == [low.tolist(), high.tolist()]


def test_immediates():
    half = ir.Imm(1.5, "f32", 0x3FC00000)
    assert immediate(half, "u32") == 0x3FC00000 and immediate(half, "f32") == 1.5
    minus = ir.Imm(-1, "int", 2**64 - 1)
    assert [immediate(minus, d) for d in ("s16", "u16", "s64", "u64")] == [-1, 0xFFFF, -1, 2**64 - 1]
    assert immediate(ir.Imm(0x3C00, "int", 0x3C00), "u16").view(np.float16) == 1


def test_what_belongs_to_the_engine():
    d, s = ir.Reg("%r1", "b32"), ir.Reg("%r2", "b32")
    for op, mods, operands in (
        ("mov", ("u32",), (d, ir.Special("%tid.x"))),
        ("mov", ("u64",), (d, ir.Sym("buffer"))),
        ("ld", ("global", "u32"), (d, ir.Addr(s, 0))),
        ("shfl", ("sync", "idx", "b32"), (d, s, s, s, s)),
        ("bar", ("sync",), (ir.Imm(0, "int", 0),)),
    ):
        assert resolve(ir.Instr(op, mods, operands, None, None, 1, 0)) is None
