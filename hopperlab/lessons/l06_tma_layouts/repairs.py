# SPDX-License-Identifier: Apache-2.0
"""What lesson 06 breaks, for the learner to mend: a swizzled tile that does not begin where the pattern does."""
from __future__ import annotations

from typing import Any

from ..repairs import Repair

def _columns(landing: str) -> tuple[bool, Any]:
    """(right, session) of layouts/columns.cu with rows of 128 bytes. The tile is one copy; it lands late."""
    from .columns import read_columns
    return read_columns("128B", options=("-DREPAIR=1",))


def _elsewhere(landing: str, run: Any) -> str:
    """The same tile 128 bytes behind a multiple of 1024, where offset and address are two things."""
    from .columns import read_columns
    right, _ = read_columns("128B", start=128, options=("-DREPAIR=1",))
    return "" if right else ("with the tile 128 bytes behind a multiple of 1024 the values are wrong: the engine takes the bits of the address, not those of "
                             "the offset in the tile.")


REPAIRS = (
    Repair("address", "layouts/columns.cu", "unsigned start = shared_address(tile);", "    }",
           plain=(("SWIZZLE_OFFSET ? start + swizzled(offset) : swizzled(start + offset)", "swizzled(start + offset)"),),
           bug=(("swizzled(start + offset)", "start + offset"),), run=_columns, also=_elsewhere,
           hint="The engine put the piece where the swizzle says. Where is that, for the piece that would lie at `start + offset`?"),
)
