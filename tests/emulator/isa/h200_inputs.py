# SPDX-License-Identifier: Apache-2.0
"""The inputs on which record_h200.py runs the cases of h200_cases.py: a bank of arrays of LANES values, by letter and place."""

import re

import ml_dtypes
import numpy as np
from h200_cases import letters

LANES = 128


def _mix(rng, *choices):
    return np.choose(rng.integers(0, len(choices), LANES), choices)


def _integers(rng, width):
    full = rng.integers(0, 2**width - 1, LANES, dtype=np.uint64, endpoint=True)
    small = rng.integers(-70, 70, LANES).astype(np.uint64)
    top = 2 ** (width - 1)
    edges = rng.choice(
        np.array([0, 1, top, top - 1, 2 * top - 1, 31, 32, 33, 64, 255, 2 ** (width // 2)], np.uint64), LANES
    )
    return _mix(rng, full, full, small, edges) & np.uint64(2**width - 1)


def _halves(rng):
    normal = rng.normal(size=LANES)
    f16 = normal.astype(np.float16).view(np.uint16)
    bf16 = normal.astype(ml_dtypes.bfloat16).view(np.uint16)
    edges = [
        0,
        0x8000,
        0x7C00,
        0xFC00,
        0x7FFF,
        0x7FF7,
        1,
        0x8001,
        0x03FF,
        0x0400,
        0x7BFF,
        0x7F80,
        0xFF80,
        0x7F7F,
        0x3C00,
    ]
    anything = rng.integers(0, 2**16, LANES)
    return _mix(rng, f16, bf16, anything, rng.choice(edges, LANES)).astype(np.uint64)


def _singles(rng):
    bits = rng.integers(0, 2**32, LANES).astype(np.uint32)
    normal = rng.normal(size=LANES)
    scaled = (normal * 2.0 ** rng.integers(-30, 40, LANES)).astype(np.float32)
    steps = (rng.integers(-(2**17), 2**17, LANES) * 0.5).astype(np.float32)
    edges = [
        0.0,
        -0.0,
        1.0,
        0.5,
        1.5,
        2.5,
        np.inf,
        -np.inf,
        np.nan,
        2.0**-126,
        2.0**-149,
        -(2.0**-127),
        65504,
        65520,
        448,
    ]
    edges += [
        464,
        57344,
        2.0**31,
        -(2.0**31),
        2.0**63,
        255.5,
        -128.5,
        2.0**-25,
        2.0**127,
        1 + 2.0**-11,
        1 + 3 * 2.0**-8,
    ]
    near = rng.integers(0x3F800000, 0x3F900000, LANES).astype(np.uint32) & rng.choice(
        np.uint32([0xFFFFF000, 0xFFFFFFFF]), LANES
    )
    floats = [x.astype(np.float32).view(np.uint32) for x in (normal, normal, scaled, steps, rng.choice(edges, LANES))]
    return _mix(rng, bits, near, *floats).astype(np.uint64)


def _doubles(rng):
    normal = rng.normal(size=LANES)
    edges = [
        0.0,
        -0.0,
        1.0,
        np.inf,
        -np.inf,
        np.nan,
        5e-324,
        2.0**-1022,
        1.797e308,
        2.0**31,
        2.0**63,
        2.0**-150,
        65519.999,
    ]
    single = _singles(rng).astype(np.uint32).view(np.float32).astype(np.float64)
    scaled = normal * 2.0 ** rng.integers(-60, 80, LANES)
    extreme = normal * 2.0 ** rng.choice([-1070, -1030, -500, 500, 1015], LANES)
    return _mix(rng, normal, scaled, extreme, single, rng.choice(edges, LANES)).view(np.uint64)


def make_bank():
    """Arrays of uint64 by name: a letter (or an element type of mma) and the operand's place."""
    rng = np.random.default_rng(90)
    small = lambda n: rng.integers(-4, 5, (LANES, n))
    formats = {
        "f16": np.float16,
        "bf16": ml_dtypes.bfloat16,
        "e4m3": ml_dtypes.float8_e4m3fn,
        "e5m2": ml_dtypes.float8_e5m2,
    }
    bank = {}
    with np.errstate(all="ignore"):
        for i in range(4):
            words = _mix(rng, _integers(rng, 32), _integers(rng, 32), _halves(rng) | _halves(rng) << np.uint64(16))
            values = {"h": _halves(rng), "r": words, "d": _integers(rng, 64), "f": _singles(rng), "F": _doubles(rng)}
            for letter, value in values.items():
                bank[letter + str(i)] = np.where(rng.integers(0, 12, LANES) == 0, bank.get(letter + "0", value), value)
            bank[f"p{i}"] = rng.integers(0, 2, LANES).astype(np.uint64)
    for i in range(4, 9):
        for letter, width in (("r", 32), ("d", 64)):
            bank[letter + str(i)] = _integers(rng, width)
    for i in range(8):
        for kind, dtype in formats.items():
            bank[kind + str(i)] = (
                small(4 // np.dtype(dtype).itemsize).astype(dtype).view(np.uint32)[:, 0].astype(np.uint64)
            )
        bank[f"tf32{i}"] = small(1)[:, 0].astype(np.float32).view(np.uint32).astype(np.uint64) | np.uint64(
            rng.integers(0, 8192)
        )
        bank[f"f32{i}"] = small(1)[:, 0].astype(np.float32).view(np.uint32).astype(np.uint64)
        bank[f"f64{i}"] = small(1)[:, 0].astype(np.float64).view(np.uint64)
        bank[f"any64{i}"] = rng.normal(size=LANES).view(np.uint64)
        bank[f"word{i}"] = rng.integers(0, 2**32, LANES).astype(np.uint64)
    return bank


def input_names(case):
    """Names in the bank of a case's operands that are not constants."""
    opcode, _, operands = case
    if not opcode.startswith("mma"):
        return [letter + str(i) for i, letter in enumerate(letters(operands))]
    _, a, b, c = re.search(r"\.(\w+)\.(\w+)\.(\w+)\.(\w+)(?:\.\w+\.popc)?$", opcode).groups()
    groups = [len(group) for group in re.findall(r"\((\w+)\)", operands)]
    kinds = [a] * groups[0] + [b] * groups[1] + [c] * groups[2]
    words = ("s8", "u8", "s4", "u4", "b1", "s32")
    if re.search(r"\.r[nzmp]\.f64", opcode):                 # rounded sums need numbers that are not exact
        kinds = ["any64"] * len(kinds)
    return [("word" if kind in words else kind) + str(i % 8) for i, kind in enumerate(kinds)]
