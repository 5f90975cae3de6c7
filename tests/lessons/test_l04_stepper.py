# SPDX-License-Identifier: Apache-2.0
"""The mbarrier stepper says what the run did, the exercise of lesson 04 is judged rightly, and the panel explains what it refuses."""
import numpy as np
import pytest
from support import visits

from hopperlab.hopper import mbarrier
from hopperlab.lessons import l04_mbarrier
from hopperlab.lessons.l04_mbarrier import handovers, stepper
from hopperlab.measure.recordings import Record, Recording


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    """Everything here runs in the emulator, on a GPU machine too."""
    monkeypatch.setenv("HOPPERLAB_BACKEND", "emulator")
    from hopperlab.runtime import backend

    backend._from_environment.cache_clear()
    yield
    backend._from_environment.cache_clear()


@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_the_model_reaches_every_phase_of_the_run(stages, schedule):
    run, right = l04_mbarrier.ring_run(stages, 7, schedule)
    steps = l04_mbarrier.barrier_steps(run, l04_mbarrier.ring_counts(stages))
    flips = sum(step.flips for history in steps.values() for step in history)
    assert right and flips == len(run.timeline.of("flip")) == 14
    for name, history in steps.items():
        slot = int(name[-2])
        assert mbarrier.unpack(history[-1].word).phase == sum(step.flips for step in history) % 4
        assert sum(step.flips for step in history) == len(range(slot, 7, stages))


def test_steps_of_the_empty_barrier_in_words():
    run, _ = l04_mbarrier.ring_run(2, 5)
    words = l04_mbarrier.step_words(l04_mbarrier.barrier_steps(run, l04_mbarrier.ring_counts(2))["empty[0]"])
    assert "init, 4 arrivals a phase" in words and "warp 4 arrives; the phase ends" in words
    assert words.count("the phase ends") == 3 and "bytes land" not in words


def test_a_phase_that_the_model_does_not_reach_is_refused():
    run, _ = l04_mbarrier.ring_run(2, 5)
    with pytest.raises(ValueError, match="not in the model"):
        l04_mbarrier.barrier_steps(run, {name: count + 1 for name, count in l04_mbarrier.ring_counts(2).items()})
    with pytest.raises(ValueError, match="4 mbarriers, and 2 were named"):
        l04_mbarrier.barrier_steps(run, l04_mbarrier.ring_counts(1))


def test_panel_draws_and_marks_its_event():
    first, second = (l04_mbarrier.launch_stepper("full[0]", 6, 2, 5, "lazy") for _ in range(2))
    assert first.png() == second.png() and len(first.png()) < 60_000
    assert "2048 bytes land; the phase ends" in first.text and "a wait now: parity 0 passes, parity 1 blocks" in first.text
    assert first.png() != l04_mbarrier.launch_stepper("full[0]", 7, 2, 5, "lazy").png()
    assert [axis.get_ylabel().replace("\n", " ") for axis in first.figure.axes[:3]] == ["phase", "pending arrivals", "bytes to come"]
    assert "order, not seconds" in first.figure.axes[2].get_xlabel()


def test_panel_explains_what_is_not_there():
    with pytest.raises(ValueError, match=r"a ring of 1 slot has no full\[1\]: its barriers are full\[0\], empty\[0\]"):
        l04_mbarrier.launch_stepper("full[1]", 0, 1, 5, "lazy")
    with pytest.raises(ValueError, match=r"events 0 to \d+ in this run; there is no event 30"):
        l04_mbarrier.launch_stepper("full[0]", 30, 2, 1, "eager")


RIGHT = ("mbarrier_init(&full[s], 1);\nmbarrier_init(&empty[s], 4);",
         "mbarrier_wait_parity(&empty[s], i / 2 % 2 ^ 1);\nmbarrier_arrive_expect_tx(&full[s], TILE_BYTES);",
         "mbarrier_wait_parity(&full[s], i / 2 % 2);", "__syncwarp();\nif (t % 32 == 0) mbarrier_arrive(&empty[s]);")
WRONG = [(0, RIGHT[0].replace("4", "128"), "deadlock"), (1, RIGHT[1].replace(" ^ 1", ""), "deadlock"),
         (2, RIGHT[2].replace("i / 2 % 2", "0"), "Not yet"), (3, "if (t % 32 == 0) mbarrier_arrive(&empty[s]);", "overwrite-in-flight"),
         (3, "mbarrier_arrive(&empty[s]);", "barrier-misuse"), (2, "mbarrier_wait_parity(&full[s], 0)", "does not compile")]


def test_two_slot_exercise_accepts_right_answers():
    assert l04_mbarrier.check_two_slots(*RIGHT).startswith("Right")
    visits.visit("kernel", "mbarrier/two_slots.cu")         # launched with the answers in it, as a text of its own
    every_thread = (RIGHT[0].replace("4", "128"), *RIGHT[1:3], "mbarrier_arrive(&empty[s]);")
    assert l04_mbarrier.check_two_slots(*every_thread).startswith("Right")


@pytest.mark.parametrize(("place", "text", "told"), WRONG)
def test_two_slot_exercise_names_the_mistake(place, text, told):
    answers = list(RIGHT)
    answers[place] = text
    assert told in l04_mbarrier.check_two_slots(*answers)


def test_two_slot_exercise_wants_both_slots_used():
    alternating = (RIGHT[0], "if (i > 0) mbarrier_wait_parity(&empty[s ^ 1], (i - 1) / 2 % 2);\n" + RIGHT[1].split("\n")[1], *RIGHT[2:])
    assert "never two copies" in l04_mbarrier.check_two_slots(*alternating)


def test_unanswered_exercise_blocks_nothing():
    assert l04_mbarrier.check_two_slots(None, "", None, "") == "Not answered yet: init, before_reads. Each is one or two lines of CUDA."


def test_hand_over_is_recorded_or_says_what_to_do():
    assert "no recording of this" in l04_mbarrier.handover_cost()
    header = {"gpu": "a GPU", "driver": "1.2", "cuda": "13.0", "date": "2026-01-01"}
    rows = tuple(Record("micro", way, value=value, value_min=value - 1, value_max=value + 1, unit="cycles")
                 for way, value in (("mbarrier_round_trip", 90.0), ("syncthreads", 30.0), ("other", 1.0)))
    text = l04_mbarrier.handover_cost(Recording("micro", header, rows))
    assert text.startswith("recorded on a GPU") and "90 cycles (89 to 91)" in text and len(text.split("\n")) == 3


@pytest.mark.parametrize("way", handovers.WAYS)
def test_hand_over_kernels_run_here(way):
    assert handovers.measured(way, "emulator", rounds=4)[0] > 0


def test_reference_is_the_fold():
    x = np.arange(256, dtype=np.float32)
    assert stepper.folded(x)[[0, 127, 128]].tolist() == [127, 127, 383]
