# SPDX-License-Identifier: Apache-2.0
"""Launches of attention in which most tiles are the first one of their CTA."""
import math
from dataclasses import replace

import numpy as np
import pytest

from hopperlab.estimates import boards, chip, draws, estimating, programs, sample, sm, tile_times, trace
from hopperlab.estimates.runner import APART, Runner
from hopperlab.estimates.sm_units import SEEN, Multiprocessor
from hopperlab.measure.launches import attention, attention_fp8

H200 = boards.board("h200")


def bf16(lengths, heads, d, causal=False, choice=None):
    """Over sequences of these lengths, in the configuration that is chosen unless one is given."""
    starts = np.cumsum([0, *lengths]).astype(np.int32)
    q, k, v, o = (np.zeros((int(starts[-1]), heads, d), np.uint16) for _ in range(4))
    return attention.forward(q, k, v, o, np.zeros((heads, int(starts[-1])), np.float32), starts, starts, causal, choice=choice, backend="emulator")


def e4m3(lengths, heads, d, causal=False):
    """The same."""
    starts, ones = np.cumsum([0, *lengths]).astype(np.int32), np.ones(heads, np.float32)
    q, k, v = (np.zeros((int(starts[-1]), heads, d), np.uint8) for _ in range(3))
    o, lse = np.zeros(q.shape, np.uint16), np.zeros((heads, int(starts[-1])), np.float32)
    return attention_fp8.forward_fp8(q, k, v, o, lse, ones, ones, ones, starts, starts, causal, backend="emulator")


def sampled(launch):
    return estimating.sampled(sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)[0], "attention")


@pytest.mark.parametrize("made, lengths, heads, d, causal, us", [
    (e4m3, [256], 16, 128, True, 12.96), (e4m3, [512], 32, 128, True, 17.9), (e4m3, [256] * 2, 8, 128, False, 12.4), (e4m3, [1024] * 2, 4, 128, False, 21.5),
    (e4m3, [256], 32, 256, False, 17.9), (e4m3, [1507] * 2, 8, 64, False, 26.3), (bf16, [512] * 8, 4, 256, False, 23.8), (bf16, [1112] * 2, 8, 128, True, 23.9),
    (e4m3, [512] * 8, 8, 64, True, 21.3), (e4m3, [1551] * 4, 4, 64, True, 26.1), (e4m3, [256] * 4, 32, 64, False, 18.9), (e4m3, [1044] * 4, 8, 128, False, 47.8),
    (bf16, [1024] * 2, 12, 64, False, 28.2), (e4m3, [256], 8, 256, True, 16.0), (bf16, [2037], 8, 64, True, 27.2), (bf16, [1241, 1253], 4, 64, True, 17.4)])
def test_short_launches_take_what_was_measured(made, lengths, heads, d, causal, us):
    """They came out 10 to 25 per cent too fast before what this module tests was known."""
    assert estimating.estimate_launch(made(lengths, heads, d, causal), board="h200").us == pytest.approx(us, rel=0.1)


def test_ctas_that_all_run_at_once_begin_together_on_sms_of_their_own(monkeypatch):
    """One after the other only the first would find nothing in the L2, and its warpgroups in step."""
    begun, start = [], sm.Simulation.start

    def listened(self, actors, copy, slot, on, at, cluster):
        begun.append((at, on))
        start(self, actors, copy, slot, on, at, cluster)
    monkeypatch.setattr(sm.Simulation, "start", listened)
    found = sampled(e4m3([512], 32, 128, True))
    assert found.total == 128 and len(found.ctas) > 1 and not len(found.lengths.drawn)
    chip._run(found, programs.programs(found, H200), H200, chip.Memory(50.0, 25.0, 18.0, 20.0), 1)
    assert {at for at, _ in begun} == {H200.number("start_cycles")} and len({id(on) for _, on in begun}) == len(found.ctas)


def test_where_all_drawn_tiles_are_short_the_longest_first_one_is_sampled():
    """Twelve tiles of one block are drawn here, and first ones have four to nine: but of the nine one warpgroup alone has rows, which takes less than two with eight."""
    found = sampled(bf16([1064] * 2, 8, 128, True))
    lengths = found.lengths
    longest, next_ones = sorted(set(lengths.first.tolist()), reverse=True)[:2]
    assert found.seen[0] == lengths.most == next_ones > 3 * lengths.drawn.max()
    assert len(set(found.trace.tiles.values())) == 1, "all warpgroups have written as many tiles"
    pace, span = draws.Pace(0.0, 100.0), draws.makespan
    assert span(lengths, 132, 1, pace, 0.0) == max(100 * next_ones, span(replace(lengths, first=np.minimum(lengths.first, next_ones)), 132, 1, pace, 0.0)) < 100 * longest
    whole = sampled(bf16([1112] * 2, 8, 128, True))
    assert (whole.lengths.most, whole.seen[0]) == (math.inf, whole.lengths.first.max()), "here 24 of its rows are the other one's, two of whose warps have none"


