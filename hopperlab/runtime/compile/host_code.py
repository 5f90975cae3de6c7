# SPDX-License-Identifier: Apache-2.0
"""Leaves the host code of a .cu file out: NVRTC compiles device code alone, and a file for nvcc has both. Lines keep their numbers.

A function without __global__, __device__ or constexpr is the host's, as nvcc has it: it goes, with declarations of types that live on the host.
Preprocessor lines stay, but for includes of host libraries. What this reading does not understand stays as it is, for the compiler to judge.
"""
from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_TOKEN = re.compile(r"""(?P<skip>\s+|//(?:\\\n|[^\n])*|/\*.*?\*/)|(?P<raw>(?:u8|u|U|L)?R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)")
    |(?P<text>(?:u8|u|U|L)?"(?:\\.|[^"\\\n])*"|(?:u8|u|U|L)?'(?:\\.|[^'\\\n])*')|(?P<number>\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*)|(?P<name>[^\W\d]\w*)
    |(?P<line>\#(?:\\\n|/\*.*?\*/|[^\n])*)|(?P<sign>::|->|.)""", re.DOTALL | re.VERBOSE)
_DEFINE = re.compile(r"#\s*define\s+(\w+)(.*)", re.DOTALL)
_INCLUDE = re.compile(r'#\s*include\s*[<"]([^>"]+)[>"]')
_HOST_HEADERS = re.compile(r"(cublas|cudnn|curand\.h|cusolver|cusparse|cufft|nccl|nvToolsExt|nvtx3/|cuda_profiler_api|torch/|ATen/|c10/|pybind11/|gtest/|gmock/|mpi\.h|"
                           r"omp\.h|unistd\.h|getopt\.h|pthread\.h|dlfcn\.h|sys/|helper_|nvml|thrust/)")
_HOST_TYPES = frozenset("string vector map unordered_map set unordered_set unique_ptr shared_ptr function mutex thread ofstream ifstream ostream "
                        "stringstream ostringstream deque list queue chrono future filesystem random_device mt19937 default_random_engine cout cerr".split())
_HOST_LIBRARIES = re.compile(r"(?:cublas|cudnn|curandGenerator|cusolver|cusparse|cufft|nccl)\w*$")
_DEVICE_WORDS = frozenset(("__global__", "__device__", "constexpr", "consteval"))
_DEVICE_MACRO = re.compile(r"[A-Z0-9_]*(?:DEVICE|GLOBAL|KERNEL)[A-Z0-9_]*")
_CLASS_KEYS = frozenset(("struct", "class", "union", "enum"))
_OPEN, _CLOSE = {"(": ")", "[": "]", "{": "}"}, frozenset(")]}")


class _NotUnderstood(Exception):
    """Brackets that do not match, as conditional code may have them."""


@dataclass(frozen=True)
class _Token:
    text: str
    kind: str
    start: int
    end: int


@dataclass
class _Head:
    """A declaration up to its `;`, `=` or `{`. last: index of that token; parameters: where its last list in parentheses ends, or -1;
    initialisers: index of the `:` before a constructor's, or -1."""

    first: int
    last: int
    names: list[str] = field(default_factory=list)
    parameters: int = -1
    initialisers: int = -1


def without_host_code(text: str) -> str:
    """The text with blanks where host code stood."""
    tokens, lines = _tokens(text)
    reader = _Reader(tokens, _device_macros(lines))
    try:
        reader.declarations(0, len(tokens), in_class=False)
    except _NotUnderstood:
        return text
    kept = [(t.start, t.end) for t in lines if not ((m := _INCLUDE.match(t.text)) and _HOST_HEADERS.match(m[1]))]
    gone = [(t.start, t.end, "") for t in lines if (t.start, t.end) not in set(kept)]
    return _blanked(text, [*reader.gone, *gone], kept)


