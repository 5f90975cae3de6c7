# SPDX-License-Identifier: Apache-2.0
"""Numbers in PTX: literals and constant expressions (PTX ISA 4.5), evaluated to Imm.

Integers keep the value as written and their 64-bit pattern; 0f/0d literals keep their exact bits.
"""

import math
import re
import struct

from .instruction_operands import Imm

_MASK64 = (1 << 64) - 1
MOST_DIGITS = 64           # of a literal in any base, leading zeros included
MOST_TOKENS = 128          # of an expression
_FLOAT_PREFIXES = ("0f", "0F", "0d", "0D")
_FLOAT_BITS = re.compile(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})")
_FLOAT_DIGITS = re.compile(r"\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+")
_INTEGER = re.compile(r"(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0([0-7]+)|(0|[1-9]\d*))U?")
_TOKEN = re.compile(
    r"\s*(\(\s*\.[su]64\s*\)|0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?"
    r"|\d+[eE][+-]\d+|\w+|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!()?:<>])"
)
_PRECEDENCE = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip


class ConstantError(ValueError):
    """A text that is not a constant expression."""


def integer(value: int) -> Imm:
    """An integer constant; bits are its 64-bit two's complement pattern."""
    return Imm(value, "int", value & _MASK64)


def double(value: float) -> Imm:
    """A binary64 constant. Raises ConstantError for a decimal that is too large for one."""
    if not math.isfinite(value):
        raise ConstantError("a number beyond what 64 bits hold")
    return Imm(value, "f64", int.from_bytes(struct.pack("<d", value), "little"))


def literal(text: str) -> Imm | None:
    """The number that `text` spells, or None when it is no plain unsigned literal."""
    if text[:2] in _FLOAT_PREFIXES and (match := _FLOAT_BITS.fullmatch(text)):
        bits = int(match[1] or match[2], 16)
        kind, format_, size = ("f32", "<f", 4) if match[1] else ("f64", "<d", 8)
        return Imm(struct.unpack(format_, bits.to_bytes(size, "little"))[0], kind, bits)
    if match := _INTEGER.fullmatch(text):
        digits, base = next((d, b) for d, b in zip(match.groups(), (16, 2, 8, 10), strict=True) if d is not None)
        if len(digits) > MOST_DIGITS or (value := int(digits, base)) > _MASK64:
            raise ConstantError(f"a constant has 64 bits at most: {text[:40]}")
        return integer(value)
    if _FLOAT_DIGITS.fullmatch(text):
        return double(float(text))
    return None


def evaluate(text: str) -> Imm:
    """The value of a constant expression such as `-4`, `0x80|7` or `(1<<3)+2`. Raises ConstantError."""
    found = literal(text)
    if found is not None:
        return found
    if text[:1] == "-" and text[1:].isdecimal() and text.isascii() and (text[1:2] != "0" or len(text) == 2) and len(text) < 20:
        return integer(-int(text[1:]))
    tokens = _tokens(text)
    if len(tokens) > MOST_TOKENS:
        raise ConstantError(f"a constant expression of {len(tokens)} parts: {text[:40]} …")
    value, rest = _ternary(tokens, 0, text)
    if rest != len(tokens):
        raise ConstantError(f"not a constant: {text}")
    if isinstance(value, Imm):
        return value
    return integer(value) if isinstance(value, int) else double(value)


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ConstantError(f"not a constant: {text}")
        tokens.append(match[1])
        at = match.end()
    return tokens


def _number(value) -> int | float:
    return value.value if isinstance(value, Imm) else value


def _ternary(tokens: list[str], at: int, text: str):
    value, at = _binary(tokens, at, 1, text)
    if at < len(tokens) and tokens[at] == "?":
        yes, at = _ternary(tokens, at + 1, text)
        if at >= len(tokens) or tokens[at] != ":":
            raise ConstantError(f"':' is missing in {text}")
        no, at = _ternary(tokens, at + 1, text)
        value = yes if _number(value) else no
    return value, at


def _binary(tokens: list[str], at: int, lowest: int, text: str):
    """Precedence climbing; a lone literal stays an Imm so that its exact bits survive."""
    left, at = _unary(tokens, at, text)
    while at < len(tokens) and _PRECEDENCE.get(tokens[at], 0) >= lowest:
        operator = tokens[at]
        right, at = _binary(tokens, at + 1, _PRECEDENCE[operator] + 1, text)
        left = _apply(operator, _number(left), _number(right), text)
    return left, at


def _unary(tokens: list[str], at: int, text: str):
    if at >= len(tokens):
        raise ConstantError(f"an operand is missing in {text}")
    token = tokens[at]
    if token == "(":
        value, at = _ternary(tokens, at + 1, text)
        if at >= len(tokens) or tokens[at] != ")":
            raise ConstantError(f"')' is missing in {text}")
        return value, at + 1
    if token[0] == "(":  # (.s64) or (.u64)
        value, at = _unary(tokens, at + 1, text)
        bits = _whole(_number(value), text) & _MASK64
        return (bits - (1 << 64) if ".s64" in token and bits >> 63 else bits), at
    if token in "+-~!":
        operand, at = _unary(tokens, at + 1, text)
        return _signed(token, operand, text), at
    found = literal(token)
    if found is None:
        raise ConstantError(f"not a constant: {token}")
    return found, at + 1


def _whole(value: int | float, text: str) -> int:
    """A number as an integer. Raises ConstantError for an infinity or NaN."""
    if not math.isfinite(value) or abs(value) > _MASK64:
        raise ConstantError(f"no integer of 64 bits: {text}")
    return int(value)


def _signed(token: str, operand, text: str):
    value = _number(operand)
    if token == "-" and isinstance(operand, Imm) and operand.kind == "f32":
        return Imm(-value, "f32", operand.bits ^ 0x80000000)
    return {"+": lambda: operand, "-": lambda: -value, "~": lambda: ~_whole(value, text), "!": lambda: int(not value)}[token]()


def _apply(operator: str, a, b, text: str):
    """C's arithmetic: division truncates towards zero."""
    if operator in ("/", "%") and b == 0:
        raise ConstantError(f"division by zero in {text}")
    if isinstance(a, int) and isinstance(b, int):
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if operator in ("/", "%") else 0
        table = {
            "/": quotient, "%": a - quotient * b, "&": a & b, "|": a | b, "^": a ^ b,
            "<<": (a << (b & 63)) & _MASK64, ">>": a >> (b & 63),
        }  # fmt: skip
        if operator in table:
            return table[operator]
    table = {"+": a + b, "-": a - b, "*": a * b, "==": a == b, "!=": a != b, "<": a < b, ">": a > b, "<=": a <= b,
             ">=": a >= b, "&&": bool(a) and bool(b), "||": bool(a) or bool(b)}  # fmt: skip
    if operator == "/":
        return a / b
    if operator not in table:
        raise ConstantError(f"'{operator}' needs integers: {text}")
    value = table[operator]
    return int(value) if isinstance(value, bool) else value
