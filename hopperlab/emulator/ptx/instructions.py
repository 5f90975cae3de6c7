# SPDX-License-Identifier: Apache-2.0
"""The instructions, one table a family: of each the operands that it takes, what it counts as, and what else is known of it before anything looks at its meaning.

Everything of an instruction that is no meaning stands in its row: signatures.py checks operands by it, access.py finds the registers that are written,
observe/classes.py counts. What it computes stands in isa/, what it does to memory, other threads and time in ops/.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

# What an operand can be: its letter, and what it is called in messages.
FOUND = {
    "r": "a register", "p": "a predicate", "i": "an integer constant", "f": "a floating-point constant", "!": "a negated predicate", "_": "_",
    "S": "a special register", "Y": "a variable", "a": "an address", "t": "a tensor's address", "v": "a vector of registers",
    "c": "a vector with constants", "b": "a vector of predicates", "z": "a vector of something else", "2": "a pair a|b", "l": "a label",
}
# What an instruction takes: the letters of FOUND that fit, and how that is said. A row is a line of these, each with '?' behind it where it may be missing.
KINDS = {
    "d": ("r", "a register"), "o": ("r_", "a register or _"), "p": ("p_", "a predicate"), "P": ("p!", "a predicate"), "q": ("p2_", "a predicate or a pair p|q"),
    "h": ("r2_", "a register or a pair d|p"), "2": ("2", "a pair d|p"), "s": ("rif", "a register or constant"), "j": ("ri", "a register or integer"),
    "n": ("i", "an integer constant"), "R": ("r", "a register"),
    "e": ("rifS", "a register, constant or special register"), "x": ("rv_", "a register or vector"), "y": ("rifvc", "a register, constant or vector"),
    "w": ("rv", "a register or vector"), "v": ("v", "a vector"), "V": ("vc", "a vector"), "a": ("a", "an address"), "t": ("t", "[map, {coordinates}]"),
    "A": ("rYai", "a register or variable"), "u": ("ripf!", "a register, constant or predicate"), "k": ("p!i", "a predicate or constant"),
    "m": ("rv_", "a register or vector"), "M": ("rifSYavc", "a register, constant, variable, special register or vector"),
    "Q": ("p!iS", "a predicate"), "l": ("l", "a label"), "f": ("Yr", "a function"), "g": ("vczb", "(arguments)"),
}
RESULTS = frozenset("dopqh2xwvm")
"""Letters of KINDS that are a result where they come first."""

Range = tuple[str, int, Callable[[int], bool], str]


@dataclass(frozen=True)
class Instruction:
    """What is known of an instruction by its first word.

    counts:   its class (observe/counters.CLASSES); '' where it goes by the type in the opcode, as arithmetic does
    forms:    (words that the opcode has, operands); the first whose words are all there is the one
    words:    the modifiers that there are; None where the resolver reads every one, and refuses others itself
    ranges:   (words, position, what a constant there may be, that in words); of each position the first whose words are all there. A register there is another's business
    bare:     it needs no word behind its name
    one_type: all its operands but predicates and addresses have the type that the opcode ends with
    carry:    it reads the carry flag
    newer:    (words, architecture) of what the emulator runs although Hopper does not have it: the first architecture that does
    """

    counts: str
    forms: tuple[tuple[frozenset[str], str], ...]
    words: frozenset[str] | None = None
    ranges: tuple[Range, ...] = ()
    bare: bool = False
    one_type: bool = False
    carry: bool = False
    newer: tuple[tuple[frozenset[str], str], ...] = ()

    def operands(self, mods: Iterable[str]) -> str | None:
        """The operands of the opcode with these modifiers, or None where there is no such form."""
        return _first(self.forms, mods)

    def since(self, mods: Iterable[str]) -> str | None:
        """The architecture that first has the opcode with these modifiers, where that is a newer one than Hopper and the emulator runs it; else None."""
        return _first(self.newer, mods)


def _first(rows: Iterable[tuple[frozenset[str], str]], mods: Iterable[str]) -> str | None:
    """What stands behind the first words that are all among the modifiers."""
    given = set(mods)
    return next((what for words, what in rows if words <= given), None)


def _rows(given: Mapping[str, str]) -> tuple[tuple[frozenset[str], str], ...]:
    return tuple((frozenset(words.split()), what) for words, what in given.items())


def row(counts: str, forms: str | Mapping[str, str], words: str | None = None, newer: Mapping[str, str] | None = None, **facts: Any) -> Instruction:
    """A row; forms: operands by words (parted by blanks), or those of the only form; newer: architectures by words."""
    listed = {"": forms} if isinstance(forms, str) else forms
    return Instruction(counts, _rows(listed), None if words is None else frozenset(words.split()), newer=_rows(newer or {}), **facts)


def _alike(names: str, forms: str | Mapping[str, str], one_type: str = "", carry: str = "") -> dict[str, Instruction]:
    """Arithmetic of the same operands; one_type, carry: those of which that holds."""
    return {name: row("", forms, one_type=name in one_type.split(), carry=name in carry.split()) for name in names.split()}


_LOGIC = {"pred": "p k k", "": "d s s"}
ARITHMETIC = {
    **_alike("abs neg rcp sqrt rsqrt sin cos lg2 ex2 tanh cnot popc clz bfind brev", "d s", "abs neg rcp sqrt rsqrt sin cos lg2 ex2 tanh"),
    **_alike("add sub mul addc subc div rem copysign mul24 shl shr szext bmsk", "d s s", "add sub mul addc subc div rem copysign", "addc subc"),
    **_alike("mad madc fma sad mad24 dp4a dp2a shf prmt bfe fns slct", "d s s s", "mad fma sad", "madc"),
    **_alike("min max", "d s s s?", "min max"), **_alike("bfi", "d s s s s"),
    **_alike("and or xor", _LOGIC, "and or xor"), **_alike("not", {"pred": "p k", "": "d s"}, "not"),
    "lop3": row("", {"or": "2 s s s n P", "and": "2 s s s n P", "": "d s s s n"}, ranges=(("", 4, lambda n: 0 <= n <= 255, "the truth table is 0 to 255"),)),
    **_alike("setp", "q s s P?", "setp"), **_alike("set", "d s s P?"), **_alike("testp", "p s"),
    **_alike("vadd vsub vabsdiff vmin vmax vset vadd2 vsub2 vabsdiff2 vmin2 vmax2 vset2 vavrg2 vadd4 vsub4 vabsdiff4 vmin4 vmax4 vset4 vavrg4 vshl vshr", "d s s s?"),
    **_alike("vmad", "d s s s"),
    "cvt": row("convert", {"rs": "d y y y?", "": "d e s? s?"}),
}

MOVES = {
    "mov": row("move", {"pred": "p Q", "": "m M"}, one_type=True), "selp": row("move", "d s s k", one_type=True),
    "cvta": row("move", "d A"), "movmatrix": row("move", "d s", "sync aligned m8n8 trans b16"),
    "isspacep": row("move", "p j", "global shared shared::cta shared::cluster local const param param::entry"),
    "mapa": row("move", "d A j", "shared::cluster u32 u64"), "getctarank": row("move", "d A", "shared::cluster u32 u64"),
    "createpolicy": row("move", {"range": "d a s s", "cvt": "d s", "": "d s?"}),
    "alloca": row("integer", "d j n?"), "stacksave": row("integer", "d"), "stackrestore": row("integer", "j"),
}

_HINT = "L2::cache_hint"                                 # a cache policy is the last operand
_COUNTS = "x1 x2 x4 m8n8 m16n16 m16n8 m8n16 sync aligned trans shared shared::cta b16 b8 b8x16 b6x16_p32 b4x16_p64"
MEMORY = {
    "ld": row("memory", {_HINT: "x a j", "": "x a"}, one_type=True), "ldu": row("memory", "x a", one_type=True),
    "st": row("memory", {"async": "a y a?", "bulk": "a j n", _HINT: "a y j", "": "a y"}, one_type=True),
    "atom": row("memory", {"cas": "o a j j j?", _HINT: "x a y j", "": "x a y"}, one_type=True),
    "red": row("memory", {"async": "a j a?", _HINT: "a y j", "": "a y"}, one_type=True),
    "prefetch": row("memory", "a"), "prefetchu": row("memory", "a"), "applypriority": row("memory", "a n"), "discard": row("memory", "a n"),
    "tensormap": row("memory", {"cp_fenceproxy": "a a n", "replace": "a j j?"}),
    "ldmatrix": row("memory", "w a", _COUNTS), "stmatrix": row("memory", "a w", _COUNTS),
}

_NAMED: tuple[Range, ...] = (("warp", 0, lambda n: True, ""), ("red", 1, lambda n: 0 <= n <= 15, "a CTA has barriers 0 to 15"), ("red", 0, lambda n: True, ""),
                             ("", 0, lambda n: 0 <= n <= 15, "a CTA has barriers 0 to 15"))
_BARRIER = row("barrier", {"warp": "j?", "cluster": "", "red popc": "d j j? P", "red": "p j j? P", "arrive": "j j", "sync": "j j?"},
                "sync arrive red popc and or pred u32 cta aligned warp cluster wait acquire release relaxed", ranges=_NAMED)
_FENCE = row("barrier", {"tensormap::generic acquire": "a n", "": ""},
              "sc acq_rel acquire release cta cluster gpu sys gl proxy alias async async::generic tensormap::generic mbarrier_init global shared::cta shared::cluster "
              "sync_restrict::shared::cta sync_restrict::shared::cluster")
BARRIERS = {
    "bar": _BARRIER, "barrier": _BARRIER, "fence": _FENCE, "membar": _FENCE,
    "mbarrier": row("mbarrier", {
        "init": "a j", "inval": "a", "pending_count": "d j", "test_wait": "p a j", "try_wait": "p a j j?", "arrive expect_tx": "o a j",
        "arrive_drop expect_tx": "o a j", "noComplete": "o a j", "arrive": "o a j?", "arrive_drop": "o a j?", "expect_tx": "a j", "complete_tx": "a j"},
        "init inval arrive arrive_drop expect_tx complete_tx test_wait try_wait pending_count parity noComplete acquire release relaxed cta cluster "
        "shared shared::cta shared::cluster b64"),
}

WARPS = {
    "shfl": row("warp", "h j j j j?", "sync up down bfly idx b32"), "vote": row("warp", {"ballot": "d P j?", "": "p P j?"}, "sync all any uni ballot pred b32"),
    "match": row("warp", "h j j", "sync all any b32 b64"), "redux": row("warp", "d j j"), "elect": row("warp", "2 j", "sync"), "activemask": row("warp", "d", "b32"),
}

COPIES = {
    "cp": row("async_copy", {
        "commit_group": "", "wait_all": "", "wait_group": "n", "mbarrier": "a", f"prefetch tensor {_HINT}": "t V? j", "prefetch tensor": "t V?",
        f"prefetch {_HINT}": "a j j", "prefetch": "a j", f"tensor bulk_group {_HINT}": "t a j", "tensor bulk_group": "t a",
        f"tensor multicast::cluster {_HINT}": "a t a V? j j", "tensor multicast::cluster": "a t a V? j", f"tensor {_HINT}": "a t a V? j", "tensor": "a t a V?",
        "bulk bulk_group cp_mask": "a a j j j?", f"bulk bulk_group {_HINT}": "a a j j", "bulk bulk_group": "a a j", "ignore_oob": "a a j j j a j?",
        f"bulk multicast::cluster {_HINT}": "a a j a j j", "bulk multicast::cluster": "a a j a j", f"bulk {_HINT}": "a a j a j", "bulk": "a a j a",
        _HINT: "a a n u? j", "": "a a n u?"},
        "async ca cg bulk tensor reduce prefetch mbarrier arrive noinc b64 commit_group wait_group wait_all read shared shared::cta "
        "shared::cluster global L2 L2::cache_hint L2::64B L2::128B L2::256B mbarrier::complete_tx::bytes multicast::cluster "
        "bulk_group 1d 2d 3d 4d 5d tile im2col im2col_no_offs tile::gather4 tile::scatter4 im2col::w im2col::w::128 cta_group::1 "
        "cta_group::2 cp_mask ignore_oob add min max inc dec and or xor noftz b32 u32 s32 u64 s64 f16 bf16 f16x2 bf16x2 f32 f64",
        ranges=(("wait_group", 0, lambda n: 0 <= n < 1 << 31, "the number of groups is not negative"), ("cg", 2, lambda n: n == 16, ".cg copies 16 bytes"),
                ("ca", 2, lambda n: n in (4, 8, 16), "a copy has 4, 8 or 16 bytes"))),
}

MATRICES = {
    "mma": row("tensor", {"block_scale": "w w w w y y y y y? y?", "sp": "w w w w j n", "sp::ordered_metadata": "w w w w j n", "": "w w w w"}),
    "wmma": row("tensor", {"load": "w a j?", "store": "a w j?", "mma": "w w w w"},
                 "load store mma a b c d sync aligned row col m16n16k16 m32n8k16 m8n32k16 m16n16k8 m8n8k4 m8n8k32 m8n8k128 shared "
                 "shared::cta shared::cluster global satfinite rn rz rm rp xor and popc f16 bf16 tf32 f32 f64 s8 u8 s4 u4 b1 s32"),
    "wgmma": row("tensor", {"fence": "", "commit_group": "", "wait_group": "n", "mma_async sp": "v y j j n k n? n? n? n?", "mma_async": "v y j k n? n? n? n?"},
                  ranges=(("wait_group", 0, lambda n: 0 <= n < 1 << 31, "the number of groups is not negative"),)),
}

CONTROL = {
    "bra": row("control", "l", "uni", bare=True), "brx": row("control", "R l", "idx uni"), "call": row("control", "g? f g? l?", "uni", bare=True),
    "ret": row("control", "", "uni", bare=True), **dict.fromkeys(("exit", "trap", "brkpt"), row("control", "", "", bare=True)),
    "griddepcontrol": row("control", "", "wait launch_dependents"), "nanosleep": row("control", "j", "u32"),
    "setmaxnreg": row("control", "n", "inc dec sync aligned u32"), "pmevent": row("other", "n", bare=True),
}

INSTRUCTIONS: dict[str, Instruction] = {**ARITHMETIC, **MOVES, **MEMORY, **BARRIERS, **WARPS, **COPIES, **MATRICES, **CONTROL}
"""All of them by name."""

_NO_TEXTURES = "are not modelled: the emulator has no texture objects"
REFUSED = {
    **dict.fromkeys(("tex", "tld4"), f"texture fetches {_NO_TEXTURES}"), "txq": f"texture queries {_NO_TEXTURES}", "suq": f"surface queries {_NO_TEXTURES}",
    **dict.fromkeys(("suld", "sust", "sured"), f"surface accesses {_NO_TEXTURES}"), "istypep": f"opaque types {_NO_TEXTURES}",
    "multimem": "multimem addresses span several GPUs, which the emulator does not model",
    "tcgen05": "tensor memory and the fifth-generation tensor core: sm_100a has it, Hopper (sm_90a) does not",
    "clusterlaunchcontrol": "work stealing between clusters: sm_100 has it, Hopper (sm_90a) does not",
}
"""Why, of those that there are and the emulator does not run. Who implements one takes it out here and gives it a row above."""


@cache
def has_result(op: str, mods: tuple[str, ...]) -> bool:
    """True when the first operand of `op.mods` is written. What is nobody's instruction is taken to write it: whoever resolves it says that there is none."""
    known = INSTRUCTIONS.get(op)
    operands = known.operands(mods) if known is not None else None
    return operands is None or operands[:1] in RESULTS
