# SPDX-License-Identifier: Apache-2.0
"""What lesson 09 breaks, for the learner to mend: when a slot may be handed back."""
from __future__ import annotations

from typing import Any

from ..repairs import Repair

def _product(landing: str) -> tuple[bool, Any]:
    """(right, session) of gemm/multistage.cu with four stages on one tile of eight k-blocks."""
    from ...measure.launches import variants
    from .overlap import run_product
    return run_product(variants.multistage, schedule=landing, stages=4)[:2]


def _repair(name: str, right: str, wrong: str, hint: str) -> Repair:
    return Repair(name, "gemm/multistage.cu", "float d[64];", "store_accumulator(", ((right, wrong),), _product, hint)


REPAIRS = (
    _repair("early", "int last = i - 1;", "int last = i;", "After `wait_group<1>` one product may still be reading. Which slots are free then?"),
    _repair("wait", "        wgmma_wait_group<1>();        // product i - 1 has read its slot\n", "",
            "A slot is handed back in every turn. What has to be known of the product that read it? And how many products may stay under way?"),
)
