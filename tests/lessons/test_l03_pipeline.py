# SPDX-License-Identifier: Apache-2.0
"""Lesson 03: the launch behind its panel, the recorded depths of a ring, and the check of its small exercise."""

import pytest

from hopperlab.lessons import l03_ampere_pipeline
from hopperlab.measure.recordings import Record, Recording

HEADER = {"gpu": "a GPU", "driver": "1.2", "cuda": "13.0", "libraries": {}, "clocks": {}, "power_limit_watts": 700, "date": "2026-01-01", "method": "m"}


def recording(*records):
    return Recording("test", HEADER, tuple(records))


def stage(depth, rate, bn=128):
    return Record("stages", "mma_multistage", (f"STAGES={depth}", "BM=128", f"BN={bn}"), (64, 64, 64), tflops=rate)


STAGES = recording(stage(2, 50.0), stage(3, 99.0), stage(4, 100.0), stage(2, 40.0, 256), stage(4, 80.0, 256),
                   Record("stages", "cuBLAS", tflops=200.0, shape=(64, 64, 64)))


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    """Everything here runs in the emulator, on a GPU machine too."""
    monkeypatch.setenv("HOPPERLAB_BACKEND", "emulator")
    from hopperlab.runtime import backend

    backend._from_environment.cache_clear()
    yield
    backend._from_environment.cache_clear()


@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
def test_pipeline_panel_checks_its_product(schedule):
    picture = l03_ampere_pipeline.launch_pipeline(3, "128x128", 64, "cg", schedule)
    for said in (picture.figure.axes[0].get_title(loc="left"), picture.text):           # in words too, for who cannot see it
        assert "result right, 0 hazards, 32 KiB copied" in said and "48 KiB of shared memory per block; blocks per SM: 2" in said


def test_pipeline_panel_knows_the_wide_tile():
    assert "4 stages of 128x256: result right" in l03_ampere_pipeline.launch_pipeline(4, "128x256", 128, "ca", "lazy").figure.axes[0].get_title(loc="left")


def test_pipeline_panel_refuses_what_no_sm_holds():
    with pytest.raises(Exception, match="shared memory"):
        l03_ampere_pipeline.launch_pipeline(15, "128x128", 64, "cg", "lazy")


def test_ring_exercise_accepts_the_right_loop_and_names_the_mistakes():
    right = (lambda s: s - 1, lambda s: s - 2, lambda s, i: (i + s - 1) % s)
    assert l03_ampere_pipeline.check_ring(*right).startswith("Right")
    assert "not answered" in l03_ampere_pipeline.check_ring(None, None, None).lower()
    assert "may still be on its way" in l03_ampere_pipeline.check_ring(right[0], lambda s: s - 1, right[2])
    assert "being read" in l03_ampere_pipeline.check_ring(right[0], right[1], lambda s, i: i % s)
    assert "slots" in l03_ampere_pipeline.check_ring(lambda s: s + 1, right[1], right[2])
    assert "tile 0 is used and was never copied: the prologue copies 0 tiles" in l03_ampere_pipeline.check_ring(lambda s: s - 2, lambda s: 0, right[2])
    assert "tile 1 is not in slot 1: nothing is" in l03_ampere_pipeline.check_ring(lambda s: 1, lambda s: 0, right[2])
    assert "loaded twice" in l03_ampere_pipeline.check_ring(lambda s: s, right[1], right[2])
    assert "With 3 stages: safe, but the wait leaves 0 groups in flight where 1 may stay" in l03_ampere_pipeline.check_ring(right[0], lambda s: 0, right[2])


def test_stages_leave_a_gap_where_nothing_was_measured():
    text = l03_ampere_pipeline.stages_chart(STAGES).text
    assert "3 | 99 | – | 200" in text and "recorded on a GPU, driver 1.2, CUDA 13.0, 2026-01-01" in text


def test_best_depth_says_which_is_enough():
    assert l03_ampere_pipeline.best_depth(STAGES).split("\n")[0] == "cp.async + mma.sync, 128x128: fastest with 4 stages; the fewest stages within 2 % of that: 3"
