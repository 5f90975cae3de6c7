# SPDX-License-Identifier: Apache-2.0
"""CTAs that drift apart, what they then share, and what comes at memory's latency."""
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from hopperlab.estimates import boards, chip, cut, estimating, recorded, sample, sm, sm_units, wave
from hopperlab.estimates import trace as T
from hopperlab.estimates.boards import Constant
from hopperlab.estimates.programs import Actor, programs
from hopperlab.estimates.together import Together
from hopperlab.measure.launches import gemm, variants
from hopperlab.measure.launches import launch as steps

H100 = boards.board("h100")
MEMORY = sm.Memory(l2=64.0, store=1.0, lane_store=1.0, dram=64.0)


def planned(launch):
    return sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)[0]


def arrays(m, n, k):
    return np.zeros((m, k), np.uint16), np.zeros((n, k), np.uint16), np.zeros((m, n), np.uint16)


NSIGHT = {"four stages, all wait for memory": (lambda a, b, c: steps.warp_specialized(a, b, c, 4, backend="emulator"), 4.365),
          "six stages, nobody does": (lambda a, b, c: steps.warp_specialized(a, b, c, 6, backend="emulator"), 7.746),
          "two CTAs an SM": (lambda a, b, c: variants.producer_warp(a, b, c, 3, backend="emulator"), 5.745),
          "CTAs that begin together once": (lambda a, b, c: gemm.launch("persistent", a, b, c, backend="emulator"), 1.24)}
"""GB that memory brings at 8192 cubed on an H100 (benchmarks/drift.py; of the last 1.19 and 1.29 in two runs)."""


@pytest.mark.parametrize("name", NSIGHT)
def test_memory_brings_what_was_counted_of_ctas_that_drift_apart_and_of_others(name):
    make, counted = NSIGHT[name]
    launch = make(*arrays(8192, 8192, 8192))
    found = estimating.sampled(planned(launch), name)
    near = 0.35 if name == "two CTAs an SM" else 0.15               # 3.8 GB comes out: less of the launch counts as apart
    assert chip.simulate(found, H100).traffic.unique / 1e9 == pytest.approx(counted, rel=near)


def test_ctas_apart_share_what_the_l2_still_has_of_the_one_before():
    """Six tiles, two rows of three: a row of A is wanted by the next CTA, a column of B by the third after."""
    a, b, c = arrays(256, 384, 1024)
    launch = variants.VARIANTS["tma_wgmma"](a, b, c, backend="emulator")
    told = wave.together(planned(launch), 132)
    near, far = sorted(told.asked, key=told.share)
    box = told.asked[near] / 6                                   # of A and of B, each CTA as much
    assert told.again[near] == [(pytest.approx(2 * box), pytest.approx(4 * box))], "the row itself and a column"
    assert told.again[far] == [(pytest.approx(4 * box), pytest.approx(box)), (pytest.approx(5 * box), pytest.approx(2 * box))], "two columns more, and one row or both"
    assert told.alone(near, 1, 2 * box, 3 * box) == pytest.approx(told.share(near)) and told.alone(far, 1, 2 * box, 3 * box) == 1
    assert told.alone(far, 1, 3 * box, 5 * box) == pytest.approx((3 + 0.5 + 2) / 6), "half of one column is there"
    assert told.alone(far, 2, 6 * box, 10 * box) == pytest.approx((3 + 0.5 + 2) / 6), "of twice the bytes as much in twice the L2"
    assert told.alone(0, 1, 1, 2) == 0


def test_drift_is_of_loads_that_are_used_late_and_takes_some_waves():
    held, free, waves = (H100.number(name) for name in ("ahead_held", "ahead_free", "apart_waves"))
    assert chip.drifted(held, H100, 100 * waves) == 0 and chip.drifted(0.0, H100, 100 * waves) == 0
    assert chip.drifted((held + free) / 2, H100, 2 * waves) == pytest.approx(0.25)
    assert chip.drifted(2 * free, H100, 4 * waves) == 0.75 and chip.drifted(2 * free, H100, waves) == chip.drifted(2 * free, H100, 1.0) == 0


