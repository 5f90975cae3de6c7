# SPDX-License-Identifier: Apache-2.0
"""Who goes on together with whom, how many clusters fit, what the L2 gives at which clock, and what a later wave asks for again."""
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from hopperlab.estimates import boards, chip, draws, estimating, l2_and_memory, sample, sm, tile_times, trace, sm_units, wave
from hopperlab.estimates.programs import Actor, asked_at_once
from hopperlab.estimates.together import Together
from hopperlab.measure.launches import attention, gemm
from hopperlab.measure.launches.gemm_configurations import Final

H100 = boards.board("h100")
KEPT = []                    # arrays of launches that are planned


def planned(m, n, k, **more):
    choice = Final(**{"bm": 64, "bn": 128, "consumers": 1, "stages": 4, "cluster_m": 1, "cluster_n": 1, "group": 4, "stagger": 0, **more})
    launch = gemm.final(np.zeros((m, k), np.uint16), np.zeros((n, k), np.uint16), np.zeros((m, n), np.uint16), choice, backend="emulator")
    KEPT.append((launch, *sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)))
    return KEPT[-1][1]


def run_of(wgmma, cycles=1e6, mma=0.0):
    return chip.Run(cycles, chip.Busy(wgmma, mma, 0, 0, 0, 0, 0), chip.Traffic(0.0, 0.0, 0.0), 132, 1.0, 1.0)


def test_ctas_that_wait_drift_apart_but_for_those_that_wait_for_each_other():
    free, step = (SimpleNamespace(trace=SimpleNamespace(in_step=said)) for said in (False, True))
    held, apart = H100.number("l2_held"), H100.number("l2_apart")
    shares = [chip.in_time(run_of(busy), free, H100) for busy in (held, (held + apart) / 2, apart / 2)]
    assert shares == [1, pytest.approx(0.5), 0]
    assert chip.in_time(run_of(0.0, mma=held), free, H100) == 1 and chip.in_time(run_of(0.0), step, H100) == 1
    assert chip.in_time(run_of(0.0, 1e6 * H100.number("l2_adrift") / 4), free, H100) == pytest.approx(0.75), "it takes them some time"


def test_ctas_that_take_the_places_of_others_drift_from_wave_to_wave():
    waves = H100.number("l2_anew")
    shares = [chip.anew(count, H100) for count in (0.01 * waves, waves, 2 * waves, 100 * waves)]
    assert shares[0] == pytest.approx(1, abs=0.01) and shares == sorted(shares, reverse=True)
    assert shares[1] == pytest.approx(1 - np.exp(-1)) and shares[3] == pytest.approx(0.01)


@pytest.mark.parametrize("in_step", [0, 1])
def test_a_sample_says_whether_ctas_wait_for_each_other_at_each_tile(in_step):
    assert sample.run(planned(512, 512, 128, blocks=4, in_step=in_step)).trace.in_step == bool(in_step)


def test_what_goes_to_several_ctas_of_a_cluster_is_told_from_what_goes_to_one():
    """Two CTAs one above the other share B, and have rows of A of their own; of two side by side it is the other way round."""
    for up, across in ((2, 1), (1, 2)):
        told = wave.together(planned(512, 512, 256, cluster_m=up, cluster_n=across, blocks=8), 8)
        sent = [told.sent[address] / told.asked[address] for address in told.asked]
        assert sorted(sent) == [0, 1]
        near = [told.near[address] / told.asked[address] for address in told.asked]
        assert near[sent.index(across == 1)] > 0.5 > near[sent.index(across != 1)], "the columns are what the next cluster wants, too"


def test_the_l2_has_a_clock_of_its_own():
    slow, fast = (l2_and_memory.l2_share(H100, 132, 1.0, mhz) for mhz in (1500.0, 1800.0))
    assert slow / fast == pytest.approx(1.2) and l2_and_memory.l2_share(H100, 132, 1.0, H100.number("l2_mhz")) == pytest.approx(H100.number("l2_asked"))
    assert l2_and_memory.l2_share(H100, 132, 0.1, 1500.0) == H100.number("l2_most")


