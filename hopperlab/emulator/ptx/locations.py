"""Source positions: `.file`, `.section .debug_str` and `.loc` with its `inlined_at` chains (PTX ISA 11.5).

The compiler states one level of inlining at a time: `.loc F L C, function_name X, inlined_at F' L' C'`. The call site
F' L' C' was itself stated just before when it was inlined too, so the latest `.loc` at that position is the parent.
"""

import re

from .ir import Site

_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_DEBUG_STR = re.compile(r"\.section\s+\.debug_str\s*\{([^}]*)\}")
_DEBUG_ITEM = re.compile(r"([\w$]+)\s*:(?!:)|\.b8\s+([\d\s,]+)")
_SOURCE_NAME = re.compile(r"\d+")
_OPENERS = "INJXFL"


def files(text: str) -> dict[int, str]:
    """The `.file` table of a PTX text, which may stand after the functions that use it."""
    return {int(m[1]): m[2] for m in _FILE.finditer(text)}


def debug_strings(text: str) -> dict[str, bytes]:
    """What each label of `.section .debug_str`, and '.debug_str' itself, points to: bytes to the section's end."""
    labels: dict[str, int] = {".debug_str": 0}
    data = bytearray()
    for section in _DEBUG_STR.finditer(text):
        for label, numbers in _DEBUG_ITEM.findall(section[1]):
            if label:
                labels[label] = len(data)
            else:
                data.extend(int(n) for n in numbers.split(",") if n.strip())
    return {label: bytes(data[at:]) for label, at in labels.items()}


class LineTable:
    """Turns the `.loc` directives of one module into shared Site objects."""

    def __init__(self, text: str):
        self.files = files(text)
        self._strings = debug_strings(text) if ".debug_str" in text else {}
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
            data = self._strings.get(base.strip())
            name = None
            if data is not None:
                name = readable_name(data[int(offset or 0) :].split(b"\0", 1)[0].decode("utf-8", "replace"))
            self._names[label] = name
        return self._names[label]


def readable_name(mangled: str) -> str:
    """`_ZN9hopperlab4waitILi3EEEvj` -> 'hopperlab::wait': the qualified name without template arguments and
    parameters (Itanium C++ ABI 5.1). Operators, constructors and anything unusual stay as they are."""
    if not mangled.startswith("_Z"):
        return mangled
    try:
        nested = mangled[2] == "N"
        parts, at = [], 3 if nested else 2
        while nested and mangled[at] in "KVRO":
            at += 1
        while True:
            if mangled[at].isdigit():
                name, at = _source_name(mangled, at)
                if not name.startswith(("_INTERNAL_", "_GLOBAL__N_")):
                    parts.append(name)
            elif mangled[at] == "I":
                at = _skip_group(mangled, at)
            elif mangled[at] == "L":  # internal linkage
                at += 1
            else:
                break
            if not nested and (at >= len(mangled) or mangled[at] != "I"):
                break
        complete = not nested or mangled[at] == "E"
        return "::".join(parts) if parts and complete else mangled
    except (IndexError, ValueError):
        return mangled


def _source_name(text: str, at: int) -> tuple[str, int]:
    match = _SOURCE_NAME.match(text, at)
    end = match.end() + int(match[0])
    if end > len(text):
        raise ValueError(text)
    return text[match.end() : end], end


def _skip_group(text: str, at: int) -> int:
    """The position after the group that opens at `at` (template arguments, nested name, literal)."""
    if text[at] == "L":
        return _skip_literal(text, at)
    at += 1
    while text[at] != "E":
        if text[at].isdigit():
            _, at = _source_name(text, at)
        elif text[at] in _OPENERS:
            at = _skip_group(text, at)
        elif text[at] in "ST" and text[at + 1] in "_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ":
            at = text.index("_", at) + 1
        else:
            at += 1
    return at + 1


def _skip_literal(text: str, at: int) -> int:
    """`Li3E`, `LNS1_4modeE2E`: a type, then a value up to E."""
    at += 1
    if text[at] == "_":
        raise ValueError(text)
    if text[at] == "N":
        at = _skip_group(text, at)
    elif text[at].isdigit():
        _, at = _source_name(text, at)
    return text.index("E", at) + 1