def test_who_waits_for_the_l2_is_no_further_ahead():
    """Four stages of 32 KiB: with an L2 a quarter as fast loads take longer until they are used, and CTAs stay together all the same."""
    launch = steps.warp_specialized(*arrays(8192, 8192, 8192), 4, backend="emulator")
    found = estimating.sampled(planned(launch), "warp_specialized")
    slow = replace(H100, constants={**H100.constants, "l2_asked": Constant(H100.number("l2_asked") / 2, "", ""), "l2_most": Constant(20.0, "", "")})
    fast, late = (chip.simulate(found, board) for board in (H100, slow))
    assert late.ahead > fast.ahead and late.cycles > 1.3 * fast.cycles
    assert late.traffic.unique == pytest.approx(fast.traffic.unique)


def test_how_far_ahead_loads_run_is_counted_until_they_are_used():
    """A load, and a wait after 5000 cycles of products; a group of cp.async, and a wait at once."""
    load = [(T.LOAD, 0, 1024, ((0, 1024, 0),), 0, False, 1), (T.ARRIVE, 0, 0, 1, 1024, 1)]
    group = [(T.CP_ASYNC, 0, 1024, 1), (T.COMMIT, -1, False, 1), (T.GROUPS, -1, False, 0, False, 1)]
    steps_ = [*load, *group, *[(T.WGMMA, 0, 4)] * 40, (T.COMMIT, -1, "wgmma", 4), (T.PRODUCTS, 0, 0, 4), (T.WAIT, 0, 0, 1, 1)]
    found = sm.Simulation(H100, MEMORY, {0: 1}, 8, 4, lambda index: SimpleNamespace(info=SimpleNamespace(n=256, rs=False)))
    one = sm_units.Multiprocessor()
    found.start([Actor(0, 0, 4, steps_)], 0, 0, one, 0.0, 1)
    found.run()
    assert 40 * 128 < one.ahead < 40 * 128 + 2500, "the group's latency once, and the load's until the products are done"


def test_each_warp_that_waits_for_its_copies_waits_for_a_part_of_a_k_block():
    one = sm_units.Multiprocessor()
    one.took(100.0, 1100.0, 0.25)
    one.took(sm.NEVER, 1100.0)
    assert one.ahead == 250


def test_what_attention_loads_comes_at_memorys_latency_in_a_first_tile_and_in_part_later():
    launch = next(made for case in recorded.cases(("attention",), "h100") if "final D=64 causal" in case.name and (made := case.make()))
    found = estimating.sampled(planned(launch), "attention")
    assert found.wave.new and not found.wave.asked
    moved = chip.traffic(found, cut.progress(found), H100, 4.0)
    assert moved.fresh == 0.25, "of four tiles"
    part = chip.Part(found, H100, [], 132, 1, cut.progress(found), 4.0)
    number = H100.number
    some, all_ = (part.memory(replace(moved, unique=share * moved.loaded)) for share in (0.05, 1.0))
    assert some.late == pytest.approx(number("memory_late") + number("memory_follow") * 0.05) and all_.late == 1
    assert replace(part, sample=replace(found, wave=None)).memory(moved).late == 0
    late = replace(H100, constants={**H100.constants, "tma_latency_memory": Constant(4000, "", "")})
    assert chip.simulate(found, late).cycles > chip.simulate(found, H100).cycles + 2 * 2000


