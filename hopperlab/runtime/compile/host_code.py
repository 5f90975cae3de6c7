# SPDX-License-Identifier: Apache-2.0
"""Leaves the host code of a .cu file out: NVRTC compiles device code alone, and a file for nvcc has both. Lines keep their numbers.

A function without __global__, __device__ or constexpr is the host's, as nvcc has it: it goes, with declarations of types that live on the host.
Preprocessor lines stay, but for includes of host libraries. What this reading does not understand stays as it is, for the compiler to judge.
"""
from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from . import host_words
from .host_tokens import NotUnderstood, Tokens
from .host_words import Known

_INCLUDE = re.compile(r'#\s*include\s*[<"]([^>"]+)[>"]')
_PLAIN = re.compile(r"""(?:using\s+\w+\s*=|static\s+constexpr\b)[^;{}()#/"']*;""")
_TEMPLATE_PARAMETER = re.compile(r"\b(?:class|typename)[\s.]+(\w+)")
_INSTANCE = re.compile(r"\([^()]*\)[\s\\]*template\b(?![\s\\]*<)")
_BRACE = re.compile("[{}]")
_ATTRIBUTES = frozenset("alignas _Alignas __align__ __attribute__ __declspec decltype".split())
_BEHIND_PARAMETERS = frozenset("const noexcept override final volatile requires try".split())
_CLASS_KEYS = frozenset(("struct", "class", "union", "enum"))
_STATEMENTS = frozenset("if for while switch do return".split())


@dataclass
class _Head:
    """A declaration up to its `;`, `=`, `{` or the `}` behind it. last: index of that token; key: that of its first struct, class, union or enum, or -1;
    parameters: where its last list in parentheses ends, or -1; initialisers: index of the `:` before a constructor's, or -1; bases: of that of a class."""

    first: int
    last: int
    names: list[str] = field(default_factory=list)
    key: int = -1
    parameters: int = -1
    initialisers: int = -1
    bases: int = -1


Stretch = tuple[int, int, str, list[tuple[int, int]]]
"""Where host code starts and ends, what stands there instead, and the preprocessor's lines in it, which stay."""


def without_host_code(text: str, known: Known | None = None, own: frozenset[str] = frozenset()) -> str:
    """The text with blanks where host code stood. known: what this text and those that it includes say; own: headers with the name of a host library's that
    are the caller's, and stay."""
    return without(text, stretches(text, known_of([text], own) if known is None else known, own))


def stretches(text: str, known: Known, own: frozenset[str] = frozenset()) -> list[Stretch]:
    """The host code of a text, none of it inside another."""
    tokens = Tokens(text)
    reader = _Reader(tokens, known, any(host_words.of_torch(name) for name in own))
    try:
        reader.declarations(0, in_class=False)
    except NotUnderstood:
        return []
    kept, gone = [], reader.gone
    for start, end in sorted(tokens.lines.items()):
        found = _INCLUDE.match(text, start, end)
        if found and host_words.of_the_host(found[1]) and found[1] not in own:
            gone.append((start, end, host_words.instead_of(found[1]) if known.halves else ""))
        else:
            kept.append((start, end))
    return _with_lines(sorted(gone), kept) if gone else []


def _with_lines(gone: Sequence[tuple[int, int, str]], kept: Sequence[tuple[int, int]]) -> list[Stretch]:
    """The stretches that are in no other, with the lines that stay in each."""
    found: list[Stretch] = []
    at = line = 0
    for start, end, instead in gone:
        if start < at:
            continue
        while line < len(kept) and kept[line][0] < start:
            line += 1
        first = line
        while line < len(kept) and kept[line][1] <= end:
            line += 1
        found.append((start, end, instead, list(kept[first:line])))
        at = end
    return found


def without(text: str, gone: Sequence[Stretch]) -> str:
    """The text with each stretch replaced by its line breaks, the preprocessor's lines inside it, and its last word."""
    out, at = [], 0
    for start, end, instead, lines in gone:
        out.append(text[at:start])
        for first, last in lines:
            out += ["\n" * text.count("\n", start, first), text[first:last]]
            start = last
        out += ["\n" * text.count("\n", start, end), instead]
        at = end
    return "".join([*out, text[at:]]) if gone else text


