# SPDX-License-Identifier: Apache-2.0
"""Operands of products in every input type of wgmma, and a check of bf16 products; in the emulator or on the GPU."""
from dataclasses import dataclass

import ml_dtypes
import numpy as np

import hopperlab as hl
from hopperlab.measure.launches import operands


@dataclass(frozen=True)
class Kind:
    """How a type is stored, what C is, and the integers that its products keep exact."""

    stored: type
    result: type
    largest: int


KINDS = {"bf16": Kind(ml_dtypes.bfloat16, np.float32, 4), "f16": Kind(np.float16, np.float32, 4), "tf32": Kind(np.float32, np.float32, 8),
         "e4m3": Kind(ml_dtypes.float8_e4m3fn, np.float32, 4), "s8": Kind(np.int8, np.int32, 127)}


def values(kind: str, shape, seed: int) -> np.ndarray:
    """Integers that the type holds and whose products sum exactly."""
    largest = KINDS[kind].largest
    return np.random.default_rng(seed).integers(-largest, largest + 1, shape).astype(np.float32)


def as_stored(kind: str, array: np.ndarray, major: str = "K") -> np.ndarray:
    """The array as a kernel gets it: in its type, fp8 and bf16 as bits, transposed for an MN-major operand."""
    out = array.astype(KINDS[kind].stored)
    out = np.ascontiguousarray(out.T if major == "MN" else out)
    return out.view({"bf16": np.uint16, "e4m3": np.uint8}.get(kind, out.dtype))


def check_bf16(make, m: int, n: int, k: int, schedule: str = "lazy", **choices):
    """Integer operands: every sum is exact in fp32, so every element must be one rounding away. Returns the launch."""
    a, b = operands.integer_bf16(np, (m, k), m + k), operands.integer_bf16(np, (n, k), n + k + 1)
    c = np.full((m, n), 0x7FC0, np.uint16)
    launch = make(a, b, c, backend="emulator", **choices)
    with hl.emulate(schedule=schedule, seed=m, hazards="raise"):
        launch()
    assert (c == operands.bf16_bits(operands.bf16_values(a) @ operands.bf16_values(b).T)).all()
    return launch
