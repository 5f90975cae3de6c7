# SPDX-License-Identifier: Apache-2.0
"""Tiles that CTAs share along k: flags of CTAs that are not in the sample, loads in order through an L2, and how much of the work was seen."""
from dataclasses import replace

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.estimates import absent, boards, chip, cut, estimating, order, l2_and_memory, sample, skeleton, sm, sm_units
from hopperlab.estimates.programs import COMPUTE, Actor, asked_at_once, programs
from hopperlab.estimates.together import STEP, Together
from hopperlab.estimates import trace as T
from hopperlab.hopper.tile import global_rows
from hopperlab.measure.launches import gemm
from hopperlab.measure.launches.gemm_configurations import Final

H100, H200 = boards.board("h100"), boards.board("h200")
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


def test_a_sample_is_of_a_cta_that_hands_over_or_waits(monkeypatch):
    """Sixteen tiles of 8 k-blocks over eleven CTAs: of the five that are shared, and of the eleven more, some CTAs have whole tiles alone."""
    made = launch_of(128, 16 * 128, 8 * 64)
    planned_one = planned(made)
    one_by_one = {number: sample.run(planned_one, (number,), sample.MOST_DEALT, enough=sample.DEALT) for number in range(11)}
    alone = [number for number, one in one_by_one.items() if not one.asked]
    first, second = (int(sample.GOLDEN * number % 1 * 11) for number in (1, 2))
    assert alone and len(alone) < 11 and one_by_one[second].asked
    ran = []
    known = {**one_by_one, first: one_by_one[alone[0]]}
    monkeypatch.setattr(sample, "run", lambda launch, clusters=(0,), *more, **named: ran.append(clusters[0]) or known[clusters[0]])
    assert sample.typical(planned_one) is one_by_one[second] and ran == [first, second]


def test_a_kernel_that_polls_flags_is_sampled_once(launch, monkeypatch):
    assert absent.polls(planned(launch)) and not absent.polls(planned(launch_of(256, 256, 512, replace(SHARED, stream=0))))
    runs, run = [], sample.run
    monkeypatch.setattr(sample, "run", lambda *given, **named: runs.append(given[1:]) or run(*given, **named))
    assert sample.typical(planned(launch)).asked and len(runs) == 1


def test_a_chain_of_ctas_each_waiting_for_the_one_before_it_has_an_estimate():
    """A look-back scan: the first CTA waits for nobody, and what the others wait for is no tile's sum."""
    kernel = hl.RawModule(code="""extern "C" __global__ void chain(volatile int* flags, float* out) {
        if (threadIdx.x == 0) {
            if (blockIdx.x) while (!flags[blockIdx.x - 1]) ;
            __threadfence();
            flags[blockIdx.x] = 1;
        }
        __syncthreads();
        out[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
    }""", backend="emulator").get_function("chain")
    flags, out = np.zeros(64, np.int32), np.zeros(64 * 128, np.float32)
    assert absent.polls(sample.planned(kernel, (64,), (128,), (flags, out))[0])
    assert hl.estimate(kernel, (64,), (128,), (flags, out)).us > 0 and not flags.any() and not out.any()


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


def loads_of(*ctas):
    """Loads of 10 bytes each, at these places."""
    every = [ord(place) if isinstance(place, str) else place for mine in ctas for place in mine]
    return loads_so(np.array(every), np.full(len(every), 10.0), *map(len, ctas))


def loads_so(places, nbytes, *counts):
    """Loads of CTAs that have so many."""
    return order.Loads(np.array(counts), np.array(counts), places, nbytes, nbytes)


def test_loads_are_followed_through_an_l2_that_gives_up_what_was_not_asked_for_longest():
    def came(half, *ctas):
        return [round(float(part.sum()), 6) for part in order.missed(loads_of(*ctas), half, STEP)[:2]]
    assert came(100, "abc", "abc") == [60, 30], "who asks for the same at the same time shares it"
    there, thrice = loads_so(np.array([0, 1, 0]), np.full(3, float(STEP)), 3), loads_so(np.array([0, 1, 2, 3, 0]), np.full(5, float(STEP)), 5)
    asked, brought, _same = order.missed(there, 10 * STEP, STEP)
    assert asked.tolist() == [STEP] * 3 and brought.tolist() == pytest.approx([STEP, STEP, 0], abs=1)
    assert order.missed(thrice, STEP, STEP)[1][-1] > 0.95 * STEP, "three times a half's size has come between"
    assert order.missed(there, 3 * STEP, STEP, stored=40 * STEP)[1][2] > 0.9 * STEP, "what is written takes room, too"


