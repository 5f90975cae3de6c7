# SPDX-License-Identifier: Apache-2.0
"""Products of operands whose rows lie apart, on the GPU."""
import pytest

from hopperlab.measure.launches import gemm, operands
from hopperlab.measure.machine import peers


@pytest.mark.parametrize(("k", "a_pitch", "b_pitch"), [(1088, 1096, 1088), (1080, 1088, 1104), (1080, 1080, 1080)])
def test_final_and_cublas_take_pitched_rows(cupy, k, a_pitch, b_pitch):
    a, b = operands.integer_bf16(cupy, (520, a_pitch), 3, 2)[:, :k], operands.integer_bf16(cupy, (776, b_pitch), 4, 2)[:, :k]
    exact = operands.bf16_bits(operands.bf16_values(a) @ operands.bf16_values(b).T)
    c = cupy.empty((520, 776), cupy.uint16)
    for run in (gemm.final(a, b, c), peers.cublas(a, b, c)):
        c.fill(0x7FC0)
        run()
        cupy.cuda.runtime.deviceSynchronize()
        assert bool((c == exact).all())
