# SPDX-License-Identifier: Apache-2.0
"""Lesson 13x: the model of a chain, its runs in the emulator, the exercise inside the lesson, and what is recorded."""
from itertools import product as every

import pytest

from hopperlab import measure
from hopperlab.lessons import l13x_launches_that_overlap as lesson
from hopperlab.lessons.l13x_launches_that_overlap import chain_model, chain_runs, recorded
from hopperlab.measure.launches import chain as chains

SCHEDULES = ("lazy", "eager", "random")
RECORDING = measure.load("launches")


def test_the_model_by_hand():
    """Two kernels: gap 1, head 0.9, body 2, tail 0.3."""
    ends = {way: chain_model.chain_times(2, way, launch_at, wait_at)[-1].ends for way, launch_at, wait_at in (
        ("ordinary", "never", "x"), ("dependent", "start", "x"), ("persistent", "never", "x"))}
    assert ends == pytest.approx({"ordinary": 3.2 + 1 + 0.9 + 2.3, "dependent": 3.2 + 2.3, "persistent": 2.9 + 0.9 + 2.3})
    assert chain_model.chain_times(2, "dependent", "never", "x")[-1].ends == pytest.approx(3.2 + 1 + 0.9 + 2.3)
    assert chain_model.chain_times(2, "dependent", "start", "start")[-1].ends == pytest.approx(3.2 + 0.9 + 2.3)


@pytest.mark.parametrize("launch_at, wait_at", list(every(chains.LAUNCH_AT, ("x", "loads", "start"))))
def test_in_the_model_nobody_reads_before_the_one_in_front_has_ended(launch_at, wait_at):
    for way in ("ordinary", "dependent", "persistent"):
        times = chain_model.chain_times(5, way, launch_at, wait_at)
        for front, behind in zip(times, times[1:], strict=False):
            assert behind.first(chain_model.WORKS) >= front.ends and behind.begins >= front.begins
        assert all(first == pytest.approx(last) for one in times for (_, _, first), (_, last, _) in zip(one.spans, one.spans[1:], strict=False))
        assert times[-1].ends <= chain_model.chain_times(5, "ordinary")[-1].ends + 1e-9


def test_the_pictures_say_what_they_show():
    picture = lesson.chain_picture(3, "dependent", "multiplied", "x")
    assert "launch_dependents: multiplied" in picture.text and "norm: waits" not in lesson.chain_picture(2, "ordinary").text
    assert picture.png()[:4] == b"\x89PNG" and lesson.draw_wait(3).png()[:4] == b"\x89PNG" and lesson.draw_starts(3).text.count("norm") >= 3
    assert "slot 2, tile of w: nobody writes it" in lesson.draw_wait(3).text


@pytest.mark.parametrize("landing", SCHEDULES)
def test_runs_are_right_and_silent(landing):
    for right, run in (lesson.run_chain(2, landing=landing), lesson.run_chain(1, dependent=False, landing=landing), lesson.run_persistent(2, landing=landing),
                       lesson.forked(True, landing)):
        assert right and not run.hazards


@pytest.mark.parametrize("landing", SCHEDULES)
def test_what_the_lesson_breaks_is_named(landing):
    _, run = lesson.run_chain(2, landing=landing, options=("-DBUG_X_BEFORE_GRID_WAIT=1",))
    assert {hazard.case for hazard in run.hazards} == {"read-before-grid-wait"} and run.hazards[0].facts is not None
    assert "launch 2" in str(run.hazards[0]), "launches are counted from the run's own"
    _, run = lesson.run_persistent(2, landing=landing, options=("-DBUG_FLAG_RESET_EARLY=1",))
    assert run.hazards[0].kind in ("race", "deadlock")
    _, run = lesson.forked(False, landing)
    assert [hazard.kind for hazard in run.hazards] == ["race"]


@pytest.mark.thorough
def test_the_placements_are_all_silent():
    rows = lesson.placements_table(("lazy",)).splitlines()[1:]
    assert len(rows) == 6 and all(row.split()[2:] == ["yes", "0"] for row in rows)


@pytest.mark.parametrize("way", chain_runs.WAYS)
def test_the_panel(way):
    picture = lesson.launch_chain(3, way, "loaded", "x", "lazy")
    assert "result right, no hazard" in picture.text and "recorded at 128 x 1024" in picture.text
    assert "no time is recorded" in recorded.chain_time(chain_runs.WAYS[way], 5)


@pytest.mark.parametrize("letters, words", [(None, "Not answered"), ("abef", "Right"), ("ab", "e, prefetch"), ("abefc", "c, the load of a tile of x"),
                                            ("z", "no line 'z'"), ("abefg", "g, the arrival")])
def test_the_exercise_inside_the_lesson(letters, words):
    assert words in lesson.check_above(letters)


def test_without_a_recording_it_is_said():
    for table in (lesson.ways_table, lesson.gains_table, lesson.placement_table, lesson.length_chart, lesson.starts_table, lesson.clusters_table,
                  lesson.bugs_table, lesson.when_picture):
        assert "Nothing is recorded for this yet" in repr(table(None))


def test_the_recorded_chain():
    """The dependent launches of the recording are faster than the same kernels in a graph, by what the issue of the lesson is about."""
    assert lesson.ways_table(RECORDING).count("\n") == 6 and "graph of dependent launches" in lesson.ways_table(RECORDING)
    gains = [lesson.gain(RECORDING, shape, mode) for shape in {r.shape for r in RECORDING.where(suite="chain")} for mode in ("cold L2", "warm L2")]
    assert len(gains) == 6 and all(gain > 0 for gain in gains)
    assert len(lesson.gains_table(RECORDING).splitlines()) == 5 and "0 of " in lesson.bugs_table(RECORDING).splitlines()[1]
    with pytest.raises(LookupError):
        lesson.gain(RECORDING, (1, 1, 1))
    assert len(lesson.placement_table(RECORDING).splitlines()) == 9 and len(lesson.starts_table(RECORDING).splitlines()) == 12
    sizes = [line.split() for line in lesson.clusters_table(RECORDING).splitlines()[2:]]
    assert [int(size) for size, *_ in sizes] == [1, 2, 4, 8, 16] and all(int(a) * int(b) == int(c) <= 132 for a, b, c in sizes)


@pytest.mark.parametrize("way, rows", [("graph", 5), ("graph of dependent launches", 5)])
def test_the_recorded_moments(way, rows):
    picture = lesson.when_picture(RECORDING, way, "loaded")
    assert picture.text.count("begins … may read") == rows and "norm: may read … ends" in picture.text and picture.png()[:4] == b"\x89PNG"
    assert lesson.length_chart(RECORDING).text.count("\n") == 6


@pytest.mark.parametrize("kernels, way", [(5, "dependent launches"), (4, "ordinary launches"), (2, "one persistent kernel")])
@pytest.mark.sampled(every=3)
def test_the_panels_words_below_its_axis_lie_in_the_picture(kernels, way):
    figure = lesson.launch_chain(kernels, way, "start", "x", "lazy").figure
    figure.canvas.draw()
    box = figure.axes[0].xaxis.label.get_window_extent()
    assert 0 <= box.x0 and box.x1 <= figure.bbox.x1 and 0 <= box.y0
