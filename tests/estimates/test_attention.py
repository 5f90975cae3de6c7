# SPDX-License-Identifier: Apache-2.0
"""What attention taught the model: lanes that part and meet again, warps of a warpgroup as one, waits that ptxas moves, units that warps share in turn."""
import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from hopperlab.estimates import boards, chip, draws, estimating, programs, sample, sm, sm_units, trace, trace as T, wave
from hopperlab.estimates.costs import Cost, single
from hopperlab.emulator.program import Program
from hopperlab.measure.launches import attention, attention_fp8
from hopperlab.runtime.sass.sass import disassemble

pytestmark = pytest.mark.emulator_only
H200, H100 = boards.board("h200"), boards.board("h100")


def operands(dtype, length=512, heads=1, d=128):
    starts = np.array([0, length], np.int32)
    return [np.zeros((length, heads, d), dtype) for _ in range(3)], np.zeros((length, heads, d), np.uint16), np.zeros((heads, length), np.float32), starts


def sampled(launch):
    planned, _kept = sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)
    return sample.run(planned)


def forward():
    (q, k, v), o, lse, starts = operands(np.uint16)
    return attention.forward(q, k, v, o, lse, starts, starts, choice=attention.STEPS["overlapped"], backend="emulator")


@pytest.fixture(scope="module")
def fp8():
    (q, k, v), o, lse, starts = operands(np.uint8)
    ones = np.ones(1, np.float32)
    return sampled(attention_fp8.forward_fp8(q, k, v, o, lse, ones, ones, ones, starts, starts, choice=attention_fp8.ForwardFp8(), backend="emulator"))


def test_a_block_counts_once_for_lanes_that_came_to_it_one_after_the_other(fp8):
    narrow = [i.op == "cvt" and "e4m3x2" in i.mods for i in fp8.machine.body]
    softmax = [number for number, (start, end) in enumerate(fp8.machine.translation.spans) if any(narrow[start:end])]
    runs = [sum(entry[0] == T.BLOCK and entry[2] in softmax for entry in fp8.trace.warps[warp]) for warp in range(4, 12)]
    assert len(set(runs)) == 1 and runs[0] >= 4, runs


def test_warps_of_a_warpgroup_are_one_actor(fp8):
    warps = {actor.first: actor.warps for actor in programs.programs(fp8, H200)}
    assert warps[4] == warps[8] == 4, warps


@pytest.mark.parametrize("consumers, overlap, turns, crowded", [
    (2, 1, 0, False), (2, 1, 1, False), (2, 0, 1, False), (3, 1, 1, False), (3, 0, 0, False), (3, 0, 1, True)])
def test_who_takes_turns_is_told_by_named_barriers_of_two_warpgroups(consumers, overlap, turns, crowded):
    """Three that hand over their scores alone in a turn are not kept apart by it as others are."""
    (q, k, v), o, lse, starts = operands(np.uint16, 768, d=64)
    choice = attention.Forward(bn=128, consumers=consumers, overlap=overlap, turns=turns)
    made = programs.programs(sampled(attention.forward(q, k, v, o, lse, starts, starts, choice=choice, backend="emulator")), H200)
    assert {(actor.turns, actor.crowded) for actor in made if actor.multiplies} == {(bool(turns), crowded)}
    assert not any(actor.turns or actor.crowded for actor in made if not actor.multiplies)


def inner_loop(launch):
    """Opcodes of the shortest loop of its machine code that multiplies."""
    loops = disassemble(launch.kernel.module.cubin)[launch.kernel.mangled]
    inner = min((loop for loop in loops.loops if any("GMMA" in loops.instructions[i].opcode for i in loop)), key=len)
    return [loops.instructions[i].opcode for i in inner]