def test_of_an_array_that_is_walked_through_all_is_between():
    """Four waves walk through the columns of B beside the same rows of A: A is asked for again at once, B when all of it has come."""
    size = H100.number("l2_forgets")
    told = Together({1: 4.0, 2: 4.0}, {1: 1.0, 2: 1.0}, near={1: 0.0, 2: 4.0})
    assert told.period(2, size, size / 4) == pytest.approx(4) and told.period(1, size, size / 4) == 1
    loaded = {1: (8 * size, size / 2), 2: (8 * size, size)}            # in eight waves, a quarter of `size` of each in a wave
    assert chip.missed(loaded, 0.0, told, H100, 8.0) == pytest.approx(2.5 * size), "both once, and B again"
    assert chip.missed(loaded, 0.0, replace(told, near={}), H100, 8.0) == pytest.approx(1.5 * size), "half of `size` a wave, and no more between two"


def test_those_that_turn_find_the_end_of_k_in_the_l2():
    told = Together({1: 100.0}, {1: 25.0})
    size = 4 * H100.number("l2_forgets")
    straight, turning = (chip.missed({1: (40 * size, size)}, 0.0, told, H100, 10.0, turning=turns) for turns in (False, True))
    assert straight == pytest.approx(10 * size) and turning == pytest.approx(size + 9 * size * (1 - H100.number("l2_size") / 2 / size))


def test_products_take_longer_where_copies_bring_what_they_multiply():
    info = SimpleNamespace(info=SimpleNamespace(n=128, rs=False))
    found = sm.Simulation(H100, sm.Memory(1.0, 1.0, 1.0, 1.0), {}, 8, 4, lambda index: info)
    one = sm_units.Multiprocessor()
    one.arrived = 1e9
    found.start([Actor(0, 0, 4, [(trace.WGMMA, 0, 4)])], 0, 0, one, 0.0, 1)
    found.run()
    assert one.tensor.busy == pytest.approx(H100.wgmma_cycles(128, False) * H100.number("wgmma_fed"))


def test_a_load_from_memory_waits_for_the_l2_or_for_memory():
    numbers = {name: H100.number(name) for name in ("tma_latency_l2", "tma_latency_memory")}
    for waited in (0.0, 100.0, 5000.0):
        run = sm.Simulation(H100, sm.Memory(1e9, 1.0, 1.0, 1.0, cold=1e9, waited=waited), {}, 8, 4, lambda index: None)
        there = run._fetch(sm_units.Multiprocessor(), 0.0, 128.0, "tma")
        assert there == pytest.approx(numbers["tma_latency_l2"] + max(waited, numbers["tma_latency_memory"] - numbers["tma_latency_l2"]), abs=1)


def test_what_an_sm_asks_for_before_it_waits_comes_late_since_all_sms_ask_at_once():
    load = (trace.LOAD, 0, 1000, ((7, 1000, 0),), 0, False)
    actor = Actor(0, 0, 1, [load, load, (trace.WAIT, 1, 9, 0, 1), load, (trace.WAIT, 2, 8, 1, 1), load])
    assert asked_at_once(actor) == 3000
    there = []
    for first in (0.0, 1.0):
        memory = l2_and_memory.Memory(1e9, 1.0, 1.0, dram=1.0, missed=0.5, cold=1e9, first=first)
        run, one = sm.Simulation(H100, memory, {}, 8, 4, lambda index: None), sm_units.Multiprocessor()
        one.ready, one.at_once = 0.0, 3000.0
        there.append([run._fetch(one, 0.0, 1000, "tma") - H100.number("tma_latency_memory") for _ in range(4)])
    each = 1000 * (1 + H100.number("l2_dirty_share"))
    assert there[0] == pytest.approx([500, 1000, 1500, 2000], abs=1)
    others = sm.TOGETHER * each
    assert there[1] == pytest.approx([each + 2 * others, 2 * each + others, 3 * each, 3 * each + 500], abs=1), "most of what the others take is in their way"


