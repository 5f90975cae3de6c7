# SPDX-License-Identifier: Apache-2.0
"""Boxes that hang over the end of their array: found in the loads of a launch, and what they make of its time."""
from dataclasses import replace

import numpy as np
import pytest

from hopperlab.estimates import boards, estimating, order, outside, sample, l2_and_memory
from hopperlab.hopper.tensormap_fields import TensorMapFields
from hopperlab.measure.launches import gemm
from hopperlab.measure.launches.gemm_configurations import Final

PAIRS = Final(bm=64, bn=240, consumers=1, stages=5, cluster_m=1, cluster_n=4, group=16, c_slots=2, stagger=0)


def sampled(tiles, size=2048, choice=PAIRS):
    a, b, c = (np.zeros(shape, np.uint16) for shape in ((size, size), (tiles * choice.bn, size), (size, tiles * choice.bn)))
    launch = gemm.final(a, b, c, choice, backend="emulator")
    return estimating.sampled(sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)[0], "final")


@pytest.mark.parametrize("board", ["h100", "h200"])
def test_fewer_tiles_in_as_many_clusters_take_longer(board):
    """Measured on an H200: 65 us with 9 tiles of columns, 49 with the twelve that three clusters of four have."""
    table = boards.board(board)
    some, all_ = sampled(9), sampled(12)
    times = [estimating.of_sample(found, "final", table).us for found in (some, replace(some, outside=None), all_)]
    assert all_.outside is None and times[0] > 1.08 * times[2] and times[1] < 1.01 * times[2]


def test_what_lies_outside_is_told_of_the_cta_of_a_cluster_that_has_most():
    found = sampled(5, 512).outside
    boxes = 64 * 64 * 2 / 4 + 240 * 64 * 2                       # its part of A, and its own of B, in a k-block
    assert found.boxes.shape[0] == 16 and found.boxes.sum() == 16 * 8 * boxes and found.share == 1
    assert found.outside.sum() == 8 * 8 * 240 * 64 * 2, "of eight rows of tiles the second cluster has one tile inside, and three outside"


def test_boxes_may_lie_outside_where_extents_are_no_multiples():
    def chart(rows, columns, box_rows=64):
        return TensorMapFields("bfloat16", 2, 1 << 30, [columns, rows], [columns * 2], [64, box_rows])
    assert not outside.possible([chart(256, 512)], 1) and not outside.possible([chart(256, 512)], 4)
    assert outside.possible([chart(256, 512), chart(250, 512)], 1) and outside.possible([chart(256, 520)], 1)
    assert outside.possible([chart(192, 512)], 2) and not outside.possible([chart(192, 512)], 1), "three boxes for two CTAs each"


def test_windows_hold_what_their_cta_asks_for():
    whole = np.full(6, float(outside.WINDOW))
    loads = order.Loads(np.array([3, 3]), np.array([3, 3]), np.arange(6), whole * [1, 1, 1, 1, 0.5, 0], whole)
    alone, pair = outside.summed(loads, 1), outside.summed(loads, 2)
    assert alone.outside.tolist() == [[0, 0, 0], [0, 0.5 * outside.WINDOW, outside.WINDOW]] and alone.boxes.tolist() == [[outside.WINDOW] * 3] * 2
    assert pair.outside.tolist() == alone.outside[1:].tolist()
    assert outside.summed(replace(loads, nbytes=whole), 1) is None


def test_a_launch_ends_later_by_what_its_slowest_cluster_waits():
    boxes = np.full((2, 3), 100.0)
    one_each = outside.Outside(boxes, np.array([[0.0, 0.0, 100.0], [0.0, 100.0, 0.0]]))
    # 10 bytes a cycle in 30 cycles without; outside at 2 a cycle: 50 cycles instead of ten
    assert one_each.later(30.0, 2, False, 20.0, 2.0) == pytest.approx(40)
    assert one_each.later(30.0, 2, True, 20.0, 2.0) == pytest.approx(80), "both wait for the slower one, twice"
    assert one_each.later(60.0, 1, False, 20.0, 2.0) == pytest.approx(80), "both on one place"
    assert one_each.later(30.0, 2, False, 20.0, 20.0) == 0, "no slower than what it waits for anyway"
    half = replace(one_each, share=0.5)
    assert half.later(60.0, 2, False, 20.0, 2.0) == pytest.approx(80), "as many again that were not followed"
    assert half.later(60.0, 2, True, 20.0, 2.0) == pytest.approx(160)


def test_outside_the_engine_and_the_l2_work_one_after_the_other():
    table = boards.board("h200")
    alone, all_ = (l2_and_memory.outside_share(table, active, 1980.0) for active in (1, 132))
    assert 95 < alone < table.number("tma_bytes") and 25 < all_ < 28, "104 and 27 by benchmarks/out_of_bounds.py"
