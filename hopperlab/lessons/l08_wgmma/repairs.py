# SPDX-License-Identifier: Apache-2.0
"""What lesson 08 breaks, for the learner to mend: a descriptor with another swizzle than its tile, and an accumulator that is read too early."""
from __future__ import annotations

from typing import Any

from ..repairs import Repair

def read_too_early(landing: str) -> tuple[bool, Any]:
    """(right, session) of wgmma/one_tile.cu on four blocks of k, one product in flight."""
    from .one_tile import multiply_tile

    made = multiply_tile(64, blocks=4, in_flight=1, options=("-DREPAIR=1",), schedule=landing)
    return made.right, made.run


WAIT = "    wgmma_wait_group<0>();           // now the registers are ours again\n"
FLOATS = "    float d[N / 2];\n"
REPAIRS = (
    Repair("swizzle", "wgmma/one_tile.cu", "__syncthreads();    ", "wgmma_m64k16_bf16(d,", bug=(
        (FLOATS, "    layout = layout & ~(3ull << 62) | 2ull << 62;               // bits 62 and 63: the swizzle\n\n" + FLOATS),), run=read_too_early,
        hint="Bits 62 and 63 of a descriptor are 0 without a swizzle, 1 for 128B, 2 for 64B and 3 for 32B. A row of this tile has 128 bytes, and the tensor "
             "map swizzles it with 128B; `layout` comes from the host, where both are known."),
    Repair("wait", "wgmma/one_tile.cu", "float d[N / 2];", "out[threadIdx.x * (N / 2) + i] = d[i];", bug=((WAIT, ""),), run=read_too_early,
           hint="In the loop, one product may still be under way after each wait. What about the last one, when `d` is stored?"),
    Repair("arrival", "wgmma/one_tile.cu", "float d[N / 2];", "out[threadIdx.x * (N / 2) + i] = d[i];", bug=(
        ("        mbarrier_wait_parity(&full[s], 0);                      // TMA wrote, wgmma reads: one proxy, no fence between them\n", ""),), run=read_too_early,
        hint="A product reads its tiles as soon as it runs. What says that they are there?"),
)
