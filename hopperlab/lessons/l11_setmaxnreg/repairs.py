# SPDX-License-Identifier: Apache-2.0
"""What lesson 11 breaks, for the learner to mend: consumers that wait for registers which nobody gives back, and a `setmaxnreg` that the compiler drops."""
from __future__ import annotations

from typing import Any

from ..repairs import Repair


def _two_consumers(landing: str) -> tuple[bool, Any]:
    """(right, session) of registers/roles.cu on one tile of 128 x 256 and three k-blocks, with 24 registers for the producer and 240 for a consumer."""
    from ...measure.launches.roles import Roles
    from .budget import run_tile
    return run_tile(Roles(), landing)[:2]


BOUNDS = "#define BOUNDS __launch_bounds__((1 + CONSUMERS) * 128, 1)"
REPAIRS = (
    Repair("bounds", "registers/roles.cu", "#if BUG_NO_LAUNCH_BOUNDS", "#endif", plain=((f"#if BUG_NO_LAUNCH_BOUNDS\n#define BOUNDS\n#else\n{BOUNDS}\n#endif", BOUNDS),),
           bug=((BOUNDS, "#define BOUNDS"),), run=_two_consumers,
           hint="`BOUNDS` stands before the kernel's name. What tells the compiler how many threads a block has, and so how many registers each has at entry? A block "
                "has one producer warpgroup and `CONSUMERS` others."),
    Repair("pool", "registers/roles.cu", "if (warpgroup == 0) {", "setmaxnreg_inc<CONSUMER_REGISTERS>();", bug=(
        ("#if PRODUCER_REGISTERS\n        setmaxnreg_dec<PRODUCER_REGISTERS>();\n#endif\n", ""),
        ("        if (threadIdx.x == 0) {\n", "        if (threadIdx.x == 0) {\n            setmaxnreg_dec<PRODUCER_REGISTERS>();\n")), run=_two_consumers,
        hint="One thread of the producer does all of its work. For whom does `setmaxnreg` speak, and which warps hold the registers that the consumers wait for?"),
)
