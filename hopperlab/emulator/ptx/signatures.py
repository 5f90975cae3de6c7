# SPDX-License-Identifier: Apache-2.0
"""Which operands an instruction takes: how many, of which kinds, and which constants, checked before anything looks at them.

By the rows of instructions.py. What the words of an opcode mean is checked elsewhere (isa/, ops/).
"""
from __future__ import annotations

import re
from functools import cache
from typing import Any

from .instruction_operands import Addr, Imm, Label, Not, PredPair, Reg, Sink, Special, Sym, TensorAddr, Vec
from .instructions import FOUND, INSTRUCTIONS, KINDS, Instruction
from .ir import Function, Instr, PtxSyntaxError

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
        known = INSTRUCTIONS.get(instr.op)
        if known is None:
            continue                                     # nobody's instruction: whoever resolves it says so
        key = (instr.op, instr.mods, *[o.type if type(o) is Reg else type(o) is Vec and _types(o) or letter(o) for o in instr.operands])
        if key not in passed:
            _check_kinds(instr, known, "".join([letter(o) for o in instr.operands]))
            if known.one_type:
                _check_types(instr)
            passed.add(key)
        if known.ranges:
            _check_ranges(instr, known)


def _check_kinds(instr: Instr, known: Instruction, found: str) -> None:
    if not instr.mods and not known.bare:
        raise _error(instr, "its type is missing")
    strange = [m for m in instr.mods if known.words is not None and m not in known.words]
    if strange:
        raise _error(instr, f"modifier .{strange[0]} is not known here")
    operands = known.operands(instr.mods)
    if operands is None:
        raise _error(instr, "there is no such form")
    if _pattern(operands).fullmatch(found) is None:
        here = ", ".join(FOUND[k] for k in found) or "none"
        raise _error(instr, f"its operands are {_words(operands)}, not {here}")


def _types(vector: Vec) -> tuple[str, ...]:
    """What the elements of a vector are, each sort once."""
    return tuple(dict.fromkeys([item.type if type(item) is Reg else letter(item) for item in vector.items]))


def _check_types(instr: Instr) -> None:
    """Where all operands have the instruction's type, integers, floats and bits do not mix: bits go with both (PTX ISA 9.4)."""
    kind = _SORT.get(instr.mods[-1][:1] if instr.mods else "", "")
    if not kind or kind == "bits" or "wide" in instr.mods or instr.mods[-1][-2:] == "x2":
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


def _check_ranges(instr: Instr, known: Instruction) -> None:
    asked = set()
    for words, position, allows, rule in known.ranges:
        if position in asked or not set(words.split()) <= set(instr.mods) or position >= len(instr.operands):
            continue
        asked.add(position)
        operand = instr.operands[position]
        if type(operand) is Imm and not (isinstance(operand.value, int) and allows(operand.value)):
            raise _error(instr, f"{rule}, not {operand.value}")


def _error(instr: Instr, message: str) -> PtxSyntaxError:
    return PtxSyntaxError(instr.ptx_line, instr.opcode, message)
