# SPDX-License-Identifier: Apache-2.0
"""Logic and shifts, and instructions on bit fields: and, or, xor, not, cnot, lop3, shl, shr, shf, prmt (PTX ISA 9.7.8,
9.7.9.7) and popc, clz, bfind, fns, brev, bfe, bfi, szext, bmsk (9.7.1). NumPy shifts by the width or more give 0 or the
sign, as PTX does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..ptx import ir
from .op import BITS, NUMPY, AluOp, Modifiers, binary, constant, expression, sources, unary

if TYPE_CHECKING:
    from .value import Value

_BITS_TYPES = ("pred", "b16", "b32", "b64")
_FIELD_TYPES = ("u32", "u64", "s32", "s64")
_31, _32 = np.uint32(31), np.uint32(32)


def _dtype(kind: str) -> str:
    return kind.replace("b", "u") if kind != "pred" else kind


def logic(instr: ir.Instr) -> AluOp:
    """and, or, xor, not, cnot."""
    mods = Modifiers(instr)
    dtype = _dtype(mods.type(_BITS_TYPES if instr.op != "cnot" else _BITS_TYPES[1:]))
    mods.finish()
    if instr.op == "not":
        return unary("~{0}", dtype)
    if instr.op == "cnot":
        return unary(f"({{0}} == 0).astype(np.{NUMPY[dtype].__name__})", dtype)
    return binary(f"{{0}} {dict(zip(('and', 'or', 'xor'), '&|^'))[instr.op]} {{1}}", dtype)


def shift(instr: ir.Instr) -> AluOp:
    """shl, shr: the amount is a u32, clamped to the width; shr.s fills with the sign."""
    mods = Modifiers(instr)
    kind = mods.type(
        ("b16", "b32", "b64") if instr.op == "shl" else ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64")
    )
    mods.finish()
    dtype = _dtype(kind)
    amount = constant(sources(instr)[1])
    symbol = "<<" if instr.op == "shl" else ">>"
    width = BITS[dtype]
    if amount is not None and amount < width:
        return binary(f"{{0}} {symbol} {{1}}", dtype)
    # A 16-bit value shifted by a u32 comes out wider; a signed one needs a signed (or, for s64, any) amount.
    ins = (dtype, "s32" if dtype in ("s16", "s32") else "u32")
    template = f"{{0}} {symbol} {{1}}"
    if width == 16:
        template = f"({template}).astype(np.{NUMPY[dtype].__name__})"
    return expression(template, ins, (dtype,))


def funnel(instr: ir.Instr) -> AluOp:
    """shf.{l,r}.{wrap,clamp}.b32 d, a, b, c: the 64 bits b:a shifted by c; the high (l) or low (r) half."""
    mods = Modifiers(instr)
    mods.type(("b32",))
    direction = mods.require(("l", "r"))
    mode = mods.require(("wrap", "clamp"))
    mods.finish()
    amount = constant(sources(instr)[2])
    limit = "{2} & np.uint32(31)" if mode == "wrap" else "np.minimum({2}, np.uint32(32))"
    if amount is not None:
        n = amount & 31 if mode == "wrap" else min(amount & 0xFFFFFFFF, 32)
        near, far = f"{n}", f"{32 - n}"
    else:
        near, far = f"({limit})", f"(np.uint32(32) - ({limit}))"
    if direction == "l":
        template = f"({{1}} << {near}) | ({{0}} >> {far})"
    else:
        template = f"({{0}} >> {near}) | ({{1}} << {far})"
    return expression(template, ("u32",) * 3, ("u32",))


# --- lop3 -------------------------------------------------------------------------------------------------------------

# The 16 functions of two variables x and y, by truth table: bit (2x + y).
_TWO = (
    "{zero}", "~({x} | {y})", "~{x} & {y}", "~{x}", "{x} & ~{y}", "~{y}", "{x} ^ {y}", "~({x} & {y})",
    "{x} & {y}", "~({x} ^ {y})", "{y}", "~{x} | {y}", "{x}", "{x} | ~{y}", "{x} | {y}", "{ones}",
)  # fmt: skip


def _cofactors(table: int, pivot: int) -> tuple[int, int]:
    """The truth tables of the other two variables for pivot = 0 and 1."""
    halves = [0, 0]
    others = [v for v in range(3) if v != pivot]
    for x in range(2):
        for y in range(2):
            for p in range(2):
                bit = (p << (2 - pivot)) | (x << (2 - others[0])) | (y << (2 - others[1]))
                halves[p] |= (table >> bit & 1) << (2 * x + y)
    return halves[0], halves[1]


def _two(table: int, names: list[str]) -> str:
    text = _TWO[table].format(
        x=names[0], y=names[1], zero=f"{names[0]} ^ {names[0]}", ones=f"~({names[0]} ^ {names[0]})"
    )
    return f"({text})"


def lop3_template(table: int) -> str:
    """An expression of {0}, {1}, {2} with the truth table `table`: bit 4a + 2b + c (PTX ISA 9.7.8.6)."""
    candidates = []
    for pivot in range(3):
        low, high = _cofactors(table, pivot)
        names = [f"{{{v}}}" for v in range(3) if v != pivot]
        p, low_text, high_text = f"{{{pivot}}}", _two(low, names), _two(high, names)
        if low == high:
            text = low_text
        elif low == 0:
            text = p if high == 15 else f"{p} & {high_text}"
        elif high == 0:
            text = f"~{p}" if low == 15 else f"~{p} & {low_text}"
        elif high == 15:
            text = f"{p} | {low_text}"
        elif low == 15:
            text = f"~{p} | {high_text}"
        elif high == 15 - low:
            text = f"{p} ^ {low_text}"
        else:
            text = f"({p} & {high_text}) | (~{p} & {low_text})"
        candidates.append(text)
    return min(candidates, key=lambda text: (sum(text.count(c) for c in "&|^~"), len(text)))


def lop3(instr: ir.Instr) -> AluOp:
    """lop3.b32 d, a, b, c, lut; lop3.{or,and}.b32 d|p, a, b, c, lut, q: p is (d != 0) combined with q."""
    mods = Modifiers(instr)
    mods.type(("b32",))
    combine = mods.choose(("or", "and"))
    mods.finish()
    operands = sources(instr)
    table = constant(operands[3])
    if table is None:
        raise mods.fail("the truth table must be a constant")
    plain = expression(lop3_template(table & 0xFF), ("u32",) * 4, ("u32",))
    if combine is None:
        return plain
    ufunc = np.logical_or if combine == "or" else np.logical_and

    def fn(a, b, c, lut, q):
        d = plain.fn(a, b, c, lut)
        return d, ufunc(d != 0, q)

    return AluOp(fn, ("u32",) * 4 + ("pred",), ("u32", "pred"))


# --- prmt -------------------------------------------------------------------------------------------------------------

_PRMT = {
    "f4e": lambda n: [(n + i) & 7 for i in range(4)],
    "b4e": lambda n: [(n - i) & 7 for i in range(4)],
    "rc8": lambda n: [n] * 4,
    "ecl": lambda n: [max(i, n) for i in range(4)],
    "ecr": lambda n: [min(i, n) for i in range(4)],
    "rc16": lambda n: [2, 3, 2, 3] if n & 1 else [0, 1, 0, 1],
}


def prmt(instr: ir.Instr) -> AluOp:
    """prmt.b32{.mode} d, a, b, c: four bytes of b:a picked by the nibbles of c; a nibble's bit 3 repeats the sign."""
    mods = Modifiers(instr)
    mode = mods.choose(_PRMT)
    mods.type(("b32",))
    mods.finish()
    selector = constant(sources(instr)[2])
    if mode is None and selector is not None and not selector & 0x8888:
        return expression(_prmt_template([selector >> 4 * i & 7 for i in range(4)]), ("u32",) * 3, ("u32",))
    if mode is not None and selector is not None:
        return expression(_prmt_template(_PRMT[mode](selector & 3)), ("u32",) * 3, ("u32",))
    if mode is None:
        return AluOp(_prmt_general, ("u32",) * 3, ("u32",))
    table = np.array([sum(byte << 4 * i for i, byte in enumerate(_PRMT[mode](n))) for n in range(4)], dtype=np.uint32)
    return AluOp(lambda a, b, c: _prmt_general(a, b, table[c & np.uint32(3)]), ("u32",) * 3, ("u32",))


