# SPDX-License-Identifier: Apache-2.0
"""What the text of a CUDA answer may hold, decided without compiling it.

The text is read as a compiler's preprocessor reads it (lines spliced, comments blanked, strings told from code), and whatever could
make the two readings differ is refused: trigraphs, digraphs of #, raw strings, quotes that stay open. C++17 [lex.phases], [cpp].
"""
from __future__ import annotations

import re

from . import macros

HEADER = re.compile(r"<(?:hopperlab/[a-z0-9_]+\.cuh|cuda/std/[a-z_]+)>")
KNOWN = {f"<{name}>" for name in ("algorithm array cfloat climits cmath cstddef cstdint limits tuple type_traits utility "
                                  "math.h stddef.h stdint.h cooperative_groups.h cuda.h cuda_bf16.h cuda_fp16.h cuda_fp8.h "
                                  "cuda_pipeline.h cuda_runtime.h mma.h cuda/atomic cuda/barrier cuda/pipeline cuda/ptx").split()}
"""Headers of CUDA and of the standard library that an answer may include."""
HEADERS_OWN = re.compile(r"_+(?:CCCL|LIBCUDACXX|LIBCPP)_\w*|__CUDA_\w*PRAGMA\w*")
"""Macros of those headers, whose expansion is not followed here."""
DIRECTIVES = {"define", "undef", "if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else", "endif", "error", "warning", "pragma", "include"}
PRAGMAS = re.compile(r"(?:nounroll|unroll\b.*)")
FILES = {"__has_include", "__has_include_next", "__has_embed", "__embed__"}
CLOCK = {"__TIME__", "__DATE__", "__TIMESTAMP__"}
PTX = r"\.\s*(include|file|loc|pragma|section|version|target|address_size|entry|func|alias)\b"
IN_STRING = re.compile(r"(?<![\w%$.])" + PTX)
IN_CODE = re.compile(r"(?<![\w)\]>.])" + PTX)
TOKEN = re.compile(r"""(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)|(?P<number>\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*)|(?P<name>[^\W\d]\w*)
                       |(?P<string>"(?:\\.|[^"\\\n])*")|(?P<character>'(?:\\.|[^'\\\n])*')|(?P<open>["']|/\*)|(?P<other>.)""", re.DOTALL | re.VERBOSE)
RAW = {"R", "u8R", "uR", "UR", "LR"}
ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]+)|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)


MARK = re.compile(r"(?:begin|end)\s+inline\s+asm")
"""What the compiler writes around inline PTX, which check_ptx goes by."""
PRAGMA_NAME = re.compile(r"_{1,2}[Pp]ragma")


class NotTaken(ValueError):
    """The text holds something that an answer must not hold; the message says what."""


def check(text: str) -> None:
    """Raises NotTaken for files beyond the course's headers, other line numbers, pragmas, and what would hide them."""
    if found := re.search(r"\?\?[=/'()!<>-]", text):
        raise NotTaken(f"{found[0]} is a trigraph, which is not taken")
    if re.search(r"\\(?:[ \t]+|\r)\r?\n", text):
        raise NotTaken("a \\ before the end of a line must be its last character")
    code, strings = _read(text.replace("\\\n", ""))
    if "%:" in code:
        raise NotTaken("%: is another spelling of #, which is not taken")
    for line in code.split("\n"):
        _check_line(line)
    for name in re.findall(r"[^\W\d]\w*", code):
        if name in FILES:
            raise NotTaken(f"{name} looks for files, which is not taken")
        if name in CLOCK:
            raise NotTaken(f"{name} differs from run to run, which is not taken")
        if HEADERS_OWN.fullmatch(name):
            raise NotTaken(f"{name} belongs to the headers' own workings, which is not taken")
    found = next(filter(None, map(IN_STRING.search, strings)), None) or IN_CODE.search(_narrow(code))
    if found:
        raise NotTaken(f"the PTX directive .{found[1]} is not taken: inline PTX holds instructions only")
    try:
        for tokens in macros.expanded(text.replace("\\\n", "")):
            _check_expanded(tokens)
    except macros.TooMuch as problem:
        raise NotTaken(str(problem)) from None


def _check_expanded(tokens: list[str]) -> None:
    """Raises NotTaken for what macros build: the names and the strings that no answer may hold."""
    joined = ""
    for place, word in enumerate([*tokens, ""]):
        if word.startswith('"'):
            joined += _decoded(word[1:-1])
            continue
        if found := IN_STRING.search(joined) or MARK.search(joined):
            raise NotTaken(f"a macro makes {found[0]!r}, which is not taken: inline PTX holds instructions only")
        joined = ""
        if word in FILES or word in CLOCK or HEADERS_OWN.fullmatch(word):
            raise NotTaken(f"a macro makes {word}, which is not taken")
        if PRAGMA_NAME.fullmatch(word) and not PRAGMAS.fullmatch("".join(tokens[place + 1:place + 4]).strip('() "')):
            raise NotTaken("a macro makes _Pragma, which is taken for unroll and nounroll only")


