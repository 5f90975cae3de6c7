# SPDX-License-Identifier: Apache-2.0
"""Lesson 14: configurations are legal or say why not, the model's parts add up, the exercise ranks, and the tables are the recording's."""
from dataclasses import replace

import pytest

from hopperlab import measure
from hopperlab.measure import summaries
from hopperlab.lessons import l13_persistent
from hopperlab.lessons.l14_beat_cublas import choices, recorded
from hopperlab.measure import story
from hopperlab.measure.launches import gemm_model
from hopperlab.measure.launches.gemm_configurations import Final
from hopperlab.show import speed_by_shape
from hopperlab.show.listings import source

LADDER = measure.load("ladder")
CUBE = (2048, 2048, 2048)


@pytest.mark.parametrize(("choice", "words"), [
    (choices.configuration((128, 256), 4, (2, 1)), ""), (choices.configuration((128, 256), 5), "262224 bytes"),
    (choices.configuration((256, 256), 3), "256 registers"), (choices.configuration((128, 72), 3), "multiple of 16"),
    (choices.configuration((64, 128), 3), "multiple of 64"), (choices.configuration((128, 128), 3, (4, 2)), "8 CTAs"),
    (replace(choices.configuration((128, 128), 2), in_flight=2), "cannot keep 2 in flight"), (Final(consumers=3), "not 3")])
def test_a_configuration_says_why_it_cannot_be(choice, words):
    assert words in choices.problem(choice) and bool(choices.problem(choice)) == bool(words)


@pytest.mark.parametrize("choice", [choices.configuration((128, 256), 3, (2, 1)), choices.configuration((256, 128), 3, (1, 2)),
                                    choices.configuration((64, 128), 4, (1, 1), 0, 1)], ids=lambda c: f"{c.bm}x{c.bn}")
def test_a_small_run_is_right(choice):
    right, run = choices.run_choice(choice, choices.small_shape(choice), "random")
    assert right and not run.hazards


WAIT = "wgmma_wait_group<IN_FLIGHT>();                  // the k-block IN_FLIGHT before this one has been read"
RELEASE = "if (i >= IN_FLIGHT) release(ring.slot - IN_FLIGHT);"
EARLY_RELEASE = (f"{WAIT}\n                {RELEASE}", f"{RELEASE}\n                {WAIT}")


@pytest.mark.parametrize(("change", "choice", "kind"), [
    (("for (int s = 0; SHARE > 1 && s < STAGES; s++,", "for (int s = 0; s < 0; s++,"), choices.configuration((128, 256), 3, (2, 1)), "cluster-lifetime"),
    (EARLY_RELEASE, choices.configuration((128, 256), 3, (2, 1)), "overwrite-in-flight")])
def test_planted_bugs_are_named(change, choice, kind):
    _, run = choices.run_choice(choice, (256, 264, 320), changes=(change,))
    assert {hazard.kind for hazard in run.hazards} == {kind}


def test_the_models_parts_add_up():
    for choice in (choices.configuration((128, 256), 4, (2, 1)), choices.configuration((64, 128), 8, (2, 1), 0, 1)):
        for shape in (CUBE, (4096, 7168, 2048)):
            assert sum(choices.parts(choice, shape).values()) == pytest.approx(gemm_model.microseconds(choice, *shape))
            assert sum(choices.parts(choice, shape).values()) >= shape[0] * shape[1] * shape[2] / 2048 / 132 / 1700


def test_what_a_shape_becomes_is_counted():
    told = choices.described(choices.configuration((128, 256), 4, (2, 1)), (4096, 4096, 4096))
    assert "16 x 16 cluster tiles of 256 x 256: 4 waves of 66, the last with 58" in told and "213056 of 232448" in told


def test_the_panel():
    told = choices.launch_choice("4096 x 4096 x 4096", "128x256", 4, "2x1", 8).text
    assert "Small run: right, no hazard" in told and "the model's pick" in told
    with pytest.raises(ValueError, match="bytes of shared memory"):
        choices.launch_choice("4096 x 4096 x 4096", "128x256", 6, "2x1", 8)


@pytest.mark.parametrize(("answer", "words"), [
    ((None, None, None), "Not answered"), (((128, 256), 4, (2, 1)), "Right: no configuration"), (((128, 256), 3, (2, 1)), "room for 4 stages"),
    (((128, 256), 5, (2, 1)), "Not possible: 262224"), (((128, 128), 4, (2, 1)), "41 % slower"), (((128, 256), 3, (2, 2)), "2 waves of 30"),
    (((128, 192), 3, (2, 1)), "69 % slower")])
@pytest.mark.sampled(every=3)
def test_the_exercise_ranks(answer, words):
    assert words in choices.check_tuning(*answer)


def test_tables_are_the_recordings():
    board = choices.leaderboard(LADDER, CUBE)
    fastest = choices.tried_at(LADDER, CUBE)[0]
    assert board.split("\n")[2].startswith(fastest.note) and f"{fastest.ratio:.3f}" in board
    with pytest.raises(ValueError, match="nothing was tried"):
        choices.leaderboard(LADDER, (1, 2, 3))
    assert choices.picks_table([CUBE]).startswith("2048 x 2048 x 2048: one of ")


def test_charts_of_random_shapes_say_how_good_the_picks_are():
    search, products = measure.load("search"), measure.load("products")
    losses = choices.picked_losses(search)
    assert len(losses) == len({(record.shape, "B_MN=1" in record.options) for record in search}) and all(loss >= 0 for loss in losses.values())
    assert f"mean {100 * sum(losses.values()) / len(losses):.1f} %" in choices.choice_model_chart(search).text
    told = choices.random_shapes_chart(products).text
    worst = min(summaries.faster_of_notes(r for r in products if r.kernel == "final" and r.mode == "cold L2"), key=lambda record: record.ratio)
    assert f"{' x '.join(map(str, worst.shape))}: {100 * worst.ratio:.1f} %" in told


def test_gains_are_over_the_step_built_on():
    told = story.tell(LADDER)
    rate = {step.name: step.tflops for step in told.steps}
    gains = recorded.gains(told)
    assert gains["overlapped_store"] == pytest.approx(rate["overlapped_store"] / rate["persistent"])
    assert set(recorded.BUILDS_ON) <= set(story.LADDER) and set(recorded.BRANCHES) <= set(gains)
    assert f"x {gains['final']:.2f} overlapped_store" in recorded.gains_table(told)


def test_every_recorded_shape_is_drawn_with_its_spread():
    picture = speed_by_shape.shapes_chart(LADDER)
    for record in LADDER:
        if record.kernel == "final" and not record.note:
            assert f"{' x '.join(map(str, record.shape))}: {100 * record.ratio:.1f} % ({100 * record.ratio_min:.1f} to" in picture.text
    assert picture.png()[:4] == b"\x89PNG"
    assert recorded.power_table(LADDER).count("cublasGemmEx") == len(LADDER.where(kernel="sustained")) // 2
    assert "pingpong" in l13_persistent.branches_table(LADDER) and "4096³" in l13_persistent.branches_table(LADDER)


def test_the_lessons_excerpt_is_the_whole_kernel():
    rows = source("gemm/final.cu", lines=(138, 272)).numbered().split("\n")
    assert 'extern "C" __global__' in rows[0] and rows[-1].split() == ["272", "}"]
