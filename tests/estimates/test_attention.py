# SPDX-License-Identifier: Apache-2.0
"""What attention taught the model: lanes that part and meet again, warps of a warpgroup as one, waits that ptxas moves, units that warps share in turn."""
from types import SimpleNamespace

import numpy as np
import pytest

from hopperlab.estimates import boards, programs, sample, sm, trace as T, sm_units
from hopperlab.estimates.costs import Cost, price
from hopperlab.emulator.program import Program
from hopperlab.measure.launches import attention, attention_fp8
from hopperlab.runtime.sass.sass import disassemble

pytestmark = pytest.mark.emulator_only
H200 = boards.board("h200")


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


def test_a_wait_for_products_stands_where_ptxas_puts_it():
    launch = forward()
    loops = disassemble(launch.kernel.module.cubin)[launch.kernel.mangled]
    inner = min((loop for loop in loops.loops if any("HGMMA" in loops.instructions[i].opcode for i in loop)), key=len)
    order = [loops.instructions[i].opcode.split(".")[0] for i in inner]
    waits = [place for place, opcode in enumerate(order) if loops.instructions[inner[place]].opcode.startswith("WARPGROUP.DEPBAR")]
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


def test_a_short_request_is_not_behind_all_of_a_long_one():
    unit = sm_units.Unit()
    assert unit.share(0.0, 200.0, 2) == 200.0
    assert unit.share(10.0, 6.0, 2) == 10 + 6 + 12 and unit.free == 206.0         # two others' turns, not 190 cycles; the work stays
    assert unit.share(300.0, 6.0, 2) == 306.0 and unit.busy == 212.0


@pytest.mark.parametrize("between, more", [(10, 0), (100, 1)])
def test_products_take_longer_to_begin_anew_after_work_on_their_sums(between, more):
    info = SimpleNamespace(info=SimpleNamespace(n=128, rs=False))
    found = sm.Simulation(H200, sm.Memory(1.0, 1.0, 1.0, 1.0), {}, 8, 4, lambda index: info)
    one, product = sm_units.Multiprocessor(), [(T.WGMMA, 0, 4), (T.COMMIT, -1, "wgmma", 4)]
    steps = [*product, (T.PRODUCTS, 0, 0, 4), (programs.COMPUTE, Cost(issue=between), 4), *product]
    found.start([programs.Actor(0, 0, 4, steps)], 0, 0, one, 0.0, 1)
    found.run()
    assert one.tensor.busy == pytest.approx(2 * H200.wgmma_cycles(128, False) * H200.number("wgmma_fed") + more * H200.number("wgmma_anew"))


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


def test_comparisons_integers_and_conversions_have_half_the_lanes():
    text = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k() { .reg .f32 %f<9>; .reg .b32 %r<9>; .reg .b16 %h<3>;
max.f32 %f1, %f2, %f3; fma.rn.f32 %f1, %f1, %f2, %f3; xor.b32 %r1, %r2, %r3; cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2; ex2.approx.ftz.f32 %f4, %f1; ret; }"""
    body = Program(text).function("k").body
    cost = [price([instr], {}, H200) for instr in body[:5]]
    assert [c.alu for c in cost] == [2, 0, 2, 0, 0] and [c.special for c in cost] == [0, 0, 0, 8, 8]