def test_ctas_that_begin_together_once_drift_apart_slowly():
    """benchmarks/counted.py: e4m3 at 16384 cubed, GB from memory; at 8192 cubed nothing comes again."""
    launch = variants.VARIANTS["tma_wgmma"](*arrays(256, 384, 1024), backend="emulator")
    found = replace(sample.typical(planned(launch)), wave=Together())
    part = chip.Part(found, H100, [], 1, 1, 1.0, 16.0)
    moved = chip.Traffic(loaded=36.7e9, stored=0.0, unique=4.5e9)
    since, pace = H100.number("apart_from"), H100.number("apart_slowly")
    assert part.drifting(moved, 1e6 * since).unique == moved.unique
    assert part.drifting(moved, 1e6 * (since + 2)).unique - moved.unique == pytest.approx(2 * pace * (36.7e9 - 4.5e9))
    assert part.drifting(moved, 9.2e6).unique / 1e9 == pytest.approx(8.85, rel=0.15)
    assert part.drifting(moved, 1e12).unique == pytest.approx(moved.loaded)
    for other in (replace(part, rounds=1.0), replace(part, sample=replace(found, wave=None)), replace(part, sample=replace(found, wave=Together(new=True)))):
        assert other.drifting(moved, 9.2e6) is moved


def test_what_was_loaded_for_a_tile_that_is_not_done_is_not_counted_for_those_that_are():
    products, store = [(T.WGMMA, 0, 4)] * 4, [(T.STORE, 0, 1024, 1)]
    assert cut.ended([Actor(0, 0, 1, [])]) == 1
    assert cut.ended([Actor(0, 4, 4, [*products, *store, *products, *store, *products[:2]]), Actor(0, 0, 1, [])]) == pytest.approx(8 / 10)
    a, b, c = arrays(2048, 2048, 2048)
    plan = planned(gemm.persistent(a, b, c, blocks=16, backend="emulator"))
    whole, part = sample.run(plan, most=60_000), sample.run(plan, most=1000)
    seen = [sum(loaded for loaded, _ in chip.amounts(one, cut.progress(one), ended)[0].values())
            for one, ended in ((whole, 1.0), (part, cut.ended(programs(part, H100))), (part, 1.0))]
    assert seen[1] == pytest.approx(seen[0], rel=0.08) and abs(seen[1] - seen[0]) < abs(seen[2] - seen[0])


def test_a_launch_that_drifts_for_a_time_takes_a_part_of_each():
    busy = chip.Busy(0.4, 0, 0, 0, 0, 10.0, 0)
    near = chip.Run(1000.0, busy, chip.Traffic(100.0, 0.0, 10.0), 1, 1.0, 1.0)
    far = replace(near, cycles=2000.0, busy=replace(busy, wgmma=0.2, memory=40.0), traffic=replace(near.traffic, unique=80.0))
    found = chip.mixed(near, far, 0.25)
    assert found.cycles == 1250 and found.traffic.unique == pytest.approx(27.5)
    assert found.busy.wgmma == pytest.approx(0.4 * 0.6 + 0.2 * 0.4) and found.busy.memory == pytest.approx(0.6 * 10 + 0.4 * 40)


def test_of_tiles_in_which_a_warpgroup_has_no_part_the_others_tell_the_pace():
    """At a sequence's end, where a tile has fewer rows than there are warpgroups: e4m3 with heads of 256 at a length of 3515 came out 30 per cent too slow."""
    def writes(first, count):
        return Actor(0, first, 4, [(T.WGMMA, 0, 4), (T.STORE, -1, 1000, 4)] * count + [(T.WGMMA, 0, 4)], multiplies=True)
    actors = [writes(4, 4), writes(8, 3)]
    marks = {(0, 0, 4): [124.0, 236.0, 349.0, 431.0], (0, 0, 8): [125.0, 237.0, 437.0]}
    ends = SimpleNamespace(tile_marks=marks, tile_ends=[at for some in marks.values() for at in some])
    known = SimpleNamespace(done=1.0, wave=None, asked=0, tiles=6.8, most=0.0, resident=1, total=132, ctas=[0], trace=SimpleNamespace(written={1: (7000, 900_000)}))
    assert cut.extrapolated(ends, actors, known, 1) == pytest.approx(431 + 3 * (431 - 124) / 3)