@pytest.mark.parametrize("most, step", [(1, 1), (300, 1), (1 << 20, 2048), (1 << 40, 3)])
def test_whole_numbers_in_order_are_as_a_stable_sort_has_them(most, step):
    keys = np.random.default_rng(20261128).integers(-most, most + 1, 5000) * step
    assert (order.in_order(keys) == np.argsort(keys, kind="stable")).all()


def test_what_is_expected_is_what_two_halves_bring():
    """Beside an L2 of two halves, each of sets of WAYS lines of which the least recent goes: its own lines, and copies of the other's that its SMs ask for."""
    rng, ctas, each = np.random.default_rng(20261128), 6, 3000
    rounds = np.arange(each) % 260 + rng.integers(0, 40, (ctas, each))                   # round and round, and not all at the same time
    sets = 24
    expected = order.missed(loads_so(rounds.reshape(-1), np.full(ctas * each, float(order.QUANTUM)), *[each] * ctas), sets * order.WAYS * order.QUANTUM / 2, 1e12)
    sides = np.random.default_rng(1).permutation(ctas) % 2
    where = rng.integers(0, sets, (2, 400))
    halves: list[list[dict]] = [[{} for _ in range(sets)] for _ in range(2)]
    came = 0.0

    def holds(half, home, place):
        lines = halves[half][where[home, place]]
        known = lines.pop((home, place), False)
        lines[home, place] = True
        if len(lines) > order.WAYS:
            del lines[next(iter(lines))]
        return known
    for turn in rounds.T:
        for side, place in zip(sides.tolist(), turn.tolist(), strict=True):
            copied = holds(side, 1 - side, place)
            came += 0.5 * (not holds(side, side, place)) + 0.5 * (not (holds(1 - side, 1 - side, place) | copied))
    assert expected[0].sum() == ctas * each * order.QUANTUM
    assert expected[1].sum() / order.QUANTUM == pytest.approx(came, rel=0.1) and 0.15 < came / rounds.size < 0.85, came / rounds.size


def test_what_others_ask_for_at_the_same_time():
    assert order.brought(loads_of("abcd", "abxy"), 100.0)[3] == 0.25, "of eight loads, two that another CTA asks for as well"
    late = loads_so(np.array([0, 1, 1, 0]), np.full(4, 2.0 * order.QUANTUM), 2, 2)
    assert order.brought(late, 100.0 * order.QUANTUM)[3] == 0, "one later than the other"


def test_boxes_that_overlap_bring_no_more_than_there_is():
    found = loads_of("abc", "abc")
    assert order.brought(found, 100.0)[0] == 30 and order.brought(found, 100.0, once=24.0)[0] == pytest.approx(24)
    cut = order.Loads(2 * found.counts, found.kept, found.places, found.nbytes, found.whole)
    assert order.brought(cut, 100.0, once=24.0)[0] == 30 + 60 * order.brought(found, 100.0)[1][-1], "those that were not kept go on as the last ones did"


def test_who_is_done_with_a_tile_takes_the_next_one():
    """A tile of three loads and four of one: alone, the two CTAs take turns to draw; but the second one has done three when the first has done its own."""
    places = np.arange(7)
    alone = order.Loads(np.array([4, 3]), np.array([4, 3]), places, np.full(7, 10.0), np.full(7, 10.0), np.array([0, 0, 0, 2, 1, 3, 4]))
    found = order.in_turn(alone)
    assert found.tiles is not None and found.tiles.tolist() == [0, 0, 0, 4, 1, 2, 3]
    assert found.kept.tolist() == [4, 3] and found.places.tolist() == [0, 1, 2, 6, 4, 3, 5]
    assert order.in_turn(loads_of("ab", "c")).places.tolist() == [97, 98, 99], "where nothing is drawn all is as it was"


def test_what_neighbours_ask_for_at_last():
    assert order.together_at_last(loads_of(*(range(start, start + 20) for start in (0, 0, 500)))) == pytest.approx(1 / 3)


def test_loads_of_all_ctas_are_those_of_the_kernel(launch):
    plan = planned(launch)
    every = order.follow(plan)
    assert len(every.counts) == 11 and every.nbytes.sum() == 48 * 40 * 2 * 128 * 64 * 2 and (every.kept == every.counts).all()
    part = order.follow(plan, most=11 * 30)
    assert (part.counts == every.counts).all() and (part.kept == 30).all(), "those after the first ones are counted"
    starts = np.cumsum(every.counts) - every.counts
    assert all((part.places[30 * cta:30 * cta + 30] == every.places[start:start + 30]).all() for cta, start in enumerate(starts.tolist()))
    assert order.follow(plan, np.array([6])).counts.tolist() == [every.counts[6]]


