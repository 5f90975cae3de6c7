# SPDX-License-Identifier: Apache-2.0
"""Tiles that CTAs draw from a counter: their lengths are known before one is sampled, and dealt out as a list to who is free first."""
from dataclasses import replace

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.estimates import boards, draws, judging, recorded, sample, skeleton
from hopperlab.estimates.estimating import estimate_launch
from hopperlab.estimates.l2_and_memory import first_tiles
from hopperlab.estimates.together import STEP
from hopperlab.measure.launches import attention

DRAWING = r"""
extern "C" __global__ void drawing(int* counter, float* out, const int* rounds, int tiles) {
    for (int tile = blockIdx.x; tile < tiles; tile = gridDim.x + atomicAdd(counter, 1)) {
        float y = 1.0f;
        #pragma unroll 1
        for (int i = 0; i < rounds[tile]; i++) y = y * 1.5f + 1.0f;
        out[tile] = y;
    }
}"""
TILES, CTAS = 40, 7


def planned(launch):
    return sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)


def drawing(rounds, lanes=1, source=DRAWING):
    kernel = hl.RawModule(code=source, backend="emulator").get_function("drawing")
    counter, out = np.zeros(1, np.int32), np.zeros(TILES, np.float32)
    launch, kept = sample.planned(kernel, (CTAS,), (lanes,), (counter, out, rounds, np.int32(TILES)))
    return launch, counter, out, kept


def forward(causal, length=4096, heads=16, d=128, **choice):
    q, k, v, o = (np.zeros((length, heads, d), np.uint16) for _ in range(4))
    starts = np.array([0, length], np.int32)
    return attention.forward(q, k, v, o, np.zeros((heads, length), np.float32), starts, starts, causal, choice=attention.Forward(**choice), backend="emulator")


def test_lengths_are_those_of_the_loops():
    rounds = np.random.default_rng(3).integers(1, 60, TILES).astype(np.int32)
    launch, counter, out, _kept = drawing(rounds)
    found = draws.lengths(launch)
    assert (len(found.first), len(found.drawn)) == (CTAS, TILES - CTAS) and found.differ
    assert np.ptp(found.first - rounds[:CTAS]) == 0 == np.ptp(found.drawn - rounds[CTAS:]), "a block per round, and as many more for each tile"
    assert counter[0] == 0 and not out.any(), "nothing is left of it"


def test_numbers_that_the_lanes_of_a_warp_share_are_no_tiles():
    launch, *_kept = drawing(np.arange(1, TILES + 1, dtype=np.int32), lanes=32)
    found = draws.lengths(launch)
    assert found is None


def test_a_counter_that_is_read_is_no_counter_of_tiles():
    meeting = DRAWING.replace("float y = 1.0f;", "float y = 1.0f; while (((volatile int*)counter)[0] < 0) {}")
    launch, *_kept = drawing(np.arange(1, TILES + 1, dtype=np.int32), source=meeting)
    assert draws.lengths(launch) is None


def test_a_kernel_without_a_counter_has_no_lengths():
    plan, _kept = planned(forward(True, 1024, 2, dealt=1))
    assert sample.drawn(plan) is None


def test_the_skeleton_keeps_the_control_flow_alone():
    text = """
    @%p1 bra $L__BB0_6;
    mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 complete, [%r1], %r2;
    @%p2 cp.async.bulk.commit_group;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1,
    %f2}, %rd1, %rd2, p, 1, 1, 0, 0;
    atom.global.add.u32 %r3, [%rd4], 1;
    st.shared.u32 [%r5], %r3;"""
    left = [line.strip() for line in skeleton.control_flow(text).splitlines() if line.strip()]
    assert left == ["@%p1 bra $L__BB0_6;", "setp.eq.u32 complete, 0, 0;", "atom.global.add.u32 %r3, [%rd4], 1;"]


def test_the_next_tile_goes_to_who_is_free_first():
    known = draws.Lengths(np.array([5.0, 1.0]), np.array([1.0, 1.0, 1.0, 1.0, 4.0]))
    assert draws.makespan(known, 2, 1, draws.Pace(0.0, 1.0), 0.0) == 9, "one CTA draws five short tiles under the long one, then the last"
    assert draws.makespan(replace(known, drawn=np.array([4.0, 1.0, 1.0, 1.0, 1.0])), 2, 1, draws.Pace(0.0, 1.0), 0.0) == 7, "longest first ends together"
    assert draws.makespan(known, 1, 2, draws.Pace(2.0, 1.0), 0.0) == 16, "two more a tile; two CTAs share an SM"


