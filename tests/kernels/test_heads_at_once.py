# SPDX-License-Identifier: Apache-2.0
"""How many heads of attention are worked on at once: the groups' sizes, and what a forward and a backward pass ask for."""
import numpy as np
import pytest
from ml_dtypes import bfloat16

from hopperlab.measure.launches import attention, attention_backward, heads_at_once


def last(units: int, group: int) -> int:
    """Heads of the last group."""
    return units - (-(-units // group) - 1) * group


def test_no_group_leaves_a_larger_last_one():
    """Drawn: of all sizes up to the most, none has a larger last group, and of those that have one as large none is smaller."""
    rng = np.random.default_rng(20261130)
    for units, most in rng.integers(1, 300, (200, 2)):
        found = heads_at_once.even(int(units), int(most))
        assert 1 <= found <= min(units, most)
        for other in range(1, min(units, most) + 1):
            assert (last(units, other), -other) <= (last(units, found), -found)


@pytest.mark.parametrize(("units", "most", "group"), [(32, 15, 11), (16, 3, 2), (12, 10, 6), (7, 7, 7), (7, 100, 7), (5, 0, 1), (0, 4, 1), (1, 1, 1)])
def test_groups_of_some_launches(units, most, group):
    assert heads_at_once.even(units, most) == group


def test_one_key_more_than_the_l2_has_room_for_leaves_no_two_heads_alone():
    """32 heads of 128 and 8192 keys in e4m3 are two groups of 16; a key more would leave two heads for the end: three groups of 11, 11 and 10."""
    for keys, group in ((8192, 16), (8193, 11)):
        starts = np.array([0, keys], np.int32)
        choice = attention.Forward(bn=192)
        assert choice.work(16, 16, starts, starts, 128, True)[1] == heads_at_once.even(16, (32 << 20) // (512 * keys))
        assert heads_at_once.forward(32, (32 << 20) // (256 * keys), 1, True, np.diff(starts)) == group


def test_sequences_of_several_lengths_with_a_mask_count_what_heads_share():
    alike, uneven = np.array([512, 512]), np.array([512, 100])
    assert heads_at_once.forward(64, 8, 4, True, alike) == heads_at_once.forward(64, 8, 4, False, uneven) == 8
    assert heads_at_once.forward(64, 8, 4, True, uneven) == 32


@pytest.mark.parametrize(("length", "full", "causal"), [(128, 192, 264), (900, 27, 33), (5000, 4, 7), (40000, 1, 1)])
def test_a_backward_pass_has_blocks_for_all_sms(length, full, causal):
    """Heads of 128: 24 MiB of the L2, but a block of 128 keys for each of 132 SMs, two with a mask; fewer where that leaves a small last group."""
    choice = attention_backward.Backward()
    assert [choice.at_once(length, 128, most, mask) for most, mask in ((full, False), (causal, True))] == [full, causal]
    assert choice.at_once(length, 128, causal + 1, True) == (causal + 2) // 2
    assert attention_backward.Backward(group=3).at_once(length, 128, 4096, True) == 3


@pytest.mark.parametrize("seed", range(4))
def test_every_head_is_worked_on_once_whatever_the_l2_has_room_for(seed, monkeypatch):
    """Sequences of drawn lengths, heads that share keys and values, room for a drawn number of heads."""
    rng = np.random.default_rng((20261130, seed))
    lengths, share, kv_heads = rng.integers(1, 150, int(rng.integers(2, 4))), int(rng.integers(1, 3)), int(rng.integers(1, 4))
    causal, starts = bool(seed % 2), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    monkeypatch.setattr(attention, "L2_BYTES", int(rng.integers(1, 4)) * 4 * int(lengths.max()) * 64)
    q, k, v = (rng.standard_normal((int(starts[-1]), heads, 64)).astype(bfloat16) for heads in (share * kv_heads, kv_heads, kv_heads))
    o, lse = np.zeros_like(q), np.zeros((share * kv_heads, len(q)), np.float32)
    choice = attention.Forward(bn=64, blocks=3)
    assert choice.work(share * kv_heads, kv_heads, starts, starts, 64, causal)[1] <= max(1, attention.L2_BYTES // (4 * int(lengths.max()) * 64)) * share
    attention.forward(q, k, v, o, lse, starts, starts, causal, choice=choice, backend="emulator")()
    exact, exact_lse = attention.reference(*(x.astype(np.float32) for x in (q, k, v)), starts, starts, causal)
    assert np.abs(o.astype(np.float32) - exact).max() < 0.03 and np.abs(lse - exact_lse).max() < 0.01
