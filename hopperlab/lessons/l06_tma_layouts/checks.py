# SPDX-License-Identifier: Apache-2.0
"""Check of lesson 06's small exercise: shared addresses of single elements. An unanswered one is answered with a hint, so that Run All goes through."""
from __future__ import annotations

from collections.abc import Mapping

from ...hopper import swizzle, tensormap, tile
from ..given import no_number

ATTEMPTS = {"first": ("128B", 64, 0x2400, (37, 43)), "second": ("64B", 32, 0x1800, (11, 30)), "third": ("128B", 64, 0x2500, (2, 5))}
"""The exercise: swizzle, bf16 columns of the box, shared address of the tile, (row, column) of the element."""


def check_addresses(answers: Mapping[str, int | None]) -> str:
    """Lesson 06's exercise: the shared address of one element of each of three tiles (ATTEMPTS); says what lies at a wrong one."""
    lines = []
    for name, (mode, columns, base, (row, column)) in ATTEMPTS.items():
        given = answers.get(name)
        fields = tensormap.TensorMapFields(dtype="bfloat16", rank=2, global_address=4096, global_dim=(columns, 64), global_strides=(2 * columns,),
                                           box_dim=(columns, 64), swizzle=mode)
        right = tile.element_address(fields, (column, row), base)
        if given is None:
            lines.append(f"{name}: not answered yet")
        elif wrong_form := no_number(given):
            lines.append(f"{name}: {wrong_form}")
        elif given == right:
            lines.append(f"{name}: right, {right:#x}")
        else:
            lines.append(f"{name}: at {int(given):#x} lies {_element_at(mode, columns, base, int(given))}")
    return "\n".join(lines)


def _element_at(mode: str, columns: int, base: int, address: int) -> str:
    plain = int(swizzle.apply(address, mode)) - base
    if address % 2 or not 0 <= plain < 64 * 2 * columns:
        return "no element of this tile"
    return f"element ({plain // (2 * columns)}, {plain % (2 * columns) // 2}), not the one asked for"
