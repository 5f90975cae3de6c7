# SPDX-License-Identifier: Apache-2.0
"""Lesson 06x: slices of an interleaved tensor, as TMA lays them, are core matrices of wgmma; the launches and the descriptor that show it."""
from __future__ import annotations

import numpy as np

from ...hopper.wgmma import Descriptor
from ...measure.launches import copies
from .convolutions import interleaved


def slices_as_operand(image: np.ndarray) -> tuple[np.ndarray, Descriptor]:
    """Loads all pixels of a (1, 1, W, C) image of 2-byte elements slice by slice (NC/8HWC8, no swizzle), by the kernel tma_landing.

    Returns (shared memory as the image's dtype, one slice behind the other; the matrix descriptor of the first two slices as a K-major operand of W rows, at address 0).
    W has to be a multiple of 8, so that each slice is whole core matrices (PTX ISA 9.7.15.5.1.2); raises ValueError otherwise.
    """
    import hopperlab as hl

    pixels = image.shape[2]
    if pixels % 8 or image.shape[:2] != (1, 1):
        raise ValueError(f"{image.shape}: one row of pixels is asked for, a multiple of 8 of them, so that slices are whole core matrices")
    xp = hl.array_module()
    sliced = xp.asarray(interleaved(image, "NC/8HWC8"))                         # N, slices, H, W, 8 channels
    tensor_map = copies.interleaved_map(sliced, (1, 1, 1, pixels))
    kernel = hl.load_kernel("copy/tma_copy.cu", "tma_landing", (f"-DRANK={tensor_map.fields.rank}",))
    size, landed = 16 * pixels, []
    for number in range(sliced.shape[1]):
        out, corner = xp.zeros(size, dtype=np.uint8), (0, 0, number, 0, 0)      # W, H, slice, N
        kernel((1,), (128,), (tensor_map, out, np.int32(size), np.int32(size), *map(np.int32, corner)), shared_mem=size)
        landed.append(hl.asnumpy(out))
    return np.concatenate(landed).view(image.dtype), Descriptor(start=0, leading_bytes=size, stride_bytes=8 * 16, swizzle="none")
