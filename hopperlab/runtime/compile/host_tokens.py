# SPDX-License-Identifier: Apache-2.0
"""The tokens of CUDA C++ as far as leaving host code out needs them: read one after another, what stands in brackets jumped over.

A header of CuTe is megabytes of function bodies: nothing of these becomes a token.
"""
from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(r"""(?P<skip>\s+|//(?:[^\n\\]+|\\.)*|/\*.*?\*/)|(?P<raw>(?:u8|u|U|L)?R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)")
    |(?P<text>(?:u8|u|U|L)?"(?:\\.|[^"\\\n])*"|(?:u8|u|U|L)?'(?:\\.|[^'\\\n])*')|(?P<number>\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*)|(?P<name>[^\W\d]\w*)
    |(?P<line>\#(?:[^\n\\/]+|\\.|//(?:[^\n\\]+|\\.)*|/\*.*?\*/|/|\\)*)|(?P<sign>::|->|<<|[<>=!]=|.)""", re.DOTALL | re.VERBOSE)
# Whatever hides brackets, and these. Every choice begins with a letter of its own, for which re can look quickly.
_HIDES = (r"/(?:/(?:[^\n\\]+|\\.)*|\*.*?\*/)", r'"(?:\\.|[^"\\\n])*"', r"'(?:(?<![0-9a-fA-F]')|(?<=u8'))(?:\\.|[^'\\\n])*'",
          r'R(?:(?<!\wR)|(?<=\bu8R)|(?<=\b[uUL]R))"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)"', r"\#(?:[^\n\\/]+|\\.|//(?:[^\n\\]+|\\.)*|/\*.*?\*/|/|\\)*")
_BRACES = re.compile("|".join((*_HIDES, r"\{", r"\}")), re.DOTALL)
_BRACKETS = re.compile("|".join((*_HIDES, r"\{", r"\}", r"\(", r"\)", r"\[", r"\]")), re.DOTALL)
_HIDDEN = re.compile("|".join(_HIDES), re.DOTALL)
_CLOSING = {"(": ")", "[": "]", "{": "}"}


class NotUnderstood(Exception):
    """Brackets that do not match, as conditional code may have them."""


class Token(NamedTuple):
    """kind: name, number, text, raw, sign, or end behind the last one."""

    text: str
    kind: str
    start: int
    end: int


class Tokens:
    """The tokens of a text by number, read where they are asked for. lines: (start -> end) of the preprocessor's lines that were passed."""

    def __init__(self, text: str):
        self.text = text
        self.lines: dict[int, int] = {}
        self._read: list[Token] = []
        self._at = 0

    def __getitem__(self, number: int) -> Token:
        while number >= len(self._read):
            found = _TOKEN.match(self.text, self._at)
            if found is None:
                return Token("", "end", len(self.text), len(self.text))
            self._at, kind = found.end(), found.lastgroup or "sign"
            if kind == "line":
                self.lines[found.start()] = self._at
            elif kind != "skip":
                self._read.append(Token(found[0], "raw" if kind == "mark" else kind, found.start(), self._at))
        return self._read[number]

    def close(self, number: int) -> int:
        """The token that closes the bracket `number`: the next one, since what is inside becomes none. Raises NotUnderstood where nothing closes it."""
        opening = self[number]
        if number + 1 < len(self._read) and self._read[number + 1].text == _CLOSING[opening.text]:
            return number + 1                                   # closed before, or empty
        end = self.closed_at(opening)
        self._read[number + 1:] = [Token(_CLOSING[opening.text], "sign", end - 1, end)]
        self._at = end
        return number + 1

    def jump(self, number: int, at: int) -> None:
        """Token `number` is the first one from place `at` of the text on."""
        del self._read[number:]
        self._at = at

    def closed_at(self, opening: Token) -> int:
        """Where the text behind the bracket that closes this one begins. Of what stands in braces only these have to match: conditional code may open a
        parenthesis twice."""
        waiting = [_CLOSING[opening.text]]
        for found in (_BRACES if opening.text == "{" else _BRACKETS).finditer(self.text, opening.end):
            sign = found[0]
            if sign in _CLOSING:
                waiting.append(_CLOSING[sign])
            elif sign in (")", "]", "}"):
                if waiting.pop() != sign:
                    raise NotUnderstood
                if not waiting:
                    return found.end()
            elif sign[0] == "#":
                self.lines[found.start()] = found.end()
        raise NotUnderstood

    def code(self, first: int, last: int) -> str:
        """The text from token `first` to token `last`, without comments, strings and the preprocessor's lines."""
        return _HIDDEN.sub(" ", self.text[self[first].start:self[last].end])
