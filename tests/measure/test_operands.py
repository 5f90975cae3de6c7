# SPDX-License-Identifier: Apache-2.0
"""Operands: bf16 rounding is the hardware's, integers are exact, the bound bounds."""
import ml_dtypes
import numpy as np
import pytest

from hopperlab.measure.launches import operands


def test_bf16_rounding_equals_ml_dtypes():
    random = np.random.default_rng(5)
    values = np.concatenate([random.standard_normal(20000), 2.0 ** random.uniform(-120, 120, 20000), [0.0, -0.0, 1.0, 1.00390625]])
    values = values.astype(np.float32)
    expected = values.astype(ml_dtypes.bfloat16).view(np.uint16)
    assert (operands.bf16_bits(values) == expected).all()
    assert (operands.bf16_values(expected) == expected.view(ml_dtypes.bfloat16).astype(np.float32)).all()


def test_integers_are_exact():
    values = operands.bf16_values(operands.integer_bf16(np, (50, 60), seed=3))
    assert (values == np.round(values)).all() and abs(values).max() == 4


def test_seeds_differ_and_repeat():
    first, second, again = (operands.normal_bf16(np, (100,), seed) for seed in (1, 2, 1))
    assert (first == again).all() and (first != second).any()


@pytest.mark.parametrize("k", [8, 64, 1000])
def test_bound_holds_for_any_order_and_not_for_a_wrong_product(k):
    random = np.random.default_rng(k)
    a, b = (operands.bf16_values(operands.bf16_bits(random.standard_normal((40, k)).astype(np.float32))) for _ in range(2))
    bound, exact = operands.product_bound(a, b), a.astype(np.float64) @ b.astype(np.float64).T
    order = random.permutation(k)
    total = np.zeros((40, 40), np.float32)
    for i in order:
        total += a[:, i:i + 1] * b[:, i:i + 1].T
    rounded = operands.bf16_values(operands.bf16_bits(total)).astype(np.float64)
    assert (abs(rounded - exact) <= bound).all()
    without_last = a[:, :-1].astype(np.float64) @ b[:, :-1].astype(np.float64).T
    assert (abs(without_last - exact) > bound).mean() > 0.5


def test_folded_mirrors_inside_runs_of_128():
    x = np.arange(256, dtype=np.float32)
    y = operands.folded(x)
    assert (y[:128] == 127).all() and (y[128:] == 383).all()
    assert operands.folded(np.eye(1, 128, 3, dtype=np.float32).ravel())[[3, 124]].tolist() == [1, 1]