def _prmt_template(picks: list[int]) -> str:
    """Bytes that come from one register and move equally far are moved together."""
    groups: dict[tuple[int, int], int] = {}
    for place, byte in enumerate(picks):
        key = (byte // 4, 8 * (place - byte % 4))
        groups[key] = groups.get(key, 0) | 0xFF << 8 * place
    terms = []
    for (register, move), mask in groups.items():
        moved = f"{{{register}}}"
        reach = 0xFFFFFFFF
        if move > 0:
            moved, reach = f"({moved} << {move})", 0xFFFFFFFF << move & 0xFFFFFFFF
        elif move < 0:
            moved, reach = f"({moved} >> {-move})", 0xFFFFFFFF >> -move
        terms.append(moved if mask == reach else f"({moved} & {mask})")
    return " | ".join(terms)


def _prmt_general(a, b, c):
    both = a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32)
    out = np.uint32(0)
    for i in range(4):
        nibble = c >> np.uint32(4 * i)
        byte = (both >> ((nibble & np.uint32(7)) << np.uint32(3)).astype(np.uint64)).astype(np.uint32) & np.uint32(255)
        sign = np.where(byte & np.uint32(128) != 0, np.uint32(255), np.uint32(0))
        out = out | np.where(nibble & np.uint32(8) != 0, sign, byte) << np.uint32(8 * i)
    return out


