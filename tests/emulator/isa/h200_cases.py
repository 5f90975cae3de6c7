# SPDX-License-Identifier: Apache-2.0
"""The instructions that test_h200.py compares with an H200. record_h200.py runs them on the inputs of h200_inputs.py.

A case is (opcode, results, operands). Letters name registers: h b16, r b32, d b64, f f32, F f64, p predicate; #n is a
constant, (…) a vector; a selector (.b0, .h10) or a minus stands with its letter, and + joins the opcodes of a chain, whose
instructions share the results and the operands out evenly. Inputs come from a bank of arrays named by letter (or element type) and place. Cases that sm_90a
does not have are dropped by ptxas when they are recorded.
"""

import re
from itertools import product

ROUNDINGS = ("rn", "rz", "rm", "rp")
ORDER = ("eq", "ne", "lt", "le", "gt", "ge")
UNORDERED = ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


GROUP = re.compile(r"\(\w+\)|#\d+|-?[a-zA-Z](?:\.[bh]\d+)?")


def letters(spec: str) -> str:
    """The letters of the registers in a spec: 'r.b0(rr)#3-r' gives 'rrrr'."""
    return "".join(re.sub(r"\.[bh]\d+|[-()]", "", group) for group in GROUP.findall(spec) if group[0] != "#")


def opcodes(opcode: str) -> list[str]:
    """The opcodes of a chain."""
    return opcode.split("+")


# --- cases ------------------------------------------------------------------------------------------------------------


def integer_cases():
    """Arithmetic, comparisons, bit fields."""
    for kind in ("u16", "s16", "u32", "s32", "u64", "s64"):
        w = {"16": "h", "32": "r", "64": "d"}[kind[1:]]
        for op in ("add", "sub", "div", "rem", "min", "max", "mul.lo", "mul.hi"):
            yield f"{op}.{kind}", w, w * 2
        for op in ("mad.lo", "mad.hi", "sad"):
            yield f"{op}.{kind}", w, w * 3
        if w != "d":
            wide = "r" if w == "h" else "d"
            yield f"mul.wide.{kind}", wide, w * 2
            yield f"mad.wide.{kind}", wide, w * 2 + wide
        for op in ("abs", "neg") if kind[0] == "s" else ():
            yield f"{op}.{kind}", w, w
        for op in ORDER + (("lo", "ls", "hi", "hs") if kind[0] == "u" else ()):
            yield f"setp.{op}.{kind}", "p", w * 2
        yield f"shr.{kind}", w, w + "r"
        if w != "h":
            yield f"bfind.{kind}", "r", w
            yield f"bfind.shiftamt.{kind}", "r", w
            yield f"bfe.{kind}", w, w + "rr"
    for op in ("add.sat.s32", "sub.sat.s32", "min.relu.s32", "max.relu.s32", "min.relu.s16x2", "max.relu.s16x2"):
        yield op, "r", "rr"
    for op, kind in product(("add", "min", "max"), ("u16x2", "s16x2")):
        yield f"{op}.{kind}", "r", "rr"
    for part, kind in product(("lo", "hi"), ("u32", "s32")):
        yield f"mul24.{part}.{kind}", "r", "rr"
        yield f"mad24.{part}.{kind}", "r", "rrr"
    for a, b in product(("u32", "s32"), repeat=2):
        for op in ("dp4a", "dp2a.lo", "dp2a.hi"):
            yield f"{op}.{a}.{b}", "r", "rrr"
    for op in ("mad.hi.sat.s32", "mad24.hi.sat.s32"):
        yield op, "r", "rrr"
    yield "max.s32.relu", "r", "rr"
    yield "setp.lt.and.s32", "pp", "rrp"
    yield "set.gt.u32.s32", "r", "rr"
    yield "set.gt.xor.s32.u32", "r", "rrp"
    yield "slct.b64.s32", "d", "ddr"


