# SPDX-License-Identifier: Apache-2.0
"""Products of random shapes on the GPU by configurations drawn from all that are worth considering, B in both orders, against an fp32 product."""
import random
from datetime import date

import pytest

from hopperlab.measure.launches import gemm, gemm_configurations
from hopperlab.measure.launches.operands import bf16_values, normal_bf16
from hopperlab.measure.launches.random_shapes import random_shapes
from hopperlab.measure.suites.race_gemm import wrong_share

SEED = int(f"{date.today():%Y%m%d}")
SHAPES = [shape for shape in random_shapes(60, SEED) if shape[0] * shape[1] <= 1 << 24][:12]


@pytest.mark.parametrize("b_mn", [False, True], ids=["n x k", "k x n"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_drawn_configurations_are_right(shape, b_mn):
    cupy = pytest.importorskip("cupy")
    m, n, k = shape
    n += -n % 8 if b_mn else 0
    a, b, c = normal_bf16(cupy, (m, k), 1), normal_bf16(cupy, (n, k), 2), cupy.empty((m, n), cupy.uint16)
    expected = bf16_values(a) @ bf16_values(b).T
    stored = cupy.ascontiguousarray(b.T).T if b_mn else b
    choices = list(gemm_configurations.candidates(m, n, k, b_mn))
    for choice in [None, *random.Random(f"{shape} {b_mn} {SEED}").sample(choices, min(3, len(choices)))]:
        c.fill(0x7FC0)
        gemm.final(a, stored, c, choice)()
        assert wrong_share(bf16_values(c), expected, k) == 0, choice