def check_ptx(ptx: str) -> None:
    """Raises NotTaken for a directive in what inline PTX has become: the last look, at what the compiler itself made of the text."""
    for block in re.findall(r"// begin inline asm\n(.*?)// end inline asm", ptx, re.DOTALL):
        if found := IN_STRING.search(re.sub(r"/\*.*?\*/|//[^\n]*", " ", block, flags=re.DOTALL)):
            raise NotTaken(f"the PTX directive .{found[1]} is not taken: inline PTX holds instructions only")
    if re.search(r"(?m)^\s*\.\s*include\b", ptx):
        raise NotTaken("the PTX directive .include is not taken: inline PTX holds instructions only")


def _read(text: str) -> tuple[str, list[str]]:
    """The code, with comments blanked and strings empty, and the values of its strings, neighbours joined as the compiler joins them."""
    code: list[str] = []
    strings: list[str] = []
    joined, before = False, ""
    for token in TOKEN.finditer(text):
        kind, value = token.lastgroup, token[0]
        if kind == "open":
            what = "a comment" if value == "/*" else f"a quote {value}"
            raise NotTaken(f"line {text.count(chr(10), 0, token.start()) + 1}: {what} that is not closed")
        if kind == "string":
            if before in RAW:
                raise NotTaken("raw strings are not taken")
            inner = _decoded(value[1:-1])
            if joined:
                strings[-1] += inner
            else:
                strings.append(inner)
            joined, before = True, ""
            code.append(_pragma_text(code, value))
            continue
        if value == "\\":
            raise NotTaken("a \\ outside of strings is taken only at the end of a line")
        code.append(" " if kind in ("line", "block") else "''" if kind == "character" else value)
        joined = joined and (kind in ("line", "block") or value.isspace())
        before = value if kind == "name" else ""
    return "".join(code), strings


def _narrow(code: str) -> str:
    """The code with nothing around its dots."""
    return re.sub(r"\s+", " ", code).replace(" .", ".").replace(". ", ".")


def _pragma_text(code: list[str], value: str) -> str:
    """A string as it stands in the code's text: empty, except as the operand of _Pragma or #include."""
    return value if re.search(r"_Pragma\s*\(\s*$|#\s*include\s*$", "".join(code[-8:])) else '""'


def _decoded(inner: str) -> str:
    def one(match: re.Match[str]) -> str:
        hexadecimal, octal, short, long, other = match.groups()
        number = int(hexadecimal or short or long, 16) if hexadecimal or short or long else int(octal, 8) if octal else None
        return {"n": "\n", "t": "\t"}.get(other, other) if number is None else chr(number) if number < 0x110000 else "?"
    return ESCAPE.sub(one, inner)


def _check_line(line: str) -> None:
    """One line of code without comments: a directive that is taken, or none; every _Pragma one that is taken."""
    for operand in () if re.match(r"\s*#\s*define\b", line) else re.findall(r"\b_{1,2}[Pp]ragma\b\s*(\([^()]*\))?", line):
        if not PRAGMAS.fullmatch(operand.strip('() "')):
            raise NotTaken("_Pragma is taken for unroll and nounroll only")
    if not line.lstrip().startswith("#"):
        return
    text = line.strip()[1:].strip()
    word = re.split(r"\W", text, maxsplit=1)[0]
    rest = text[len(word):].strip()
    if not word and not rest:
        return
    if word in ("line", "") or word.isdigit():
        raise NotTaken("#line is not taken: messages must name the answer's own lines")
    if word not in DIRECTIVES and not word.startswith(("include", "import", "embed")):
        raise NotTaken(f"#{word} is not taken")
    if word not in DIRECTIVES or word == "include" and not HEADER.fullmatch(rest) and rest not in KNOWN:
        angles = f"; write it with angle brackets: <{rest[1:-1]}>" if HEADER.fullmatch(f"<{rest[1:-1]}>") or f"<{rest[1:-1]}>" in KNOWN else ""
        raise NotTaken(f"#{word} {rest}: only the course's own headers, <hopperlab/….cuh>, and some of CUDA and C++, such as <cuda/ptx> and <cstdint>, may be "
                       f"included{angles}")
    if word == "pragma" and not PRAGMAS.fullmatch(rest):
        raise NotTaken(f"#pragma {rest}: of pragmas only unroll and nounroll are taken")
