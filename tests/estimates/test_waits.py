# SPDX-License-Identifier: Apache-2.0
"""What loads, barriers of clusters and lanes' loads wait for on an estimated SM."""
from types import SimpleNamespace

import numpy as np
import pytest

from hopperlab.estimates import boards, chip, estimating, sample, sm, sm_units
from hopperlab.estimates import trace as T
from hopperlab.estimates.costs import Cost
from hopperlab.estimates.programs import COMPUTE, Actor
from hopperlab.measure.launches import copies, gemm

H100 = boards.board("h100")


def memory(**more):
    return sm.Memory(**{"l2": 1e6, "store": 1.0, "lane_store": 1.0, "dram": 1e6, **more})


def end(steps, where, board=H100, slots=1, warps=4, n=256, groups=1):
    """Cycles until actors that do the same, so many in each CTA of a cluster, have ended. n: columns of a product."""
    found = sm.Simulation(board, where, {}, 8, warps, lambda index: SimpleNamespace(info=SimpleNamespace(n=n, rs=False)))
    for slot in range(slots):
        found.start([Actor(slot, warps * group, warps, steps) for group in range(groups)], 0, slot, sm_units.Multiprocessor(), 0.0, slots)
    found.run()
    return max([*found.cta_ends.values(), *(at for at, _ in found.load_ends)])


def load(bulk):
    return [(T.LOAD, 0, 1024, [], 0, bulk, 1)]


def test_what_lies_in_one_piece_comes_sooner_from_memory_than_rows_of_a_box():
    cold = memory(cold=1e9)
    assert end(load(False), cold) - end(load(True), cold) == pytest.approx(H100.number("tma_latency_memory") - H100.number("bulk_latency_memory"))
    warm = memory()
    assert end(load(True), warm) - end(load(False), warm) == pytest.approx(H100.number("bulk_latency_l2") - H100.number("tma_latency_l2"))


def test_memory_is_fewer_cycles_away_where_sms_slow_down():
    fast, slow = (end(load(False), memory(cold=1e9, pace=pace)) for pace in (1.0, 0.8))
    assert fast - slow == pytest.approx(0.2 * (H100.number("tma_latency_memory") - H100.number("tma_latency_l2")))
    assert end(load(False), memory(pace=0.8)) == end(load(False), memory())


@pytest.mark.parametrize("n, cycles", [(64, 592), (128, 1136), (176, 1544), (256, 2224)])
def test_products_are_handed_over_as_far_ahead_as_was_measured(n, cycles):
    """Of 24, until the last one is (benchmarks/wgmma_ahead.py, with some 48 until the first one is under way)."""
    assert end([(T.WGMMA, 0, 4)] * 24, memory(), n=n) == pytest.approx(cycles - 48, abs=45)


def test_warpgroups_share_the_products_that_are_under_way():
    sm_of_two = sm_units.Multiprocessor()
    assert [sm_of_two.taken(at, 7) for at in range(100, 110)] == [0.0] * 7 + [100, 101, 102]
    alone, both = (end([(T.WGMMA, 0, 4)] * 24, memory(), groups=groups) for groups in (1, 2))
    assert both - 2 * 128 * 24 == pytest.approx(alone - 128 * 24, abs=20), "as far ahead of all that two do as of what one does"


def test_bulk_loads_and_boxes_are_told_apart_in_a_sample():
    source, out = np.zeros((256, 1024), np.uint16), np.zeros(132, np.uint32)
    for launch, bulk in ((copies.bulk_read(source, out, 2, 4096, 132, backend="emulator"), True),
                         (gemm.split_k(*(np.zeros((128, 128), np.uint16) for _ in range(3)), gemm.SplitK(), backend="emulator"), False)):
        found = sample.typical(sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)[0])
        assert {entry[5] for entries in found.trace.warps for entry in entries if entry[0] == T.LOAD} == {bulk}


@pytest.mark.parametrize("release", [True, False])
def test_a_cluster_meets_in_the_time_that_was_measured(release):
    meeting = [(T.CLUSTER, -1, 0, 32, release, 12), (T.CLUSTER_WAIT, -1, 0, 12)]
    assert end(meeting, memory(), slots=2, warps=12) == H100.cluster_barrier(384, release)


def test_split_k_meets_twice_with_release_and_the_last_kernel_first_without():
    a, b, c = (np.zeros((128, 128), np.uint16) for _ in range(3))
    for launch, wanted in ((gemm.split_k(a, b, c, gemm.SplitK(), backend="emulator"), [True, True]),
                           (gemm.final(a, b, c, gemm.Final(cluster_m=2), backend="emulator"), [False])):
        found = sample.typical(sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)[0])
        assert [entry[4] for entry in found.trace.warps[4] if entry[0] == T.CLUSTER][:2] == wanted


def test_what_lanes_load_while_products_are_under_way_is_waited_for_with_them():
    """A load of which the L1 lacks a fifth, alone and under forty products: there it costs nothing."""
    lanes = (COMPUTE, Cost(issue=1.0, loaded=32.0), 4)
    products, done = [(T.WGMMA, 0, 4)] * 40, [(T.COMMIT, -1, "wgmma", 4), (T.PRODUCTS, 0, 0, 4)]
    where = memory(waited=400.0)
    alone = end([lanes], where)
    assert alone > 0.2 * 400
    assert end([*products, lanes, *done], where) == pytest.approx(end([*products, *done], where), abs=5)
    assert end([lanes, *products, *done], where) == pytest.approx(end([*products, *done], where) + alone, abs=5)
    late = memory(waited=1e5)
    assert end([*products, lanes, *done], late) > 0.2 * 1e5, "but no sooner than it is there"


@pytest.mark.thorough
def test_a_bulk_read_with_two_slots_waits_as_long_as_a_lone_load():
    launch = copies.bulk_read(np.zeros((32768, 65536), np.uint16), np.zeros(132, np.uint32), 2, 4096, 132, backend="emulator")
    found = estimating.sampled(sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)[0], "bulk_read")
    per_chunk = chip.simulate(found, H100).cycles / (found.trace.read and 2 ** 32 / 132 / 4096 / 2)
    assert H100.number("bulk_latency_memory") < per_chunk < 2 * H100.number("bulk_latency_memory")
