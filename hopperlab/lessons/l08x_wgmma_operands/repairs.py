# SPDX-License-Identifier: Apache-2.0
"""What lesson 08x breaks, for the learner to mend: an instruction that takes an operand for one of the other major."""
from __future__ import annotations

from typing import Any

from ..repairs import Repair


def _b_by_columns(landing: str) -> tuple[bool, Any]:
    """(right, session) of gemm/wgmma_operands.cu with an MN-major B."""
    from .operand_kinds import multiply_operands

    made = multiply_operands("bf16", b_major="MN", options=("-DREPAIR=1",), schedule=landing)
    return made.right, made.run


REPAIRS = (
    Repair("bit", "gemm/wgmma_operands.cu", "#if B_MN ^ BUG_TRANSPOSED", "#endif", plain=((" ^ BUG_TRANSPOSED", ""),), bug=(("#if B_MN", "#if A_MN"),), run=_b_by_columns,
           hint="`B_TRANSPOSED` is the last number of the `wgmma`: 1 where B is MN-major. `A_MN` and `B_MN` are 1 for an operand that is; here it is B alone."),
)