@pytest.mark.parametrize("lengths, heads, d, short, most", [([256] * 4, 32, 64, 128, 2.0), ([1044] * 4, 8, 128, 32, 2.65), ([512] * 4, 16, 128, 0, 0.0)])
def test_of_few_tiles_it_matters_which_have_fewer_rows(lengths, heads, d, short, most):
    """Ends of sequences are drawn first: 64 of 192 rows (one warpgroup of three, 0.73 of the time of three), and 20 of 128 (one of two, 0.65). Of three blocks two are
    loaded at once, so that some CTA of the four that begin with 192 rows draws one more; of nine blocks it is those that are done sooner."""
    launch = e4m3(lengths, heads, d)
    plan = sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)[0]
    known = draws.lengths(plan)
    found = sample.of_like(plan, known)
    assert sample.ragged(plan, len(known.all)) == (short, pytest.approx(most))
    assert found.most == pytest.approx(most) and len(set(found.trace.tiles.values())) == 1, "tiles with all rows stand for all"
    assert found.tiles == pytest.approx(len(known.all) / 132) and all(132 + number >= short for number in known.even(short))


def test_when_a_cta_draws_is_before_its_tile_is_done():
    """As often as it has tiles, and once more; two tiles of two blocks are under way at once, so that their loads are when the one before has been read."""
    found = sampled(e4m3([512] * 8, 8, 64, True))
    assert sum(entry[0] == trace.DRAW for warp in found.trace.warps for entry in warp) == len(found.seen)
    seen = []
    def keep(sim, pace, ahead=tile_times.ahead):
        seen.append((sim, ahead(sim, pace)))
        return seen[-1][1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tile_times, "ahead", keep)
        chip.simulate(found, H200)
    sim, pace = seen[-1]
    (key, drew), marks = next(iter(sim.draws.items())), max(sim.tile_marks.values(), key=len)
    assert key == (0, 0) and len(drew) == len(found.seen) == len(marks) + 1 and all(before < mark for before, mark in zip(drew, marks, strict=False))
    assert 0 < pace.early < marks[0] and 0 < pace.sooner < pace.later


def test_how_often_warps_meet_counts_from_the_first_product_on():
    """Before it they only waited."""
    on = Multiprocessor()
    scheduler = on.parts.of(0, 4)[0][0]
    on.lately.move(5000.0)
    scheduler.used(500.0, "producer")
    on.multiply(6000.0, 100.0, "consumer")
    assert (on.lately.seen, scheduler.all_of_them) == (0.0, 0.0)
    on.multiply(7000.0, 100.0, "another")
    assert on.lately.seen == pytest.approx(SEEN * (1 - math.exp(-1000 / SEEN))) and on.products.average("consumer") > 0


def test_warpgroups_are_alike_at_first():
    """With turns the less, the more of the time one multiplies while another does not."""
    without, turns = (next(actor for actor in programs.programs(sampled(e4m3([256] * 2, 8, d)), H200) if actor.multiplies) for d in (128, 64))
    assert (without.beside, without.turns, turns.beside, turns.turns) == (1, False, 2, True)
    runner, other = (Runner(actor, Multiprocessor(), 0, 2300.0) for actor in (without, turns))
    assert runner.alike(80_000.0) == 1.0
    runner.at = 42_300.0
    assert runner.alike(80_000.0) == pytest.approx(math.exp(-0.5))
    on = other.sm
    on.lately.begin(2300.0)
    on.lately.move(4300.0)
    on.products.used(0.2 * on.lately.seen, "one")
    assert other.alike(80_000.0) == pytest.approx(2 * (1 - APART * 0.2)) and on.products.in_use() == pytest.approx(0.2)
    on.products.used(0.4 * on.lately.seen, "another")
    assert other.alike(80_000.0) == 0.0


@pytest.mark.parametrize("first", [1.0, 0.25])
def test_what_all_sms_ask_for_first_keeps_memory_busy_for_the_square_root_of_what_differs(first):
    """Marks of the clock in 113 launches: until a consumer has q."""
    memory = chip.Memory(50.0, 25.0, 18.0, 20.0, first=first, stream=32.0)
    simulation, on = sm.Simulation(H200, memory, {}, 4, 4, {}.__getitem__), Multiprocessor()
    on.ready, on.at_once = 100.0, 65536.0
    last = [simulation._begun(on, 100.0, 32768.0, "tma") for _ in range(2)][1]
    assert last == pytest.approx(100 + 65536 * math.sqrt(first) / 20 + H200.number("tma_latency_memory"))