def test_the_longest_tiles_may_have_less_to_do():
    """The last tile of a sequence has no rows for some warpgroups: what was seen of it stands for all of them."""
    assert draws.fitted([2, 3, 4, 5], [5, 7, 9, 11], 5) == pytest.approx((1, 2, 0)), "as long as its length says"
    assert draws.fitted([2, 3, 4, 5], [5, 7, 9, 8], 5) == pytest.approx((1, 2, 3))
    assert draws.fitted([2, 3, 4, 5], [5, 7, 9, 8], 6)[2] == 0, "none of the longest was seen"
    assert draws.fitted([5, 5], [8, 8], 5)[2] == 0, "nothing to compare it with"
    known = draws.Lengths(np.array([5.0, 1.0]), np.array([1.0, 1.0, 1.0, 1.0, 4.0]))
    assert draws.makespan(known, 1, 1, draws.Pace(0.0, 1.0, 2.0), 0.0) == 14 - 2 * 2, "the longest first one and the longest drawn one"
    known = draws.Lengths(np.array([3.0, 3.0]), known.drawn)
    assert draws.makespan(known, 1, 1, draws.Pace(0.0, 1.0, 2.0), 0.0) == 14 - 2, "no first one is as long as that"


def test_the_longest_is_sampled_unless_it_is_far_longer():
    known = draws.Lengths(np.full(4, 10.0), np.arange(10.0, 30.0))
    assert known.drawn[known.sample(5)[1]].tolist() == [19, 13, 23, 29, 16], "it would move what the one behind it takes; how long the fifth takes is not looked at"
    far = draws.Lengths(known.first, np.append(known.drawn, 300.0))
    assert max(far.drawn[far.sample(5)[1]]) < 30


def test_first_tiles_load_what_nobody_has_brought():
    board = boards.board("h200")
    known = draws.Lengths(np.full(132, 8.0), np.full(132 * 3, 8.0))
    shares = first_tiles(board, known, [8.0, 8.0], 2 << 20, 0.3, 0.9)
    first = round(board.number("first_bytes") / STEP)
    assert shares[:first] == [0.9] * first and len(shares) == first + 1
    assert sum(shares[:first]) * STEP + shares[-1] * ((2 << 20) - first * STEP) == pytest.approx(0.3 * (2 << 20)), "as much in all"
    assert len(first_tiles(board, known, [2.0], 2 << 20, 0.3, 0.9)) == 5, "no more than the sampled CTA's own first tile, a sixteenth"
    assert not first_tiles(board, None, [], 1e6, 0.3, 0.9) and not first_tiles(board, draws.Lengths(known.first, known.drawn[:0]), [8.0], 1e6, 0.3, 0.9)


def test_tiles_that_hold_nothing_take_as_long_as_a_draw(monkeypatch):
    monkeypatch.setattr(draws, "FIRST_EMPTY", 10)
    known = draws.Lengths(np.array([30.0, 10.0]), np.array([6.0, 7.0, 20.0, 6.0]), empty=7.5)
    assert draws.makespan(known, 2, 1, draws.Pace(100.0, 1.0, empty=5.0), 0.0) == 15 + 2 * 5 + 120, "three, then the long one, under which the rest is done"
    assert draws.makespan(replace(known, empty=0.0), 2, 1, draws.Pace(100.0, 1.0, empty=5.0), 0.0) == 130 + 107 + 106


def test_ctas_that_follow_each_other_begin_later():
    known = draws.Lengths(np.array([3.0, 3.0, 3.0]), np.array([]))
    assert draws.makespan(known, 1, 1, draws.Pace(0.0, 1.0), 10.0) == 3 + 2 * (3 + 10)


def test_a_line_says_of_none_that_was_seen_that_it_takes_nothing():
    assert draws.line([1, 2, 3], [5, 7, 9]) == pytest.approx((3, 2))
    assert draws.line([1, 2], [1, 4]) == pytest.approx((-2, 3)), "it may begin below zero"
    assert draws.line([1, 2, 6], [0.5, 0.6, 50]) == pytest.approx((0, (0.5 + 1.2 + 300) / 41)), "but not at what was seen"
    assert draws.line([1, 2], [4, 3]) == pytest.approx((3.5, 0)), "longer ones are of fewer warpgroups"


def test_where_those_seen_are_alike_far_shorter_tiles_take_less():
    assert draws.fitted([163.0] * 3, [100.0, 101.0, 99.0], 163.0, 13.0) == (0.0, pytest.approx(100 / 163), 0.0)
    assert draws.fitted([163.0] * 3, [100.0, 101.0, 99.0], 163.0, 150.0) == (100.0, 0.0, 0.0), "all are alike"
    assert draws.fitted([20.0, 163.0], [20.0, 163.0], 163.0, 13.0)[1] == pytest.approx(1.0), "a line says more"


