# SPDX-License-Identifier: Apache-2.0
"""Line tables of clang's PTX as NVRTC writes them: files without folders, and the calls that led to an inlined line.

LLVM leaves the chain of calls in a comment behind `.loc`; PTX states it as `function_name` and `inlined_at`, one level at a time (PTX ISA 11.5).
"""
from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

from .statements import Statements

_FILE_ENTRY = re.compile(r'(?m)^(\s*\.file\s+(\d+)\s+)"([^"\n]*)"\s+"([^"\n]+)"[^\n]*$')
_LOC = re.compile(r"(?m)^(\s*)\.loc\s+(\d+)\s+(\d+)\s+(\d+)[^\n/]*//\s*(\S[^\n]*)$")
_FRAME = re.compile(r"@\[ (.+?):(\d+):(\d+)(?= @\[| \])")
_LINE = re.compile(r'\s*#\s*line\s+(\d+)(?:\s+"([^"\n]+)")?')
Functions = Mapping[str, Sequence[tuple[int, str]]]
Texts = Callable[[str], str]


def by_file(code: str, name: str) -> dict[str, str]:
    """The text of each file that a source says it is made of (`#line 7 "other.cu"`), every line at its own place; without #line the source under its name."""
    placed: dict[str, dict[int, str]] = {name: {}}
    file, number = name, 1
    for line in code.split("\n"):
        if directive := _LINE.match(line):
            file, number = directive[2] or file, int(directive[1])
        else:
            placed.setdefault(file, {})[number] = line
            number += 1
    return {file: "\n".join(lines.get(at, "") for at in range(1, max(lines, default=0) + 1)) for file, lines in placed.items()}


class LineTable:
    """The line table of one PTX text. functions: where each function of each file begins (ir.functions); texts: the text of a file."""

    def __init__(self, functions: Functions, texts: Texts):
        self.functions, self.texts = functions, texts
        self.numbers: dict[str, str] = {}                   # of a file, by its path
        self.paths: dict[str, str] = {}
        self.names: dict[str, str] = {}                     # label of a function's name
        self.statements: dict[str, Statements] = {}

    def stated(self, ptx: str) -> str:
        """The PTX with every `.loc` in full."""
        for _, number, folder, name in _FILE_ENTRY.findall(ptx):
            path = name if folder == "/" or name.startswith("/") else f"{folder}/{name}"
            self.numbers.setdefault(path, number)
            self.paths[number] = path
        ptx = _FILE_ENTRY.sub(lambda found: f'{found[1]}"{self.paths[found[2]]}"', ptx)
        ptx = _LOC.sub(self._full, ptx)
        ptx += "".join(f'\t.file\t{number} "{path}"\n' for path, number in self.numbers.items() if number not in self.paths)
        return ptx + _strings(self.names) if self.names else ptx

    def _full(self, found: re.Match[str]) -> str:
        """One `.loc` with its comment, as a `.loc` for each frame: the outermost first, each next one inlined at the one before."""
        frames = [*reversed(_FRAME.findall(found[5])), (self.paths[found[2]], found[3], found[4])]
        text, at = [], ""
        for path, line, column in frames:
            place = f"{self.numbers.setdefault(path, str(len(self.numbers) + 1))} {self._line(path, int(line), int(column))} {column}"
            label = self._label(_function(self.functions.get(path, ()), int(line))) if at else ""
            text.append(f"\t.loc\t{place}" + (f", function_name {label}, inlined_at {at}" if at else ""))
            at = place
        return "\n".join(text)

    def _line(self, path: str, line: int, column: int) -> int:
        if path not in self.statements:
            self.statements[path] = Statements(self.texts(path))
        return self.statements[path].line_of(line, column)

    def _label(self, name: str) -> str:
        return self.names.setdefault(name, f"$L__info_string{len(self.names)}")


def _function(begins: Sequence[tuple[int, str]], line: int) -> str:
    """The function that a line of a file belongs to: the last one that begins at it or above."""
    at = bisect_right(begins, (line, "\uffff"))
    return begins[at - 1][1] if at else ""


def _strings(names: Mapping[str, str]) -> str:
    """The section that function names are in."""
    entries = [f"{label}:\n.b8 {','.join(map(str, (*name.encode(), 0)))}" for name, label in names.items()]
    return "\n\t.section\t.debug_str\n\t{\n" + "\n".join(entries) + "\n\n\t}\n"