def test_a_wait_for_products_stands_where_ptxas_puts_it():
    launch = forward()
    whole = inner_loop(launch)
    order = [opcode.split(".")[0] for opcode in whole]
    waits = [place for place, opcode in enumerate(whole) if opcode.startswith("WARPGROUP.DEPBAR")]
    assert len(waits) == 2 and order.index("MUFU") > max(waits)                  # the softmax is under no product of its own warpgroup
    steps = next(actor for actor in programs.programs(sampled(launch), H200) if actor.first == 4).steps
    places = [k for k, step in enumerate(steps) if step[0] == T.PRODUCTS and step[2] == 0]
    middle = places[len(places) // 2]
    assert not any(step[0] == programs.COMPUTE and step[1].special > 100 for step in steps[max(k for k in range(middle) if steps[k][0] == T.WGMMA):middle])


def test_traces_that_part_are_woven_together():
    wait, arrive, other = (T.WAIT, 5, 9, 3), (T.ARRIVE, 6, 8, 1, 0), (T.BLOCK, -1, 2)
    one, two = [other, (T.WAIT, 5, 9, 4), arrive, (T.WGMMA, 7)], [other, wait, (T.WGMMA, 7)]
    assert programs._woven([one, two, two, two]) == [(other, 4), (wait, 4), (arrive, 1), ((T.WGMMA, 7), 4)]
    assert programs._woven([one, [(T.BLOCK, -1, 3), *two]])[0] in ((other, 1), ((T.BLOCK, -1, 3), 1))
    named = [(T.NAMED, 4, 1, 31, 128), other, (T.NAMED, 4, 1, 1, 128), (T.NAMED_WAIT, 4, 1, 1), (T.NAMED_WAIT, 4, 1, 1)]
    assert programs._whole_warps(named) == [other, (T.NAMED, 4, 1, 32, 128), (T.NAMED_WAIT, 4, 1, 1)]


def asked(unit, at, cycles, warp, **how):
    """By how much a warp's request at a time takes longer."""
    unit.lately.move(at)
    return sm_units.later([unit], cycles, warp, **how)[0]


def test_requests_take_longer_by_as_much_as_others_are_there():
    alone, both, full, crowd, long_ago = (sm_units.Shared(sm_units.Lately()) for _ in range(5))
    assert all(asked(alone, at, 100.0, "a") == 0 for at in range(0, 4000, 400)) and alone.busy == 1000
    late = [asked(both, at + start, 100.0, warp) for at in range(0, 20_000, 400) for start, warp in ((0, "a"), (200, "b"))]
    assert 100 / 4 * 0.9 < late[-1] < 100 / 3, "each is there a quarter of the time, and a bit more because of the other"
    last = [asked(full, at, 100.0, warp) for at in range(0, 40_000, 200) for warp in ("a", "b")][-1]
    assert 90 < last < 110, "who is always there halves the pace"
    assert max(asked(crowd, at, 100.0, warp) for at in range(0, 40_000, 200) for warp in range(9)) == 100 * sm_units.OTHERS
    asked(long_ago, 0.0, 1000.0, "a")
    assert asked(long_ago, 1e9, 100.0, "b") < 1e-6 and long_ago.lately.since == 1e9 and long_ago.busy == 1100


def test_parts_of_an_sm_are_asked_each_for_itself():
    """One warp more on the second of four, and what all four are then asked for together, each as if it were asked alone; those that are alike are one."""
    one = sm_units.Multiprocessor()
    one.lately.move(5000.0)
    assert sm_units.later(one.parts.of(2, 4)[0], 300.0, "multiplies") == [0.0], "all alike"
    one.parts.of(1, 1)[0][0].used(1000.0, "loads")
    three, second = sm_units.later(one.parts.of(2, 4)[0], 100.0, "multiplies")
    assert second > 0 and three == 0, "from the third on, the second is the last of them"
    assert [part.several for part in one.parts.all] == [(0, 2, 3), (1,)] and {part.scheduler.busy for part in one.parts.all} == {400.0}
    assert one.parts.busy("scheduler") == 400 and one.parts.of(1, 4)[0] == one.parts.of(2, 4)[0][::-1], "the first one's first"
    one.parts.of(3, 2)[3][0].serve(0.0, 80.0)
    assert len(one.parts.all) == 3 and one.parts.busy("mma") == 80 / 2 == 40, "the fourth and the first"
    assert sm_units.later(one.parts.of(0, 2)[0], 0.0, "nothing") == [0.0, 0.0]


def computed(steps, tensor=0.0):
    """Cycles of one warpgroup that runs these steps, while the tensor core is busy for a time."""
    info = SimpleNamespace(info=SimpleNamespace(n=64, rs=False))
    found, one = sm.Simulation(H200, sm.Memory(1.0, 1.0, 1.0, 1.0), {}, 8, 4, lambda index: info), sm_units.Multiprocessor()
    one.tensor.free = tensor
    found.start([programs.Actor(0, 0, 4, steps)], 0, 0, one, 0.0, 1)
    return found.run()


def test_exponentials_and_the_pipe_of_half_the_lanes_are_slower_while_the_tensor_core_works():
    steps = [(programs.COMPUTE, Cost(issue=80, special=200, alu=100, stays=50, alone=200), 4)]
    more = 200 * H200.number("special_held") + 50 * H200.number("alu_held")
    assert computed(steps) == 200
    assert computed(steps, tensor=1e6) == pytest.approx(200 + more) and computed(steps, tensor=100.0) == pytest.approx(200 + more / 2)


def test_products_of_others_are_as_often_under_way_as_they_were():
    one = sm_units.Multiprocessor()
    for at in range(0, 100_000, 1000):
        one.multiply(at, 400.0, "a"), one.multiply(at, 100.0, "b")
    one.lately.move(100_000.0)

    def share(at, cycles, warp):
        return one.products.beside(at, cycles, warp, one.tensor.free)
    assert one.tensor.busy == 50_000 and share(100_000.0, 500.0, "c") == pytest.approx(0.5, abs=0.03), "half of the time, whoever it is"
    assert share(100_000.0, 500.0, "a") == pytest.approx(0.1 / 0.6, abs=0.02), "not while it multiplies itself"
    assert share(100_000.0, 500.0, "b") == pytest.approx(0.4 / 0.9, abs=0.03)
    assert share(99_400.0, 200.0, "a") == pytest.approx(0.5 + 0.5 * 0.1 / 0.6, abs=0.02), "until the tensor core is through, all of the time"


def test_descriptors_are_computed_while_a_product_is_handed_over():
    number, product = H200.number, (T.WGMMA, 0, 4)
    assert computed([product, (programs.COMPUTE, Cost(alone=20), 4)] * 3) == pytest.approx(2 * number("wgmma_issue") + number("wgmma_handed") + 20)
    slow = 3 * number("wgmma_issue")
    assert computed([product, (programs.COMPUTE, Cost(alone=slow), 4)] * 3) == pytest.approx(3 * (number("wgmma_handed") + slow))


def test_what_lanes_did_that_are_behind_stands_where_others_passed():
    """Lanes 1 to 31 skip block 2 and run 3 and 4, before lane 0 runs 2, 3 and 4."""
    entries = [(T.BLOCK, -1, 1)]
    parted = trace.Parted(1)

    def runs(block, lanes):
        if parted.runs_first(block, lanes, entries):
            entries.append((T.BLOCK, -1, block))
    others = list(range(1, 32))
    runs(3, others)
    runs(4, others)
    runs(2, [0])
    entries.append((T.ARRIVE, 7, 5, 1, 0))
    runs(3, [0])
    runs(4, [0])
    assert [entry[2] if entry[0] == T.BLOCK else "arrives" for entry in entries] == [1, 2, "arrives", 3, 4]
    ahead, told = trace.Parted(1), [(T.BLOCK, -1, 1)]
    assert [ahead.runs_first(block, [0], told) for block in (2, 3)] == [True, True] and not ahead.runs_first(3, others, told), "who is not behind is not moved"


def test_values_are_handed_back_where_the_wait_for_them_is():
    """The next values are loaded under the softmax, as in the machine code, where the arrival follows the wait that ptxas has moved."""
    launch = forward()
    steps = next(actor for actor in programs.programs(sampled(launch), H200) if actor.first == 4).steps
    waits = [k for k, step in enumerate(steps) if step[0] == T.PRODUCTS and step[2] == 0]
    middle = waits[len(waits) // 2]
    arrives = next(k for k in range(middle, len(steps)) if steps[k][0] == T.ARRIVE)
    softmax = next(k for k in range(middle, len(steps)) if steps[k][0] == programs.COMPUTE and steps[k][1].special > 100)
    assert middle < arrives < softmax
    far = [(programs.COMPUTE, Cost(issue=100), 4), (T.PRODUCTS, 0, 0, 4), (programs.COMPUTE, Cost(issue=programs.NEAR + 1), 4), (T.ARRIVE, 1, 2, 1, 0, 1)]
    assert programs._behind(far, 1, 2) is None and far[-1][0] == T.ARRIVE
    near = [far[1], far[0], (programs.COMPUTE, Cost(issue=3), 4), far[3]]
    assert programs._behind(near, 1, 2) == (3, 4) and [step[0] for step in near] == [T.PRODUCTS, programs.COMPUTE, T.ARRIVE, programs.COMPUTE]


def computes(cost, warps):
    return (programs.COMPUTE, cost, (0, 0), warps)


def test_an_arrivals_own_instruction_parts_no_computing():
    all_of_them, one = computes(Cost(issue=40), 4), computes(Cost(issue=1), 1)
    assert programs._sliver(all_of_them, one, all_of_them) and not programs._sliver(all_of_them, computes(Cost(issue=40), 1), all_of_them)
    assert not programs._sliver((T.WAIT, 1, 2, 3, 4), one, all_of_them) and not programs._sliver(all_of_them, all_of_them, all_of_them)


@pytest.mark.parametrize("wide, early", [(64, True), (0, False)])
def test_products_that_wait_for_no_softmax_begin_before_it(wide, early):
    """The second half of the values' columns, which ptxas begins as soon as the first half is waited for."""
    choice = attention_fp8.ForwardFp8(bn=96, consumers=1, stages=2, overlap=1, turns=0, promoted=1, wide=wide, held=0)
    (q, k, v), o, lse, starts = operands(np.uint8)
    ones = np.ones(1, np.float32)
    launch = attention_fp8.forward_fp8(q, k, v, o, lse, ones, ones, ones, starts, starts, choice=choice, backend="emulator")
    steps = next(actor for actor in programs.programs(sampled(launch), H200) if actor.first == 4).steps
    softmax = [at for at, step in enumerate(steps) if step[0] == programs.COMPUTE and step[1].special > 100][2:-2]
    before = [next(step[0] for step in reversed(steps[:at]) if step[0] in (T.COMMIT, T.PRODUCTS)) for at in softmax]
    assert softmax and all((one != two) is early for one, two in itertools.pairwise(before)) and (T.COMMIT in before) is early, "and the wait is in the middle"
    order = [opcode.split(".")[0] + "." * ("DEPBAR" in opcode) for opcode in inner_loop(launch)]
    exponentials = [place for place, opcode in enumerate(order) if opcode == "MUFU"]
    last = len(order) - 1 - order[::-1].index("QGMMA")
    assert (last > exponentials[0]) is early and last < exponentials[-1], "so has the machine code: under the exponentials, or before all of them"
    wait = len(order) - 1 - order[::-1].index("WARPGROUP.")
    assert sum(place < wait for place in exponentials) / len(exponentials) == pytest.approx(0.45 * early, abs=0.15 * early)


@pytest.mark.parametrize("consumers, overlap, turns, several", [(2, 1, 0, True), (2, 1, 1, False), (2, 0, 0, False), (1, 1, 0, False)])
def test_of_warpgroups_that_take_no_turns_one_hands_over_all_it_has_before_the_other(consumers, overlap, turns, several, monkeypatch):
    (q, k, v), o, lse, starts = operands(np.uint16, 1024, d=64)
    choice = attention.Forward(bn=128, consumers=consumers, overlap=overlap, turns=turns)
    found = sampled(attention.forward(q, k, v, o, lse, starts, starts, choice=choice, backend="emulator"))
    made = programs.programs(found, H200)
    who = [actor for actor in made if actor.multiplies]
    assert [bool(actor.followed) for actor in who] == consumers * [several]
    for actor in who if several else ():
        places = [place for place, step in enumerate(actor.steps) if step[0] == T.WGMMA]
        waits = [place for place, step in enumerate(actor.steps) if step[0] == T.PRODUCTS]
        last = {max(place for place in places if place < wait) for wait in waits}
        assert actor.followed.isdisjoint(last) and actor.followed < set(places), "behind the last of them it waits"
    if not several:
        return
    whole, turned = sm_units.Multiprocessor.multiply, []
    for actors in (made, [replace(actor, followed=frozenset()) for actor in made]):
        done: list[object] = []
        monkeypatch.setattr(sm_units.Multiprocessor, "multiply", lambda self, at, cycles, warp, done=done: done.append(warp) or whole(self, at, cycles, warp))
        chip.simulate(found, H200, actors)
        turned.append(sum(one != two for one, two in itertools.pairwise(done)) / len(done))
    assert turned[0] < 0.125 and turned[1] > 2 * turned[0], "not one of each in turn, as without"


def test_a_cluster_whose_tiles_lie_at_the_ends_of_sequences_stands_for_none():
    """Of 11 sequences of 1469 queries each the first cluster always has the last tile, of 189 rows of 256."""
    heads, length, count = 16, 1469, 11
    starts = np.arange(count + 1, dtype=np.int32) * length
    q, k, v, o = (np.zeros((length * count, heads, 128), np.uint16) for _ in range(4))
    choice = attention.Forward(q_slots=2, group=1, dealt=1, cluster=2)
    launch = attention.forward(q, k, v, o, np.zeros((heads, length * count), np.float32), starts, starts, choice=choice, backend="emulator")
    planned, _kept = sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)
    found = sample.typical(planned)
    assert found.ctas[0] > 1 and chip.simulate(found, H200).cycles < 0.85 * chip.simulate(sample.run(planned), H200).cycles


@pytest.mark.parametrize("between, more", [(10, 0), (100, 1)])
def test_products_take_longer_to_begin_anew_after_work_on_their_sums(between, more):
    info = SimpleNamespace(info=SimpleNamespace(n=128, rs=False))
    found = sm.Simulation(H200, sm.Memory(1.0, 1.0, 1.0, 1.0), {}, 8, 4, lambda index: info)
    one, product = sm_units.Multiprocessor(), [(T.WGMMA, 0, 4), (T.COMMIT, -1, "wgmma", 4)]
    steps = [*product, (T.PRODUCTS, 0, 0, 4), (programs.COMPUTE, Cost(issue=between), 4), *product]
    found.start([programs.Actor(0, 0, 4, steps)], 0, 0, one, 0.0, 1)
    found.run()
    assert one.tensor.busy == pytest.approx(2 * H200.wgmma_cycles(128, False) + more * H200.number("wgmma_anew"))


def test_a_wait_that_a_barrier_of_lanes_holds_stays_behind_the_softmax():
    (q, k, v), o, lse, starts = operands(np.uint8)
    ones, under = np.ones(1, np.float32), []
    for held in (0, 1):
        launch = attention_fp8.forward_fp8(q, k, v, o, lse, ones, ones, ones, starts, starts, choice=attention_fp8.ForwardFp8(held=held), backend="emulator")
        steps = next(actor for actor in programs.programs(sampled(launch), H200) if actor.first == 4).steps
        waits = [place for place, step in enumerate(steps) if step[0] == T.PRODUCTS and step[2] == 0]
        middle = waits[len(waits) // 2]
        last = max(place for place in range(middle) if steps[place][0] in (T.WGMMA, T.PRODUCTS))
        under.append(sum(step[1].special for step in steps[last:middle] if step[0] == programs.COMPUTE))
    assert under[0] < 100 < under[1], under


def batch(group, causal=False, length=1024, heads=16, d=128, bn=128):
    """16384 tokens of sequences of a length, so many heads at work at once."""
    starts = np.arange(16384 // length + 1, dtype=np.int32) * length
    q, k, v, o = (np.zeros((16384, heads, d), np.uint16) for _ in range(4))
    choice = attention.Forward(bn=bn, group=group)
    launch = attention.forward(q, k, v, o, np.zeros((heads, 16384), np.float32), starts, starts, causal, choice=choice, backend="emulator")
    return launch, *sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)


def brought(launch, board):
    told = wave.of(sample.typical(launch))
    assert told.new
    return told.on(board.number("l2_size") / 2).brought


def test_keys_and_values_of_too_many_heads_at_once_come_from_memory_again():
    once = 3 * 16384 * 16 * 128 * 2
    for group, least, most in ((1, 0.95, 1.1), (0, 2.2, 3.0)):                 # Nsight Compute: 2.5 where 64 heads of 512 KB are at work (D = 256, length 512)
        _launch, planned, _kept = batch(group)
        assert least * once < brought(planned, H100) < most * once, (group, brought(planned, H100) / once)
    assert brought(planned, H200) < 0.9 * brought(planned, H100), "an H200's L2 holds more"
    _launch, planned, _kept = batch(0, causal=True)
    assert once < brought(planned, H100) < 1.5 * once, "who draws which tile follows from how long they are"


@pytest.mark.parametrize("length", [2039, 2048])
def test_a_tile_at_a_sequences_end_is_a_tile(length):
    """Eleven tiles of 192 rows a head; of the last one's 119 or 128 rows the third warpgroup has none: its tiles are fewer, and stores of the last rows are of parts
    of lines."""
    starts = np.arange(9, dtype=np.int32) * length
    q, k, v, o = (np.zeros((8 * length, 32, 64), np.uint16) for _ in range(4))
    choice = attention.Forward(consumers=3, q_slots=2, group=1)
    launch = attention.forward(q, k, v, o, np.zeros((32, 8 * length), np.float32), starts, starts, choice=choice, backend="emulator")
    planned, _kept = sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)
    found = estimating.sampled(planned, "attention")
    assert found.tiles == 11 * 8 * 32 / 132
    assert chip.simulate(found, H100).cycles == pytest.approx(912_000, rel=0.1), "which were measured of 2039"


@pytest.mark.parametrize("bn, chains, overlap, consumers, turns, split", [
    (192, 2, 0, 2, 0, True), (192, 1, 0, 2, 0, False), (128, 2, 0, 2, 0, False), (192, 2, 1, 2, 0, True), (192, 2, 0, 1, 0, False),
    (192, 2, 0, 2, 1, False), (192, 2, 1, 2, 1, False), (192, 2, 0, 3, 1, True)])
def test_maxima_in_several_chains_of_a_long_block_hold_others_up(bn, chains, overlap, consumers, turns, split):
    """Unless two warpgroups take turns: then one takes maxima while the other multiplies."""
    (q, k, v), o, lse, starts = operands(np.uint16, 768, d=64)
    choice = attention.Forward(bn=bn, consumers=consumers, overlap=overlap, turns=turns, chains=chains)
    found = sampled(attention.forward(q, k, v, o, lse, starts, starts, choice=choice, backend="emulator"))
    actors = programs.programs(found, H200)
    assert {actor.split for actor in actors if actor.multiplies} == {split} and not any(actor.split for actor in actors if not actor.multiplies)
    without = [replace(actor, split=False) for actor in actors]
    took = [chip.simulate(found, H200, one).cycles for one in (without, actors)]
    assert took[1] > 1.015 * took[0] if split else took[0] == took[1]


def test_tiles_of_different_lengths_that_are_dealt_take_as_long_as_those_of_the_cluster_that_has_the_most():
    starts = np.arange(5, dtype=np.int32) * 4096
    q, k, v, o = (np.zeros((16384, 16, 128), np.uint16) for _ in range(4))
    cycles = []
    for dealt in (0, 1):                                                        # of a head after the other, its longest tile first
        choice = attention.Forward(group=1, dealt=dealt)
        launch = attention.forward(q, k, v, o, np.zeros((16, 16384), np.float32), starts, starts, True, choice=choice, backend="emulator")
        planned, _kept = sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)
        found = estimating.sampled(planned, "attention")
        cycles.append(chip.simulate(found, H200).cycles)
        assert (found.wave.dealt is None) == (not dealt)
    mine, most, every = found.wave.dealt
    assert most >= mine and every < 132 * most
    assert cycles[0] < cycles[1] < 1.3 * cycles[0], "who draws is never waited for; by the first tiles alone, the longest, it were 1.7 times as long"


