# SPDX-License-Identifier: Apache-2.0
"""Loading one box by TMA and reading shared memory back byte for byte: the launch behind the tensor-map explorer.

Uses the kernel `tma_landing`; runs in either place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...hopper import tile

UNTOUCHED = 0xEE      # what tma_landing fills shared memory with first


def land_bytes(source: Any, start: Sequence[int]) -> np.ndarray:
    """Load the box of the tensor map `source` at `start` (array order) and return shared memory as uint8, gaps included.

    Bytes that the copy left alone are 0xEE. Launches one block of 128 threads. Raises TensorMapError for a wrong number
    of coordinates, and for a start whose innermost coordinate is not a multiple of 16 bytes: nothing is launched then.
    """
    import hopperlab as hl

    fields = source.fields
    tile.global_rows(fields, tuple(reversed(start)))         # refuses a start that the hardware would stop at
    kernel = hl.load_kernel("copy/tma_copy.cu", "tma_landing", (f"-DRANK={fields.rank}",))
    size = -(-tile.smem_bytes(fields) // 16) * 16
    out = hl.array_module().zeros(size, dtype=np.uint8)
    inward = [*reversed(start), 0, 0, 0, 0, 0][:5]
    coordinates = [np.int32(c) for c in inward]
    kernel((1,), (128,), (source, out, np.int32(size), np.int32(tile.tile_bytes(fields)), *coordinates), shared_mem=size)
    return hl.asnumpy(out)


def land(tensor: Any, start: Sequence[int], box: Sequence[int], swizzle: str = "none", **choices: Any) -> np.ndarray:
    """The box at `start` as an array of the tensor's dtype and of the box's shape, in the order its rows lie in shared memory.

    start, box: array order. `choices` go to TensorMap.tiled (oob_fill, element_strides, l2_promotion). A swizzle is undone on reading.
    """
    import hopperlab as hl

    source = hl.TensorMap.tiled(tensor, box=tuple(box), swizzle=swizzle, **choices)
    raw = land_bytes(source, start)
    granules = tile.granule_addresses(source.fields, 0)
    rows = raw.reshape(-1, 16)[granules.ravel() // 16].reshape(len(granules), -1)[:, :source.fields.inner_bytes]
    return np.ascontiguousarray(rows).view(tensor.dtype).reshape(tuple(reversed(tile.box_counts(source.fields))))
