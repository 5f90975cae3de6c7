# SPDX-License-Identifier: Apache-2.0
"""Launches of attention in which first tiles decide: which of them are sampled, how long they take, and what the chip does on average while they run."""

from types import SimpleNamespace

import numpy as np
import pytest

from hopperlab.estimates import boards, chip, cut, draws, estimating, l2_and_memory, sample, tile_times

from .test_short_launches import bf16, e4m3, sampled

H200 = boards.board("h200")


def estimated(launch):
    """Of a launch, on an H200."""
    return estimating.estimate_launch(launch, board="h200")


def test_the_longest_tiles_are_sampled_where_each_cta_has_one():
    """2597 rows are 21 tiles of four heads, of which the last has 37 rows, all of one warpgroup: it is over before the one of 20 blocks (timed: 53.7 and 54.4 us)."""
    first = np.repeat([25.0, 31.0, 37.0, 43.0], (60, 3, 4, 2))
    some = sample.beside_each_other(first, 1)
    assert len(set(some.tolist())) == sample.MIXED and sorted(first[some])[-8:] == [31.0] * 3 + [37.0] * 3 + [43.0] * 2
    found = sampled(e4m3([2597], 4, 256, True))
    longest = found.lengths.first.max()
    assert found.seen.count(longest) == sample.LONGEST and not len(found.lengths.drawn)
    assert estimated(e4m3([2597], 4, 256, True)).us == pytest.approx(54, rel=0.08)


def test_first_tiles_are_sampled_alone_where_few_follow():
    few, many = sampled(e4m3([568, 2083], 8, 256, True)), sampled(bf16([2048] * 8, 32, 64, True))
    assert many.firsts is None, "many follow"
    found, known = few.firsts, few.lengths
    assert found.whole and not len(found.lengths.drawn) and found.seen == tuple(known.first[found.ctas])
    held = np.unique(known.first[known.first > known.nothing])
    assert set(held[-sample.LONGEST:]) | {held[0]} <= set(found.seen), "the longest and the shortest one that hold something"
    assert 5 < tile_times.blocks_before(few, found) < 10, "a first tile counts some blocks that a drawn one has not"
    assert estimated(e4m3([568, 2083], 8, 256, True)).us == pytest.approx(46.4, rel=0.08), "timed"


def test_without_a_first_tile_that_holds_something_none_is_sampled():
    known = draws.Lengths(np.full(132, 13.0), np.array([6.0, 66.0]), empty=7.0)
    plan = sampled(e4m3([568, 2083], 8, 256, True)).plan
    assert known.nothing >= 13 and sample.of_first(plan, known) is None


def marks(*ends):
    """Of a warpgroup: when its tiles end."""
    return np.cumsum(ends).tolist()


def test_tiles_behind_one_of_some_warpgroups_say_nothing():
    """Of six tiles, the third has rows of one warpgroup alone: neither it nor the one behind it counts."""
    all_of_them, fewer = marks(5000, 3000, 2000, 2500, 3000, 4000), marks(5100, 3000, 4400, 3000, 4000)
    sim = SimpleNamespace(tile_marks={(0, 0, 4): all_of_them, (0, 0, 8): fewer})
    seen = (9.0, 3.0, 2.0, 3.0, 4.0, 5.0, 2.0)
    assert tile_times.of_all(sim, (0, 0, 4), all_of_them, seen) == [1, 4, 5]
    assert tile_times.of_all(sim, (0, 0, 4), all_of_them, (9.0, 3.0, 2.0, 3.0, 3.0, 3.0, 2.0)) == [], "of one length alone"
    sim.tile_marks[0, 0, 8] = marks(5100, 2900, 2000, 2500, 3000, 4000)
    assert tile_times.of_all(sim, (0, 0, 4), all_of_them, seen) == [1, 2, 3, 4, 5]


