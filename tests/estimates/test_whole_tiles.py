# SPDX-License-Identifier: Apache-2.0
"""A sequence's last tile may have rows for some warpgroups alone: it is no sample of the others."""
import numpy as np
import pytest

from hopperlab.estimates import boards, cut, estimating, programs, sample
from hopperlab.measure.launches import attention

H200 = boards.board("h200")


def forward(lengths, heads, d, **choice):
    """Full attention in bf16, over sequences of these lengths."""
    starts = np.cumsum([0, *lengths]).astype(np.int32)
    q, k, v, o = (np.zeros((int(starts[-1]), heads, d), np.uint16) for _ in range(4))
    more = {"choice": attention.Forward(**choice)} if choice else {}
    return attention.forward(q, k, v, o, np.zeros((heads, int(starts[-1])), np.float32), starts, starts, backend="emulator", **more)


def planned(launch):
    return sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)[0]


@pytest.mark.parametrize("lengths, heads, d, us", [
    ([7711], 2, 64, 92.7), ([3093], 2, 64, 42.0), ([7699], 4, 64, 184.3), ([4096] * 4, 2, 64, 99.6), ([1283] * 2, 4, 128, 25.6)])
def test_where_all_ctas_run_at_once_one_with_a_whole_tile_is_sampled(lengths, heads, d, us):
    """The first CTA, or the one in the middle, has a last tile here. Dealt, drawn, and in clusters."""
    assert estimating.estimate_launch(forward(lengths, heads, d), board="h200").us == pytest.approx(us, rel=0.12), "which were measured"


@pytest.mark.parametrize("lengths, heads, d", [([1177] * 5, 1, 256), ([443] * 5, 1, 128), ([1120] * 3, 6, 64)])
def test_a_sampled_tile_has_all_rows(lengths, heads, d):
    """Drawn after the rule was written, where the first CTA and the one in the middle both have a last tile."""
    launch = forward(lengths, heads, d)
    found = sample.typical(planned(launch))
    rows = min(lengths[0], (launch.block[0] - 128) // 2 * found.cluster)
    assert max(nbytes for nbytes, _ in found.trace.written.values()) == rows * d * 2


def test_a_sequences_last_tile_in_a_sample_makes_no_more_tiles():
    """Fifty-three tiles a head, the last one of 89 rows, which take as long as others: seven rounds of CTAs, not eight by the bytes of those seen."""
    launch = forward([6745] * 2, 8, 256, bn=80, turns=0)
    found = estimating.sampled(planned(launch), "attention")
    assert found.tiles == 53 * 8 * 2 / 132 and cut.wanted(found, programs.programs(found, H200)) == 7
    assert estimating.of_sample(found, "attention", H200).us == pytest.approx(1028, rel=0.08), "which were measured"
