# SPDX-License-Identifier: Apache-2.0
"""The pictures beside lesson 12's exercises say what the exercises count."""
import pytest

from hopperlab.lessons import l12_clusters


def test_ranks_run_down_the_columns():
    words = l12_clusters.draw_shares(2, 4).text.splitlines()[1:]
    assert words[1] == "  rank 1: rows 1 of A, columns 0 of B" and words[6] == "  rank 6: rows 0 of A, columns 3 of B" and len(words) == 8


@pytest.mark.parametrize("cluster", [2, 4])
def test_every_cta_loads_one_part(cluster):
    picture = l12_clusters.draw_multicast(cluster)
    assert [line.split(":")[0] for line in picture.text.splitlines()[1:]] == [f"  CTA {rank}" for rank in range(cluster)]
    assert picture.png().startswith(b"\x89PNG") and len(picture.png()) < 40_000
