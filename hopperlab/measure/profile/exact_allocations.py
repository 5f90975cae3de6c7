# SPDX-License-Identifier: Apache-2.0
"""Run a module with every GPU array in an allocation of its own: `python -m hopperlab.measure.profile.exact_allocations MODULE [ARGUMENT …]`.

CuPy and PyTorch hand out pieces of large allocations. An access past an array's end then falls into memory that is allocated too, and
compute-sanitizer's memcheck has nothing to say. Last it prints which of the course's kernels RawKernel launched on the GPU.
"""
from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Iterable, Sequence

from ...runtime.watching import watching

LAUNCHED = "kernels on the GPU: "


def main(arguments: Sequence[str]) -> int:
    """Run the module as `python -m` would; it ends the process itself where it calls sys.exit."""
    if not arguments:
        print("which module?", file=sys.stderr)
        return 2
    os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    import cupy
    cupy.cuda.set_allocator(None)                           # cudaMalloc
    sys.argv = list(arguments)
    names: set[str] = set()                                 # not the launches: they hold their arrays
    try:
        with watching(lambda seen: names.update([seen.kernel.module.name] if seen.place == "gpu" else []), copies=False):
            runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    finally:
        print(told(names), flush=True)
    return 0


def told(names: Iterable[str]) -> str:
    """The line that names files below hopperlab/kernels/; modules from elsewhere have no folder in their names."""
    return LAUNCHED + ", ".join(sorted(name for name in set(names) if "/" in name))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