def test_lines_that_are_dirty_are_written_little_by_little_where_tiles_stand_for_all():
    moved = chip.Traffic(loaded=2e9, stored=1e8, unique=1e9, dirty=3e7, share=0.35)
    part = chip.Part(SimpleNamespace(cluster=1, apart=True, lanes=None, whole=False, lengths=None, seen=(), wave=SimpleNamespace(first=0.9)), H100, [], 132, 1, 0.1, 8.0)
    one, all_ = part.memory(moved), replace(part, sample=SimpleNamespace(cluster=1, apart=False, lanes=None, wave=None)).memory(moved)
    assert (one.first, all_.first) == (0.9, 0.0) and all_.share == 0.35 and all_.dirty == pytest.approx(moved.pushed / 132)
    assert one.share == pytest.approx(moved.pushed / 1e9) and one.share * 1e9 == pytest.approx(all_.dirty * 132), "as much in all"


def test_loads_of_attention_take_as_long_as_memory_in_the_first_tile_and_less_later():
    """All begin with the same blocks at once; later most of them find what others have brought."""
    near, far, wait = (H100.number(name) for name in ("tma_latency_l2", "tma_latency_memory", "memory_crowd"))
    memory, one = l2_and_memory.Memory(1e9, 1.0, 1.0, 1.0, cold=1000, late=0.25, crowd=wait), sm_units.Multiprocessor()
    run = sm.Simulation(H100, memory, {}, 8, 4, lambda index: None)
    assert [run._fetch(one, 0.0, 500, "tma") for _ in range(4)] == pytest.approx([far + wait] * 2 + [near + 0.25 * (far - near)] * 2, abs=1)
    pushed = []
    for crowd in (wait, 0.0):
        memory, one = l2_and_memory.Memory(1e9, 1.0, 1.0, 1.0, missed=0.5, cold=1000, dirty=1e9, share=0.1, crowd=crowd), sm_units.Multiprocessor()
        for _ in range(3):
            sm.Simulation(H100, memory, {}, 8, 4, lambda index: None)._fetch(one, 0.0, 500, "tma")
        pushed.append(one.pushed)
    assert pushed == pytest.approx([250 + 250 + 25, 3 * 25]), "and what is dirty goes first"


def test_an_sm_gets_at_once_what_it_has_not_asked_memory_for_where_others_ask_at_other_times():
    there = []
    for burst in (0.0, 1500.0):
        memory, one = l2_and_memory.Memory(1e9, 1.0, 1.0, dram=1.0, missed=1.0, cold=1e9, burst=burst), sm_units.Multiprocessor()
        run = sm.Simulation(H100, memory, {}, 8, 4, lambda index: None)
        there.append([run._fetch(one, at, 1000, "tma") - H100.number("tma_latency_memory") for at in (10_000.0, 10_000.0, 10_000.0, 20_000.0)])
    assert there[0] == pytest.approx([11_000, 12_000, 13_000, 21_000], abs=1)
    assert there[1] == pytest.approx([10_000, 10_500, 11_500, 20_000], abs=1), "as long as it has something left, and in all no more than its share"


def test_tiles_that_end_at_different_times_are_read_as_fast_as_the_engine_does():
    """Of one warpgroup at a rate of its own, of two as fast as the engine is, and the L2 is not waited for. Nobody waits for memory's share of the stores."""
    number, ends = H100.number, {}
    store, wait = (trace.STORE, -1, 8192, 1), (trace.GROUPS, -1, True, 0, True, 1)
    for name, stream, warpgroups, tiles in (("one", 32.0, 1, 1), ("more", 32.0, 1, 4), ("two", 32.0, 2, 4), ("queue", 0.0, 1, 4)):
        run, one = sm.Simulation(H100, l2_and_memory.Memory(1e9, 43.0, 1.0, 1.0, stream=stream), {}, 8, 4, lambda index: None), sm_units.Multiprocessor()
        run.start([Actor(0, 4 * k, 4, [store] * tiles + [(trace.COMMIT, -1, True, 1), wait]) for k in range(warpgroups)], 0, 0, one, 0.0, 1)
        ends[name] = run.run() - number("tma_issue") - (number("tile_more") if stream else 0)
    assert ends["one"] == pytest.approx(8192 / 32) and ends["more"] == pytest.approx(4 * 8192 / 32)
    assert ends["two"] == pytest.approx(8 * 8192 / 43), "the engine, by turns"
    assert ends["queue"] == pytest.approx((4 * 8192 - number("store_queue")) / 43 + number("store_read")), "the L2, but for what is under way"


