# SPDX-License-Identifier: Apache-2.0
"""Which operands an instruction takes: how many, of which kinds, and which constants, checked before anything looks at them.

One table for all instructions. A row is (words that the opcode has, operands); the first row that fits counts. An operand is
one letter of KINDS, with '?' where it may be missing. What the words of an opcode mean is checked elsewhere (isa/, ops/).
"""
from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from .ir import Function, Instr, PtxSyntaxError
from .instruction_operands import Addr, Imm, Label, Not, PredPair, Reg, Sink, Special, Sym, TensorAddr, Vec

# What an operand can be: its letter, and what it is called in messages.
FOUND = {
    "r": "a register", "p": "a predicate", "i": "an integer constant", "f": "a floating-point constant", "!": "a negated predicate", "_": "_",
    "S": "a special register", "Y": "a variable", "a": "an address", "t": "a tensor's address", "v": "a vector of registers",
    "c": "a vector with constants", "b": "a vector of predicates", "z": "a vector of something else", "2": "a pair a|b", "l": "a label",
}
# What an instruction takes: the letters of FOUND that fit, and how that is said.
KINDS = {
    "d": ("r", "a register"), "o": ("r_", "a register or _"), "p": ("p_", "a predicate"), "P": ("p!", "a predicate"), "q": ("p2_", "a predicate or a pair p|q"),
    "h": ("r2_", "a register or a pair d|p"), "2": ("2", "a pair d|p"), "s": ("rif", "a register or constant"), "j": ("ri", "a register or integer"),
    "n": ("i", "an integer constant"),
    "e": ("rifS", "a register, constant or special register"), "x": ("rv_", "a register or vector"), "y": ("rifvc", "a register, constant or vector"),
    "w": ("rv", "a register or vector"), "v": ("v", "a vector"), "V": ("vc", "a vector"), "a": ("a", "an address"), "t": ("t", "[map, {coordinates}]"),
    "A": ("rYai", "a register or variable"), "u": ("ripf!", "a register, constant or predicate"), "k": ("p!i", "a predicate or constant"),
    "m": ("rv_", "a register or vector"), "M": ("rifSYavc", "a register, constant, variable, special register or vector"),
    "Q": ("p!iS", "a predicate"), "l": ("l", "a label"), "f": ("Yr", "a function"), "g": ("vczb", "(arguments)"),
}