@pytest.mark.parametrize("ctas, count", [(132, 900), (132, 131), (5, 61), (4, 0)])
def test_numbers_are_one_of_each_turn(ctas, count):
    numbers = draws.Lengths(np.ones(ctas), np.ones(count)).even()
    assert [number // ctas for number in numbers] == list(range(-(-count // ctas))) and all(number < count for number in numbers)
    if count > 5 * ctas:
        assert len({number % ctas for number in numbers}) > 3, "not the same place each time"


@pytest.mark.thorough           # lengths of tiles and who draws the next are above; tests/estimates/test_accuracy.py estimates whole launches
def test_tiles_that_hold_nothing_are_not_sampled_where_they_are_too_many():
    known = draws.Lengths(np.array([13.0, 40.0, 80.0]), np.array([6.0, 7.0, 6.0, 30.0, 20.0, 6.0, 7.0, 40.0]))
    first, numbers = known.sample(5)
    assert known.first[first] == 13 and min(known.drawn[numbers]) == 6
    first, numbers = known.sample(5, 1.25)
    assert known.first[first] == 40 and set(known.drawn[numbers]) == {20.0, 30.0, 40.0}, "of those that hold something"
    assert draws.Lengths(np.full(3, 12.0), known.drawn).sample(5, 1.25) == (0, numbers), "all first ones may be such"


AT_ONCE = attention.Forward(q_slots=2, group=19)
TWO_AN_SM = attention.Forward(consumers=1, turns=0, q_slots=2, group=1, per_sm=2, blocks=264)


@pytest.mark.parametrize("lengths, heads, d, choice, measured", [
    ([1460, 1731, 1628, 853, 2228, 966, 846, 821, 3331], 4, 128, AT_ONCE, 74.7),
    ([2645, 2671, 1080, 3445, 2451, 1734], 4, 128, AT_ONCE, 92.6), ([1707, 974], 8, 64, TWO_AN_SM, 24.0),
    ([369, 1984, 450, 1475, 1427, 3296, 1451], 16, 128, AT_ONCE, 187.5)])
def test_sequences_of_any_lengths_have_an_estimate(lengths, heads, d, choice, measured):
    """Shorter sequences have tiles that hold nothing. Measured on an H200 (benchmarks/drawn/sequences/h200_2026112971.json, the last one 2026113006)."""
    starts = np.cumsum([0, *lengths]).astype(np.int32)
    arrays = [np.zeros((int(starts[-1]), heads, d), np.uint16) for _ in range(4)]
    launch = attention.forward(*arrays, np.zeros((heads, int(starts[-1])), np.float32), starts, starts, True, choice=choice, backend="emulator")
    assert estimate_launch(launch, board="h200").us == pytest.approx(measured, rel=0.13)


def test_a_causal_mask_takes_half_the_time_and_a_little_more():
    """Of 32 tiles a head, 16.5 are seen on average; the first tiles drawn are the longest, the last ones the shortest."""
    causal, full = (estimate_launch(forward(masked)).us for masked in (True, False))
    assert 0.5 < causal / full < 0.65


def test_products_of_both_orders_of_b_are_made():
    case = next(case for case in recorded.cases(("products",)) if "B_MN=1" in case.name and case.record.shape[0] <= 64)
    launch = case.make()
    assert "-DB_MN=1" in launch.kernel.module.options and judging.judge(case, boards.board("h200")).estimated > 0


def test_serialised_products_have_no_estimate():
    case = next(case for case in recorded.cases(("roles",)) if "ROW_BLOCKS=3" in case.name and "PRODUCER_REGISTERS=0" in case.name)
    with pytest.warns(hl.PtxasWarning), pytest.raises(hl.LaunchError, match="C7511"):
        judging.judge(case, boards.board("h200"))


@pytest.mark.parametrize("first, drawn, differ", [
    ([36.0], [30.0, 31.0], False), ([36.0], [], False), ([66.0], [60.0, 61.0], False), ([36.0, 42.0], [30.0], True), ([36.0], [30.0, 36.0], True),
    ([36.0], [18.0], True), ([24.0], [42.0], True)])
def test_what_a_cta_runs_before_its_first_tile_makes_that_no_longer(first, drawn, differ):
    """Six blocks of attention's producer, where a block of keys takes six, too."""
    assert draws.Lengths(np.array(first), np.array(drawn)).differ == differ


def test_of_tiles_of_a_length_some_from_all_over_are_sampled():
    """A sequence's last tiles are drawn side by side, and have fewer rows than others of as many blocks."""
    drawn = np.concatenate([np.full(400, 30.0), np.full(200, 24.0)])
    numbers = draws.Lengths(np.full(8, 30.0), drawn).sample(13)[1]
    assert len(set(numbers)) > 10 and drawn[numbers[-2]] == 30 and {24.0, 30.0} == set(drawn[numbers])
    longest = [number for _, number in sorted(zip(draws.spread(13), numbers, strict=True)) if drawn[number] == 30]
    assert 0.3 < np.mean([number < 200 for number in longest]) < 0.7 and longest != sorted(longest), "longer ones are not those drawn later"


@pytest.mark.parametrize("count", [5, 8, 13])
def test_places_of_sampled_tiles_are_spread(count):
    places = draws.spread(count)
    assert len(places) == count and set(draws.SPREAD) <= set(places) and places[-2] == 1
    assert max(np.diff([0.0, *sorted(places)])) < 0.35


def test_who_draws_first_may_be_done_last():
    """A CTA draws its next tile before the last one is done: at half of the first one, then when the last one begins."""
    known, late = draws.Lengths(np.array([2.0, 3.0]), np.array([2.0, 1.0])), draws.Pace(0.0, 100.0)
    assert draws.makespan(known, 2, 1, late, 0.0) == 400, "one each"
    for ahead in ({"later": 200.0}, {"later": 500.0, "sooner": 0.0}, {"later": 500.0, "sooner": 50.0}):
        assert draws.makespan(known, 2, 1, replace(late, **ahead), 0.0) == 500, "both go to the CTA whose first tile is done first"
    assert draws.makespan(known, 2, 1, replace(late, early=150.0, later=100.0), 0.0) == 400, "it draws at 50, the other one at 150, and it again at 300"


def test_those_that_share_an_sm_go_faster_when_the_others_are_done():
    known, pace = draws.Lengths(np.array([4.0, 1.0, 2.0, 1.0]), np.array([])), draws.Pace(0.0, 100.0)
    assert draws.beside(known, 2, 2, pace, 1.0) == 400 == draws.makespan(known, 2, 2, pace, 0.0), "as if they were alone"
    assert draws.beside(known, 2, 2, pace, 0.5) == 300, "200 beside the third one, and half of the other 200"
    assert draws.beside(replace(known, drawn=np.array([3.0])), 2, 2, pace, 0.5) == 300, "the second one, done first, draws: 400 of work, 100 of them beside the fourth"
    assert draws.beside(replace(known, first=known.first[:3]), 1, 3, pace, 0.5) == 100 + 100 * 0.75 + 200 * 0.5, "of three the more of them are done, the faster"
    slower = replace(pace, slower=50.0, lost=100.0)
    assert draws.beside(replace(known, first=known.first[:1]), 1, 2, slower, 1.0) == pytest.approx(400 + 50 * (1 - np.exp(-4)))


def test_who_has_the_first_tile_sooner_is_up_to_chance():
    """Half of the first tiles are short, and as many tiles are drawn as there are short ones."""
    known = draws.Lengths(np.array([0.5] * 20 + [1.0] * 20), np.ones(20))
    assert draws.by_chance(known, 0.0, 0.0) == 1.5, "who is done first draws: those with short ones"
    assert draws.by_chance(known, 0.0, 0.05) == 1.5, "and a little more or less changes nothing"
    assert draws.by_chance(known, 1.0, 0.5) == 2.0, "of those that all draw at once some have long ones"
    assert 1.5 < draws.by_chance(known, 0.0, 0.13) < 2.0, "now and then one of them"


def test_first_tiles_that_hold_nothing_load_nothing():
    """Before its first tile a CTA runs blocks that count as that one's: 5 of 12."""
    known = draws.Lengths(np.array([12.0, 61.0, 12.0, 67.0]), np.array([7.0, 18.0, 24.0]), empty=8.75)
    assert known.begun == 0.5 and replace(known, first=np.array([30.0, 61.0])).begun == 1
    assert replace(known, empty=0.0).begun == 1, "nobody said that any holds nothing"


def test_long_first_tiles_take_more_and_short_ones_less_so():
    known, pace = draws.Lengths(np.array([2.0, 3.0]), np.array([])), draws.Pace(0.0, 100.0, slower=50.0, lost=100.0)
    assert draws.makespan(known, 2, 1, pace, 0.0) == pytest.approx(300 + 50 * (1 - np.exp(-3)))
    assert draws.makespan(replace(known, most=2.0), 2, 1, pace, 0.0) == pytest.approx(200 + 50 * (1 - np.exp(-2))), "who has no rows of it takes no longer than who has"
    assert known.below(1) == replace(known, most=2.0) and known.below(0) is None


def test_numbers_that_are_drawn_may_begin_later():
    known = draws.Lengths(np.ones(10), np.ones(25))
    assert known.even(14) == [number if number >= 4 else 4 + int(6 * 0.6180339887) for number in known.even(14)] and known.even(14)[1:] == known.even()[1:]
    assert 4 <= known.even(14)[0] < 10 and known.even(90) == known.even(), "there is none beyond all of them"
