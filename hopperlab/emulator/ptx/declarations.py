# SPDX-License-Identifier: Apache-2.0
"""Declarations: variables, parameters and registers with their initialisers, and function headers (PTX ISA 5, 11).

Texts go in without their final ';', data from `ir` comes out. Errors are OperandError; the parser adds the line.
"""

import math
import re
import struct
from dataclasses import dataclass

from .constants import ConstantError, evaluate
from .ir import TYPE_BITS, Function, Prototype, Relocation, Variable
from .scope import OperandError, split_operands

_WORD = re.compile(r"\s*\.([\w]+)(?:::\w+)?(?:\s*\(([^)]*)\)|\s+(\d+))?(?=[\s.]|$)")
_DECLARATOR = re.compile(r"\s*([A-Za-z_$%][\w$]*)\s*(?:<\s*(\d+)\s*>\s*)?((?:\[[^\]]*\]\s*)*)(?:=\s*(.*\S)\s*)?", re.S)
_INTEGERS = re.compile(r"\{\s*(?:\d+\s*(?:,\s*\d+\s*)*)?\}")
_TRIPLE = re.compile(r"\d+\s*(?:,\s*\d+\s*){0,2}")
_SMALL = re.compile(r"\d{1,11}")
_MASKED = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)\s*\(\s*([A-Za-z_$%][\w$]*)\s*\)")
_SYMBOLIC = re.compile(r"(generic\s*\(\s*)?([A-Za-z_$][\w$]*)\s*(?(1)\)\s*)(?:([+-])\s*(\S.*))?", re.S)
_HEADER = re.compile(
    r"\s*(?:\.(?P<linkage>visible|extern|weak|common)\s+)?\.(?P<kind>entry|func)\b"
    r"(?P<attributes>(?:\s*\.\w+(?:\s*\([^)]*\))?)*)"
    r"\s*(?P<ret>\([^()]*\))?\s*(?P<name>[A-Za-z_$%][\w$]*)\s*(?P<params>\([^()]*\))?(?P<directives>.*)",
    re.S,
)
_DIRECTIVE = re.compile(r'\s*\.(\w+)\s*("[^"]*"\s*;?|[\d\s,-]*)')
_PROTOTYPE = re.compile(r"\s*(\([^()]*\))?\s*[A-Za-z_$%][\w$]*\s*(\([^()]*\))?\s*((?:\.\w+\s*\d*\s*)*)", re.S)
_TRIPLES = frozenset({"maxntid", "reqntid", "reqnctapercluster"})
_NUMBERS = frozenset({"minnctapersm", "maxnctapersm", "maxclusterrank", "maxnreg"})
_FLAGS = frozenset({"explicitcluster", "blocksareclusters", "noreturn", "unique_pi"})
_SPACES = frozenset({"reg", "param", "shared", "global", "const", "local", "tex"})
_LINKAGES = frozenset({"visible", "extern", "weak", "common"})
_FLOAT_FORMAT = {2: "<e", 4: "<f", 8: "<d"}
_OPAQUE = frozenset({"texref", "samplerref", "surfref"})
MOST_REGISTERS = 1 << 19       # of one declaration %r<N>
MOST_BYTES = 1 << 40           # of one variable; what a launch can hold is checked there
MOST_PARAMETERS = 32764        # bytes of a kernel's parameters (PTX ISA 11.1.1)
MOST_INITIAL = 1 << 28         # bytes of one variable that is written out with its values


@dataclass(slots=True)
class _Words:
    """The words before the names of a declaration."""

    linkage: str = ""
    space: str = ""
    type: str = ""
    align: int = 0
    vector: int = 1
    pointer: bool = False
    pointer_space: str | None = None
    pointer_align: int = 1


def _words(text: str) -> tuple[_Words, int]:
    """Read `.space .align 8 .v2 .f32` and the like; returns them and where the names start."""
    words, at = _Words(), 0
    while match := _WORD.match(text, at):
        word, number, at = match[1], match[3], match.end()
        if number and word != "align":
            raise OperandError(f".{word} {number}", "a number behind a word that takes none")
        if word in _LINKAGES:
            words.linkage = word
        elif word == "align":
            if words.pointer:
                words.pointer_align = _alignment(number)
            else:
                words.align = _alignment(number)
        elif word == "ptr":
            words.pointer = True
        elif word in _SPACES:
            if words.pointer:
                words.pointer_space = word
            elif words.space:
                raise OperandError("." + word, f"one state space, not .{words.space} and .{word}")
            else:
                words.space = word
        elif word in ("v2", "v4"):
            words.vector = int(word[1])
        elif word in TYPE_BITS:
            words.type = word
        elif word != "attribute":
            raise OperandError("." + word, "unknown word in a declaration")
    if not words.space or not words.type:
        raise OperandError(text, "a declaration needs a state space and a type")
    return words, at


