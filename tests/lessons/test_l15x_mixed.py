# SPDX-License-Identifier: Apache-2.0
"""Lesson 15x: its runs in the emulator, what it counts and draws, the exercise inside the lesson, and what is recorded."""
import numpy as np
import pytest

from hopperlab.lessons import l15x_mixed_and_sparse as lesson
from hopperlab.lessons.l15x_mixed_and_sparse import mixed_runs, prepared_pictures
from hopperlab.measure.launches import mixed_weights as prepare
from hopperlab.measure.recordings import Record, Recording

SCHEDULES = ("lazy", "eager", "random")


@pytest.mark.parametrize("landing", SCHEDULES)
def test_runs_are_right_and_silent(landing):
    for right, run in (lesson.run_int(4, landing=landing), lesson.run_int(8, 64, 40, landing), lesson.run_sparse(16, landing)):
        assert right and not run.hazards and not run.warnings


def test_what_the_lesson_breaks_is_wrong_and_silent():
    for right, run in (lesson.run_int(4, options=("-DBUG_NIBBLES=1",)), lesson.run_sparse(options=("-DBUG_METADATA=1",))):
        assert not right and not run.hazards


def test_bytes_by_hand():
    """16 rows, 8192 x 8192: 128 MiB in bf16, 32 + 1 of 4 bits; x and y are half a MiB together."""
    rows = {line.split("  ")[0].strip(): line.split() for line in lesson.weights_table(16, 8192, 8192).splitlines()[2:]}
    assert rows["4 bits"][2] == "33.0" and float(rows["4 bits"][3]) == pytest.approx(128.5 / 33.5, abs=0.01) and rows["8 bits"][2] == "65.0"
    assert float(rows["bf16"][-1]) == round(2 * 16 / (2 * 128.5 / 128)) and rows["2:4 sparse bf16"][3] == "72.0"


def test_the_bits_are_the_weights():
    for line in lesson.bits_table().splitlines()[1:]:
        words = line.split()
        assert int(words[2]) == int(words[-1]) and float(words[-3]) - float(words[-2]) == float(words[-1])


