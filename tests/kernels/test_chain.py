# SPDX-License-Identifier: Apache-2.0
"""Lesson 13x's kernels: a chain of small products and a norm is right in every way to launch it, whatever lands when, and nothing is named; its planted bugs are."""
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.measure.launches import chain as chains
from hopperlab.measure.launches.operand_checks import OperandError
from hopperlab.measure.launches.operands import bf16_values

SCHEDULES = ("lazy", "eager", "random")
SHAPES = [(64, 128, 2), (100, 64, 1), (128, 192, 3)]
xp = hl.array_module()


def ran(made, schedule="lazy", dependent=False, seed=0):
    made.given.clear()
    with hl.emulate(schedule=schedule, seed=seed, hazards="collect") as run, hl.Stream(backend="emulator") as stream:
        made(dependent)
        stream.synchronize()
    return run


@pytest.mark.parametrize("dependent", [False, True], ids=["ordinary", "dependent"])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_launch_by_launch(shape, schedule, dependent):
    made = chains.chain(chains.operands(xp, *shape, seed=sum(shape)), stages=2)
    assert not ran(made, schedule, dependent, seed=shape[0]).hazards and made.right()


@pytest.mark.parametrize("launch_at", chains.LAUNCH_AT)
@pytest.mark.parametrize("wait_at", ["x", "loads", "start"])
@pytest.mark.sampled(every=2)
def test_every_place_of_the_two_instructions(launch_at, wait_at):
    made = chains.chain(chains.operands(xp, 64, 128, 2, seed=4), launch_at, wait_at)
    assert not ran(made, "random", True, seed=len(launch_at)).hazards and made.right()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("shape", [(64, 128, 2), (128, 64, 3)], ids=str)
@pytest.mark.sampled(every=8)
def test_one_kernel_leaves_its_flags_as_it_found_them(shape, schedule):
    given = chains.operands(xp, *shape, seed=5)
    flags = chains.flags_for(xp, given)
    for blocks in (1, 3):
        made = chains.persistent(given, flags, stages=3, blocks=blocks)
        for _ in range(2):
            assert not ran(made, schedule).hazards and made.right() and not flags.any()


def test_normal_numbers_are_right_to_the_rounding():
    made = chains.chain(chains.operands(xp, 64, 128, 3, seed=6, exact=False))
    ran(made)
    assert made.right()
    made.given.out[5, 7] ^= 0x4000
    assert not made.right()


def test_the_reference_is_the_definition():
    given = chains.operands(np, 3, 64, 1, seed=7)
    (first,), norm = chains.reference(given)
    x, w, gain = (bf16_values(array) for array in (given.steps[0], given.weights[0], given.gain))
    assert (first == x @ w.T).all() and np.abs(w).sum(axis=1).max() <= 8
    for row in range(3):
        assert np.allclose(norm[row], first[row] / np.sqrt(np.mean(first[row] ** 2) + 1e-5) * gain, rtol=1e-6)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("choices", [{"options": ("-DBUG_X_BEFORE_GRID_WAIT=1",)}, {"wait_at": "never"}, {"wait_at": ("x", "never", "x")}],
                         ids=["x first", "never", "one of three"])
@pytest.mark.sampled(ci=1)
def test_reading_before_the_wait_is_named(choices, schedule):
    made = chains.chain(chains.operands(xp, 64, 64, 2), **choices)
    found = ran(made, schedule, dependent=True).hazards
    assert found and {(hazard.kind, hazard.case) for hazard in found} == {("read-before-arrival", "read-before-grid-wait")}
    assert not ran(made, schedule, dependent=False).hazards


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_flag_reset_too_early_is_named(schedule):
    given = chains.operands(xp, 64, 128, 2)
    made = chains.persistent(given, chains.flags_for(xp, given), blocks=2, options=("-DBUG_FLAG_RESET_EARLY=1",))
    found = ran(made, schedule).hazards
    assert found and {hazard.kind for hazard in found} <= {"race", "deadlock"}


@pytest.mark.parametrize("broken, words", [
    (lambda: chains.chain(chains.operands(np, 64, 96, 1)), "n is 96"), (lambda: chains.chain(chains.operands(np, 64, 64, 1), "early"), "launch_at is 'early'"),
    (lambda: chains.chain(chains.operands(np, 64, 64, 2), wait_at=("x", "x")), "for all 3 kernels or one a kernel"),
    (lambda: chains.persistent(chains.operands(np, 32, 64, 1), np.zeros(9, np.uint32)), "m is 32"),
    (lambda: chains.persistent(chains.operands(np, 64, 64, 2), np.zeros(2, np.uint32)), "there are 2 flags")])
def test_what_cannot_be_launched_is_told(broken, words):
    with pytest.raises(OperandError, match=words):
        broken()


def test_a_graph_is_the_same_launches_in_the_emulator():
    made = chains.chain(chains.operands(xp, 64, 64, 1))
    run = made.captured(dependent=True)
    with hl.emulate(hazards="collect") as session:
        run()
        hl.synchronize("emulator")
    assert session.launches == 2 and not session.hazards and made.right()


def test_without_a_stream_the_launches_follow_one_another():
    made = chains.chain(chains.operands(xp, 64, 128, 2), stages=2)
    for launch in made.launches:
        launch()
    assert made.right()
    hl.load_kernel("launches/start.cu", "start", ("-DLAUNCH_AT=1",), backend="emulator")((3,), (32,), ())


def test_kernels_that_do_nothing_start_and_end():
    for launch_at in (0, 1):
        module = hl.RawModule(code=hl.kernel_source("launches/start.cu"), options=(f"-DLAUNCH_AT={launch_at}",), backend="emulator")
        with hl.emulate(hazards="collect") as run, hl.Stream(backend="emulator"):
            for number in range(4):
                module.get_function("start")((3,), (32,), (), dependent=number > 0)
            module.get_function("spin")((1,), (1,), (np.int64(10),))
        assert run.launches == 5 and not run.hazards
