# SPDX-License-Identifier: Apache-2.0
"""What an address in a CTA's shared memory is called in the source: the variable, and which of its mbarriers."""
from __future__ import annotations

import re
from collections.abc import Sequence

MOST_BARRIERS = 64         # a larger variable holds more than mbarriers: its elements have no numbers


def source_name(mangled: str) -> str:
    """The last name in a mangled one: full, of _ZZ1kPfE4full (Itanium C++ ABI)."""
    for digits in reversed(list(re.finditer(r"\d+", mangled))) if mangled.startswith("_Z") else ():
        length = int(digits[0])
        name, rest = mangled[digits.end():digits.end() + length], mangled[digits.end() + length:]
        if len(name) == length and re.fullmatch(r"[A-Za-z_]\w*", name) and re.fullmatch(r"E?(_\d*_?)?", rest):
            return name
    return mangled


def name_of(variables: Sequence[tuple[int, int, str]], offset: int) -> str:
    """What stands at a shared address, as 'full[1]' (8 bytes per element); '' outside of static variables. variables: (first byte, end, PTX name)."""
    for first, end, name in variables:
        if first <= offset < end:
            name = source_name(name)
            if end - first <= 8:
                return name
            return f"{name}[{(offset - first) // 8}]" if end - first <= 8 * MOST_BARRIERS else f"{name} + {offset - first}"
    return ""


def address_text(variables: Sequence[tuple[int, int, str]], offset: int) -> str:
    """A shared address, with its name beside it where it has one."""
    name = name_of(variables, offset)
    return f"{offset:#x} ({name})" if name else f"{offset:#x}"