_TWO, _THREE, _FOUR = "d s", "d s s", "d s s s"
_HINT = {"L2::cache_hint"}                        # a cache policy is the last operand
_LOGIC = [({"pred"}, "p k k"), ((), _THREE)]
_VIDEO = [((), "d s s s?")]
TABLE: dict[str, list[tuple[Any, str]]] = {
    # arithmetic
    **dict.fromkeys(("abs", "neg", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "cnot", "popc", "clz", "bfind", "brev", "movmatrix"), [((), _TWO)]),
    **dict.fromkeys(("add", "sub", "mul", "addc", "subc", "div", "rem", "copysign", "mul24", "shl", "shr", "szext", "bmsk"), [((), _THREE)]),
    **dict.fromkeys(("mad", "madc", "fma", "sad", "mad24", "dp4a", "dp2a", "shf", "prmt", "bfe", "fns", "slct"), [((), _FOUR)]),
    **dict.fromkeys(("min", "max"), [((), "d s s s?")]), "bfi": [((), "d s s s s")],
    **dict.fromkeys(("and", "or", "xor"), _LOGIC), "not": [({"pred"}, "p k"), ((), _TWO)],
    "lop3": [({"or"}, "2 s s s n P"), ({"and"}, "2 s s s n P"), ((), "d s s s n")],
    "setp": [((), "q s s P?")], "set": [((), "d s s P?")], "selp": [((), "d s s k")], "testp": [((), "p s")],
    "cvt": [({"rs"}, "d y y y?"), ((), "d e s? s?")], "mov": [({"pred"}, "p Q"), ((), "m M")],
    **{f"{name}{count}": _VIDEO for name in ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vset", "vavrg") for count in ("", "2", "4")},
    "vshl": _VIDEO, "vshr": _VIDEO, "vmad": [((), _FOUR)],
    # memory
    "ld": [(_HINT, "x a j"), ((), "x a")], "ldu": [((), "x a")], "st": [({"async"}, "a y a?"), ({"bulk"}, "a j n"), (_HINT, "a y j"), ((), "a y")],
    "atom": [({"cas"}, "o a j j j?"), (_HINT, "x a y j"), ((), "x a y")], "red": [({"async"}, "a j a?"), (_HINT, "a y j"), ((), "a y")],
    "prefetch": [((), "a")], "prefetchu": [((), "a")], "applypriority": [((), "a n")], "discard": [((), "a n")],
    "createpolicy": [({"range"}, "d a s s"), ({"cvt"}, "d s"), ((), "d s?")],
    "cvta": [((), "d A")], "isspacep": [((), "p j")], "mapa": [((), "d A j")], "getctarank": [((), "d A")],
    "alloca": [((), "d j n?")], "stacksave": [((), "d")], "stackrestore": [((), "j")],
    "tensormap": [({"cp_fenceproxy"}, "a a n"), ({"replace"}, "a j j?")],
    # barriers, fences, warps
    "mbarrier": [({"init"}, "a j"), ({"inval"}, "a"), ({"pending_count"}, "d j"), ({"test_wait"}, "p a j"), ({"try_wait"}, "p a j j?"),
                 ({"arrive", "expect_tx"}, "o a j"), ({"arrive_drop", "expect_tx"}, "o a j"), ({"noComplete"}, "o a j"), ({"arrive"}, "o a j?"),
                 ({"arrive_drop"}, "o a j?"),
                 ({"expect_tx"}, "a j"), ({"complete_tx"}, "a j")],
    **dict.fromkeys(("bar", "barrier"), [({"warp"}, "j?"), ({"cluster"}, ""), ({"red", "popc"}, "d j j? P"), ({"red"}, "p j j? P"), ({"arrive"}, "j j"),
                                         ({"sync"}, "j j?")]),
    **dict.fromkeys(("fence", "membar"), [({"tensormap::generic", "acquire"}, "a n"), ((), "")]),
    "griddepcontrol": [((), "")], "nanosleep": [((), "j")], "setmaxnreg": [((), "n")], "pmevent": [((), "n")],
    "shfl": [((), "h j j j j?")], "vote": [({"ballot"}, "d P j?"), ((), "p P j?")], "match": [((), "h j j")], "redux": [((), "d j j")],
    "elect": [((), "2 j")], "activemask": [((), "d")],
    # copies
    "cp": [({"commit_group"}, ""), ({"wait_all"}, ""), ({"wait_group"}, "n"), ({"mbarrier"}, "a"), ({"prefetch", "tensor", *_HINT}, "t V? j"),
           ({"prefetch", "tensor"}, "t V?"),
           ({"prefetch", *_HINT}, "a j j"), ({"prefetch"}, "a j"), ({"tensor", "bulk_group", *_HINT}, "t a j"), ({"tensor", "bulk_group"}, "t a"),
           ({"tensor", "multicast::cluster", *_HINT}, "a t a V? j j"), ({"tensor", "multicast::cluster"}, "a t a V? j"), ({"tensor", *_HINT}, "a t a V? j"),
           ({"tensor"}, "a t a V?"),
           ({"bulk", "bulk_group", "cp_mask"}, "a a j j j?"), ({"bulk", "bulk_group", *_HINT}, "a a j j"), ({"bulk", "bulk_group"}, "a a j"),
           ({"ignore_oob"}, "a a j j j a j?"),
           ({"bulk", "multicast::cluster", *_HINT}, "a a j a j j"), ({"bulk", "multicast::cluster"}, "a a j a j"), ({"bulk", *_HINT}, "a a j a j"), ({"bulk"}, "a a j a"),
           (_HINT, "a a n u? j"), ((), "a a n u?")],
    # matrices
    "ldmatrix": [((), "w a")], "stmatrix": [((), "a w")], "mma": [({"block_scale"}, "w w w w y y y y y? y?"), ({"sp"}, "w w w w j n"),
                                                                  ({"sp::ordered_metadata"}, "w w w w j n"), ((), "w w w w")],
    "wmma": [({"load"}, "w a j?"), ({"store"}, "a w j?"), ({"mma"}, "w w w w")],
    "wgmma": [({"fence"}, ""), ({"commit_group"}, ""), ({"wait_group"}, "n"), ({"mma_async", "sp"}, "v y j j n k n? n? n? n?"), ({"mma_async"}, "v y j k n? n? n? n?")],
    # control
    "bra": [((), "l")], "brx": [((), "d l")], "call": [((), "g? f g? l?")],
    **dict.fromkeys(("ret", "exit", "trap", "brkpt"), [((), "")]),
}
# Constants that an instruction allows: (words, position, what may stand there, in words); of each position the first row whose words it has. A
# register there is another's business.
_NAMED = [({"warp"}, 0, lambda n: True, ""), ({"red"}, 1, lambda n: 0 <= n <= 15, "a CTA has barriers 0 to 15"), ({"red"}, 0, lambda n: True, ""),
          ((), 0, lambda n: 0 <= n <= 15, "a CTA has barriers 0 to 15")]
RANGES: dict[str, list[tuple[Any, int, Callable[[int], bool], str]]] = {
    "lop3": [((), 4, lambda n: 0 <= n <= 255, "the truth table is 0 to 255")],
    "cp": [({"wait_group"}, 0, lambda n: 0 <= n < 1 << 31, "the number of groups is not negative"),
           ({"cg"}, 2, lambda n: n == 16, ".cg copies 16 bytes"), ({"ca"}, 2, lambda n: n in (4, 8, 16), "a copy has 4, 8 or 16 bytes")],
    "wgmma": [({"wait_group"}, 0, lambda n: 0 <= n < 1 << 31, "the number of groups is not negative")],
    "bar": _NAMED, "barrier": _NAMED,
}

# Instructions that need no word behind their name, and the words of those whose resolvers do not read every one.
BARE = frozenset("bra brkpt call exit pmevent ret trap".split())
_BARRIER = "sync arrive red popc and or pred u32 cta aligned warp cluster wait acquire release relaxed"
_COUNTS = "x1 x2 x4 m8n8 m16n16 m16n8 m8n16 sync aligned trans shared shared::cta b16 b8 b8x16 b6x16_p32 b4x16_p64"
_FENCE = ("sc acq_rel acquire release cta cluster gpu sys gl proxy alias async async::generic tensormap::generic mbarrier_init global shared::cta shared::cluster "
          "sync_restrict::shared::cta sync_restrict::shared::cluster")
_FRAGMENT = ("load store mma a b c d sync aligned row col m16n16k16 m32n8k16 m8n32k16 m16n16k8 m8n8k4 m8n8k32 m8n8k128 shared "
             "shared::cta shared::cluster global satfinite rn rz rm rp xor and popc f16 bf16 tf32 f32 f64 s8 u8 s4 u4 b1 s32")
_COPY = ("async ca cg bulk tensor reduce prefetch mbarrier arrive noinc b64 commit_group wait_group wait_all read shared shared::cta "
         "shared::cluster global L2 L2::cache_hint L2::64B L2::128B L2::256B mbarrier::complete_tx::bytes multicast::cluster "
         "bulk_group 1d 2d 3d 4d 5d tile im2col im2col_no_offs tile::gather4 tile::scatter4 im2col::w im2col::w::128 cta_group::1 "
         "cta_group::2 cp_mask ignore_oob add min max inc dec and or xor noftz b32 u32 s32 u64 s64 f16 bf16 f16x2 bf16x2 f32 f64")
WORDS = {op: frozenset(words.split()) for op, words in {
    "fence": _FENCE, "membar": _FENCE, "wmma": _FRAGMENT, "cp": _COPY,
    "bar": _BARRIER, "barrier": _BARRIER, "ldmatrix": _COUNTS, "stmatrix": _COUNTS, "movmatrix": "sync aligned m8n8 trans b16",
    "mbarrier": "init inval arrive arrive_drop expect_tx complete_tx test_wait try_wait pending_count parity noComplete acquire release relaxed cta cluster "
                "shared shared::cta shared::cluster b64",
    "shfl": "sync up down bfly idx b32", "vote": "sync all any uni ballot pred b32", "match": "sync all any b32 b64", "elect": "sync", "activemask": "b32",
    "setmaxnreg": "inc dec sync aligned u32", "nanosleep": "u32", "griddepcontrol": "wait launch_dependents",
    "isspacep": "global shared shared::cta shared::cluster local const param param::entry", "mapa": "shared::cluster u32 u64", "getctarank": "shared::cluster u32 u64",
    "bra": "uni", "brx": "idx uni", "call": "uni", "ret": "uni", "exit": "", "trap": "", "brkpt": "",
}.items()}
# Instructions all of whose operands (but predicates and addresses) have the type that the opcode ends with.
OF_ONE_TYPE = frozenset("abs add addc and atom copysign cos div ex2 fma ld ldu lg2 mad max min mov mul neg not or rcp red rem rsqrt sad selp setp sin sqrt st "
                        "sub subc tanh xor".split())
_SORT = {"u": "integer", "s": "integer", "f": "float", "b": "bits"}
_LETTER: dict[type, str] = {Imm: "i", Not: "!", Sink: "_", Special: "S", Sym: "Y", Addr: "a", TensorAddr: "t", PredPair: "2", Label: "l"}


def letter(operand: Any) -> str:
    """The letter of FOUND for one operand."""
    kind = type(operand)
    if kind is Reg:
        return "p" if operand.type == "pred" else "r"
    if kind is Vec:
        items = {letter(item) for item in operand.items}
        for name, allowed in (("v", "r_"), ("c", "rif_"), ("b", "p!_")):
            if items and items <= set(allowed):
                return name
        return "z"
    return "f" if kind is Imm and operand.kind != "int" else _LETTER[kind]


@cache
def _pattern(operands: str) -> re.Pattern[str]:
    """A row's operands as an expression over the letters of FOUND."""
    return re.compile("".join(f"[{re.escape(KINDS[word[0]][0])}]{word[1:]}" for word in operands.split()))


def check(function: Function) -> None:
    """Raise PtxSyntaxError for the first instruction of a function whose operands are not those that it takes."""
    passed = set()
    for instr in function.body:
        key = (instr.op, instr.mods, *[o.type if type(o) is Reg else type(o) is Vec and _types(o) or letter(o) for o in instr.operands])
        if key not in passed:
            _check_kinds(instr, "".join([letter(o) for o in instr.operands]))
            _check_types(instr)
            passed.add(key)
        if instr.op in RANGES:
            _check_ranges(instr)


def _check_kinds(instr: Instr, found: str) -> None:
    rows = TABLE.get(instr.op)
    if rows is None:
        return                                           # nobody's instruction: whoever resolves it says so
    words = set(instr.mods)
    if not words and instr.op not in BARE:
        raise _error(instr, "its type is missing")
    strange = [m for m in instr.mods if m not in WORDS.get(instr.op, words)]
    if strange:
        raise _error(instr, f"modifier .{strange[0]} is not known here")
    row = next((row for row in rows if words.issuperset(row[0])), None)
    if row is None:
        raise _error(instr, "there is no such form")
    if _pattern(row[1]).fullmatch(found) is None:
        here = ", ".join(FOUND[k] for k in found) or "none"
        raise _error(instr, f"its operands are {_words(row[1])}, not {here}")


def _types(vector: Vec) -> tuple[str, ...]:
    """What the elements of a vector are, each sort once."""
    return tuple(dict.fromkeys([item.type if type(item) is Reg else letter(item) for item in vector.items]))


def _check_types(instr: Instr) -> None:
    """Where all operands have the instruction's type, integers, floats and bits do not mix: bits go with both (PTX ISA 9.4)."""
    kind = _SORT.get(instr.mods[-1][:1] if instr.mods else "", "")
    if instr.op not in OF_ONE_TYPE or not kind or kind == "bits" or "wide" in instr.mods or instr.mods[-1][-2:] == "x2":
        return
    for operand in instr.operands:
        for item in operand.items if type(operand) is Vec else (operand,):
            own = _SORT.get(item.type[0], kind) if type(item) is Reg and item.type != "pred" else kind
            if type(item) is Imm and instr.mods[-1] != "pred":
                own = "integer" if item.kind == "int" else "float"
            if own not in (kind, "bits"):
                what = f"{item.name} (.{item.type})" if type(item) is Reg else str(item.value)
                raise _error(instr, f"{what} is no {kind}")


def _words(operands: str) -> str:
    said = [KINDS[word[0]][1] + (" (or nothing)" if "?" in word else "") for word in operands.split()]
    return ", ".join(said) or "none"


def _check_ranges(instr: Instr) -> None:
    asked = set()
    for words, position, allows, rule in RANGES[instr.op]:
        if position in asked or words and not set(words) <= set(instr.mods) or position >= len(instr.operands):
            continue
        asked.add(position)
        operand = instr.operands[position]
        if type(operand) is Imm and not (isinstance(operand.value, int) and allows(operand.value)):
            raise _error(instr, f"{rule}, not {operand.value}")


def _error(instr: Instr, message: str) -> PtxSyntaxError:
    return PtxSyntaxError(instr.ptx_line, instr.opcode, message)