def _alignment(number: str | None) -> int:
    align = int(number) if number and len(number) < 8 else 0
    if align < 1 or align & align - 1:
        raise OperandError(f".align {number or ''}".strip(), "an alignment is a power of two")
    return align


def _ranged(name: str, count: str | None) -> list[str]:
    """The names of `%r<4>`, or the one name without a count."""
    if count is None:
        return [name]
    if len(count) > 9 or int(count) > MOST_REGISTERS:
        raise OperandError(f"{name}<{count}>", f"more than {MOST_REGISTERS:,} names in one declaration")
    return [f"{name}{i}" for i in range(int(count))]


def is_declaration(directive: str) -> bool:
    """True when a directive such as 'shared' starts a declaration."""
    return directive in _SPACES or directive in _LINKAGES


def registers(text: str) -> list[tuple[str, str, int]]:
    """(name, type, lanes) of every register of `.reg .f32 %f<4>, x`."""
    words, at = _words(text)
    if words.type in _OPAQUE:
        raise OperandError("." + words.type, "registers do not have this type")
    found = []
    for piece in text[at:].split(","):
        match = _DECLARATOR.fullmatch(piece)
        if match is None or match[3] or match[4]:
            raise OperandError(piece.strip(), "malformed register declaration")
        found.extend((name, words.type, words.vector) for name in _ranged(match[1], match[2]))
    return found


def variables(text: str) -> list[Variable]:
    """Every variable of `.global .align 4 .b8 a[4] = {1, 2}, b`."""
    words, at = _words(text)
    names = text[at:]
    pieces = [names] if "," not in names else split_operands(names)
    found = []
    for piece in pieces:
        match = _DECLARATOR.fullmatch(piece)
        if match is None:
            raise OperandError(piece, "malformed declaration")
        found.extend(_variable(words, name, match[3], match[4]) for name in _ranged(match[1], match[2]))
    return found


def _variable(words: _Words, name: str, dimensions: str, init: str | None) -> Variable:
    sizes = []
    for size in re.findall(r"\[([^\]]*)\]", dimensions):
        sizes.append(_constant(size) if size.strip() else None)
    variable = Variable(
        name, words.space, words.type, 1, 1, None, words.pointer, words.pointer_space, words.pointer_align,
        words.vector, bool(sizes), words.linkage,
    )  # fmt: skip
    variable.align = words.align or max(variable.element_size, 1)
    if words.type == "pred" and words.space != "reg":
        raise OperandError(name, "predicates live in registers only")
    if None in sizes[1:]:
        raise OperandError(name, "only the first dimension of an array may be left open")
    total = math.prod(size for size in sizes if size is not None) * max(variable.element_size, 1)
    if total > (MOST_INITIAL if init is not None else MOST_BYTES):
        raise OperandError(name, f"a variable of {total:,} bytes")
    if init is not None:
        shape = sizes + ([words.vector] if words.vector > 1 else [])
        variable.init, length = _initialiser(init, words.type, shape)
        if sizes and sizes[0] is None:
            sizes[0] = length
    variable.count = 1
    for size in sizes:
        variable.count = None if size is None else variable.count * size
    if sizes and sizes[0] is None:
        variable.count = None
    return variable


def _constant(text: str) -> int:
    try:
        value = evaluate(text.strip()).value
    except ConstantError as error:
        raise OperandError(text, "not a constant") from error
    if not isinstance(value, int) or value < 0:
        raise OperandError(text, "an array size or offset must be a natural number")
    return value


def _initialiser(text: str, type_: str, shape: list) -> tuple[bytes | list, int]:
    """(contents, outermost length): bytes, or a list of bytes and Relocation pieces when addresses occur."""
    size = TYPE_BITS[type_] // 8
    if text[0] == '"':
        try:
            data = text[1:-1].encode("utf-8").decode("unicode_escape").encode("latin-1") + b"\0"
        except UnicodeError as error:
            raise OperandError(text, "malformed string") from error
        return data.ljust(shape[0] or len(data), b"\0") if shape else data, len(data)
    if size == 1 and _INTEGERS.fullmatch(text) and len(shape) == 1:
        data = bytes(int(n) & 255 for n in text[1:-1].split(",") if n.strip())
        return data.ljust(shape[0] or len(data), b"\0"), len(data)
    items, length = _elements(text, type_, shape)
    pieces: list = []
    for item in items:
        if isinstance(item, bytes) and pieces and isinstance(pieces[-1], bytes):
            pieces[-1] += item
        else:
            pieces.append(item)
    return (pieces[0] if len(pieces) == 1 and isinstance(pieces[0], bytes) else pieces), length


