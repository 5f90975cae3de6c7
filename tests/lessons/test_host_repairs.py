# SPDX-License-Identifier: Apache-2.0
"""Repairs of Python functions: other right answers are taken, other wrong ones told, and whatever the learner's lines do is said in a line."""
import pytest

from hopperlab.lessons import repairs

ALL = repairs.every()
STOPWATCH, PITCH, CORNERS = ALL["00", "stopwatch"], ALL["05", "pitch"], ALL["06x", "corners"]


@pytest.mark.parametrize(("repair", "lines", "told"), [
    (STOPWATCH, "def milliseconds(launch, clock, synchronise):\n    began = clock()\n    launch()\n    synchronise()\n    return 1e3 * (clock() - began)",
     "launched while the GPU is busy for 2 ms more it says 2.370 ms"),
    (STOPWATCH, STOPWATCH.reference.replace("1e3 * ", ""), "it says 0.000 ms"),
    (STOPWATCH, "def milliseconds(launch, clock, synchronise):\n    return None", "it says None"),
    (STOPWATCH, "x = 1", "There is no function milliseconds in the cell"),
    (PITCH, "def map_of(matrix):\n    return hl.TensorMap.tiled(np.ascontiguousarray(matrix[:, :8]), box=(8, 8))", "the box at row 0 and column 8 holds other numbers"),
    (CORNERS, CORNERS.reference.replace("padding - (edge - 1)", "padding - edge"), "A filter of 3 x 3, padding 1, stride 1"),
    (CORNERS, CORNERS.reference.replace("(1, stride, stride, 1)", "(1, 1, 1, 1)"), "A filter of 2 x 4, padding 1, stride 2"),
    (CORNERS, CORNERS.reference.replace("edge - 1", "edges[0] - 1"), "A filter of 5 x 3"),
    (CORNERS, "def map_of(image, edges, padding, stride):\n    return nothing", "NameError: name 'nothing' is not defined")])
def test_wrong_answers_are_told(repair, lines, told):
    said = repair.judge(lines)
    assert said.startswith("Not repaired yet. ") and told in said and "\n" not in said


@pytest.mark.parametrize(("repair", "lines"), [
    (STOPWATCH, "def milliseconds(go, now, wait):\n    wait(); t = now(); go(); wait()\n    return (now() - t) * 1000"),
    (PITCH, "def map_of(m):\n    wide = np.pad(m, ((0, 0), (0, -m.shape[1] % 8)))\n    return hl.TensorMap.tiled(wide, box=(8, 8))"),
    (CORNERS, CORNERS.reference.replace("padding - (edge - 1)", "1 + padding - edge"))])
def test_other_right_answers_are_taken(repair, lines):
    assert repair.judge(lines).startswith("Right: ")


def test_what_is_no_python_is_an_error_of_the_cell():
    with pytest.raises(SyntaxError, match="repair.py"):
        STOPWATCH.judge("def milliseconds(:\n")


def test_a_reference_is_printed_in_its_own_language():
    assert {(lesson, name): repair.language for (lesson, name), repair in ALL.items() if repair.language != "cuda"} == dict.fromkeys(
        (("00", "stopwatch"), ("05", "pitch"), ("06x", "corners")), "python")
