# SPDX-License-Identifier: Apache-2.0
"""What the video instructions write behind and before a register: the bytes or halves they take (`%r1.b0`, `%r2.h10`) and a sign
(`-%r1`). Both move into the modifiers, so that operands stay plain: 'a.b0', 'd.h10', 'a.negated'. PTX ISA 9.7.16.
"""

import re

VIDEO = frozenset(f"{name}{count}" for name in ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vset", "vavrg", "vshl", "vshr", "vmad") for count in ("", "2", "4"))
_OPERAND = re.compile(r"\s*(-?)\s*([A-Za-z_$%][\w$]*)(?:\.([bh][0-7]{1,4}))?\s*")


def video_operands(pieces: list[str], mods: tuple[str, ...]) -> tuple[list[str], tuple[str, ...]]:
    """Operand texts d, a, b, c without selectors and signs, and the modifiers with them."""
    plain, found = [], []
    for place, piece in zip("dabc", pieces):
        match = _OPERAND.fullmatch(piece)
        if match is None or not (match[1] or match[3]):
            plain.append(piece)
            continue
        plain.append(match[2])
        if match[1]:
            found.append(f"{place}.negated")
        if match[3]:
            found.append(f"{place}.{match[3]}")
    return plain + pieces[4:], (*mods, *found)
