# SPDX-License-Identifier: Apache-2.0
"""Readable names for C++ functions: `_ZN9hopperlab4waitILi3EEEvj` -> 'hopperlab::wait' (Itanium C++ ABI 5.1).

Only the qualified name matters in a message, so template arguments and parameters are skipped, not decoded. A name of
another shape comes back as it is.
"""

import re

_DIGITS = re.compile(r"\d+")
_OPENERS = "INJXFL"
_OPERATORS = {"cl": "operator()", "ix": "operator[]", "aS": "operator=", "eq": "operator==", "pl": "operator+",
              "mi": "operator-", "ml": "operator*", "ls": "operator<<", "rs": "operator>>"}  # fmt: skip
_HIDDEN = ("_INTERNAL_", "_GLOBAL__N_")


def readable_name(mangled: str) -> str:
    """The qualified C++ name without template arguments and parameters; `mangled` itself where that is not possible."""
    if not mangled.startswith("_Z"):
        return mangled
    try:
        parts = _nested(mangled, 3) if mangled[2] == "N" else _plain(mangled, 2)
    except (IndexError, ValueError):
        return mangled
    return "::".join(parts) if parts else mangled


def _plain(text: str, at: int) -> list[str]:
    """`4wait…`, with an L before it for internal linkage."""
    return [_source_name(text, at + 1 if text[at] == "L" else at)[0]]


def _nested(text: str, at: int) -> list[str]:
    """The components of N…E. Raises ValueError for what is not understood."""
    parts: list[str] = []
    while text[at] in "KVRO":
        at += 1
    while text[at] != "E":
        two = text[at : at + 2]
        if text[at].isdigit():
            name, at = _source_name(text, at)
            if not name.startswith(_HIDDEN):
                parts.append(name)
        elif two == "St":
            parts.append("std")
            at += 2
        elif two in ("C1", "C2", "C3", "D0", "D1", "D2"):
            parts.append(("~" if two[0] == "D" else "") + parts[-1])
            at += 2
        elif two in _OPERATORS:
            parts.append(_OPERATORS[two])
            at += 2
        elif text[at] == "I":
            at = _skip_group(text, at)
        elif text[at] == "L":
            at += 1
        else:
            raise ValueError(text)
    return parts


def _source_name(text: str, at: int) -> tuple[str, int]:
    match = _DIGITS.match(text, at)
    if match is None or match.end() + int(match[0]) > len(text):
        raise ValueError(text)
    end = match.end() + int(match[0])
    return text[match.end() : end], end


def _skip_group(text: str, at: int) -> int:
    """The position after the group that opens at `at`: template arguments, a nested name, a literal."""
    if text[at] == "L":
        return _skip_literal(text, at)
    at += 1
    while text[at] != "E":
        if text[at].isdigit():
            _, at = _source_name(text, at)
        elif text[at] in _OPENERS:
            at = _skip_group(text, at)
        elif text[at] == "A" or (text[at] in "ST" and not text[at + 1].islower()):
            at = text.index("_", at) + 1  # an array's size, a substitution, a template parameter
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
