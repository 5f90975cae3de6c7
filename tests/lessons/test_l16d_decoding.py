# SPDX-License-Identifier: Apache-2.0
"""Lesson 16d: its tables, its runs in the emulator, the exercise inside the lesson, and what is shown of a recording."""
import numpy as np
import pytest

from hopperlab.lessons import l16d_decoding as lesson
from hopperlab.lessons.l16d_decoding import decoding_runs, recorded
from hopperlab.measure.recordings import Record, Recording

SCHEDULES = ("lazy", "eager", "random")


def test_operations_a_byte_by_hand():
    """Grouped: 2 products of 2 operations for each of 2 x 2 bytes; latent: 1088 multiply-adds for 1152 bytes and head."""
    lines = {line[:34].strip(): line[34:].split() for line in lesson.intensity_table().splitlines()[2:]}
    assert [lines[name][0] for name in ("each head its own k and v", "8 query heads share k and v", "latent, 16 heads", "latent, 128 heads")] == ["1", "8", "30", "242"]
    assert lines["8 query heads share k and v"][1:] == ["38", "3.9%"]
    assert [line.split()[-4:] for line in lesson.rows_table(8).splitlines()[1:]] == [["16", "50%", "77", "8%"], ["64", "12%", "307", "31%"], ["8", "100%", "38", "4%"]]


def test_the_plan_table_by_hand():
    lines = [line.split() for line in lesson.plan_table([("one", [64 * 132])], heads=1, splits=(0, 1, 4)).splitlines()[1:]]
    assert [line[-4:] for line in lines] == [["132", "1", "100%", "132"], ["1", "132", "1%", "0"], ["4", "33", "3%", "4"]]


def test_pictures_say_what_they_show():
    picture = lesson.plan_picture([640, 64], 1, 3, 2)
    assert "CTA 0: sequence 0 h0* from 0 to 5" in picture.text and "sequence 1 h0 from" in picture.text and picture.png()[:4] == b"\x89PNG"
    assert lesson.draw_splits().png()[:4] == b"\x89PNG" and lesson.draw_parts(2).text.count("its maximum") == 2


@pytest.mark.parametrize("landing", SCHEDULES)
def test_runs_are_right_and_silent(landing):
    for right, run in (lesson.run_decoding(landing=landing), lesson.run_decoding((70,), latent=True, heads=16, landing=landing), lesson.run_behind(landing)):
        assert right and not run.hazards


@pytest.mark.parametrize("landing", SCHEDULES)
def test_what_the_lesson_breaks(landing):
    right, run = lesson.run_behind(landing, ("-DBUG_TABLE_BEFORE_WAIT=1",))
    assert {hazard.case for hazard in run.hazards} == {"read-before-grid-wait"} and "launch 2" in str(run.hazards[0])
    right, run = lesson.run_decoding((300,), size=60, options=("-DBUG_NO_MAXIMUM=1",), landing=landing)
    assert not right and not run.hazards


def test_append_is_what_the_cache_lacks():
    """The newest token's page is unknown and its rows are NaN until append has run."""
    step = decoding_runs.behind()
    given = step.given
    assert given.table[0, 1] == 0 and (given.pages[0][given.table[1, 1], :, 35] == 0x7FC0).all() and not step.right()


def test_pages_are_fetched_in_both_ways():
    rows = [line.split() for line in lesson.pages_table().splitlines()[1:]]
    assert len(rows) == 7 and all(row[-2:] == ["yes", "0"] for row in rows)
    assert [int(row[-4]) for row in rows] == [26, 14, 8, 8, 0, 0, 0] and all(int(row[-3]) for row in rows[4:])


@pytest.mark.parametrize("batch, splits", [(1, "1 a row"), (3, "in a line"), (2, "4 a row")])
def test_the_panel(batch, splits):
    picture = lesson.launch_decoding(batch, 200, 32, splits)
    assert "result right, no hazard" in picture.text and "CTA 0" in picture.text


@pytest.mark.parametrize("answer, words", [(None, "Not answered"), ([15, 1, 7], "Right"), ([15, 1], "three numbers"), ([1, 1, 7], "6% of the SMs"),
                                           ([15, 2, 7], "fewer are too"), ([15, 1, 0], "at least 1")])
def test_the_exercise_inside_the_lesson(answer, words):
    assert words in lesson.check_splits(answer)


def a_recording():
    header = {"gpu": "a GPU", "driver": "1", "cuda": "13", "date": "today"}
    cell, facts = (32, 8192, 64, 8, 128), dict(ms=0.25, ms_min=0.24, ms_max=0.3, peer="read, 1", peer_value=4500.0, ratio_min=0.8, ratio_max=1.0)
    made = [("cells", "decode", "decode", cell, 0.9), ("cells", "cuDNN", "cuDNN", cell, 0.5), ("cells", "bulk_read", "read, 1", cell, 1.0),
            ("pages", "decode", "gathered by cp.async", cell, 0.7),
            ("splits", "decode", "in a line", cell, 0.9), ("splits", "decode", "4 pieces a row", cell, 0.8), ("mixed", "decode", "in a line", cell, 0.9),
            ("mixed", "decode", "1 pieces a row", cell, 0.4),
            ("depth", "decode", "2 tiles, 1 warpgroups", cell, 0.6), ("latent", "latent", "latent", (32, 16384, 16, 1, 576), 0.8)]
    records = [Record(suite, kernel, ("page=64",), shape, "bfloat16", gb_s=round(4500 * ratio, 1), ratio=ratio, note=note, **facts) for suite, kernel,
               note, shape, ratio in made]
    return Recording("decoding", header, (*records, Record("bugs", "combine", ("size=60", "BUG_NO_MAXIMUM=1"), cell, "bfloat16", runs=30, wrong=30)))


def test_what_is_shown_of_a_recording():
    given = a_recording()
    assert lesson.share(given) == 90.0 and recorded.best_peers(given) == {(32, 8192, 64, 8, 128): ("cuDNN", 2250.0)}
    assert len(lesson.cells_table(given).splitlines()) == 5 and "cuDNN" in lesson.cells_chart(given).text
    assert "4 pieces" not in lesson.splits_chart(given).text and "of many lengths (in a line: 90.0)" in lesson.splits_chart(given).text
    assert "gathered" in lesson.pages_recorded(given) and "2 tiles" in lesson.depth_table(given) and "30 of 30" in lesson.bugs_table(given)
    assert lesson.latent_table(given).split()[-1] == f"{3600 * 16 * 2176 / 1152 / 1e3:.0f}"
    with pytest.raises(LookupError):
        lesson.share(given, (1, 1, 1, 1, 1))


def test_without_a_recording_it_is_said():
    for table in (lesson.cells_table, lesson.cells_chart, lesson.pages_recorded, lesson.splits_chart, lesson.depth_table, lesson.latent_table, lesson.bugs_table):
        assert "hopperlab bench decoding" in repr(table(None))


def test_parts_in_numpy():
    """What the notebook's reference says, for parts of any size."""
    from hopperlab.measure.launches import decoding
    given = decoding.operands(np, [90], latent=True, heads=16)
    assert decoding.reference(given).shape == (1, 16, 512)


def test_the_panel_says_that_ctas_have_no_work():
    assert "balance 0.50 (2 of 4 CTAs have work)" in lesson.launch_decoding(1, 100, 64, "1 a row").text
    assert "balance 1.00\n" in lesson.launch_decoding(1, 128, 64, "2 a row").text
