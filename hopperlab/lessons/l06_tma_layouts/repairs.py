# SPDX-License-Identifier: Apache-2.0
"""What lesson 06 breaks, for the learner to mend: a tile that begins where no copy may write, and a reader that does not know of the swizzle."""
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


def _behind(landing: str) -> tuple[bool, Any]:
    """(right, session) with room for a tile that begins up to 960 bytes further on."""
    from .columns import read_columns
    return read_columns("128B", start=960, options=("-DREPAIR=1",))


PLACED = "    unsigned char* tile = shared + START;\n"
GUARD = "    if (!BUG_TILE_AT_128) require_aligned(tile, SWIZZLE_OFFSET ? 1024 : 128);\n"
REPAIRS = (
    Repair("place", "layouts/columns.cu", "extern __shared__ __align__(1024) unsigned char shared[];", "if (threadIdx.x == 0) {",
           plain=((GUARD, ""), (PLACED, "    unsigned char* tile = shared + 128;                     // behind 64 bytes that are wanted for something else\n")),
           bug=(("shared + 128; ", "shared + 64;  "),), run=_behind,
           hint="Which multiple must the address of a tile be that TMA writes? The reader of this kernel applies the XOR to the address, so it asks for no more "
                "than that."),
    Repair("address", "layouts/columns.cu", "unsigned start = shared_address(tile);", "    }",
           plain=(("SWIZZLE_OFFSET ? start + swizzled(offset) : swizzled(start + offset)", "swizzled(start + offset)"),),
           bug=(("swizzled(start + offset)", "start + offset"),), run=_columns, also=_elsewhere,
           hint="The engine put the piece where the swizzle says. Where is that, for the piece that would lie at `start + offset`?"),
)
