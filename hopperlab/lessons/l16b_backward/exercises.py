# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 16b: the gradient of a block of scores from a row sum that needs no other block, and when each of the five products starts."""
from __future__ import annotations

from math import exp, inf, log

import numpy as np

from ...checking.exercise import PYTHON, Case, Exercise


def _gradients(rng: np.random.Generator, shape: tuple[int, int, int], SCALE: float) -> Case:
    """[D, ds of each key] of one query and a block of keys; there are others, which the answer does not see. Some keys are masked; some scores are large."""
    d, keys, others = shape
    do, rows = rng.integers(-4, 5, d) / 4, rng.integers(-4, 5, (keys + others, d)) / 4
    scores = rng.integers(-9, 10, keys + others) + (9000.0 if keys % 2 else 0.0)             # exp of the large ones overflows
    hidden = rng.random(keys + others) < 0.2
    hidden[0] = False
    scores = np.where(hidden, -inf, scores)
    most = float(SCALE * scores.max())
    lse = most + log(sum(exp(SCALE * float(s) - most) for s in scores))
    p = [exp(SCALE * float(s) - lse) for s in scores]
    o = [sum(weight * float(row[i]) for weight, row in zip(p, rows, strict=True)) for i in range(d)]
    delta = sum(float(g) * x for g, x in zip(do, o, strict=True))
    ds = [p[i] * (float(rows[i] @ do) - delta) for i in range(keys)]
    return Case([delta, ds], arguments=(o, do.tolist(), rows[:keys].tolist(), scores[:keys].tolist(), lse), tolerance=1e-9)


def _starts(_rng: np.random.Generator, shape: tuple[int, int, int, int], PRODUCT: int) -> Case:
    """For each block of queries, when s, dp, dv, dq and dk start; shape: blocks, and what exponentials, ds and dq's way out take."""
    blocks, exponentials, gradients, out = shape
    expected, now, core = [], 0, 0
    for _ in range(blocks):
        s = max(now, core)
        dp = s + PRODUCT
        now = s + PRODUCT + exponentials
        dv = max(now, dp + PRODUCT)
        now = max(now, dp + PRODUCT) + gradients
        dq = max(now, dv + PRODUCT)
        dk = dq + PRODUCT
        now, core = max(dq + PRODUCT + out, dk + PRODUCT), dk + PRODUCT
        expected.append([s, dp, dv, dq, dk])
    return Case(expected, arguments=shape)


EXERCISES = (
    Exercise("16b.1", "A row sum that needs no row", PYTHON, "gradients", shapes=((4, 3, 0), (2, 4, 5), (6, 5, 3), (3, 1, 7)), draw=lambda rng: (
        int(rng.integers(2, 9)), int(rng.integers(1, 8)), int(rng.integers(1, 9))), case=_gradients, constants={"SCALE": (0.5, 0.25, 0.125)},
        says=lambda shape: f"{shape[1]} keys of {shape[1] + shape[2]}, heads of {shape[0]}"),
    Exercise("16b.2", "Which product waits for which?", PYTHON, "starts", shapes=((1, 100, 100, 100), (2, 700, 900, 100), (3, 100, 900, 800),
                                                                                  (3, 1500, 50, 700)), draw=lambda rng: (
        int(rng.integers(1, 6)), *(50 * int(n) for n in rng.integers(1, 30, 3))), case=_starts, constants={"PRODUCT": (512, 256, 400)},
        says=lambda shape: "{} blocks, exponentials {}, ds {}, dq's way out {} cycles".format(*shape)),
)