def bit_cases():
    """Logic, shifts, permutations."""
    for kind, w in (("b16", "h"), ("b32", "r"), ("b64", "d"), ("pred", "p")):
        for op in ("and", "or", "xor"):
            yield f"{op}.{kind}", w, w * 2
        yield f"not.{kind}", w, w
        if w != "p":
            yield f"cnot.{kind}", w, w
            yield f"shl.{kind}", w, w + "r"
            for amount in (0, 7, 16, 31, 32, 64):
                yield f"shl.{kind}", w, f"{w}#{amount}"
                yield f"shr.s{kind[1:]}", w, f"{w}#{amount}"
    for direction, mode in product("lr", ("wrap", "clamp")):
        for amount in ("r", "#0", "#1", "#31", "#32", "#33"):
            yield f"shf.{direction}.{mode}.b32", "r", "rr" + amount
    for table in (0x96, 0xE8, 0x6A, 0xCA, 0x1B, 0x80, 0xFE, 0x35, 0xF8):
        yield "lop3.b32", "r", f"rrr#{table}"
    yield "lop3.or.b32", "rp", "rrr#150p"
    yield "lop3.and.b32", "rp", "rrr#128p"
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        yield f"prmt.b32{mode}", "r", "rrr"
    for selector in (0x5410, 0x7632, 0x0123, 0x7771, 0xBA98, 0x3340, 0x8F6D):
        yield "prmt.b32", "r", f"rr#{selector}"
    for kind, w in (("b32", "r"), ("b64", "d")):
        yield f"popc.{kind}", "r", w
        yield f"clz.{kind}", "r", w
        yield f"brev.{kind}", w, w
        yield f"bfi.{kind}", w, w * 2 + "rr"
    for mode in ("clamp", "wrap"):
        yield f"szext.{mode}.u32", "r", "rr"
        yield f"szext.{mode}.s32", "r", "rr"
        yield f"bmsk.{mode}.b32", "r", "rr"
    yield from (("mov.b32", "(hh)", "r"), ("mov.b64", "(rr)", "d"), ("mov.b64", "(hhhh)", "d"))
    yield from (("mov.b32", "r", "(hh)"), ("mov.b64", "d", "(rr)"), ("mov.b64", "d", "(hhhh)"))
    yield "fns.b32", "r", "rrr"


def video_cases():
    """Lanes of 16 and 8 bits."""
    operations = ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax")
    kinds = ("u32.u32.u32", "s32.s32.s32", "u32.s32.u32", "s32.u32.s32")
    for count, op, kind, suffix in product("24", operations, kinds, ("", ".sat", ".add")):
        yield f"{op}{count}.{kind}{suffix}", "r", "rrr"
    for count, op, kind in product("24", ORDER, ("u32.s32", "s32.s32")):
        yield f"vset{count}.{kind}.{op}", "r", "rrr"
    yield "vset4.u32.u32.lt.add", "r", "rrr"
    yield from selected_cases()
    yield from scalar_video_cases()


def selected_cases():
    """Lanes picked from both sources, and masks."""
    for count, mask, a, b in (("2", ".h0", ".h13", ".h20"), ("2", ".h1", ".h32", ".h10"), ("4", ".b2", ".b7531", ".b0246"), ("4", ".b310", ".b4053", ".b7654")):
        for op, kind, suffix in product(("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"), ("u32.u32.s32", "s32.s32.u32"), ("", ".add")):
            yield f"{op}{count}.{kind}{suffix}", "r" + mask, f"r{a}r{b}r"
        yield f"vset{count}.s32.u32.lt", "r" + mask, f"r{a}rr"
        yield f"vset{count}.u32.s32.ge.add", "r" + mask, f"rr{b}r"


