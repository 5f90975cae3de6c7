"""Every step and configuration of the product ladder on the GPU, each in a process of its own, against PyTorch's fp32 product."""
import pytest

from hopperlab.measure import checked, ladder, launches_gemm


@pytest.mark.parametrize("step", [*launches_gemm.LADDER, *(f"final: {name}" for name in ladder.FINALS)])
def test_step_is_right(step):
    pytest.importorskip("torch")
    assert checked.passes("hopperlab.measure.ladder", step, 60)