def test_full_attention_asks_for_the_same_first_as_causal_attention_does():
    """Its tiles are all as long as each other, so that nothing is known of their lengths."""
    found = sampled(bf16([512] * 8, 4, 256))
    found = replace(found, wave=found.wave.on(H200.number("l2_size") / 2))
    part = chip.Part(found, H200, [], 128, 1, 1.0, 1.0)
    assert found.whole and found.lengths is None and 0 < found.wave.first == part.memory(part.traffic()).first < 1


def test_lanes_of_few_sms_store_no_faster_than_those_of_all():
    """What an SM's lanes store in parts of sectors is bound by the SM (marks of the clock: as long with 32 CTAs as with 128)."""
    found = sampled(e4m3([256] * 2, 8, 128))
    part = chip.Part(found, H200, [], 32, 1, 1.0, 1.0)
    assert part.memory(part.traffic()).lane_store == H200.number("lane_store_bytes")


@pytest.mark.parametrize("lengths, heads, tiles", [([512] * 8, 8, 6), ([512] * 32, 32, 11), ([2048] * 8, 32, 7)])
def test_more_tiles_are_sampled_only_where_a_cta_draws_as_many(lengths, heads, tiles):
    """A first one and five, or up to thirteen where they are short: causal attention, two tiles a CTA and some twenty."""
    launch = bf16(lengths, heads, 64, True, attention.SHORT[64]["64 queries, three an SM"].choice if lengths[0] < 2048 else None)
    found = sampled(launch)
    assert found.lengths.differ and len(found.seen) == tiles == max(found.trace.tiles.values()) + 1


def test_ctas_that_share_an_sm_are_sampled_together():
    """Every 132nd is on the same SM, where an SM holds two and all run at once."""
    for ctas in (256, 137):
        some = sample.beside_each_other(np.ones(ctas), 2).tolist()
        assert len(some) == len(set(some)) >= 6 and max(some) < ctas
        assert all(number + 132 in some for number in some if number + 132 < ctas)
    assert (sample.beside_each_other(np.ones(132), 2) == sample.beside_each_other(np.ones(132), 1)).all()
    assert len(sample.beside_each_other(np.ones(300), 2)) == sample.MIXED
    found = sampled(bf16([2037], 8, 64, True))
    assert found.resident == 2 and found.ctas == sample.beside_each_other(np.ones(256), 2).tolist() and found.seen == tuple(found.lengths.first[found.ctas])
    _, sms, ends = chip._run(found, programs.programs(found, H200), H200, sm.Memory(60.0, 40.0, 40.0, 20.0), 2)
    assert len(sms) == len({number % 132 for number in found.ctas}) == 6 and len(ends) == len(found.ctas)


def test_who_shares_an_sm_takes_longer_by_as_much_as_the_other_has():
    lengths = np.random.default_rng(3).integers(20, 120, 250).astype(float)
    beside = np.array([min(length, lengths[(number + 132) % 264]) if (number + 132) % 264 < 250 else 0.0 for number, length in enumerate(lengths)])
    times = 500 + 100 * lengths + 40 * beside
    some = sample.beside_each_other(lengths, 2)
    assert tile_times.side_by_side(lengths, dict(zip(some.tolist(), times[some])), 132) == pytest.approx(times.max())
    alone = 500 + 100 * lengths - 5 * beside                                   # nobody is faster for it
    found = tile_times.side_by_side(lengths, dict(zip(some.tolist(), alone[some])), 132)
    assert found == pytest.approx(500 + 100 * lengths.max(), rel=0.05)


def test_a_first_tile_of_a_part_of_the_rows_stands_for_no_others():
    """Sixteen tiles of 1930 rows, of whose last ten one warpgroup has all, and three of 373; longer launches take longer."""
    found = sampled(bf16([1930, 373], 8, 128, False, attention.SHORT[128]["128 queries"].choice))
    assert found.lengths.empty and found.lengths.most == math.inf and found.seen[0] == found.lengths.first.max()
    assert found.ctas[0] >= 8 and len(set(found.trace.tiles.values())) == 1, "the first CTA of each head has the last tile"
    assert found.lengths.begun == pytest.approx(128 / 132)
    one, both = (chip.simulate(sampled(e4m3(lengths, 8, 128, True)), H200).cycles for lengths in ([1662], [815, 1662]))
    assert both > 0.9 * one, "a short sequence beside it takes nothing away"