@pytest.mark.parametrize("bits", [4, 8])
def test_the_picture_of_the_fields_is_the_layout(bits):
    """Each field of a thread's words, as drawn, holds what `prepared` puts there."""
    q = np.random.default_rng(bits).integers(-8, 8, (64, 64)).astype(np.int8)
    words = prepare.prepared(q, np.zeros((64, 1), np.uint16), bits, 64).words.view(np.uint32).reshape(-1, 128, 4)
    g, quad = 3, 2
    for first, register, element, word in prepared_pictures._fields(bits):
        row, column = (text.strip() for text in element.split(","))
        at = g + (8 if "8" in row else 0), 2 * quad + int(column.split("+")[1] if "+" in column else 0)
        field = int(words[0, 4 * g + quad, word]) >> first & (15 if bits == 4 else 255)
        assert (field - 8 if bits == 4 else (field ^ 128) - 128) == q[at] and register == (at[0] // 8) + 2 * (at[1] // 8)
    assert lesson.fields_picture(bits).png()[:4] == b"\x89PNG" and f"{8 * bits} of its 128 bits" in lesson.fields_picture(bits).text


def test_pictures_and_tables():
    assert "columns 32 to 47: lane 4 g + 2, k-step 1, selector 1" in lesson.metadata_picture().text and lesson.draw_words().png()[:4] == b"\x89PNG"
    assert "row 10: columns 2, 3, 10, 11, 18, 19, 26, 27" in lesson.draw_bytes().text and lesson.draw_bytes().png()[:4] == b"\x89PNG"
    assert len(lesson.choices_table().splitlines()) == 6 and lesson.fp8_table().count("exact: True; 0 hazards") == 3


@pytest.mark.parametrize("kind", mixed_runs.KINDS)
def test_the_panel(kind):
    assert "values right, no hazard" in lesson.launch_mixed(kind, 128, 16, "as prepared", "lazy").text
    assert "values WRONG, no hazard" in lesson.launch_mixed(kind, 64, 1, "exchanged", "random").text


@pytest.mark.parametrize("letters, words", [(None, "Not answered"), ("abd", "Right"), ("ab", "d, each lane holding"), ("abcd", "c, wgmma_fence"),
                                            ("z", "no line 'z'"), ("abde", "e, a slot")])
def test_the_exercise_inside_the_lesson(letters, words):
    assert words in lesson.check_wrong(letters)


def test_without_a_recording_it_is_said():
    for table in (lesson.products_table, lesson.many_chart, lesson.groups_table, lesson.configurations_table, lesson.energy_table):
        assert "Nothing is recorded for this yet" in repr(table(None))


def _record(suite, kernel, dtype, shape, ms, ratio, **more):
    return Record(suite, kernel, more.pop("options", ()), shape, dtype, ms=ms, ms_min=ms, ms_max=ms, tflops=1.0, gb_s=2.0, peer="cuBLAS", peer_value=1.0,
                  ratio=ratio, ratio_min=ratio, ratio_max=ratio, mode=more.pop("mode", "cold L2"), **more)


def test_tables_of_a_recording():
    """Made-up numbers: what the tables do with them."""
    few, many, macros = (16, 8192, 8192), (1024, 8192, 8192), ("weights=int4", "GROUP=64", "BM=16", "ROWS=2", "BK=64", "SPLIT=4", "CTAS=1", "STAGES=12")
    recording = Recording("mixed", {"gpu": "a board", "driver": "1", "cuda": "13.0", "date": "2026-01-01"}, (
        _record("few", "cublasGemmEx TN", "bfloat16", few, 0.03, 1.0), _record("few", "int_weights", "int4", few, 0.01, 3.0, options=macros),
        _record("few", "torch int4", "int4", few, 0.02, 1.5),
        _record("many", "int_weights", "int4", many, 0.2, 0.9), _record("many", "sparse", "sparse", many, 0.15, 1.2),
        _record("groups", "int_weights", "int4", few, 0.01, 3.0, options=macros),
        _record("configurations", "int_weights", "int4", few, 0.02, 1.5, options=macros), _record("configurations", "int_weights", "int4", few, 0.01,
                3.0, options=(*macros[:-1], "STAGES=4")),
        _record("energy", "cublasGemmEx TN", "bfloat16", few, 0.03, 1.0, joules=0.02, watts=500.0), _record("energy", "int_weights", "int4", few, 0.01,
                3.0, joules=0.005, watts=400.0, limited="power")))
    table = lesson.products_table(recording, "few").splitlines()
    assert len(table) == 5 and "4 bits, torch int4" in table[4] and table[3].split()[-1] == "3.00"
    assert lesson.speedup(recording) == 3.0 and lesson.speedup(recording, many, "sparse") == 1.2
    with pytest.raises(LookupError):
        lesson.speedup(recording, (1, 1, 1))
    assert lesson.groups_table(recording).splitlines()[-1].split()[7] == "64"
    first = lesson.configurations_table(recording).splitlines()[2].split()
    assert first[:3] == ["16", "x", "256"] and first[5:7] == ["1", "4"]
    assert "2:4 sparse" in lesson.many_chart(recording).text
    clean = Recording("mixed", recording.header, (*recording, _record("few", "int_weights", "int4", few, 0.008, 3.5, options=macros, mode="clean L2")))
    assert lesson.products_table(clean, "few").splitlines()[-1].split()[-2:] == ["3.50", "3.00"] and lesson.speedup(clean) == 3.5


def test_time_power_and_joules_in_a_line_are_those_of_one_run():
    """Single cold launches took 30 and 10 us; back to back a launch lasts as long as its joules at these watts: 40 and 12.5."""
    few, told = (16, 8192, 8192), {"joules": 0.02, "watts": 500.0}
    recording = Recording("mixed", {"gpu": "a GPU", "driver": "1", "cuda": "13.0", "date": "2026-01-01", "power_limit_watts": 700.0}, (
        _record("energy", "cublasGemmEx TN", "bfloat16", few, 0.03, 1.0, **told),
        _record("energy", "int_weights", "int4", few, 0.01, 3.0, joules=0.005, watts=400.0, limited="power"),
        _record("energy", "sparse", "sparse", few, 0.01, 3.0, joules=0.005)))
    bf16, four = (line.split() for line in lesson.energy_table(recording).splitlines()[2:])
    assert "the board's limit: 700 W" in lesson.energy_table(recording)
    assert bf16[-6:] == ["40.0", "-", "500", "20.00", "1.00", "1.00"] and four[-6:] == ["12.5", "power", "400", "5.00", "3.20", "4.00"]
