# SPDX-License-Identifier: Apache-2.0
"""Lesson 11: the budget's rule agrees with the emulator's pool, the compiler's notes with the spills, and the exercise with both."""
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.checking.value_words import Wrong
from hopperlab.lessons import l11_setmaxnreg, repairs
from hopperlab.lessons.l10_warp_specialization import register_budget
from hopperlab.lessons.l11_setmaxnreg import exercise_words
from hopperlab.lessons.l11_setmaxnreg.budget import run_tile
from hopperlab.measure.launches.roles import Roles, register_roles
from hopperlab.measure.recordings import Record, Recording
from hopperlab.runtime.compile.ptxas import Note


@pytest.mark.parametrize(("threads", "expected"), [(384, 168), (256, 255), (512, 128), (1024, 64), (128, 255)])
def test_registers_at_entry(threads, expected):
    assert register_budget.registers_at_entry(threads) == expected


@pytest.mark.parametrize("roles", [(24, 240, 240), (40, 232, 232), (56, 224, 224), (32, 240, 240), (40, 240, 240), (24, 248, 248), (40, 256)], ids=str)
@pytest.mark.sampled(every=2)
def test_the_rule_is_the_emulators(roles):
    budget = register_budget.Budget(roles, register_budget.registers_at_entry(128 * len(roles)))
    right, run, _ = run_tile(Roles(len(roles) - 1, 1, 64, 2, roles[0], roles[1]))
    assert bool(budget.problem) == bool(run.hazards) and right == (not budget.problem)
    assert not run.hazards or {hazard.kind for hazard in run.hazards} == {"deadlock", "register-budget"}


@pytest.mark.parametrize("count", [23, 16, 264, 100])
def test_counts_setmaxnreg_does_not_take(count):
    assert f"not {count}" in register_budget.Budget((count, 240, 240), 168).problem
    with pytest.raises(ValueError, match=f"not {count}"):
        l11_setmaxnreg.launch_roles("64x128", 2, count, 240)


@pytest.mark.parametrize(("consumers", "consumer", "pool"), [(1, 240, "264 of 480"), (1, 168, "192 of 336"), (2, 160, "344 of 480"), (2, 240, "504 of 504")])
@pytest.mark.sampled(every=2)
def test_the_pool_is_what_ptxas_gives_the_kernel_at_entry(consumers, consumer, pool):
    """The largest count that a setmaxnreg names, at most what the launch bounds allow: so inc never asks for fewer, and of dec ptxas sees to it."""
    shown = l11_setmaxnreg.launch_roles("64x128", consumers, 24, consumer)
    assert "no hazard" in shown.text and shown.text.endswith(pool)


def test_ptxas_refuses_a_dec_that_would_raise():
    with pytest.raises(hl.CompileError, match="C7406"):
        l11_setmaxnreg.launch_roles("64x128", 2, 176, 168)


@pytest.mark.thorough
def test_the_wide_tile_spills_without_setmaxnreg_and_the_usual_one_does_not():
    assert "128 accumulators, 0 spill instructions, no notes" in l11_setmaxnreg.role_build(Roles(producer=0, consumer=0))
    spilled = l11_setmaxnreg.role_build(Roles(blocks=3, bn=128, producer=0, consumer=0))
    assert "192 accumulators" in spilled and "C7511" in spilled and " 0 spill" not in spilled
    assert "192 accumulators, 0 spill instructions, no notes" in l11_setmaxnreg.role_build(Roles(blocks=3, bn=128))


@pytest.mark.parametrize(("answer", "words"), [
    ((None, None), "Not answered"), ((24, 240), "Right"), ((56, 224), "Right"), ((32, 240), "waits for ever"), ((20, 240), "multiples of 8"),
    ((120, 192), "C7511"), ((240, 24), "gives registers back")])
@pytest.mark.sampled(every=3)
def test_the_exercise_names_what_is_wrong(answer, words):
    assert words in l11_setmaxnreg.check_registers(*answer)


def test_the_panels_launch_says_what_came_of_it():
    good = l11_setmaxnreg.launch_roles("64x128", 2, 24, 240)
    assert "right; no hazard" in good.text and good.png()[:4] == b"\x89PNG"
    stuck = " ".join(l11_setmaxnreg.launch_roles("64x128", 2, 32, 240).text.split())
    assert "WRONG; register-budget register-budget: setmaxnreg.inc" in stuck and "Waiting:" not in stuck
    assert "the warpgroups hold" in stuck and "may be at most 168 (at entry) times 3 warpgroups = 504" in stuck
    with pytest.raises(hl.NoteError, match="C7511"):
        l11_setmaxnreg.launch_roles("192x128", 2, 120, 192)


def test_any_shape_is_right_at_its_edges():
    from ml_dtypes import bfloat16
    random = np.random.default_rng(4)
    a, b = (random.integers(-2, 3, (rows, 72)).astype(bfloat16) for rows in (401, 131))
    c = np.zeros((401, 131), bfloat16)
    with hl.emulate(schedule="random", seed=3):
        register_roles(a, b, c, Roles(blocks=3, bn=128), backend="emulator")()
    assert (c == (a.astype(np.float32) @ b.astype(np.float32).T).astype(bfloat16)).all()


def test_the_table_of_the_recording():
    rows = [Record("roles", "register_roles", (), (64, 64, 64), "bfloat16", tflops=500.0, ratio=0.7, spills=12, note="384x128, as at entry")]
    told = l11_setmaxnreg.roles_table(Recording("roles", {"gpu": "G", "driver": "1", "cuda": "13.0", "date": "2026-01-01"}, tuple(rows)))
    assert "384x128, as at entry" in told and "500" in told and "12" in told


@pytest.mark.parametrize(("given", "words"), [
    ("", "No warpgroup has given any back"), ("        if (threadIdx.x < 32) setmaxnreg_dec<24>();\n", "Of warpgroup 0 only some warps have given registers back"),
    ("        setmaxnreg_dec<32>();\n", "lower some of them")])
def test_a_pool_that_never_suffices_is_told_by_who_gave(given, words):
    repair = repairs.every()["11", "pool"]
    lines = repair.broken.replace("            setmaxnreg_dec<PRODUCER_REGISTERS>();\n", "").replace("    if (warpgroup == 0) {\n", "    if (warpgroup == 0) {\n" + given)
    assert words in " ".join(repair.judge(lines).split())


def test_255_at_entry_is_told_apart():
    said = exercise_words.budget(Wrong((0,), 255, 256))
    assert "code can name 255" in said.cause and not exercise_words.budget(Wrong((0,), 160, 168)).cause


def test_a_table_counts_what_the_hardware_hands_out():
    assert "256 at entry x 2 = 512: works; 216 unused" in l11_setmaxnreg.budget_table([(40, 256)])


def test_too_few_registers_have_advice_of_their_own():
    assert "more of them (setmaxnreg)" in str(Note("C7511", "wgmma.mma_async instructions are serialized")) and "more of them" not in str(Note("C7510", "serialized"))
