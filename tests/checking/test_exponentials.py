# SPDX-License-Identifier: Apache-2.0
"""A program whose exponentials are altered: all of them, of every type and behind guards, and nothing else."""
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.checking import exponentials

KERNEL = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
extern "C" __global__ void f(const float* x, float* y) {
    float v = x[threadIdx.x];
    y[threadIdx.x] = EXPRESSION;
}"""
PAIR = "__half2float(__high2half(h2exp2(__floats2half2_rn(0.f, v))))"
WIDE_PAIR = "__bfloat162float(__low2bfloat16(h2exp2(__floats2bfloat162_rn(v, 0.f))))"


@pytest.mark.parametrize("expression", ["exp2f(v)", "expf(v)", "__expf(v)", "__half2float(hexp2(__float2half(v)))", PAIR, WIDE_PAIR, "v > 1.5f ? exp2f(v) : 0.f"])
def test_exponentials_of_anything_but_zero_are_halved(expression):
    module = hl.RawModule(code=KERNEL.replace("EXPRESSION", expression), name="f.cu", backend="emulator")
    assert "ex2" in module.ptx
    altered = hl.RawModule(ptx=exponentials.halved(module.ptx), backend="emulator")
    x, usual, found = np.array([0, -3.3, 2.7, 1.1] * 8, np.float32), np.zeros(32, np.float32), np.zeros(32, np.float32)
    module.get_function("f")((1,), (32,), (x, usual))
    altered.get_function("f")((1,), (32,), (x, found))
    assert usual[2] > 1 and (found == np.where(x != 0, usual / 2, usual)).all()


def test_what_is_nearly_zero_stays_and_an_infinite_argument_gives_zero():
    module = hl.RawModule(code=KERNEL.replace("EXPRESSION", "exp2f(v)"), name="f.cu", backend="emulator")
    x, found = np.array([1e-6, -1e-6, -np.inf, 0.02] * 8, np.float32), np.zeros(32, np.float32)
    hl.RawModule(ptx=exponentials.halved(module.ptx), backend="emulator").get_function("f")((1,), (32,), (x, found))
    assert np.allclose(found[:4], [1, 1, 0, 2 ** 0.02 / 2])


def test_other_instructions_stay():
    ptx = "lg2.approx.f32 %f1, %f2;\n.reg .f32 %ex2;\n"
    assert exponentials.halved(ptx) == ptx
