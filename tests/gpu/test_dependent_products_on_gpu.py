# SPDX-License-Identifier: Apache-2.0
"""Dependent launches of the last product on the GPU: each reads what the one before it wrote."""
import numpy as np
import pytest

from hopperlab.measure.launches import gemm, gemm_choice, operands

SIZES = (256, 1024, 2048, 4096)


@pytest.mark.parametrize("place", [0, 1, 2, 3])
@pytest.mark.parametrize("size", SIZES)
def test_a_chain_of_products_is_exact(cupy, size, place):
    """Thirty products with weights that turn the columns around: an even number of them leaves the input."""
    x, weights = operands.integer_bf16(cupy, (size, size), 1, 3), cupy.asarray(operands.bf16_bits(np.eye(size, dtype=np.float32)[::-1].copy()))
    steps = [x, *(cupy.full((size, size), 0x7FC0, cupy.uint16) for _ in range(2))]
    choice = gemm_choice.ranked(size, size, size)[place]
    order = [(0, 1), *((1, 2), (2, 1)) * 14, (1, 2)]
    runs = [gemm.final_dependent(steps[before], weights, steps[after], choice).bound() for before, after in order]
    for step in steps[1:]:
        step.fill(0x7FC0)
    for run in runs:
        run()
    cupy.cuda.runtime.deviceSynchronize()
    assert bool((steps[2] == x).all()) and bool((steps[1] == x[:, ::-1]).all())