def _tokens(text: str) -> tuple[list[_Token], list[_Token]]:
    """The tokens of the code, and the preprocessor's lines."""
    code, lines = [], []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "sign"
        if kind == "mark":
            kind = "raw"
        token = _Token(match[0], kind, match.start(), match.end())
        if kind == "line":
            lines.append(token)
        elif kind != "skip":
            code.append(token)
    return code, lines


def _device_macros(lines: Sequence[_Token]) -> set[str]:
    """Macros of this text that stand for __device__ or __global__, also through others."""
    bodies = {m[1]: m[2] for line in lines if (m := _DEFINE.match(line.text))}
    found: set[str] = set()
    while True:
        more = {name for name, body in bodies.items() if name not in found and (set(re.findall(r"\w+", body)) & (found | _DEVICE_WORDS))}
        if not more:
            return found
        found |= more


def _blanked(text: str, gone: Sequence[tuple[int, int, str]], kept: Sequence[tuple[int, int]]) -> str:
    """The text with each stretch replaced by its line breaks, the preprocessor's lines inside it, and its last word."""
    out, at = [], 0
    for start, end, instead in sorted(gone):
        if start < at:
            continue
        out.append(text[at:start])
        place = start
        for first, last in (pair for pair in kept if start <= pair[0] and pair[1] <= end):
            out += ["\n" * text.count("\n", place, first), text[first:last]]
            place = last
        out += ["\n" * text.count("\n", place, end), instead]
        at = end
    return "".join([*out, text[at:]])


