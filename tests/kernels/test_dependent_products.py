# SPDX-License-Identifier: Apache-2.0
"""gemm/final.cu in dependent launches: each product begins early and waits for the one whose result it reads."""
from dataclasses import replace

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.measure.launches import gemm, operands
from hopperlab.measure.launches.gemm_configurations import Final

ONE = Final(64, 64, 1, 3, 1, 1, 0, 1, 1, 0)
CHOICES = {"one CTA a tile": ONE, "two by two, persistent": Final(64, 64, 1, 3, 2, 2, 2, 1, 1, 0, blocks=8),
           "in step": Final(64, 64, 1, 3, 1, 2, 2, 1, 0, 0, 1, blocks=4),
           "dealt out along k": Final(64, 64, 1, 3, 1, 1, 2, 1, 1, 0, stream=1, blocks=3), "k in two parts": replace(ONE, split=2), "turned": replace(ONE, swapped=1)}
SIZE = 256


def chain(xp, choice, **where):
    """(launches of three products, each of the one before with the weights; what each leaves; what it should leave)."""
    x, weights = operands.integer_bf16(xp, (SIZE, SIZE), 1, 1), xp.asarray(operands.bf16_bits(np.eye(SIZE, dtype=np.float32)[::-1].copy()))
    steps = [x, *(xp.full((SIZE, SIZE), 0x7FC0, xp.uint16) for _ in range(3))]
    launches = [gemm.final_dependent(before, weights, after, choice, **where) for before, after in zip(steps, steps[1:])]
    turned = xp.ascontiguousarray(x[:, ::-1])
    return launches, steps[1:], [turned, x, turned]


def run(launches, seed):
    """All in one stream of the emulator, so that they overlap."""
    with hl.emulate(schedule="random", seed=seed, hazards="collect") as found, hl.Stream(backend="emulator") as stream:
        for launch in launches:
            launch()
        stream.synchronize()
    return {hazard.kind for hazard in (*found.hazards, *found.warnings)}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES.keys())
@pytest.mark.sampled(by="choice")
def test_products_one_after_the_other_are_exact(choice, seed):
    launches, made, wanted = chain(np, choice, backend="emulator")
    assert all(launch.dependent and "-DDEPENDENT=1" in launch.kernel.module.options for launch in launches)
    assert not run(launches, seed)
    assert all((got == right).all() for got, right in zip(made, wanted, strict=True))


def test_a_product_that_does_not_wait_is_named():
    source, wait = hl.kernel_source("gemm/final.cu"), ", griddepcontrol_wait();"
    assert source.count(wait) == 1
    launches, _, _ = chain(np, ONE, backend="emulator")
    module = hl.RawModule(code=source.replace(wait, ";"), name="gemm/final.cu", options=launches[0].kernel.module.options, backend="emulator")
    assert run([replace(launch, kernel=module.get_function("gemm")) for launch in launches], 1)


def test_other_kernels_are_launched_as_usual():
    x, c = operands.integer_bf16(np, (SIZE, SIZE), 1, 1), np.zeros((SIZE, SIZE), np.uint16)
    launch = gemm.final_dependent(x, x, c, gemm.SplitK(), backend="emulator")
    assert not launch.dependent and "-DDEPENDENT=1" not in launch.kernel.module.options