@pytest.mark.parametrize("m, n, k, more", [(128, 128, 256, {}), (300, 520, 200, {}), (300, 520, 200, {"cluster_m": 2}), (256, 264, 136, {"stream": 0, "cluster_n": 2})])
def test_loads_told_at_once_are_those_told_one_by_one(monkeypatch, m, n, k, more):
    plan = planned(launch_of(m, n, k, replace(SHARED, **more)))
    found = [order.follow(plan)]
    monkeypatch.setattr(order.Heard, "boxes_read", one_by_one)
    found.append(order.follow(plan))
    assert all((np.asarray(one) == np.asarray(other)).all() for one, other in zip(*(vars(each).values() for each in found), strict=True))


def one_by_one(self, gids, fields, starts):
    """In place of boxes_read: each box by the rows that it reads."""
    for gid, *start in zip(gids.tolist(), *(each.tolist() for each in starts)):
        self.box_read(gid, fields, global_rows(fields, start), 0, [])


def test_followed_loads_need_no_slots_and_no_barriers():
    """What a load is sent to, and what is computed for that alone, is left out; what decides where it reads from, and how often, is not."""
    text = """
    add.s32 %r1, %r2, 1;
    mul.lo.s32 %r3, %r1, 8192;
    cvt.u64.u32 %rd1, %r3;
    add.s32 %r4, %r5, 64;
    mbarrier.init.shared.b64 [%r3], 1;
    mbarrier.try_wait.parity.shared::cta.b64 complete, [%r6], %r1;
    @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%rd1], [%rd2, {%r4, %r7}], [%r3];
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd4], %r8, [%r6];
    cp.async.cg.shared.global [%r3], [%rd5], 16;
    add.s32 %r2, %r2, 1;
    add.s32 %r5, %r5, 1;
    setp.lt.s32 %p2, %r5, %r9;
    @%p2 bra $L__BB0_6;"""
    left = [line.strip() for line in skeleton.loading(text).splitlines() if line.strip()]
    assert left == ["add.s32 %r4, %r5, 64;",
                    "@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [0], [%rd2, {%r4, %r7}], [0];",
                    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [0], [%rd4], %r8, [0];",
                    "add.s32 %r5, %r5, 1;", "setp.lt.s32 %p2, %r5, %r9;", "@%p2 bra $L__BB0_6;"]


@pytest.mark.parametrize("loop, why", [("while (!flag[0]) ;", "loads nothing"), ("for (int n = 0; n < 5000 && !flag[0]; n++) flag[1] = n;", "waits for other warps"),
                                       ("for (int n = 0; n < 5000 && !flag[0]; n++)", "does not end")])
def test_a_loading_warp_that_waits_for_a_flag_cannot_run_alone(monkeypatch, loop, why):
    kernel = hl.RawModule(code="""extern "C" __global__ void flagged(volatile int* flag, const float* x) {
        __shared__ __align__(16) float here[32];
        __shared__ unsigned long long bar;
        unsigned to = (unsigned)__cvta_generic_to_shared(here), by = (unsigned)__cvta_generic_to_shared(&bar);
        if (threadIdx.x == 0) {
            LOOP
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];" :: "r"(to), "l"(x), "r"(by));
        }
    }""".replace("LOOP", loop), backend="emulator").get_function("flagged")
    arrays = np.zeros(4, np.int32), np.zeros(32, np.float32)
    plan, _kept = sample.planned(kernel, (4,), (32,), arrays)
    monkeypatch.setattr(order, "MOST_TURNS", 500)
    monkeypatch.setattr(order, "MOST_EACH", 100)
    with pytest.raises(order.NotAlone, match=why):
        order.follow(plan)


def test_requests_of_neighbours_become_one():
    told = Together({1: 100.0, 2: 300.0}, near={1: 0.0, 2: 300.0})
    assert told.merged({1: 1.0, 2: 3.0}, 3.0, 1.0) == pytest.approx(0.5) and told.merged({1: 1.0, 2: 3.0}, 3.0, 2.0) == pytest.approx(0.375)
    shared, asked = l2_and_memory.l2_share(H100, 132, 0.5), H100.number("l2_asked")
    assert shared == min(H100.number("l2_most"), asked / 0.5)
    assert l2_and_memory.l2_share(H100, 132, 1.0) == asked and l2_and_memory.l2_share(H100, 132) == H100.number("l2_bytes")


