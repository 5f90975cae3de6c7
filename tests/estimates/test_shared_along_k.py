# SPDX-License-Identifier: Apache-2.0
"""Tiles that CTAs share along k: flags of CTAs that are not in the sample, loads in order through an L2, and how much of the work was seen."""
from dataclasses import replace

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.emulator.ops import copy_loads
from hopperlab.estimates import absent, boards, chip, cut, estimating, order, sample, sm, sm_units
from hopperlab.estimates.programs import Actor, programs
from hopperlab.estimates.together import STEP, Together
from hopperlab.estimates import trace as T
from hopperlab.measure.launches import gemm
from hopperlab.measure.launches.gemm_configurations import Final

H100 = boards.board("h100")
SHARED = Final(bm=128, bn=128, consumers=2, stages=4, cluster_m=1, cluster_n=1, group=16, blocks=11, stream=1)


def launch_of(m, n, k, choice=SHARED):
    return gemm.final(np.zeros((m, k), np.uint16), np.zeros((n, k), np.uint16), np.zeros((m, n), np.uint16), choice, backend="emulator")


def planned(launch):
    return sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)[0]


@pytest.fixture(scope="module")
def launch():
    """48 tiles of 40 k-blocks, of which eleven CTAs share the first fifteen and have three each of the others."""
    return launch_of(128, 48 * 128, 40 * 64)


@pytest.fixture(scope="module")
def found(launch):
    return estimating.sampled(planned(launch), "final")


def test_a_cta_that_waits_for_others_is_sampled_and_all_it_does_is_known(found):
    assert not found.machine.findings.hazards and found.ctas == [6], "the first one begins with a whole tile"
    assert found.asked == pytest.approx((15 * 40 / 11 + 3 * 40) * 2, rel=0.01), "two loads of each k-block of an even share, and of three tiles"
    estimate = estimating.of_sample(found, "final", H100)
    assert estimate.low_us < estimate.us < estimate.high_us


def test_a_first_run_ends_where_it_would_wait_for_others(launch):
    with pytest.raises(absent.Awaited):
        sample.run(planned(launch), alone=True)
    assert not any(array.any() for array in launch.args if isinstance(array, np.ndarray) and array.dtype != np.float32)
    alone = sample.run(planned(launch_of(256, 256, 512, replace(SHARED, stream=0))), alone=True)
    assert alone.whole and not alone.asked


def test_arrays_are_as_they_were(launch, found):
    assert not any(array.any() for array in launch.args if isinstance(array, np.ndarray) and array.dtype != np.float32), "flags were raised, and are down again"


def test_what_is_left_of_a_cut_sample_goes_on_by_k_blocks(launch, found):
    part = replace(sample.run(planned(launch), (6,), most=1000, enough=4), wave=found.wave)
    assert part.asked == found.asked and not part.whole and cut.progress(part) < 1
    assert cut.k_blocks(part, programs(part, H100)) == pytest.approx(15 * 40 / 11 + 120, abs=1)
    assert chip.simulate(part, H100).cycles == pytest.approx(chip.simulate(found, H100).cycles, rel=0.12)


def test_a_wait_that_nobody_would_end_is_still_refused():
    kernel = hl.RawModule(code="""extern "C" __global__ void wait(const float* x) {
        __shared__ unsigned long long bar;
        if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"((unsigned)__cvta_generic_to_shared(&bar)));
        __syncthreads();
        asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra L; }" :: "r"((unsigned)__cvta_generic_to_shared(&bar)));
    }""", backend="emulator").get_function("wait")
    with pytest.raises(hl.LaunchError, match="no estimate: .* wait for others"):
        hl.estimate(kernel, (64,), (32,), (np.zeros(4, np.float32),))