def test_a_tile_of_attention_takes_longer_than_its_instructions_say():
    """At its end, before the first store of a warpgroup, and before the first wait of the next one."""
    steps = [(trace.STORE, -1, 0, 1), (trace.STORE, -1, 0, 1), (trace.WAIT, 1, 8, 0, 1), (trace.WAIT, 1, 8, 0, 1), (trace.STORE, -1, 0, 1)]
    took = []
    for stream in (0.0, 32.0):
        run = sm.Simulation(H100, l2_and_memory.Memory(1e9, 1.0, 1.0, 1.0, stream=stream), {}, 8, 4, lambda index: None)
        run.start([Actor(0, 0, 4, steps)], 0, 0, sm_units.Multiprocessor(), 0.0, 1)
        took.append(run.run())
    assert took[1] - took[0] == pytest.approx(3 * H100.number("tile_more"))


def test_where_tiles_differ_in_length_sms_ask_memory_at_different_times():
    moved, lengths = chip.Traffic(loaded=2e9, stored=1e8, unique=1e9, dirty=3e7, share=0.35), draws.Lengths(np.full(4, 10), np.array([10, 10, 16]))
    wave = SimpleNamespace(first=0.9)
    found = [chip.Part(SimpleNamespace(cluster=1, apart=True, lanes=None, whole=whole, lengths=some, seen=(10,), wave=wave), H100, [], 132, 1, 0.1, 8.0).memory(moved)
             for whole, some in ((True, None), (False, None), (True, draws.Lengths(np.full(4, 10), np.full(3, 10))), (True, lengths))]
    assert [one.burst for one in found] == [0.0, 0.0, 0.0, H100.number("memory_burst")]
    assert [one.steps[:1] == [0.9] for one in found] == [False, False, True, True], "first tiles load at first what nobody has brought, where tiles are drawn"
    assert all(one.stream == H100.number("store_alone") and one.store == H100.number("store_apart") for one in found)
    assert l2_and_memory.queued(H100, 0.5, True) == H100.number("memory_queue") / 8 and l2_and_memory.queued(H100, 0.5, False) == H100.number("memory_wait") / 16


@pytest.mark.parametrize("causal, count, constant, other", [(False, 4, "memory_wait", "memory_queue"), (True, 16, "memory_queue", "memory_wait")])
def test_loads_of_attention_wait_where_memory_is_full(causal, count, constant, other):
    """The second run of a launch, by how busy memory was in the first; tiles that differ in length wait as `memory_queue` says."""
    launch = attention.forward(*(np.zeros((512 * count, 4, 64), np.uint16) for _ in range(4)), np.zeros((4, 512 * count), np.float32),
                               *(np.arange(count + 1, dtype=np.int32) * 512,) * 2, causal, choice=attention.Forward(bn=128, consumers=1, turns=0), backend="emulator")
    found = estimating.sampled(sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)[0], "attention")
    took = {name: [chip.simulate(found, H100.having(**{name: wait})).cycles for wait in (0.0, 1e6)] for name in (constant, other)}
    assert found.apart and took[constant][0] < took[constant][1] and took[other][0] == took[other][1] and not replace(found, wave=None).apart


