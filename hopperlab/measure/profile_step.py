"""One launch of one step of the ladder, as a target for a profiler: `python -m hopperlab.measure.profile_step STEP [SIZE]`.

    hopperlab profile --metrics lessons --kernel gemm -m hopperlab.measure.profile_step final 4096
"""
from __future__ import annotations

import sys

import numpy as np

from ..runtime.arrays import array_module, synchronize
from . import launches_gemm
from .operands import normal_bf16


def main(arguments: list[str]) -> int:
    """Launch the step once on random normal operands of SIZE³ (default 4096)."""
    if not arguments or arguments[0] not in launches_gemm.LADDER:
        print(f"which step? {', '.join(launches_gemm.LADDER)}", file=sys.stderr)
        return 2
    size = int(arguments[1]) if len(arguments) > 1 else 4096
    xp = array_module()
    a, b, c = normal_bf16(xp, (size, size), 11), normal_bf16(xp, (size, size), 12), xp.zeros((size, size), np.uint16)
    launches_gemm.launch(arguments[0], a, b, c)()
    synchronize()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