def test_a_first_cta_that_waits_for_the_last_is_refused_though_others_wait_for_nobody():
    kernel = hl.RawModule(code="""extern "C" __global__ void first_waits(volatile int* flag, float* out) {
        if (blockIdx.x == 0 && threadIdx.x == 0) while (!flag[0]) ;
        __syncthreads();
        out[blockIdx.x * 128 + threadIdx.x] = 1;
        if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) flag[0] = 1;
    }""", backend="emulator").get_function("first_waits")
    flag, out = np.zeros(1, np.int32), np.zeros(264 * 128, np.float32)
    with pytest.raises(hl.LaunchError, match="its CTAs wait for others"):
        hl.estimate(kernel, (264,), (128,), (flag, out))
    assert not flag.any() and not out.any()


def test_loads_are_followed_through_an_l2_that_forgets_the_least_recent():
    def came(size, *ctas):
        return [float(part.sum()) for part in order.missed([[(place, 10.0) for place in mine] for mine in ctas], size, STEP)]
    assert came(100, "abc", "abc") == [60, 30], "who asks for the same at the same time shares it"
    assert came(100, "abc", "cab") == [60, 30] and came(20, "abcabc") == [60, 60] and came(30, "abcabc") == [60, 30]
    assert came(20, "abacab") == [60, 40], "b went, for a had been asked for since"
    asked, brought = order.missed([[(0, STEP), (1, STEP), (0, STEP)]], 10 * STEP, STEP)
    assert asked.tolist() == [STEP] * 3 and brought.tolist() == [STEP, STEP, 0]


def test_what_neighbours_ask_for_at_last():
    mine = [[(number, 8.0) for number in range(start, start + 20)] for start in (0, 0, 500)]
    assert order.together_at_last(mine) == pytest.approx(1 / 3)


def test_loads_of_all_ctas_are_those_of_the_kernel(launch):
    plan = planned(launch)
    every = order.loads(plan, plan.geometry.cta_order, order.EVERY)
    assert len(every) == 11 and sum(nbytes for mine in every for _, nbytes in mine) == 48 * 40 * 2 * 128 * 64 * 2
    assert all(mine[:30] == whole[:30] for mine, whole in zip(order.loads(plan, plan.geometry.cta_order, 30), every, strict=True))


@pytest.mark.parametrize("m, n, k, more", [(128, 128, 256, {}), (300, 520, 200, {}), (300, 520, 200, {"cluster_m": 2}), (256, 264, 136, {"stream": 0, "cluster_n": 2})])
def test_loads_told_at_once_are_those_told_one_by_one(monkeypatch, m, n, k, more):
    plan = planned(launch_of(m, n, k, replace(SHARED, **more)))
    found = [order.loads(plan, plan.geometry.cta_order, 20)]
    monkeypatch.setattr(copy_loads, "_told_at_once", lambda *given: False)
    found.append(order.loads(plan, plan.geometry.cta_order, 20))
    assert found[0] == found[1] and any(found[0])


def test_requests_of_neighbours_become_one():
    told = Together({1: 100.0, 2: 300.0}, near={1: 0.0, 2: 300.0})
    assert told.merged({1: 1.0, 2: 3.0}, 3.0, 1.0) == pytest.approx(0.5) and told.merged({1: 1.0, 2: 3.0}, 3.0, 2.0) == pytest.approx(0.375)
    shared, asked = chip.l2_share(H100, 132, 0.5), H100.number("l2_asked")
    assert shared == min(H100.number("l2_most"), asked / 0.5) and chip.l2_share(H100, 132, 1.0) == asked and chip.l2_share(H100, 132) == H100.number("l2_bytes")


def test_a_tile_that_was_stored_when_the_sample_was_cut_is_no_larger_tile():
    """Four tiles of 1 KiB were stored, of which three are known to be done: of 16 KiB there are sixteen, not twelve."""
    products, store = [(T.WGMMA, 0, 4)] * 4, [(T.STORE, 0, 1024, 1)]

    class Seen:
        class trace:
            written = {0: [4096.0, 16384.0]}
        total, ctas = 1, [0]
    for more in ([], store):
        Seen.trace.written = {0: [1024.0 * (3 + bool(more)), 16384.0]}
        assert cut.wanted(Seen, [Actor(0, 4, 4, [*(products + store) * 3, *products, *more])]) == 16


