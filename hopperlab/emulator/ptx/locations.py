# SPDX-License-Identifier: Apache-2.0
"""Source positions: `.file`, `.section .debug_str` and `.loc` with its `inlined_at` chains (PTX ISA 11.5).

The compiler states one level of inlining at a time: `.loc F L C, function_name X, inlined_at F' L' C'`. The call site
F' L' C' was itself stated just before when it was inlined too, so the latest `.loc` at that position is the parent.
"""

import re

from .ir import Site
from .names import readable_name

_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_DEBUG_STR = re.compile(r"\.section\s+\.debug_str\s*\{([^}]*)\}")
_NUMBER = re.compile(r"\d+")
_DEBUG_ITEM = re.compile(r"([\w$]+)\s*:(?!:)|\.b8\s+([\d\s,]+)")


def files(text: str) -> dict[int, str]:
    """The `.file` table of a PTX text, which may stand after the functions that use it."""
    return {int(m[1]): m[2] for m in _FILE.finditer(text)}


def debug_strings(text: str) -> tuple[bytes, dict[str, int]]:
    """The contents of `.section .debug_str` and where each of its labels, and '.debug_str' itself, points."""
    labels: dict[str, int] = {".debug_str": 0}
    data = bytearray()
    for section in _DEBUG_STR.finditer(text):
        for label, numbers in _DEBUG_ITEM.findall(section[1]):
            if label:
                labels[label] = len(data)
            else:
                data += bytes([int(n) & 255 for n in _NUMBER.findall(numbers)])
    return bytes(data), labels


class LineTable:
    """Turns the `.loc` directives of one module into shared Site objects."""

    def __init__(self, text: str):
        self.files = files(text)
        self._strings, self._labels = debug_strings(text)
        self._names: dict[str, str | None] = {}
        self._sites: dict[tuple, Site] = {}
        self._latest: dict[tuple[str, str, str], Site] = {}
        self._function = ""

    def enter(self, function: str) -> None:
        """Start a function: positions of an earlier one are no parents here."""
        self._function = readable_name(function)
        self._latest.clear()

    def loc(self, file: str, line: str, column: str, label: str | None, at: tuple[str, str, str] | None) -> Site:
        """The site of one `.loc`; `label` and `at` come from function_name and inlined_at."""
        parent = None
        name: str | None = self._function
        if at is not None:
            parent = self._latest.get(at) or self._site(at, None, None)
            name = self._resolve(label)
        position = (file, line, column)
        site = self._latest[position] = self._site(position, name, parent)
        return site

    def _site(self, position: tuple[str, str, str], name: str | None, parent: Site | None) -> Site:
        key = (position, name, id(parent))
        site = self._sites.get(key)
        if site is None:
            file = self.files.get(int(position[0]), f"<file {position[0]}>")
            site = self._sites[key] = Site(file, int(position[1]), int(position[2]), name, parent)
        return site

    def _resolve(self, label: str) -> str | None:
        """The function a `label` or `label+offset` into .debug_str names."""
        if label not in self._names:
            base, _, offset = label.partition("+")
            start = self._labels.get(base.strip())
            name = None
            if start is not None:
                start += int(offset) if offset.strip().isdecimal() else 0
                stop = self._strings.find(b"\0", start)
                name = readable_name(self._strings[start : stop if stop >= 0 else None].decode("utf-8", "replace"))
            self._names[label] = name
        return self._names[label]
