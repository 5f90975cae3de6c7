# SPDX-License-Identifier: Apache-2.0
"""Every step and configuration of the product ladder on the GPU, each in a process of its own, against PyTorch's fp32 product."""
import pytest

from hopperlab.measure.suites import ladder, prechecked
from hopperlab.measure.launches import gemm


@pytest.mark.parametrize("step", [*gemm.LADDER, *(f"final: {name}" for name in ladder.FINALS)])
def test_step_is_right(step):
    pytest.importorskip("torch")
    assert prechecked.passes(ladder.__name__, step, 60)
