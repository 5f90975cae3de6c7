# SPDX-License-Identifier: Apache-2.0
"""Times of the course's own answers that are kept for exercises of speed: there for every edition, and what the estimate says today."""
import pytest

from hopperlab.authoring.shipping import own_answers
from hopperlab.lessons import own_times
from hopperlab.runtime.compile import toolchain

CASES = [(exercise, setting) for exercise in own_answers.timed() for setting in own_answers.settings(exercise)]


def test_every_editions_are_kept():
    assert {name: set(times) for name, times in own_times.kept().items()} == {
        exercise.id: {own_times.key_of(setting) for setting in own_answers.settings(exercise)} for exercise in own_answers.timed()}
    for exercise, setting in CASES:
        assert exercise.speed_of(exercise.setting(setting)).reference_us() > 0


@pytest.mark.skipif(not toolchain.has_nvrtc(), reason="what is kept was estimated of NVRTC's PTX, and NVRTC is not installed")
@pytest.mark.parametrize("exercise, setting", [pytest.param(exercise, setting, id=f"{exercise.id}-{own_times.key_of(setting)}") for exercise, setting in CASES])
@pytest.mark.sampled(every=4, thin=False)
def test_what_is_kept_is_what_the_estimate_says(exercise, setting):
    now = own_answers.estimated_us(exercise, setting)
    assert own_times.own_us(exercise.id, **setting) == pytest.approx(now, rel=0.02), "python -m hopperlab.authoring own-times"