def test_warps_that_move_data_look_longer_at_a_phase_that_is_over():
    took = {}
    for multiplies in (False, True):
        for arrivals in (1, 3):
            steps = [*((trace.ARRIVE, 0, number, 1, 0, 1) for number in range(arrivals)), *[(trace.WAIT, 0, 0, 1, 1)] * 2]
            run = sm.Simulation(H100.having(mbarrier=0), sm.Memory(1e9, 1.0, 1.0, dram=1.0), {}, 8, 4, lambda index: None)
            run.start([Actor(0, 0, 1, steps, multiplies=multiplies)], 0, 0, sm_units.Multiprocessor(), 0.0, 1)
            took[multiplies, arrivals] = run.run()
    look, told = H100.number("mbarrier_look"), H100.number("mbarrier_told")
    assert took == {(False, 1): told + 2 * look, (False, 3): 3 * told + 2 * look, (True, 1): 0, (True, 3): 0}


def test_ctas_of_an_sm_that_draw_tiles_are_apart(monkeypatch):
    """Else all have their longest tile at once."""
    began = []
    monkeypatch.setattr(sm.Simulation, "start", lambda self, actors, copy, slot, one, at, cluster: began.append(at))
    machine = SimpleNamespace(barriers=SimpleNamespace(capacity=8), warps=4, translation=SimpleNamespace(ops=[]))
    for lengths in (None, draws.Lengths(np.full(6, 9.0), np.full(9, 9.0))):
        sample_ = SimpleNamespace(lanes=None, machine=machine, trace=SimpleNamespace(counts={}), cluster=1, ctas=(0,), done=1.0, resident=3, lengths=lengths)
        chip._run(sample_, [], H100, sm.Memory(1e9, 1.0, 1.0, dram=1.0), 3)
    start, apart = H100.number("start_cycles"), H100.number("staggered")
    assert began == [start] * 3 + [start, start + apart, start + 2 * apart] and apart > 0


def test_tiles_that_are_drawn_add_up_by_what_those_sampled_say():
    """Whenever a sampled CTA began; the longest tiles as long as the one that was seen."""
    start, lengths = H100.number("start_cycles"), draws.Lengths(np.full(132, 4.0), np.tile([2.0, 3.0, 5.0, 4.0], 33))
    whole = []
    for longest in (5000.0, 3000.0):
        for apart in (0.0, 700.0):
            marks, at = {}, (0.0, apart)
            for copy, began in enumerate(at):
                ends = np.cumsum([start + began + 4500.0, 2000.0, 3000.0, longest])        # what comes before the second tile, and tiles of 2, 3 and 5
                marks[copy, 0, 4] = ends.tolist()
            starts = {copy: start + began for copy, began in enumerate(at)}
            ended = {(copy, 0): marks[copy, 0, 4][-1] + 4000 for copy in starts}                # as long a last tile as its length says
            run = SimpleNamespace(tile_marks=marks, starts=starts, cta_ends=ended, draws={}, begins={(copy, 0, 4): first + 500 for copy, first in starts.items()},
                                  numbers={name: H100.number(name) for name in ("start_cycles", "sms", "next_cta", "empty_tile", "alike_lost")})
            whole.append(tile_times.drawn(run, SimpleNamespace(seen=(4.0, 2.0, 3.0, 5.0, 4.0), resident=1), lengths))
    begun = start + 4500 - 4000
    assert whole == pytest.approx([begun + 4000 + 5000] * 2 + [begun + 4000 + 4000] * 2), "the last ones to end: tiles of 4 and 5, or, where these take 3000, of 4 and 4"


def test_ctas_that_share_an_sm_begin_at_once():
    load = (trace.LOAD, 0, 1000, ((7, 1000, 0),), 0, False)
    run, one = sm.Simulation(H100, sm.Memory(1e9, 1.0, 1.0, dram=1.0), {}, 8, 4, lambda index: None), sm_units.Multiprocessor()
    for copy in range(2):
        run.start([Actor(0, 0, 1, [load])], copy, 0, one, 0.0, 1)
    run.run()
    run.start([Actor(0, 0, 1, [load])], 2, 0, one, 1e6, 1)
    assert one.at_once == 2000, "and who takes the place of another does not"
