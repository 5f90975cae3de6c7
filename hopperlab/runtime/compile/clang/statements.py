# SPDX-License-Identifier: Apache-2.0
"""Where statements of C++ begin: NVRTC's line tables name the line of a statement, clang's that of an expression inside it.

A statement that holds on one line is found on that line by both. One of several lines is brought here to the line that NVRTC names: its first, and for an
asm statement with operands that of the last operand.
"""
from __future__ import annotations

import re
from bisect import bisect_right

_HIDDEN = re.compile(r"//(?:[^\n\\]|\\.)*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)+'|^[ \t]*#(?:[^\n\\]|\\\r?\n|\\.)*", re.DOTALL | re.MULTILINE)
_TOKEN = re.compile(r"[A-Za-z_]\w*|[{}();:?\[\]]")
_MACRO = re.compile(r"(?m)^([ \t]*[A-Z_][A-Z0-9_]*(?:\([^\n()]*\))?)(?=[ \t]*$)")       # a macro alone on its line ends a statement
_PARENTHESIS = re.compile(r"[()]")
_HEADED = frozenset({"if", "for", "while", "switch"})


class Statements:
    """The statements of one text, each by where it begins."""

    def __init__(self, text: str):
        shown = _HIDDEN.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
        shown = _MACRO.sub(r"\1;", shown)
        self._text = shown
        self._lines = [0, *(found.end() for found in re.finditer("\n", shown))]
        self._begins = sorted({0, *_begins(shown)})

    def line_of(self, line: int, column: int) -> int:
        """The line that NVRTC names for a position (both count from 1; line 0 is the compiler's own)."""
        if not 0 < line <= len(self._lines) or not column:
            return line
        at = self._lines[line - 1] + column - 1
        begin = self._begins[bisect_right(self._begins, at) - 1]
        if self._text.startswith("asm", at):
            begin = self._operands(at)
        return bisect_right(self._lines, begin)

    def _operands(self, at: int) -> int:
        """Where an asm statement has its last operand; its own begin where it has none."""
        begin, end = self._text.find("(", at), self._text.find(";", at)
        depth, last = 0, at
        for found in _PARENTHESIS.finditer(self._text, max(begin, at), max(end, at)):
            depth += 1 if found[0] == "(" else -1
            if found[0] == "(" and depth == 2:
                last = found.end()
        return last


def _begins(text: str) -> list[int]:
    """Positions where a statement, or a part of a for statement's head, begins."""
    found, heads, depth, fresh, word = [], [], 0, True, ""
    for token in _TOKEN.finditer(text):
        what = token[0]
        at_margin = what[0] not in "{}();:?[]" and (not token.start() or text[token.start() - 1] == "\n")        # a macro that ends without a semicolon stands above
        if at_margin or (fresh and what not in "{}();:"):
            found.append(token.start())
            fresh = False
        if what == "(":
            depth += 1
            if word in _HEADED:
                heads.append(depth)
        elif what == ")":
            if heads and heads[-1] == depth:
                heads.pop()
                fresh = True
            depth = max(0, depth - 1)
        elif what == "{":
            depth, fresh = 0, True
            heads.clear()
        elif what == "}" or (what == ";" and (depth == 0 or heads)) or what in ("else", "do"):
            fresh = True
        word = what if what != "constexpr" else word
    return found