# --- counting and fields ----------------------------------------------------------------------------------------------


def bit_length(x: Value) -> Value:
    """Bits needed for an unsigned integer, as uint32 (0 for 0)."""
    if x.dtype.itemsize == 8:
        high = (x >> np.uint64(32)).astype(np.uint32)
        low = x.astype(np.uint32)
        return np.where(high != 0, bit_length(high) + _32, bit_length(low))
    return np.frexp(x.astype(np.float64))[1].astype(np.uint32)


def count(instr: ir.Instr) -> AluOp:
    """popc, clz of b32 and b64; the result is a u32."""
    mods = Modifiers(instr)
    dtype = _dtype(mods.type(("b32", "b64")))
    mods.finish()
    if instr.op == "popc":
        return expression("np.bitwise_count({0}).astype(np.uint32)", (dtype,), ("u32",))
    width = np.uint32(BITS[dtype])
    return AluOp(lambda x: width - bit_length(x), (dtype,), ("u32",))


def bfind(instr: ir.Instr) -> AluOp:
    """bfind{.shiftamt}: the highest bit that is not the sign, or the left shift that would bring it to the top;
    0xffffffff when there is none."""
    mods = Modifiers(instr)
    kind = mods.type(_FIELD_TYPES)
    shift_amount = mods.flag("shiftamt")
    mods.finish()
    unsigned, top = NUMPY[f"u{BITS[kind]}"], np.uint32(BITS[kind] - 1)

    def fn(x):
        magnitude = np.where(x < 0, ~x, x).astype(unsigned) if kind[0] == "s" else x
        place = bit_length(magnitude) - np.uint32(1)
        return np.where(magnitude == 0, place, top - place) if shift_amount else place

    return AluOp(fn, (kind,), ("u32",))


_REVERSED = np.array([int(f"{i:08b}"[::-1], 2) for i in range(256)], dtype=np.uint8)


def brev(instr: ir.Instr) -> AluOp:
    """brev: bits in reverse order."""
    mods = Modifiers(instr)
    dtype = _dtype(mods.type(("b32", "b64")))
    mods.finish()
    kind = NUMPY[dtype]
    return unary(lambda x: _REVERSED[np.asarray(x)[..., None].view(np.uint8)].view(kind)[..., 0].byteswap(), dtype)


def _low_mask(length, unsigned: type):
    """Ones in the low `length` bits; all ones for the width or more."""
    return ~(~unsigned(0) << length.astype(unsigned))


def _field_number(width: int) -> Callable:
    """A bit position or length: its low byte counts for 32 bits; for 64 bits an H200 clamps it."""
    if width == 32:
        return lambda n: n & np.uint32(255)
    return lambda n: np.minimum(n, np.uint32(255)).astype(np.uint64)