def scalar_video_cases():
    """vadd and its kin, on bytes, halves and words."""
    kinds = ("u32", "s32")
    for op, d, a, b in product(("vadd", "vsub", "vabsdiff", "vmin", "vmax"), kinds, kinds, kinds):
        for suffix in ("", ".sat"):
            yield f"{op}.{d}.{a}.{b}{suffix}", "r", "rr"
            yield f"{op}.{d}.{a}.{b}{suffix}.add", "r", "r.b1r.h1r"
            yield f"{op}.{d}.{a}.{b}{suffix}", "r.b2", "r.h0r.b3r"
            yield f"{op}.{d}.{a}.{b}{suffix}", "r.h1", "r.b0rr"
        for second in ("min", "max"):
            yield f"{op}.{d}.{a}.{b}.{second}", "r", "rrr"
            yield f"{op}.{d}.{a}.{b}.sat.{second}", "r", "r.h0r.h1r"
    for op, d, a, mode in product(("vshl", "vshr"), kinds, kinds, ("clamp", "wrap")):
        for suffix in ("", ".sat"):
            yield f"{op}.{d}.{a}.u32{suffix}.{mode}", "r", "rr"
            yield f"{op}.{d}.{a}.u32{suffix}.{mode}.add", "r", "r.b1r.b0r"
            yield f"{op}.{d}.{a}.u32{suffix}.{mode}", "r.h1", "r.h0r.b2r"
    for a, b, sat, scale in product(kinds, kinds, ("", ".sat"), ("", ".shr7", ".shr15")):
        yield f"vmad.{a}.{a}.{b}{sat}{scale}", "r", "rrr"
        yield f"vmad.{b}.{a}.{b}{sat}{scale}", "r", "r.b0r.h1r"
        yield f"vmad.s32.{a}.{b}{sat}{scale}", "r", "-r.h1rr"
        yield f"vmad.s32.{a}.{b}{sat}{scale}", "r", "rr-r"
        yield f"vmad.u32.{a}.{b}.po{sat}{scale}", "r", "r.h0r.h1r"
    for a, b, op in product(kinds, kinds, ORDER):
        yield f"vset.{a}.{b}.{op}", "r", "rr"
        yield f"vset.{a}.{b}.{op}.add", "r", "r.h1r.b3r"
        yield f"vset.{a}.{b}.{op}", "r.b2", "r.b0rr"


def chain_cases():
    """The carry flag from instruction to instruction."""
    for kind, w in (("u32", "r"), ("s32", "r"), ("u64", "d")):
        for first, then in product(("add", "sub"), ("addc", "subc")):
            yield f"{first}.cc.{kind}+{then}.{kind}", w * 2, w * 4
            yield f"{first}.cc.{kind}+{then}.cc.{kind}+addc.{kind}", w * 3, w * 6
            yield f"{first}.cc.{kind}+{then}.cc.{kind}+subc.{kind}", w * 3, w * 6
        for part, _ in product(("lo", "hi"), ("addc", "subc")):
            yield f"mad.{part}.cc.{kind}+madc.{part}.{kind}", w * 2, w * 6
            yield f"mad.{part}.cc.{kind}+madc.hi.cc.{kind}+madc.lo.{kind}", w * 3, w * 9


def float_cases():
    """f32 and f64."""
    for kind, w in (("f32", "f"), ("f64", "F")):
        single = w == "f"
        for mode, suffix in product(ROUNDINGS, ("", ".ftz", ".sat", ".ftz.sat") if single else ("",)):
            for op, count in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
                yield f"{op}.{mode}{suffix}.{kind}", w, w * count
            if "sat" not in suffix:
                yield f"div.{mode}{suffix}.{kind}", w, w * 2
                yield f"rcp.{mode}{suffix}.{kind}", w, w
                yield f"sqrt.{mode}{suffix}.{kind}", w, w
        suffixes = ("", ".ftz", ".NaN", ".ftz.NaN", ".xorsign.abs", ".NaN.xorsign.abs") if single else ("",)
        for op, suffix in product(("min", "max"), suffixes):
            yield f"{op}{suffix}.{kind}", w, w * 2
        for op, suffix in product(("abs", "neg"), ("", ".ftz") if single else ("",)):
            yield f"{op}{suffix}.{kind}", w, w
        yield f"copysign.{kind}", w, w * 2
        for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            yield f"testp.{test}.{kind}", "p", w
        for op, suffix in product(ORDER + UNORDERED, ("", ".ftz") if single else ("",)):
            yield f"setp.{op}{suffix}.{kind}", "p", w * 2
        for op in ("and", "or", "xor"):
            yield f"setp.geu.{op}.{kind}", "pp", w * 2 + "p"
        for suffix, selector in (("", "r"), ("", "f"), (".ftz", "f")):
            yield f"slct{suffix}.{kind}.{'s32' if selector == 'r' else 'f32'}", w, w * 2 + selector
    for op in ("eq", "ltu"):
        yield f"set.{op}.u32.f32", "r", "ff"
        yield f"set.{op}.f32.f32", "f", "ff"


