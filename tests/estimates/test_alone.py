# SPDX-License-Identifier: Apache-2.0
"""How long a warp takes that meets no other: dependences, units, branches, and what ptxas does with chains; and what others are in its way."""
import pytest

from hopperlab.estimates import boards, programs, sm, sm_units
from hopperlab.estimates.costs import BACK, BRANCH, STORED, Cost, alone, priced
from hopperlab.emulator.program import Program

pytestmark = pytest.mark.emulator_only
H200 = boards.board("h200")
HEAD = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k() { .reg .f32 %f<99>; .reg .b32 %r<9>; .reg .pred %p<3>; """


def cycles(*pieces, again=(), turns=()):
    """By piece of PTX; turns: instructions that are branches, by number."""
    body = Program(HEAD + " ".join(pieces) + " ret; }").function("k").body
    made, at = [], 0
    for piece in pieces:
        count = piece.count(";")
        made.append([priced(body[k], {}, H200, k in turns) for k in range(at, at + count)])
        at += count
    return alone(made, [*again, *[None] * (len(pieces) - len(again))], H200)


def exponentials(count, first=0):
    return " ".join(f"ex2.approx.ftz.f32 %f{k + 40}, %f{k};" for k in range(first, first + count))


def test_what_does_not_depend_on_each_other_takes_its_slots_and_what_does_its_latencies():
    assert cycles("add.f32 %f1, %f2, %f3; add.f32 %f4, %f1, %f1; add.f32 %f5, %f4, %f4; add.f32 %f6, %f5, %f6;") == [pytest.approx(3 * 4 + 1)]
    wide = " ".join(f"add.f32 %f{k + 20}, %f{k}, %f1; st.shared.f32 [%r1], %f{k + 20};" for k in range(2, 12))
    assert cycles(wide) == [20 * H200.number("issue_alone")], "and no sum waits for another"


def test_exponentials_begin_when_their_unit_is_free_and_their_operands_are_there():
    one, eight = cycles(exponentials(1))[0], cycles(exponentials(8))[0]
    assert eight == one + 7 * H200.number("special_cycles")
    assert cycles("add.f32 %f9, %f1, %f2; ex2.approx.ftz.f32 %f10, %f9;") == [4 + one]


def test_a_chain_of_maxima_takes_as_long_as_if_each_waited_for_the_one_before():
    two = " ".join(f"max.f32 %f90, %f90, %f{k}; max.f32 %f91, %f91, %f{k + 16};" for k in range(16))
    step = H200.number("chain_alone") * H200.number("alu_cycles")
    assert cycles(two)[0] == pytest.approx(32 * step, abs=6), "two rows, one after the other"
    part = cycles(two, exponentials(16))
    assert part[1] < cycles(exponentials(16))[0], "and exponentials of what is there begin meanwhile"


def test_what_is_only_scaled_comes_last_and_sums_that_wait_for_nothing_cost_nothing_beside_exponentials():
    scaled = " ".join(f"mul.f32 %f{k}, %f{k}, %f98;" for k in range(60, 80))
    assert cycles(exponentials(8) + " add.f32 %f98, %f40, %f41;", scaled)[1] == 20, "nobody here reads it, and what it is scaled by comes from here"
    assert cycles(exponentials(8), scaled)[1] == 0, "what o is scaled by was there before"
    read = " ".join(f"st.shared.f32 [%r1], %f{k};" for k in range(60, 80))
    assert cycles(exponentials(20), scaled + read)[1] < 20, "what is stored is scaled under the exponentials"


def test_sums_that_nothing_here_reads_take_a_slot_each():
    """In the machine code of attention/forward_fp8.cu, PROMOTED, 64 multiply-adds behind a wait have 64 cycles."""
    sums = " ".join(f"fma.rn.f32 %f{k}, %f{k}, %f98, %f{k + 32};" for k in range(32))
    assert cycles(sums) == [32]
    read = " ".join(f"st.shared.f32 [%r1], %f{k};" for k in range(32))
    assert cycles(sums + read) == [64 * H200.number("issue_alone")]


def test_nothing_passes_a_branch_and_a_loop_begins_when_all_before_it_has_begun():
    first, bra, second = exponentials(2), "@%p1 bra OUT; ", exponentials(2, 4)
    inside = "OUT: mov.u32 %r1, %r2;"
    straight = sum(cycles(first, second))
    parted = cycles(first + " " + bra, second + " " + inside, turns=(2,))
    assert sum(parted) == pytest.approx(cycles(first)[0] + BRANCH + cycles(second)[0]) and straight < sum(parted)
    chain = "add.f32 %f1, %f2, %f3; add.f32 %f4, %f1, %f1; add.f32 %f5, %f4, %f4; st.shared.f32 [%r1], %f5; "
    once, looped = cycles(chain)[0], cycles(chain, chain.replace("%f2", "%f9"), again=(BACK,))
    assert once == 12 and looped == [12 + BACK, 12], "the store has begun after twelve cycles"
    both = [sum(cycles(chain, "max.f32 %f90, %f90, %f91; " * 8, again=again)) for again in ((), (0.0,))]
    assert both[1] == both[0] + 12, "nothing behind the place where branches meet begins before all that stands before it has"


def test_a_loop_that_moves_data_within_shared_memory_waits_for_what_it_loads():
    turn = "ld.shared.b32 %r1, [%r2]; prmt.b32 %r3, %r1, %r1, 0x6420; st.shared.b32 [%r4], %r3; "
    slots, latency = 3 * H200.number("issue_alone"), priced(Program(HEAD + turn + " ret; }").function("k").body[0], {}, H200).cost.chain
    looped, straight = cycles(turn, again=(BACK,))[0], cycles(turn)[0]
    assert looped == slots + latency + STORED + BACK > straight


def beside(unit, part, cost, multiplies, products=2, turns=False, idle=0.0, followed=frozenset(), crowded=False):
    """Cycles of one warpgroup where others have a unit for a part of the time. products: warpgroups that multiply; turns: whether it takes turns with others;
    idle: share of the time that it has waited."""
    found, one = sm.Simulation(H200, sm.Memory(1.0, 1.0, 1.0, 1.0), {}, 8, 4, lambda index: None), sm_units.Multiprocessor()
    for other in range(products):
        one.products.used(1e-9, other)
    one.lately.move(1e5)
    getattr(one.parts.all[0], unit).used(part * sm_units.SEEN, "others")
    one.idle.used(idle * sm_units.SEEN, (0, 0))
    runner = sm.Runner(programs.Actor(0, 0, 4, [], multiplies=multiplies, turns=turns, followed=followed, crowded=crowded), one, 0, at=1e5)
    found._compute(runner, cost, 4)
    return runner.at - 1e5


@pytest.mark.parametrize("multiplies, turns, share", [(True, True, H200.number("meets")), (True, False, 0.3), (False, False, 1.0)])
def test_warps_that_multiply_meet_others_less_often(multiplies, turns, share):
    """Those that take turns as often as was fitted, others the more the more there are."""
    for unit, cost in (("scheduler", Cost(issue=100, alone=150)), ("special", Cost(special=100, alone=150))):
        assert beside(unit, 0.3, cost, multiplies, turns=turns) == pytest.approx(150 + share * 100 * 0.3, rel=0.02)
        crowded = beside(unit, 0.3, cost, True, turns=True, crowded=True)
        assert beside(unit, 0.3, cost, True, turns=True) < crowded == pytest.approx(150 + H200.number("meets_crowded") * 100 * 0.3, rel=0.02)
    assert beside("special", 0.6, Cost(special=100, alone=150), True) == pytest.approx(150 + 0.6 * 60, rel=0.02)
    assert beside("special", 0.49, Cost(special=100, alone=150), True, followed=frozenset({1})) == pytest.approx(150 + 0.7 * 49, rel=0.02), "who goes before others"


def test_others_are_met_in_the_time_in_which_nobody_waits():
    cost = Cost(special=100, alone=150)
    assert beside("special", 0.3, cost, True, idle=0.5) == pytest.approx(beside("special", 0.6, cost, True), rel=0.02)
    assert beside("special", 0.1, cost, True, idle=2.0) == pytest.approx(beside("special", 0.5, cost, True), rel=0.02), "at most four fifths of it"


@pytest.mark.parametrize("multiplies", [True, False])
def test_a_warp_waits_for_others_at_the_pipe_of_half_the_lanes_of_an_sm_that_multiplies(multiplies):
    assert beside("alu", 0.5, Cost(alu=100, alone=150), multiplies) == pytest.approx(150 + 100 * 0.5, rel=0.02)
    one = 0.5 ** 2 if multiplies else 0.5
    assert beside("alu", 0.5, Cost(alu=100, alone=150), multiplies, products=1) == pytest.approx(150 + 100 * one, rel=0.02), "a single one, beside warps that move data"
    assert beside("alu", 0.5, Cost(alu=100, alone=150), multiplies, products=0) == pytest.approx(150, rel=0.02), "the pipe is through before the warp is"
    assert beside("alu", 0.9, Cost(alu=100, alone=150), multiplies, products=0) == pytest.approx(190, rel=0.02)


def test_products_take_longer_the_more_copies_write_into_shared_memory():
    one, numbers = sm_units.Multiprocessor(), (H200.number("wgmma_fed"), H200.number("fed_bytes"))
    assert one.fed(1000.0, *numbers) == 1
    one.arrived = numbers[1] * 500
    assert one.fed(1000.0, *numbers) == pytest.approx((1 + numbers[0]) / 2) and one.fed(100.0, *numbers) == numbers[0]


def test_only_what_skips_much_or_another_branch_is_a_branch_of_the_machine_code():
    """Up to seven instructions become predicates, a reciprocal that is rounded to nearest counts ten."""
    skips = {"few": "add.s32 %r1, %r2, %r3; " * 7, "many": "add.s32 %r1, %r2, %r3; " * 8, "precise": "rcp.rn.f32 %f1, %f2;",
             "nested": "@%p2 bra OUT; add.s32 %r1, %r2, %r3;"}
    found = {}
    for name, skipped in skips.items():
        function = Program(HEAD + f"@%p1 bra OUT; {skipped} OUT: mov.u32 %r4, %r5; ret; }}").function("k")
        pricer = object.__new__(programs.Pricer)
        pricer.body, pricer.labels = function.body, function.labels
        found[name] = pricer._turns(0)
    assert found == {"few": False, "many": True, "precise": True, "nested": True}