def test_who_shares_what_says_how_often_the_l2_is_asked(found):
    """Neighbours' requests become a third, of clusters fewer and none of what goes to several, and of CTAs that begin at different places none until they have gone on
    for some tiles."""
    near, others = H100.number("l2_merged"), H100.number("l2_merged_others")
    whole = replace(found, wave=Together({1: 1.0}, near={1: 1.0}))
    assert chip.merged(whole, {1: 1.0}, H100, 1.0) == pytest.approx(1 / near)
    assert chip.merged(whole, {1: 1.0}, H100, 1.0, 0.5) == pytest.approx(1 / (1 + 0.5 * (near - 1))) and chip.merged(whole, {1: 1.0}, H100, 1.0, 0.0) == 1
    assert chip.merged(replace(whole, cluster=2), {1: 1.0}, H100, 1.0) == pytest.approx(1 / H100.number("l2_merged_clusters"))
    far, sent = Together({1: 1.0}, near={1: 0.0}), Together({1: 1.0}, near={1: 1.0}, sent={1: 1.0})
    assert [chip.merged(replace(whole, cluster=2, wave=wave), {1: 1.0}, H100, 1.0) for wave in (far, sent)] == [pytest.approx(1 / others), 1]
    apart = replace(found, wave=Together({1: 1.0}, near={1: 0.0}, brought=1.0, later=1.0))
    assert [chip.merged(apart, {1: 1.0}, H100, rounds) for rounds in (1.0, chip.SCATTERED)] == [1, 1]
    for together, name in ((1.0, "l2_merged_along_k"), (0.0, "l2_merged_apart")):
        assert chip.merged(apart, {1: 1.0}, H100, 2 * chip.SCATTERED, together) == pytest.approx(0.5 + 0.5 / H100.number(name))
    assert chip.merged(replace(apart, wave=replace(apart.wave, later=0.25)), {1: 1.0}, H100, 1e9) == pytest.approx(0.75 + 0.25 / H100.number("l2_merged_along_k"))
    assert chip.merged(replace(apart, cluster=2), {1: 1.0}, H100, 100.0) == 1
    assert chip.merged(replace(found, wave=None), {1: 1.0}, H100, 1.0) == chip.merged(replace(found, wave=Together(new=True)), {1: 1.0}, H100, 1.0) == 0


def test_sums_that_are_handed_over_take_their_time(found):
    memory = sm.Memory(1.0, 1.0, 22.0, 1.0)
    bytes_ = 2 * 128 * 128 * 4                          # a tile's sums are sent, and another's are read
    assert chip.handed_over(found, memory, H100) == pytest.approx(H100.number("sums_wait") + bytes_ / H100.number("sums_bytes") - bytes_ / 22, rel=0.01)
    assert chip.handed_over(replace(found, asked=0), memory, H100) == 0


def test_an_sm_loads_from_memory_what_its_place_in_the_launch_says():
    memory = sm.Memory(1e9, 1.0, 1.0, 1.0, missed=0.5, steps=(1.0, 0.0))
    one, waits = sm_units.Multiprocessor(), sm.Simulation(H100, memory, {}, 8, 4, lambda index: None)
    for _ in range(4):
        waits._fetch(one, 0.0, STEP / 2, "tma")
    assert one.dram.busy == STEP, "the first STEP bytes, and none of the next"
    slow, rows = sm_units.Multiprocessor(), sm.Simulation(H100, replace(memory, l2=10.0, missed=0.0, steps=(), rows=20.0), {}, 8, 4, lambda index: None)
    for more in (0.0, 10.0, 300.0):
        rows._fetch(slow, 0.0, 100.0, "tma", more)
    assert slow.l2.busy == 10 + 10 + 20, "rows take longer only where they take more than what the L2 is asked for"