def known_of(texts: Sequence[str], own: frozenset[str] = frozenset()) -> Known:
    """What these texts say of each other's words."""
    bodies = host_words.bodies_of(texts)
    short = {name: each for name, each in bodies.items() if not any("(" in body for body in each)}
    device = host_words.standing_for(bodies, host_words.DEVICE_WORDS)
    found = Known(device, host_words.standing_for(short, frozenset(("__host__",))) - device,
                  types=host_words.aliases_of(texts, any(map(host_words.of_torch, own))), halves=any(map(host_words.HALVES.search, texts)))
    instances = {name: frozenset(re.findall(r"\w+", body)) for name, each in bodies.items() if name not in device for body in each if _INSTANCE.match(body)}
    whole = {name for name, each in bodies.items() if name not in device and all(_is_host_code(body, found) for body in each)}
    return replace(found, instances=instances, host_code=whole)


def _is_host_code(body: str, known: Known) -> bool:
    """Whether nothing stays of a macro's body, which is made of host functions."""
    arguments, brace, _ = body.partition("{")
    if not brace or not body.startswith("(") or ")" not in arguments:
        return False
    body = body[body.index(")") + 1:].replace("\\\n", " ").replace("##", "").strip()
    words = re.match(r"\w+", body)
    return words is not None and words[0] not in _STATEMENTS and not without_host_code(body, known).strip()