def _elements(text: str, type_: str, shape: list) -> tuple[list, int]:
    """One entry an element, rows padded with zeros to `shape`; also the number of outermost entries written."""
    text = text.strip()
    size = TYPE_BITS[type_] // 8
    if not text.startswith("{"):
        return [_element(text, type_)], 1
    if not text.endswith("}") or not shape:
        raise OperandError(text, "malformed initialiser")
    inside = text[1:-1].strip()
    pieces = split_operands(inside) if inside else []
    width = 1
    for dimension in shape[1:]:
        width *= dimension
    items: list = []
    for piece in pieces:
        if piece.strip().startswith("{"):
            items += _elements(piece, type_, shape[1:])[0]
        else:
            items.append(_element(piece.strip(), type_))
    rows = -(-len(items) // width)
    total = (rows if shape[0] is None else shape[0]) * width
    if len(items) > total:
        raise OperandError(text, f"{len(items)} initial values for {total} elements")
    return items + [bytes(size)] * (total - len(items)), rows


def _element(text: str, type_: str) -> bytes | Relocation:
    """One initial value of the declared type."""
    size = TYPE_BITS[type_] // 8
    if match := _MASKED.fullmatch(text):
        return Relocation(match[2], 0, size, False, int(match[1], 0))
    if text[:1].isalpha() or text[:1] in ("_", "$"):
        match = _SYMBOLIC.fullmatch(text)
        if match is None:
            raise OperandError(text, "malformed initial value")
        addend = _constant(match[4]) if match[4] else 0
        return Relocation(match[2], -addend if match[3] == "-" else addend, size, match[1] is not None)
    try:
        value = evaluate(text)
    except ConstantError as error:
        raise OperandError(text, "malformed initial value") from error
    if type_ in ("f16", "f32", "f64") and not (value.kind == "f32" and type_ == "f32"):
        try:
            return struct.pack(_FLOAT_FORMAT[size], float(value.value))
        except OverflowError as error:
            raise OperandError(text, f"no .{type_}") from error
    return (value.bits & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def parameters(text: str | None) -> list[Variable]:
    """The parameters of `(.param .b64 a, .param .align 8 .b8 b[16])`."""
    inside = text.strip()[1:-1].strip() if text else ""
    return [variable for piece in split_operands(inside) for variable in variables(piece)] if inside else []


def header(text: str) -> Function:
    """The Function that `.visible .entry k(…) .maxntid 128` announces, without a body."""
    match = _HEADER.fullmatch(text)
    if match is None:
        raise OperandError(text, "malformed function header")
    function = Function(match["name"], match["kind"] == "entry", linkage=match["linkage"] or "")
    function.ret = parameters(match["ret"])
    function.params = parameters(match["params"])
    if function.is_entry and any(v.space != "param" for v in function.params):
        raise OperandError(function.name, "the parameters of a kernel are .param")
    if (size := sum(v.size for v in function.params)) > MOST_PARAMETERS:
        raise OperandError(function.name, f"{size:,} bytes of parameters, but a kernel takes at most {MOST_PARAMETERS:,}")
    _directives(function, match["attributes"])
    _directives(function, match["directives"])
    return function


def _directives(function: Function, text: str) -> None:
    text = re.sub(r"\.attribute\s*\([^)]*\)|\.abi_preserve(?:_control)?\s+\d+", "", text)
    at = 0
    while match := _DIRECTIVE.match(text, at):
        name, value, at = match[1], match[2].strip(), match.end()
        if name == "pragma":
            function.pragmas.append(value.rstrip("; ").strip('"'))
        elif name in _FLAGS:
            function.directives[name] = True
        elif name in _NUMBERS:
            if not _SMALL.fullmatch(value) or int(value) < (name != "maxclusterrank"):      # which may be 0 (ptxas)
                raise OperandError(f".{name} {value}".strip(), "one number, at least 1")
            function.directives[name] = int(value)
        elif name in _TRIPLES:
            sizes = [int(n) if len(n) < 12 else 0 for n in value.split(",")] if _TRIPLE.fullmatch(value) else [0]
            if min(sizes) < 1:
                raise OperandError(f".{name} {value}".strip(), "one to three sizes, each at least 1")
            function.directives[name] = tuple((sizes + [1, 1])[:3])
        else:
            raise OperandError(f".{name} {value}".strip(), "unknown function directive")
    if text[at:].strip():
        raise OperandError(text[at:], "malformed function header")


def prototype(name: str, text: str) -> Prototype:
    """What `name: .callprototype (.param .b32 _) _ (.param .b64 _);` declares."""
    match = _PROTOTYPE.fullmatch(text)
    if match is None:
        raise OperandError(text, "malformed call prototype")
    return Prototype(name, parameters(match[1]), parameters(match[2]))
