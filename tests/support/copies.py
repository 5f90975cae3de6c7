# SPDX-License-Identifier: Apache-2.0
"""References of the copy kernels: shapes, operations on whole arrays, the matrix of a convolution."""
import itertools

import ml_dtypes
import numpy as np

TYPES = {"u32": np.uint32, "s32": np.int32, "u64": np.uint64, "s64": np.int64, "f32": np.float32, "f64": np.float64, "f16": np.float16,
         "bf16": ml_dtypes.bfloat16, "b32": np.uint32, "b64": np.uint64}


def shape_of(rank: int) -> tuple[int, ...]:
    """An awkward shape of float32 whose rows are multiples of 16 bytes: no edge is a multiple of the tests' boxes."""
    return {1: (1000,), 2: (23, 68), 3: (5, 7, 36), 4: (3, 5, 4, 20), 5: (3, 2, 4, 3, 12)}[rank]


def operands_of(kind: str, shape, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays of a PTX type; floats hold small integers, so that every sum is exact."""
    rng = np.random.default_rng(seed)
    if kind in ("f32", "f64", "f16", "bf16"):
        return tuple(rng.integers(-60, 60, shape).astype(TYPES[kind]) for _ in range(2))
    return tuple(rng.integers(0, 1 << 63, shape, dtype=np.uint64).astype(TYPES[kind]) for _ in range(2))


COMBINE = {
    "add": lambda old, new: old + new, "min": np.minimum, "max": np.maximum,
    "inc": lambda old, new: np.where(old >= new, 0, old + np.uint32(1)).astype(old.dtype),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - np.uint32(1)).astype(old.dtype),
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def convolution_matrix(image: np.ndarray, edges, padding: int, stride: int, dilation: int) -> np.ndarray:
    """(output pixels, filter elements, channels) of an (N, …, C) image, by loops."""
    spatial = image.shape[1:-1]
    outputs = [(size + 2 * padding - dilation * (edge - 1) - 1) // stride + 1 for size, edge in zip(spatial, edges)]
    rows = []
    for n, *place in itertools.product(range(image.shape[0]), *map(range, outputs)):
        row = []
        for tap in itertools.product(*map(range, edges)):
            at = [p * stride - padding + t * dilation for p, t in zip(place, tap)]
            inside = all(0 <= x < size for x, size in zip(at, spatial))
            row.append(image[(n, *at)] if inside else np.zeros(image.shape[-1], image.dtype))
        rows.append(row)
    return np.array(rows)
