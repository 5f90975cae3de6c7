# SPDX-License-Identifier: Apache-2.0
"""An mbarrier for no arrivals, found in the PTX before NVIDIA's assembler is asked.

A phase expects 1 to 2^20 - 1 arrivals (PTX ISA 9.7.13.15.9). ptxas does not refuse the constant 0: it ends with a segmentation fault (13.0), inside NVRTC
too, and so ends the notebook that compiles. What may say 0 is found in the text, which costs nothing; only then the PTX is made and read beforehand.
"""
from __future__ import annotations

import ast
import operator
import os
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

CALL = re.compile(r"\w*init\w*\s*(?:<[^<>;]*>)?\s*\(")
COUNT = re.compile(r"[1-9]\d*[uU]?")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
MACRO = re.compile(r"-D(\w+)=(.*)")
ARITHMETIC = re.compile(r"(?:(?!\*\*)[\w\s+\-*/()])+")
CHOICE = re.compile(r"[^?:]*\?([^?:]*):([^?:]*)")
NUMBER, NAME = re.compile(r"\b(\d+)[uU]\b"), re.compile(r"\b[A-Za-z_]\w*")
KINDS = r"int|unsigned|signed|long|short|char|bool|auto|size_t|u?int\d+_t"
MOST = 64           # combinations of values that are tried
OPERATIONS: Mapping[type[ast.operator], Callable[[int, int], int]] = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv}


def doubtful(code: str, options: Sequence[str] = ()) -> bool:
    """True when `code` (CUDA) initialises a barrier by a count that is not plainly positive: 0, a name or an expression whose values are not all known
    from the code and the options (-DNAME=3). (Fences of barriers that were initialised have init in their names too, and no arguments.)"""
    if "barrier" not in code:
        return False
    calls = (text.partition(";")[0].rpartition(")")[0].split(",") for text in CALL.split(code)[1:] if not text.startswith(")"))
    plain = _Positive(code, options)
    return "mbarrier.init" in code or any(not plain(arguments[-1]) or "0" in map(str.strip, arguments) for arguments in calls)


def _value(node: ast.AST, names: Mapping[str, int]) -> int:
    """Of a sum, difference, product or quotient of whole numbers and names. Raises ValueError for anything else, ZeroDivisionError."""
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.Name(id=name):
            return names[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
            return OPERATIONS[type(op)](_value(left, names), _value(right, names))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
    raise ValueError(f"no sum or product of whole numbers: {ast.dump(node)}")


class _Positive:
    """Whether an expression is above zero whatever its names stand for: numbers, names with such definitions, + - * / and the two ends of `a ? b : c`."""

    def __init__(self, code: str, options: Sequence[str]) -> None:
        self.code = COMMENT.sub(" ", code)
        self.given = {found[1]: found[2] for found in map(MACRO.fullmatch, options) if found}

    def __call__(self, count: str) -> bool:
        return bool(COUNT.fullmatch(count.strip())) or all(value > 0 for value in self._values(count) or (0,))

    def _values(self, text: str, depth: int = 4) -> set[int]:
        """Everything that an expression may be; nothing where it is not known."""
        if not depth or text.count("?") > 1:
            return set()
        if chosen := CHOICE.fullmatch(text):
            ends = [self._values(end, depth - 1) for end in chosen.groups()]
            return ends[0] | ends[1] if all(ends) else set()
        if not ARITHMETIC.fullmatch(text):
            return set()
        names = sorted(set(NAME.findall(text)))
        known = [self._defined(name, depth - 1) for name in names]
        if prod(map(len, known)) > MOST:
            return set()
        try:
            tree = ast.parse(NUMBER.sub(r"\1", text).strip(), mode="eval").body
            return {_value(tree, dict(zip(names, values, strict=True))) for values in product(*known)}
        except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
            return set()

    def _defined(self, name: str, depth: int) -> set[int]:
        """Every value that the code and the options give a name; nothing where one of them is not known, or where it is declared without one."""
        if re.search(rf"\b(?:{KINDS})\s+{name}\s*[,)>;{{(\[]|\b{name}\s*(?:[-+*/]=|\+\+|--)", self.code):
            return set()
        macros = [self.given[name]] if name in self.given else re.findall(rf"^[ \t]*#[ \t]*define[ \t]+{name}[ \t]+(.+)$", self.code, re.MULTILINE)
        texts = [*macros, *re.findall(rf"(?<![\w.>]){name}\s*=(?!=)\s*([^=;,}}]+)", self.code)]
        values = [self._values(text, depth) for text in texts]
        return set().union(*values) if all(values) else set()


def without_arrivals(ptx: str, name: str) -> str:
    """'' or an error, in the compiler's form, for the first mbarrier.init of `ptx` whose count is the constant 0; `name` is the source's name in it."""
    from ...emulator.ptx.ir import PtxSyntaxError
    from ...emulator.ptx.parser import parse

    try:
        functions = parse(ptx).functions.values()
    except PtxSyntaxError:          # ptxas says what is wrong with it
        return ""
    for function in functions:
        made = defaultdict(list)
        for instruction in function.body:
            for register in instruction.dsts():
                made[register].append(instruction)
        for instruction in function.body:
            if instruction.opcode.startswith("mbarrier.init") and _zero(instruction.operands[-1], made):
                return _error(instruction.site, name)
    return ""


def _zero(count: Any, made: dict[Any, list[Any]], depth: int = 8) -> bool:
    """True for the constant 0, and for a register that is never anything else."""
    value = getattr(count, "value", None)
    if value is not None or not depth:
        return value == 0
    return bool(made.get(count)) and all(one.op == "mov" and _zero(one.operands[-1], made, depth - 1) for one in made[count])


def _error(site: Any, name: str) -> str:
    where = f"{name}(?)" if site is None else f"{os.path.basename(site.outermost.file)}({site.outermost.line})"
    return (f"{where}: error: this mbarrier is initialised for 0 arrivals, and a phase expects 1 to 1048575 (PTX ISA 9.7.13.15.9): count who arrives in one phase.\n"
            "A barrier that only the bytes of copies complete still needs one arrival, that of the thread which announces them (expect_tx).")
