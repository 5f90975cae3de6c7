# SPDX-License-Identifier: Apache-2.0
"""A program whose exponentials are altered: all of them, of every type and behind guards, and nothing else."""
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.checking import exponentials

KERNEL = """
#include <cuda_fp16.h>
extern "C" __global__ void f(const float* x, float* y) {
    float v = x[threadIdx.x];
    y[threadIdx.x] = EXPRESSION;
}"""
PAIR = "__half2float(__high2half(h2exp2(__floats2half2_rn(v, v))))"


@pytest.mark.parametrize("expression", ["exp2f(v)", "expf(v)", "__expf(v)", PAIR, "v > 1.5f ? exp2f(v) : 0.f"])
def test_exponentials_of_anything_but_zero_become_zero(expression):
    module = hl.RawModule(code=KERNEL.replace("EXPRESSION", expression), name="f.cu", backend="emulator")
    altered = hl.RawModule(ptx=exponentials.zeroed(module.ptx), backend="emulator")
    x, usual, found = np.array([0, -3.3, 2.7, 1.1] * 8, np.float32), np.zeros(32, np.float32), np.zeros(32, np.float32)
    module.get_function("f")((1,), (32,), (x, usual))
    altered.get_function("f")((1,), (32,), (x, found))
    assert usual[2] > 1 and not found[x != 0].any() and (found[x == 0] == usual[x == 0]).all()


def test_other_instructions_stay():
    ptx = "lg2.approx.f32 %f1, %f2;\n.reg .f32 %ex2;\n"
    assert exponentials.zeroed(ptx) == ptx
