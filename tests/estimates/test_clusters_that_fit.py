# SPDX-License-Identifier: Apache-2.0
"""Of clusters whose CTAs fill an SM each the chip holds fewer than its SMs would be enough for; the others come when a place is free."""
import numpy as np
import pytest

from hopperlab.estimates import boards, chip, estimating, sample
from hopperlab.measure.launches import gemm
from hopperlab.measure.launches.gemm_configurations import Final

H200 = boards.board("h200")


def found(clusters, **changed):
    """A product of so many clusters of four CTAs above each other, a tile each."""
    choice = Final(**{"bm": 128, "bn": 128, "consumers": 2, "stages": 6, "cluster_m": 4, "cluster_n": 1, "group": 0, "stagger": 0, **changed})
    m, n, k = 4 * choice.bm, clusters * choice.bn, 1024
    launch = gemm.final(np.zeros((m, k), np.uint16), np.zeros((n, k), np.uint16), np.zeros((m, n), np.uint16), choice, backend="emulator")
    return estimating.sampled(sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)[0], "final")


def test_thirty_three_clusters_of_four_take_two_turns():
    """As on a GPU, where 132 SMs hold thirty of them (recordings/README.md: 0.62 of the speed with 33)."""
    thirty, more = found(30), found(33)
    assert more.resident == 1 and chip.at_once(more, H200) == 30
    few, many = (chip.simulate(one, H200).cycles for one in (thirty, more))
    assert many > 1.5 * few


def test_where_two_fit_on_an_sm_its_places_count():
    small = found(30, bm=64, bn=64, consumers=1, stages=3)
    assert small.resident > 1 and chip.at_once(small, H200) == 33


@pytest.mark.parametrize("ctas, places", [(1, 132), (2, 66), (8, 15)])
def test_clusters_of_other_sizes(ctas, places):
    class One:
        cluster, resident = ctas, 1
    assert chip.at_once(One, H200) == places
