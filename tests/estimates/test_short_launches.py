# SPDX-License-Identifier: Apache-2.0
"""Launches of attention in which most tiles are the first one of their CTA."""
import math
from dataclasses import replace

import numpy as np
import pytest

from hopperlab.estimates import boards, chip, estimating, programs, sample, sm
from hopperlab.estimates.runner import Runner
from hopperlab.estimates.sm_units import SEEN, Multiprocessor
from hopperlab.measure.launches import attention, attention_fp8

H200 = boards.board("h200")


def bf16(lengths, heads, d, causal=False):
    """Over sequences of these lengths, in the configuration that is chosen."""
    starts = np.cumsum([0, *lengths]).astype(np.int32)
    q, k, v, o = (np.zeros((int(starts[-1]), heads, d), np.uint16) for _ in range(4))
    return attention.forward(q, k, v, o, np.zeros((heads, int(starts[-1])), np.float32), starts, starts, causal, backend="emulator")


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
    (e4m3, [256], 32, 256, False, 17.9), (e4m3, [1507] * 2, 8, 64, False, 26.3), (bf16, [512] * 8, 4, 256, False, 23.8), (bf16, [1112] * 2, 8, 128, True, 23.9)])
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
    """Twelve tiles of one block are drawn here, and first ones have four to nine."""
    found = sampled(bf16([1112] * 2, 8, 128, True))
    assert found.seen[0] == found.lengths.first.max() > 3 * found.lengths.drawn.max()


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


def test_warpgroups_without_turns_are_alike_in_their_first_tile():
    """With turns one multiplies while another does not."""
    without, turns = (programs.programs(sampled(e4m3([256] * 2, 8, d)), H200) for d in (128, 64))
    assert {actor.beside for actor in without if actor.multiplies} == {1} and {actor.beside for actor in turns} == {0} < {actor.turns for actor in turns}
    runner = Runner(next(actor for actor in without if actor.multiplies), Multiprocessor(), 0, 2300.0)
    assert runner.alike(80_000.0) == 1.0
    runner.at = 42_300.0
    assert runner.alike(80_000.0) == pytest.approx(math.exp(-0.5))
    runner.tiles = 1
    assert runner.alike(80_000.0) == 0.0


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
    launch = bf16(lengths, heads, 64, True)
    found = sampled(launch)
    assert found.lengths.differ and len(found.seen) == tiles == max(found.trace.tiles.values()) + 1