class _Reader:
    """Walks over the declarations of one text. gone: (start, end, what stands there instead) of each stretch of host code."""

    def __init__(self, tokens: list[_Token], macros: set[str]):
        self.tokens, self.macros = tokens, macros
        self.gone: list[tuple[int, int, str]] = []
        self.removed: set[str] = set()

    def declarations(self, at: int, end: int, in_class: bool) -> None:
        """Those from token `at` to token `end`."""
        while at < end:
            word = self.tokens[at].text
            if word in (";", "}"):
                at += 1
            elif word in ("public", "private", "protected") and self._is(at + 1, ":"):
                at += 2
            elif word == "namespace" or word == "inline" and self._is(at + 1, "namespace"):
                at = self._namespace(at, end)
            elif word == "extern" and at + 2 < end and self.tokens[at + 1].kind == "text" and self._is(at + 2, "{"):
                close = self._match(at + 2)
                self.declarations(at + 3, close, False)
                at = close + 1
            else:
                at = self._declaration(at, end, in_class)

    def _is(self, at: int, word: str) -> bool:
        return at < len(self.tokens) and self.tokens[at].text == word

    def _namespace(self, at: int, end: int) -> int:
        while at < end and self.tokens[at].text not in ("{", ";"):
            at += 1
        if at >= end or self.tokens[at].text == ";":
            return at + 1
        close = self._match(at)
        self.declarations(at + 1, close, False)
        return close + 1

    def _match(self, at: int) -> int:
        """The token that closes the bracket at `at`."""
        waiting: list[str] = []
        for place in range(at, len(self.tokens)):
            token = self.tokens[place]
            if token.kind != "sign":
                continue
            if token.text in _OPEN:
                waiting.append(_OPEN[token.text])
            elif token.text in _CLOSE:
                if not waiting or waiting.pop() != token.text:
                    raise _NotUnderstood
                if not waiting:
                    return place
        raise _NotUnderstood

    def _declaration(self, at: int, end: int, in_class: bool) -> int:
        """One declaration; returns where the next begins."""
        head = self._head(at, end)
        if head.last >= end:
            return end
        stop = self.tokens[head.last].text
        if stop == "{" and self._is_class(head):
            close = self._match(head.last)
            if "enum" not in head.names:
                self.declarations(head.last + 1, close, True)
            return self._to_semicolon(close + 1, end)
        if stop == "{" and head.parameters >= 0:
            close = self._match(head.last)
            if not self._for_device(head):
                self._function_goes(head, close, in_class)
            return close + 1
        after = self._to_semicolon(head.last, end)
        if self._lives_on_host(head, after):
            self.gone.append((self.tokens[head.first].start, self.tokens[after - 1].end, ""))
        return after

    def _head(self, at: int, end: int) -> _Head:
        """Reads to the first `;`, `=` or `{` outside of brackets."""
        head = _Head(at, end)
        while at < end:
            token = self.tokens[at]
            if token.text in ("(", "["):
                close = self._match(at)
                head.names += [t.text for t in self.tokens[at:close] if t.kind == "name" and t.text == "__device__"]
                if token.text == "(" and head.initialisers < 0:
                    head.parameters = close
                at = close
            elif token.text == "template" and self._is(at + 1, "<"):
                at = self._angle(at + 1)
            elif token.text == "operator":
                at += 1
                while at + 1 < end and self.tokens[at + 1].text != "(":
                    at += 1
                if self._is(at, "(") and self._is(at + 1, ")"):
                    at += 1
            elif token.text == ":" and self._after_parameters(head, at) and not self._is_class(head):
                head.initialisers = at
            elif token.text == "{" and head.initialisers >= 0 and self.tokens[at - 1].kind == "name":
                at = self._match(at)                            # a member initialised with braces
            elif token.text in (";", "=", "{"):
                head.last = at
                return head
            elif token.kind == "name":
                head.names.append(token.text)
            at += 1
        return head

    def _after_parameters(self, head: _Head, at: int) -> bool:
        return head.parameters >= 0 and all(token.text in ("noexcept", "const") for token in self.tokens[head.parameters + 1:at])

    def _angle(self, at: int) -> int:
        """The `>` that closes template parameters."""
        depth = 0
        while at < len(self.tokens):
            text = self.tokens[at].text
            if text in ("(", "[", "{"):
                at = self._match(at)
            depth += (text == "<") - (text == ">")
            if depth == 0:
                return at
            at += 1
        raise _NotUnderstood

    def _is_class(self, head: _Head) -> bool:
        return bool(_CLASS_KEYS & set(head.names)) and self.tokens[head.last - 1 if head.last < len(self.tokens) else -1].text != ")"

    def _for_device(self, head: _Head) -> bool:
        return any(n in _DEVICE_WORDS or n in self.macros or _DEVICE_MACRO.fullmatch(n) for n in head.names)

    def _function_goes(self, head: _Head, close: int, in_class: bool) -> None:
        """A host function: nothing of it stays, of a member its declaration."""
        self.removed.update(self._called(head))
        if in_class:
            first = head.initialisers if head.initialisers >= 0 else head.last
            self.gone.append((self.tokens[first].start, self.tokens[close].end, ";"))
        else:
            self.gone.append((self.tokens[head.first].start, self.tokens[close].end, ""))

    def _called(self, head: _Head) -> Iterator[str]:
        """The name of a function: that before its parameters."""
        for at in range(head.first, head.last):
            if self.tokens[at].kind == "name" and self._is(at + 1, "("):
                yield self.tokens[at].text

    def _to_semicolon(self, at: int, end: int) -> int:
        while at < end and self.tokens[at].text != ";":
            at = self._match(at) + 1 if self.tokens[at].text in _OPEN else at + 1
        return min(at + 1, end)

    def _lives_on_host(self, head: _Head, after: int) -> bool:
        """A declaration of a type that only the host has, or an instance of a host template that went."""
        words = [token.text for token in self.tokens[head.first:after]]
        if self._for_device(head):
            return False
        if words[0] == "using" and words[-1] == ";" and words[-2] in self.removed and "=" not in words:
            return True
        if words[0] == "template" and words[1:2] != ["<"]:
            return bool(self.removed & set(words))
        return any(map(_HOST_LIBRARIES.match, words)) or any(words[k:k + 2] == ["std", "::"] and words[k + 2:k + 3] and words[k + 2] in _HOST_TYPES
                                                             for k in range(len(words) - 2))