def approximate_cases():
    """What is compared within the error that the PTX ISA allows."""
    for suffix in ("", ".ftz"):
        yield f"div.full{suffix}.f32", "f", "ff"
        yield f"div.approx{suffix}.f32", "f", "ff"
        for op in ("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos"):
            yield f"{op}.approx{suffix}.f32", "f", "f"
    yield "tanh.approx.f32", "f", "f"
    for op in ("rcp.approx.ftz", "rsqrt.approx", "rsqrt.approx.ftz"):
        yield f"{op}.f64", "F", "F"
    for kind, w in (("f16", "h"), ("bf16", "h"), ("f16x2", "r"), ("bf16x2", "r")):
        yield f"ex2.approx{'.ftz' if kind[0] == 'b' else ''}.{kind}", w, w
        yield f"tanh.approx.{kind}", w, w


def half_cases():
    """f16, bf16 and pairs."""
    for kind, w in (("f16", "h"), ("bf16", "h"), ("f16x2", "r"), ("bf16x2", "r")):
        half, p = kind[0] == "f", "pp" if w == "r" else "p"
        for op, suffix in product(("add", "sub", "mul"), ("", ".rn", ".ftz", ".sat") if half else ("", ".rn")):
            yield f"{op}{suffix}.{kind}", w, w * 2
        for suffix in ("", ".relu", ".oob", ".oob.relu") + ((".ftz", ".sat", ".ftz.relu") if half else ()):
            yield f"fma.rn{suffix}.{kind}", w, w * 3
        for op, suffix in product(("min", "max"), ("", ".NaN", ".xorsign.abs") + ((".ftz",) if half else ())):
            yield f"{op}{suffix}.{kind}", w, w * 2
        for op, suffix in product(("abs", "neg"), ("", ".ftz") if half else ("",)):
            yield f"{op}{suffix}.{kind}", w, w
        for op in ("eq", "ne", "lt", "equ", "neu", "geu", "num", "nan"):
            yield f"setp.{op}.{kind}", p, w * 2
            yield f"set.{op}.{kind}.{kind}", w, w * 2
            yield f"set.{op}.u32.{kind}", "r", w * 2
        yield f"setp.lt.and.{kind}", p, w * 2 + "p"


def conversion_cases():
    """cvt between scalars, and the packed forms."""
    ints = {"u8": "h", "s8": "h", "u16": "h", "s16": "h", "u32": "r", "s32": "r", "u64": "d", "s64": "d"}
    floats = {"f16": "h", "bf16": "h", "f32": "f", "f64": "F"}
    for (a, x), (b, y) in product(ints.items(), repeat=2):
        yield f"cvt.{b}.{a}", y, x
        yield f"cvt.sat.{b}.{a}", y, x
        if b in ("u8", "s8", "s16"):
            yield f"cvt.{b}.{a}", "r", x
        if a in ("u8", "s8", "s16"):
            yield f"cvt.{b}.{a}", y, "r"
    for (a, x), (b, y) in product(ints.items(), floats.items()):
        for mode in ROUNDINGS:
            yield f"cvt.{mode}.{b}.{a}", y, x
        for mode in ("rni", "rzi", "rmi", "rpi"):
            yield f"cvt.{mode}.{a}.{b}", x, y
    suffixes = ("", ".sat", ".ftz", ".ftz.sat", ".relu", ".satfinite", ".relu.satfinite")
    modes = ("", ".rni", ".rzi", ".rmi", ".rpi", *("." + m for m in ROUNDINGS))
    for (a, x), (b, y), mode, suffix in product(floats.items(), floats.items(), modes, suffixes):
        yield f"cvt{mode}{suffix}.{b}.{a}", y, x
    for form in ("rna", "rn", "rn.relu", "rz", "rz.relu"):
        yield f"cvt.{form}.tf32.f32", "r", "f"
    for mode, suffix, kind in product(("rn", "rz"), suffixes[:1] + suffixes[4:], ("f16x2", "bf16x2")):
        yield f"cvt.{mode}{suffix}.{kind}.f32", "r", "ff"
    for kind, suffix in product(("e4m3x2", "e5m2x2"), ("", ".relu")):
        yield f"cvt.rn.satfinite{suffix}.{kind}.f32", "h", "ff"
        yield f"cvt.rn.satfinite{suffix}.{kind}.f16x2", "h", "r"
        yield f"cvt.rn{suffix}.f16x2.{kind}", "r", "h"
    for kind in ("u16", "s16"):
        yield f"cvt.pack.sat.{kind}.s32", "r", "rr"
    for kind in ("u8", "s8", "u4", "s4", "u2", "s2"):
        yield f"cvt.pack.sat.{kind}.s32.b32", "r", "rrr"