class _Reader:
    """Walks over the declarations of one text. gone: (start, end, what stands there instead) of each stretch of host code; removed: host functions and
    types by name, types: these alone; spaces: names of the host's
    namespaces; torch: whether the caller has PyTorch's namespaces."""

    def __init__(self, tokens: Tokens, known: Known, torch: bool = False):
        self.tokens, self.known = tokens, known
        self.gone: list[tuple[int, int, str]] = []
        self.removed: set[str] = set()
        self.types = set(known.types) - set(_TEMPLATE_PARAMETER.findall(tokens.text) if known.types else ())
        self.spaces: set[str] = set()
        self.host_use = host_words.use_of_host(torch, re.search(r"\busing\s+namespace\s+std\s*;", tokens.text) is not None)
        self.namespaces = host_words.namespaces(torch)

    def declarations(self, at: int, in_class: bool) -> int:
        """Those from token `at` to the `}` that closes what they stand in, which is returned, or to the end."""
        while True:
            word = self.tokens[at]
            if word.kind == "end" or word.text == "}" and word.kind == "sign":
                return at
            at = self._next(at, word.text, in_class)

    def _next(self, at: int, word: str, in_class: bool) -> int:
        """What stands at `at`; returns where the next begins."""
        if word == ";":
            return at + 1
        if word in ("public", "private", "protected") and self._is(at + 1, ":"):
            return at + 2
        if word == "namespace" or word == "inline" and self._is(at + 1, "namespace"):
            return self._namespace(at)
        if word == "extern" and self.tokens[at + 1].kind == "text" and self._is(at + 2, "{"):
            return self._inside(at + 2, False) + 1
        if word in ("using", "static") and (plain := _PLAIN.match(self.tokens.text, self.tokens[at].start)) and not self._speaks_of_host(plain[0]):
            self.tokens.jump(at, plain.end())
            return at
        if (word in self.known.host_code or not self.removed.isdisjoint(self.known.instances.get(word, ()))) and self._is(at + 1, "("):
            close = self.tokens.close(at + 1)
            close += self._is(close + 1, ";")
            self._goes(at, close)
            return close + 1
        return self._declaration(at, in_class)

    def _is(self, at: int, word: str) -> bool:
        return self.tokens[at].text == word

    def _inside(self, brace: int, in_class: bool) -> int:
        """The declarations in braces; returns the closing one."""
        close = self.declarations(brace + 1, in_class)
        if self.tokens[close].kind == "end":
            raise NotUnderstood
        return close

    def _goes(self, first: int, last: int, instead: str = "") -> None:
        self.gone.append((self.tokens[first].start, self.tokens[last].end, instead))

    def _namespace(self, at: int) -> int:
        first = at
        while self.tokens[at].kind != "end" and self.tokens[at].text not in ("{", ";"):
            at += 1
        if self._is(at, "{"):
            return self._inside(at, False) + 1
        if self.tokens[at].kind != "end" and self.namespaces & {self.tokens[k].text for k in range(first, at)}:
            self.spaces.add(self.tokens[first + 1].text)
            self._goes(first, at)
        return at + 1

    def _declaration(self, at: int, in_class: bool) -> int:
        """One declaration; returns where the next begins."""
        head = self._head(at)
        stop = self.tokens[head.last].text
        if stop in ("", "}"):
            return head.last
        if stop == "{" and self._is_class(head, head.last):
            return self._class(head)
        if stop == "{" and head.parameters >= 0 and self._for_host_type(head):
            close = self.tokens.close(head.last)
            self._goes(head.first, close)
            return close + 1
        if stop == "{" and head.parameters >= 0:
            return self._function(head, in_class)
        after = self._to_semicolon(head.last)
        if self._lives_on_host(head, after):
            self._goes(head.first, after - 1)
        else:
            self._not_only_host(head)
        return after

    def _class(self, head: _Head) -> int:
        if self._for_host_type(head) or not self._for_device(head) and self._about_host(head, head.last):
            close = self.tokens.close(head.last)
            after = self._to_semicolon(close + 1)
            named = self.tokens[head.key + 1]
            self.types |= {named.text} if named.kind == "name" and self.tokens[head.first + 2].text != ">" else set()
            self._goes(head.first, after - 1)
            return after
        close = self.tokens.close(head.last) if "enum" in head.names or self._is_flat(head.last) else self._inside(head.last, True)
        return self._to_semicolon(close + 1)

    def _for_host_type(self, head: _Head) -> bool:
        """Whether a template is specialised for a type that only the host has: nothing on the device can ask for it."""
        return [self.tokens[k].text for k in range(head.first, head.first + 3)] == ["template", "<", ">"] and self._about_host(head, head.last)

    def _is_flat(self, brace: int) -> bool:
        """Whether a class has no function bodies, and nothing of the host: quickly told, of the thousands of traits in a header."""
        opening = self.tokens[brace]
        first = _BRACE.search(self.tokens.text, opening.end)
        return (first is not None and first[0] == "}" and not self._speaks_of_host(self.tokens.text[opening.end:first.start()])
                and self.tokens.closed_at(opening) == first.end())

    def _speaks_of_host(self, text: str) -> bool:
        return self.host_use(text) or "__host__" in text or any(name in text for name in (*self.known.host, *self.types, *self.spaces, *self.removed))

    def _function(self, head: _Head, in_class: bool) -> int:
        """A host function: nothing of it stays, of a member its declaration."""
        close = self.tokens.close(head.last)
        if self._for_device(head):
            self._not_only_host(head)
            return close + 1
        self.removed.update(self._called(head))
        if in_class and not self._about_host(head, head.last):
            self._not_only_host(head)
            self._goes(head.initialisers if head.initialisers >= 0 else head.last, close, ";")
        else:
            self._goes(head.first, close)
        return close + 1

    def _not_only_host(self, head: _Head) -> None:
        """A declaration that stays is no longer the host's alone."""
        if not any(name in head.names for name in ("__device__", "__global__")) and not self.known.device & set(head.names):
            for at in range(head.first, head.last):
                if self.tokens[at].text == "__host__" or self.tokens[at].text in self.known.host:
                    self._goes(at, at)

    def _head(self, at: int) -> _Head:
        """Reads to the first `;`, `=`, `{` or `}` outside of brackets."""
        head = _Head(at, at)
        while True:
            token = self.tokens[at]
            if token.kind == "end" or token.kind == "sign" and token.text in (";", "=", "}"):
                head.last = at
                return head
            if token.text in ("(", "[") and token.kind == "sign":
                close = self.tokens.close(at)
                if "__device__" in self.tokens.text[token.end:self.tokens[close].start]:
                    head.names.append("__device__")             # of a lambda
                if token.text == "(" and head.initialisers < 0 and head.bases < 0 and self.tokens[at - 1].text not in _ATTRIBUTES:
                    head.parameters = close
                at = close
            elif token.text == "template" and self._is(at + 1, "<"):
                at = self._angle(at + 1)
            elif token.text == "operator":
                at = self._operator(at)
            elif token.text == ":":
                self._colon(head, at)
            elif token.text == "{":
                if head.initialisers < 0 or self.tokens[at - 1].kind != "name" and not self._is(at - 1, ">"):
                    head.last = at
                    return head
                at = self.tokens.close(at)                      # a member initialised with braces
            elif token.kind == "name":
                head.key = at if head.key < 0 and token.text in _CLASS_KEYS else head.key
                head.names.append(token.text)
            at += 1

    def _colon(self, head: _Head, at: int) -> None:
        if head.initialisers < 0 and head.bases < 0:
            if self._is_class(head, at):
                head.bases = at
            elif head.parameters >= 0:
                head.initialisers = at

    def _operator(self, at: int) -> int:
        """The last token of an operator's name."""
        if self._is(at + 1, "("):
            return self.tokens.close(at + 1)
        while self.tokens[at + 1].kind != "end" and not self._is(at + 1, "("):
            at += 1
        return at

    def _angle(self, at: int) -> int:
        """The `>` that closes template parameters or arguments."""
        depth = 0
        while True:
            token = self.tokens[at]
            if token.kind == "end" or token.text == ";":
                raise NotUnderstood
            if token.text in ("(", "[", "{") and token.kind == "sign":
                at = self.tokens.close(at)
            depth += (token.text == "<") - (token.text == ">")
            if depth == 0:
                return at
            at += 1

    def _is_class(self, head: _Head, end: int) -> bool:
        """Whether a head up to token `end` is that of a class: behind `struct` come attributes and a name, of which no list of parameters is one."""
        if head.key < 0 or head.bases >= 0:
            return head.bases >= 0
        at = head.key + 1
        while at < end:
            token = self.tokens[at]
            if token.text == "[":
                at = self.tokens.close(at)
            elif token.text == "<":
                try:
                    at = self._angle(at)
                except NotUnderstood:
                    return True
            elif token.kind == "name" and self._is(at + 1, "("):
                at = self.tokens.close(at + 1)
                behind = self.tokens[at + 1]
                if token.text not in _ATTRIBUTES and (behind.kind != "name" or behind.text in _BEHIND_PARAMETERS) and not token.text.isupper():
                    return False
            elif token.kind != "name" and token.text != "::":
                return False
            at += 1
        return True

    def _for_device(self, head: _Head) -> bool:
        return any(n in host_words.DEVICE_WORDS or n in self.known.device or host_words.DEVICE_MACRO.fullmatch(n) for n in head.names)

    def _called(self, head: _Head) -> list[str]:
        """The name of a function: that before its parameters."""
        return [self.tokens[at].text for at in range(head.first, head.last) if self.tokens[at].kind == "name" and self._is(at + 1, "(")]

    def _to_semicolon(self, at: int) -> int:
        """What follows the next `;`, or the `}` or the end before one."""
        while self.tokens[at].text not in (";", "}", ""):
            at = self.tokens.close(at) + 1 if self.tokens[at].text in ("(", "[", "{") else at + 1
        return at + self._is(at, ";")

    def _about_host(self, head: _Head, last: int) -> bool:
        """Whether a declaration up to token `last` names types that only the host has."""
        whole = self.tokens.text[self.tokens[head.first].start:self.tokens[last].end]
        if not self.host_use(whole) and not any(name in whole for name in (*self.types, *self.spaces)):
            return False
        code = self.tokens.code(head.first, last)
        return self.host_use(code) or not self.types.isdisjoint(re.findall(r"\w+", code)) or any(re.search(rf"\b{name}\s*::", code) for name in self.spaces)

    def _lives_on_host(self, head: _Head, after: int) -> bool:
        """A declaration of a type that only the host has, or an instance of a host template that went."""
        if self._for_device(head):
            return False
        words = [self.tokens[k].text for k in range(head.first, after)]
        if words[0] == "using" and words[-1] == ";" and words[-2] in self.removed and "=" not in words:
            return True
        if words[0] == "using" and words[1:2] == ["namespace"]:
            return not self.namespaces.isdisjoint(words)
        if "template" in words[:2] and words[words.index("template") + 1] != "<":
            return not self.removed.isdisjoint(words)
        if not self._about_host(head, after - 1):
            return False
        if words[0] == "using" and "=" not in words:
            self.types.add(words[-2])
        return words[0] not in ("typedef", "using") or host_words.NUMBERS.isdisjoint(words)     # the compiler says what kernels need and nobody has