def bfe(instr: ir.Instr) -> AluOp:
    """bfe d, a, pos, len: a bit field, sign-extended for signed types. pos and len are 0 to 255."""
    mods = Modifiers(instr)
    kind = mods.type(_FIELD_TYPES)
    mods.finish()
    unsigned, signed, width = NUMPY[f"u{BITS[kind]}"], NUMPY[f"s{BITS[kind]}"], BITS[kind]
    number = _field_number(width)

    def extract(a, pos, length):
        pos, length = number(pos), number(length)
        if kind[0] == "u":
            return a >> pos & _low_mask(length, unsigned)
        # The sign is the field's top bit, or the value's where the field reaches beyond it.
        last = np.minimum(pos + length - unsigned(1), unsigned(width - 1))
        up = (unsigned(width - 1) - last).astype(signed)
        span = np.minimum(last + unsigned(1) - pos, unsigned(width)).astype(signed)
        field = a << up >> np.minimum(signed(width) - span, signed(width - 1))
        beyond = np.where(a < 0, signed(-1), signed(0))
        return np.where(length == 0, signed(0), np.where(pos >= unsigned(width), beyond, field))

    return AluOp(extract, (kind, "u32", "u32"), (kind,))


def bfi(instr: ir.Instr) -> AluOp:
    """bfi d, a, b, pos, len: the low bits of a put into b."""
    mods = Modifiers(instr)
    dtype = _dtype(mods.type(("b32", "b64")))
    mods.finish()
    unsigned, number = NUMPY[dtype], _field_number(BITS[dtype])

    def fn(a, b, pos, length):
        pos, length = number(pos), number(length)
        mask = _low_mask(length, unsigned) << pos
        return (b & ~mask) | (a << pos & mask)

    return AluOp(fn, (dtype, dtype, "u32", "u32"), (dtype,))


def _fns(mask, base, offset):
    """The offset-th set bit of mask from bit `base` on: upwards for positive offsets, downwards for negative ones, and
    bit `base` itself for 0. 0xffffffff when there is none (PTX ISA 9.7.1.18)."""
    mask, base, offset = np.broadcast_arrays(mask, base, offset)
    steps = offset.astype(np.int64)
    left = np.where(steps == 0, 1, np.abs(steps))
    direction = np.where(steps < 0, -1, 1)
    place = base.astype(np.int64)
    found = np.full(mask.shape, 0xFFFFFFFF, dtype=np.uint32)
    for i in range(32):
        inside = (place >= 0) & (place < 32) & ((steps != 0) | (i == 0))
        hit = inside & (mask >> np.where(inside, place, 0).astype(np.uint32) & np.uint32(1) != 0)
        left = left - hit
        found = np.where(hit & (left == 0), place.astype(np.uint32), found)
        place = place + direction
    return found[()]


def fns(instr: ir.Instr) -> AluOp:
    """fns.b32 d, mask, base, offset."""
    mods = Modifiers(instr)
    mods.type(("b32",))
    mods.finish()
    return AluOp(_fns, ("u32", "u32", "s32"), ("u32",))


def _amount(mode: str) -> Callable:
    """A bit count from an operand: modulo 32 or clamped to 32."""
    return (lambda n: n & _31) if mode == "wrap" else (lambda n: np.minimum(n, _32))


def szext(instr: ir.Instr) -> AluOp:
    """szext.{clamp,wrap} d, a, b: the low b bits of a, sign- or zero-extended."""
    mods = Modifiers(instr)
    kind = mods.type(("u32", "s32"))
    amount = _amount(mods.require(("clamp", "wrap")))
    mods.finish()
    if kind == "u32":
        return AluOp(lambda a, b: a & _low_mask(amount(b), np.uint32), ("u32", "u32"), ("u32",))

    def extend(a, b):
        n = amount(b)
        away = np.minimum(_32 - n, _31).astype(np.int32)
        return np.where(n == 0, np.int32(0), a << away >> away)

    return AluOp(extend, ("s32", "u32"), ("s32",))


def bmsk(instr: ir.Instr) -> AluOp:
    """bmsk.{clamp,wrap}.b32 d, a, b: ones in b bits from bit a on."""
    mods = Modifiers(instr)
    mods.type(("b32",))
    amount = _amount(mods.require(("clamp", "wrap")))
    mods.finish()
    return AluOp(lambda a, b: _low_mask(amount(b), np.uint32) << amount(a), ("u32", "u32"), ("u32",))


FAMILIES = {
    "and": logic, "or": logic, "xor": logic, "not": logic, "cnot": logic, "lop3": lop3, "shl": shift, "shr": shift,
    "shf": funnel, "prmt": prmt, "popc": count, "clz": count, "bfind": bfind, "brev": brev, "bfe": bfe, "bfi": bfi,
    "fns": fns, "szext": szext, "bmsk": bmsk,
}  # fmt: skip