def matrix_cases():
    """mma.sync on small integers, whose sums are exact; the operands' kinds replace letters in the bank."""

    def case(shape, d, a, b, counts, suffix="", before=""):
        c = {"f16": "r", "f32": "f", "s32": "r", "f64": "F"}[d]
        ab = "F" if d == "f64" else "r"
        opcode = f"mma.sync.aligned.{shape}.row.col{before}.{d}.{a}.{b}.{d}{suffix}"
        return opcode, f"({c * counts[2]})", f"({ab * counts[0]})({ab * counts[1]})({c * counts[2]})"

    for a in ("f16", "bf16"):
        for d, n in (("f32", 4), ("f16", 2)) if a == "f16" else (("f32", 4),):
            yield case("m16n8k16", d, a, a, (4, 2, n))
            yield case("m16n8k8", d, a, a, (2, 1, n))
    yield case("m16n8k8", "f32", "tf32", "tf32", (4, 2, 4))
    yield case("m16n8k4", "f32", "tf32", "tf32", (2, 1, 4))
    for a, b, (d, n) in product(("e4m3", "e5m2"), ("e4m3", "e5m2"), (("f32", 4), ("f16", 2))):
        yield case("m16n8k32", d, a, b, (4, 2, n))
        yield case("m16n8k16", d, a, b, (2, 1, n))
    for width, k in (("8", 32), ("4", 64)):
        for a, b, sat in product("us", "us", ("", ".satfinite")):
            yield case(f"m16n8k{k}", "s32", a + width, b + width, (4, 2, 4), before=sat)
            yield case(f"m16n8k{k // 2}", "s32", a + width, b + width, (2, 1, 4), before=sat)
            yield case(f"m8n8k{k // 2}", "s32", a + width, b + width, (1, 1, 2), before=sat)
    for op in (".xor.popc", ".and.popc"):
        yield case("m16n8k256", "s32", "b1", "b1", (4, 2, 4), op)
        yield case("m16n8k128", "s32", "b1", "b1", (2, 1, 4), op)
        yield case("m8n8k128", "s32", "b1", "b1", (1, 1, 2), op)
    for shape, counts in (
        ("m8n8k4", (1, 1, 2)),
        ("m16n8k4", (2, 1, 4)),
        ("m16n8k8", (4, 2, 4)),
        ("m16n8k16", (8, 4, 4)),
    ):
        yield case(shape, "f64", "f64", "f64", counts)
        for mode in ROUNDINGS:
            yield case(shape, "f64", "f64", "f64", counts, before="." + mode)
    for a, b, (d, c) in product(("row", "col"), ("row", "col"), (("f16", "f16"), ("f32", "f32"), ("f32", "f16"))):
        sizes = {"f16": "rrrr", "f32": "ffffffff"}
        yield f"mma.sync.aligned.m8n8k4.{a}.{b}.{d}.f16.f16.{c}", f"({sizes[d]})", f"(rr)(rr)({sizes[c]})"
    yield "movmatrix.sync.aligned.m8n8.trans.b16", "r", "r"


def all_cases():
    """Every case once, in a fixed order."""
    families = (
        integer_cases,
        bit_cases,
        video_cases,
        chain_cases,
        float_cases,
        approximate_cases,
        half_cases,
        conversion_cases,
        matrix_cases,
    )
    return list(dict.fromkeys(case for family in families for case in family()))