def test_lengths_of_many_long_tiles_are_known():
    _launch, planned, _kept = batch(0, causal=True, length=16384, heads=32, d=64, bn=64)
    found = draws.lengths(planned)
    assert found is not None and found.differ and found.all.max() > 50 * found.all.min() and len(found.all) == 128 * 32


def test_a_division_of_integers_is_twenty_instructions():
    text = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k() { .reg .b32 %r<9>; div.s32 %r1, %r2, %r3; rem.u32 %r4, %r2, %r3; shr.u32 %r5, %r2, 3; ret; }"""
    body = Program(text).function("k").body
    cost = [single(instr, {}, H200) for instr in body[:3]]
    assert [c.issue for c in cost] == [20, 20, 1] and [c.chain for c in cost] == [100, 100, 4] and cost[0].special == H200.number("special_cycles")


def test_comparisons_integers_and_conversions_have_half_the_lanes():
    text = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k() { .reg .f32 %f<9>; .reg .b32 %r<9>; .reg .b16 %h<3>;
max.f32 %f1, %f2, %f3; fma.rn.f32 %f1, %f1, %f2, %f3; xor.b32 %r1, %r2, %r3; cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2; ex2.approx.ftz.f32 %f4, %f1; ret; }"""
    body = Program(text).function("k").body
    cost = [single(instr, {}, H200) for instr in body[:5]]
    narrow = H200.number("narrow_cycles")
    assert [c.alu for c in cost] == [2, 0, 2, narrow, 0] and [c.special for c in cost] == [0, 0, 0, 0, 8]
    assert [c.stays for c in cost] == [2, 0, 0, narrow, 0], "of integers ptxas makes fewer"
