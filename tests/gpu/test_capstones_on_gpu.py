# SPDX-License-Identifier: Apache-2.0
"""fp8 products and attention on the GPU: every configuration that is measured is right against PyTorch in fp32 and against float64."""
import pytest

from hopperlab.measure.suites import attention, fp8

torch = pytest.importorskip("torch", reason="PyTorch makes the operands")


@pytest.mark.parametrize("name", list(fp8._all_makers()))
def test_fp8_products_are_right(name):
    assert fp8.check(name) == 0


@pytest.mark.parametrize("name", list(attention._named()))
def test_attention_is_right(name):
    assert attention.check(name) == 0


def test_attention_of_large_magnitudes_and_of_queries_that_see_no_key():
    for d, choice in attention.ours.BY_HEAD_SIZE.items():
        given = attention.operands([197, 64], [131, 200], 2, 1, d, 5, size=20.0)
        assert attention.wrong(given, True, attention.make(given, True, choice)) == 0