def test_a_tile_that_was_stored_when_the_sample_was_cut_is_no_larger_tile():
    """Four tiles of 1 KiB were stored, of which three are known to be done: of 16 KiB there are sixteen, not twelve."""
    products, store = [(T.WGMMA, 0, 4)] * 4, [(T.STORE, 0, 1024, 1)]

    class Seen:
        class trace:
            written = {0: [4096.0, 16384.0]}
        total, ctas, tiles = 1, [0], 0.0
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
    assert [chip.merged(replace(whole, cluster=2, wave=wave), {1: 1.0}, H100, 1.0) for wave in (far, sent)] == [pytest.approx(1 / H100.number("l2_merged_clusters")), 1]
    assert chip.merged(replace(whole, wave=far), {1: 1.0}, H100, 1.0) == pytest.approx(1 / others)
    pairs = Together({1: 4.0}, near={1: 0.0}, paired={1: 2.0})
    once = 0.5 / H100.number("l2_merged_clusters")
    assert chip.merged(replace(whole, cluster=2, wave=pairs), {1: 1.0}, H100, 1.0) == pytest.approx(once), "what both SMs of a TPC ask for is asked for once"
    apart = replace(found, wave=Together({1: 1.0}, near={1: 0.0}, brought=1.0, later=1.0, same=0.5))
    assert [chip.merged(apart, {1: 1.0}, H100, rounds, early=0.0) for rounds in (1.0, chip.SCATTERED)] == [1, 1]
    for together, name in ((1.0, "l2_merged_along_k"), (0.0, "l2_merged_apart")):
        assert chip.merged(apart, {1: 1.0}, H100, 2 * chip.SCATTERED, together, 0.0) == pytest.approx(0.5 + 0.5 / H100.number(name))
    quarter = replace(apart, wave=replace(apart.wave, later=0.25))
    assert chip.merged(quarter, {1: 1.0}, H100, 1e9, early=0.0) == pytest.approx(0.75 + 0.25 / H100.number("l2_merged_along_k"))
    assert chip.merged(apart, {1: 1.0}, H100, 1.0, early=0.8) == pytest.approx(1 - 0.8 * 0.5 * (1 - 1 / H100.number("l2_merged_begun"))), "half of it others ask for, too"
    assert chip.merged(replace(apart, cluster=2), {1: 1.0}, H100, 100.0, early=0.0) == 1
    half = replace(apart, cluster=2, wave=replace(apart.wave, sent={1: 0.5}))
    assert chip.merged(half, {1: 1.0}, H200, 1.0) == pytest.approx(0.5 + 0.5 * H200.number("l2_asked") / H200.number("l2_sent")), "what goes to several takes longer"
    assert chip.merged(replace(found, wave=None), {1: 1.0}, H100, 1.0) == chip.merged(replace(found, wave=Together(new=True)), {1: 1.0}, H100, 1.0) == 0


def test_sums_that_are_handed_over_take_their_time(found):
    with_sums, without = (chip.simulate(found, H100.having(sums_wait=wait)).cycles for wait in (5000, 0))
    assert with_sums == pytest.approx(without + 5000, rel=0.002)


def test_what_is_sent_and_added_is_stored_and_loaded_as_often_as_warps_do(launch, found):
    """A tile's sums, 128 x 128 floats, are sent in whole sectors and read past the L1, though lanes of a warp had come apart when they did so."""
    steps = [(step[1], step[-1]) for actor in programs(found, H100) if actor.first == 4 for step in actor.steps if step[0] == COMPUTE]
    sent = sum(cost.stored * warps for cost, warps in steps)
    read = sum(cost.loaded * warps for cost, warps in steps) * H100.number("l1_missed")
    assert sent == pytest.approx(64 * 128 * 4, rel=0.02) and read == pytest.approx(64 * 128 * 4, rel=0.05)


def test_first_loads_come_from_memory_as_all_ctas_ask_for_them(found):
    """CTAs that begin at different places ask for what nobody else does: memory brings it, before any has what it asked for first."""
    wave = found.wave.on(H100.number("l2_size") / 2)
    actors = programs(found, H100)
    part = chip.Part(found, H100, actors, 11, 1, 1.0, 4.0)
    at_once = sum(asked_at_once(actor) for actor in actors)
    assert STEP < at_once < 8 * STEP and part.begun(wave, [1.0, *[0.5] * 7]) > 0.5 == part.begun(wave, [0.5] * 8)
    assert part.begun(replace(wave, asked={1: 4.0, 2: 4.0}, different={1: 1.0, 2: 2.0}), []) == 3 / 8
    part = replace(part, sample=replace(found, wave=wave))
    assert part.memory(part.traffic(), wave.steps).first == part.begun(wave, wave.steps) > 1.5 * wave.steps[-1]

    def there(first, l2=50.0):
        sm_, memory = sm_units.Multiprocessor(), sm.Memory(l2, 1.0, 1.0, 20.0, missed=0.1, first=first, cold=1e9)
        sm_.at_once, sm_.ready = 200_000.0, 0.0
        return sm.Simulation(H100, memory, {}, 8, 4, lambda index: None)._fetch(sm_, 0.0, 40_000, "tma")
    assert there(0.9) > there(0.1) > there(0.0) and there(0.1, l2=0.1) > 400_000 > there(0.1), "the L2 serves them, too"


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
