# SPDX-License-Identifier: Apache-2.0
"""Names and operands inside one function: block scopes, alpha-renaming and operand texts turned into operand objects.

Every scope caches the operands it has resolved by their text, which is what makes parsing quick.
"""
from __future__ import annotations


import re
from typing import Any

from .constants import ConstantError, evaluate, integer, literal
from .ir import PtxSyntaxError
from .instruction_operands import Addr, Imm, Not, PredPair, Reg, Sink, Special, Sym, TensorAddr, Vec

_IDENTIFIER = re.compile(r"[A-Za-z_$%][\w$.]*")
_ADDRESS = re.compile(
    r"\[\s*([A-Za-z_$%][\w$.]*|\d\w*)\s*(?:\+\s*([^,{}\[\]]+?))?\s*(?:,\s*(\{[^{}]*\}))?\s*\]"
)
_SYMBOL_OFFSET = re.compile(r"([A-Za-z_$][\w$]*)\s*(?:\+\s*(\S.*)|\[\s*([^\]]+)\])")
_BRACES = r"\{(?:[^{}]++|\{(?:[^{}]++|\{(?:[^{}]++|\{[^{}]*\})*\})*\})*\}"  # arrays of up to four dimensions
_PARENTHESES = r"\((?:[^()]++|\((?:[^()]++|\([^()]*\))*\))*\)"
_PIECE = re.compile(rf"(?:[^,{{}}\[\]()]++|{_BRACES}|\[(?:[^\[\]{{}}]++|\{{[^{{}}]*\}})*\]|{_PARENTHESES})+")
_SPECIAL = re.compile(
    r"%(?:(?:tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)(?:\.[xyzw])?"
    r"|laneid|warpid|nwarpid|smid|nsmid|gridid|is_explicit_cluster|cluster_ctarank|cluster_nctarank"
    r"|lanemask_(?:eq|le|lt|ge|gt)|clock|clock_hi|clock64|globaltimer|globaltimer_lo|globaltimer_hi|pm[0-7](?:_64)?"
    r"|envreg\d+|reserved_smem_offset_(?:begin|end|cap|0|1)|total_smem_size|aggr_smem_size|dynamic_smem_size"
    r"|current_graph_exec)"
)


class OperandError(ValueError):
    """An operand that cannot be resolved; the parser adds the line."""

    def __init__(self, offending: str, message: str):
        if "\n" in offending.strip():
            message += " (is a ';' missing?)"
        offending = " ".join(offending.split())[:80]
        super().__init__(f"{message}: {offending!r}")
        self.offending = offending
        self.message = message

    def at(self, line: int) -> PtxSyntaxError:
        """The same complaint with its line."""
        return PtxSyntaxError(line, self.offending, self.message)


def split_operands(text: str) -> list[str]:
    """Split at the commas outside brackets. Raises OperandError where brackets do not match."""
    pieces = _PIECE.findall(text)
    if ",".join(pieces) != text:
        raise OperandError(text, "operands are malformed (an empty one, or a bracket without its pair)")
    return pieces


class Scope:
    """The names visible in one `{ }` block. `number` is 0 for the function's own block.

    `names` maps a written name to its operand; `labels` maps a written label to its unique name. `element_sizes`,
    one table for a whole module, gives the bytes of an element of a variable by its unique name.
    """

    def __init__(self, parent: "Scope | None", number: int):
        self.parent = parent
        self.number = number
        self.names: dict[str, Reg | Sym | Vec] = {}
        self.labels: dict[str, str] = {}
        self.pending: list = []  # branches whose label is not known yet
        self.element_sizes: dict[str, int] = {} if parent is None else parent.element_sizes
        self.cache: dict[str, object] = {}

    def unique(self, name: str) -> str:
        """The name that stays unique in the function."""
        return f"{name}.{self.number}" if self.number else name

    def declare(self, name: str, operand: Reg | Sym | Vec) -> None:
        """Make `name` visible from here on. Raises OperandError for a second declaration in the same block."""
        if name in self.names:
            raise OperandError(name, "declared twice in one block")
        self.names[name] = operand
        if self.number:
            self.cache.clear()

    def lookup(self, name: str) -> Reg | Sym | Vec | None:
        """The innermost declaration of `name`."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def operand(self, text: str) -> Any:
        """The operand that `text` spells; surrounding blanks are allowed. Raises OperandError."""
        found = self.cache.get(text)
        if found is None:
            try:
                found = self._resolve(text.strip())
            except ConstantError as error:
                raise OperandError(text.strip(), "unknown name or malformed operand") from error
            self.cache[text] = found
        return found

    def register(self, name: str) -> Reg:
        """The register `name`. Raises OperandError when there is none."""
        found = self.lookup(name)
        if type(found) is not Reg:
            raise OperandError(name, "not a declared register")
        return found

    def _resolve(self, text: str):
        found = self.lookup(text)
        if found is not None:
            return found
        first = text[:1]
        if first == "[":
            return self._address(text)
        if first == "{":
            return self._vector(text)
        if first == "%" and _SPECIAL.fullmatch(text):
            return Special(text)
        if text == "_":
            return Sink()
        if first == "!" and (name := text[1:].strip()) and not name[0].isdigit():
            return Not(self.register(name))
        if text == "WARP_SZ":
            return integer(32)
        if "|" in text and _IDENTIFIER.match(text):
            return self._pair(text)
        if (match := _SYMBOL_OFFSET.fullmatch(text)) and type(base := self.lookup(match[1])) is Sym:
            if match[2]:
                return Addr(base, self._offset(match[2]))
            return Addr(base, self._offset(match[3]) * self.element_sizes.get(base.name, 1))
        if text.startswith("%%"):
            raise OperandError(text, "an asm statement without operands keeps '%%' as it is: write one '%' there")
        if _IDENTIFIER.fullmatch(text):
            raise OperandError(text, "not declared")
        return evaluate(text)

    def _pair(self, text: str) -> PredPair:
        first, _, second = text.partition("|")
        pair = PredPair(self.operand(first), self.operand(second))
        if any(type(item) not in (Reg, Sink) for item in (pair.first, pair.second)):
            raise OperandError(text, "both sides of '|' must be registers or _")
        return pair

    def _vector(self, text: str) -> Vec:
        if not text.endswith("}"):
            raise OperandError(text, "'}' is missing")
        inside = text[1:-1]
        get = self.cache.get
        return Vec(tuple([get(item) or self.operand(item) for item in inside.split(",")] if inside.strip() else ()))

    def _address(self, text: str) -> Addr | TensorAddr:
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise OperandError(text, "malformed address")
        base = literal(match[1]) if match[1][0].isdigit() else self.lookup(match[1])
        if type(base) not in (Reg, Sym, Imm):
            raise OperandError(match[1], "not declared, or no base of an address")
        offset = self._offset(match[2]) if match[2] else 0
        if match[3] is not None:
            return TensorAddr(base, offset, self._vector(match[3]).items)
        return Addr(base, offset)

    @staticmethod
    def _offset(text: str) -> int:
        value = evaluate(text.strip()).value
        if not isinstance(value, int):
            raise OperandError(text, "an offset must be an integer")
        return value if value < 1 << 63 else value - (1 << 64)
