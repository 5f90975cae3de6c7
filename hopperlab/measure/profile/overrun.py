# SPDX-License-Identifier: Apache-2.0
"""A copy that writes 16 bytes past its target's allocation: `python -m hopperlab.measure.profile.overrun HOW`, for memcheck to find. Needs a GPU and CuPy.

HOW is the copy kernel: `vector_copy` stores from registers, `bulk_copy` by cp.async.bulk, `tma_copy` by a tensor map whose sizes are wrong. The
program itself ends well wherever the GPU lets the access pass.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...runtime.arrays import synchronize
from ..launches import launch
from ..launches.launch import Launch

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ...runtime.arrays import Array

PAST = 16                                                   # bytes; the smallest piece that bulk copies move
COPIES: Mapping[str, Callable[..., Launch]] = {name: getattr(launch, name) for name in ("vector_copy", "bulk_copy", "tma_copy")}


def claimed(shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """A CuPy array whose last PAST bytes lie behind its allocation."""
    import cupy
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    held = cupy.cuda.alloc(size - PAST)
    return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(held.ptr, size, held), 0))


def main(arguments: Sequence[str]) -> int:
    """Launch the copy once."""
    if len(arguments) != 1 or arguments[0] not in COPIES:
        print(f"which copy? {', '.join(COPIES)}", file=sys.stderr)
        return 2
    import cupy
    source = cupy.random.default_rng(1).integers(0, 1 << 16, (64, 64), dtype=cupy.uint16)
    COPIES[arguments[0]](source, claimed(source.shape, source.dtype), backend="gpu")()
    synchronize()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