def test_the_last_tile_waits_for_no_next_one():
    """A tile of length 4 takes 4000 cycles until the next one's first product, and 3300 until it is stored where none follows."""
    ends = {(0, 0, 4): [5000.0, 8000.0]}
    sim = SimpleNamespace(tile_marks=ends, cta_ends={(0, 0): 11300.0})
    assert tile_times.turned(sim, SimpleNamespace(seen=(5.0, 3.0, 4.0)), 0.0, 1000.0) == pytest.approx(700)
    assert tile_times.turned(SimpleNamespace(tile_marks={}, cta_ends={}), SimpleNamespace(seen=(5.0, 3.0)), 0.0, 1000.0) == 0


def test_a_cta_that_held_nothing_has_a_first_tile_yet():
    """It waits for memory and its warpgroups are alike, as in a first tile, and not once more in the next one."""
    pace = draws.Pace(0.0, 100.0, empty=600.0, begins=((20.0, 9000.0), (30.0, 11000.0)), before=8.0)
    known = draws.Lengths(np.array([30.0, 13.0]), np.array([12.0, 12.0, 12.0]), empty=7.0)
    assert known.nothing == pytest.approx(12.0, abs=1.0)
    known = draws.Lengths(np.array([30.0, 11.0]), np.array([12.0, 12.0, 12.0]), empty=7.0)
    first, later, cold = draws.durations(known, pace)
    assert first == [11000.0, 600 + draws.FIRST_EMPTY + draws.BEGUN] and later == [1200.0] * 3
    assert cold == [pytest.approx(9000 - draws.BEGUN)] * 3
    spans = [draws.makespan(known, 132, 1, pace, 0.0, chance) for chance in range(draws.CHANCES)]
    assert len(set(spans)) == draws.CHANCES and np.mean(spans) == pytest.approx(first[1] + cold[0] + later[1], abs=3 * draws.LATE)


def test_shorter_first_tiles_than_those_sampled_take_less():
    pace = draws.Pace(0.0, 100.0, begins=((20.0, 9000.0), (30.0, 10000.0)))
    first, *_ = draws.durations(draws.Lengths(np.array([10.0, 25.0, 40.0]), np.array([5.0])), pace)
    assert first == [8000.0, 9500.0, 10000.0], "longer ones may have no rows for some warpgroups"


def test_a_line_may_begin_below_zero():
    """Lengths count what a tile runs before its first block."""
    first, step = draws.line([24, 42, 54, 79], [8200, 16600, 22200, 33400])
    assert first == pytest.approx(-2740, abs=100) and step == pytest.approx(458, abs=5)
    assert draws.line([24, 25, 40], [10, 100, 9000])[0] == 0, "but no tile takes less than nothing"


def test_sms_that_have_less_to_do_ask_for_less_power():
    """92 tiles on 132 SMs, of ten to 35 blocks: tensor cores are used by a third, not by as much as in the longest one (65.0 us, by marks at 1,730 MHz)."""
    found = estimated(bf16([2778, 74], 4, 256, True))
    assert 0.15 < found.tensor < 0.4 and 1720 < found.mhz < 1830
    assert found.us == pytest.approx(65, rel=0.09)


def test_tiles_that_end_at_different_times_are_stored_by_few_at_a_time():
    apart, together = sampled(e4m3([2256, 48, 464], 8, 256, True)), sampled(e4m3([512] * 8, 32, 256, True))
    few, most = (H200.number(name) for name in ("store_parts_few", "store_parts"))
    assert l2_and_memory.store_parts(apart.firsts, H200) == few
    assert few < l2_and_memory.store_parts(together, H200) <= most


def test_only_the_first_blocks_wait_for_all_others():
    """In a first tile of 35 blocks the first four do."""
    found = sampled(bf16([2778, 74], 4, 256, True))
    part = chip.Part(found, H200, [], 132, 1, cut.progress(found), 2.0)
    assert part.memory(chip.Traffic(4e8, 1e7, 2e7)).cold == H200.number("first_bytes")


def test_very_long_first_tiles_are_not_sampled_alone():
    """A hundred blocks of keys and more: what they wait for at first matters little, and emulating ten of them takes long."""
    known = draws.Lengths(np.array([120.0, 800.0]), np.array([60.0, 66.0]))
    assert sample.of_first(sampled(e4m3([568, 2083], 8, 256, True)).plan, known) is None
