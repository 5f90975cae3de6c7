# SPDX-License-Identifier: Apache-2.0
"""fp8 attention on the GPU: every configuration that is measured is right against float64, at random shapes too, and promoted sums lose nothing."""
import numpy as np
import pytest

from hopperlab.measure.suites import attention_fp8
from hopperlab.measure.launches.attention_fp8 import BY_HEAD_SIZE, ForwardFp8

torch = pytest.importorskip("torch", reason="PyTorch makes the operands")


@pytest.mark.parametrize("name", list(attention_fp8._named()))
def test_every_configuration_is_right(name):
    assert attention_fp8.check(name) == 0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("d", BY_HEAD_SIZE)
def test_random_shapes(d, seed):
    rng = np.random.default_rng([d, seed])
    sequences, kv_heads = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    q_lengths, k_lengths = (rng.integers(1, 700, sequences).tolist() for _ in range(2))
    causal, heads = bool(rng.integers(2)), kv_heads * int(rng.integers(1, 4))
    given = attention_fp8.operands(q_lengths, k_lengths, heads, kv_heads, d, seed, size=float(rng.choice([0.1, 1, 2])))
    launch = attention_fp8.make(given, causal, BY_HEAD_SIZE[d])
    assert max(attention_fp8.wrong(given, causal, launch) for _ in range(3)) == 0, (q_lengths, k_lengths, heads, kv_heads, causal)


@pytest.mark.parametrize("d", BY_HEAD_SIZE)
def test_many_positive_values_are_summed_up_whole(d):
    """16384 keys: the tensor core alone would lose a tenth (recordings/fp8.json); promoted sums stay within bf16's rounding and p's, which averages out."""
    given = attention_fp8.operands([128], [16384], 1, 1, d, positive=True)
    exact = attention_fp8.ours.reference(*attention_fp8.numbers(given))[0]
    o, _ = attention_fp8.run(given, attention_fp8.make(given, False, BY_HEAD_SIZE[d]))
    assert (np.abs(o - exact) <= 2.0 ** -6 * exact).all()
    o, _ = attention_fp8.run(given, attention_fp8.make(given, False, ForwardFp8(bn=64, promoted=0)))
    assert (o < 0.99 * exact).mean() > 0.5
