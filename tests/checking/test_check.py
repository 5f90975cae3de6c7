# SPDX-License-Identifier: Apache-2.0
"""What a verdict says of a wrong result, and which hazard it shows."""
import ml_dtypes
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.checking import check, outputs, value_words, whence
from hopperlab.checking.exercise import Case
from hopperlab.measure.launches import gemm, operands

NUMBERS = np.random.default_rng(7).permutation(64 * 64).reshape(64, 64)
ROW, COLUMN = np.indices((64, 64))


@pytest.mark.parametrize("got, said", [(NUMBERS.T, "rows and columns have changed places"),
                                       (NUMBERS[ROW, COLUMN ^ ROW % 8 * 8], "one side of shared memory swizzles and the other does not"),
                                       (np.roll(NUMBERS, 1, axis=1), "axis 1 by 1 behind"), (np.roll(NUMBERS, -4, axis=0), "axis 0 by 4 ahead"),
                                       (NUMBERS[:, ::-1], "reverse order")])
def test_right_numbers_in_other_places_say_whence(got, said):
    case = Case({"out": NUMBERS}, outputs={"out": got})
    message, = [finding.message for finding in check._values(case, "(somewhere)")]
    assert said in message and "holds what belongs to out[" in message


@pytest.mark.parametrize("got", [NUMBERS + 5000, np.full(NUMBERS.shape, 3), np.where(ROW == 5, -1, NUMBERS)])
def test_wrong_numbers_say_nothing_of_places(got):
    assert whence.words("out", got, NUMBERS) == ""


def test_a_race_between_warps_is_shown_before_one_between_lanes():
    a, b = (operands.integer_bf16(np, (128, 64), seed) for seed in (1, 2))
    with hl.emulate(hazards="collect") as run:
        gemm.shared_tile(a, b, np.zeros((128, 128), np.uint16), ("-DBUG_NO_TILE_BARRIER=1",))()
    assert [hazard.case for hazard in run.hazards] == ["race-lanes", "race-threads"]
    finding, = check._hazards(run, None, "(somewhere)")
    assert "put a __syncthreads()" in finding.message and "__syncwarp" not in finding.message


def test_long_arguments_are_cut_and_values_are_pythons():
    assert value_words.call("f", ([[0, 1]] * 30, 3)) == "f([[0, 1], [0, 1], … 30 in all], 3)"
    assert value_words.call("f", ([[0, 1] * 16] * 30,)) == "f([[0, 1, …], [0, 1, …], … 30 in all])"
    assert value_words.sentence(value_words.Wrong((2,), True, None)) == "returned True at [2], expected None"


@pytest.mark.parametrize("value, expected, said", [(1024, 64, "16 times as much; bytes where units of 16 bytes"),
                                                   (64, 128, "2 times too little; elements of 2 bytes"), (8, 16, ""), (65, 66, ""), (-32, 32, "")])
def test_whole_numbers_that_are_a_multiple_apart_say_so(value, expected, said):
    words = value_words.sentence(value_words.Wrong((), value, expected))
    assert said in words and (said or words.endswith(str(expected)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_a_nan_that_somebody_wrote_is_no_element_that_nobody_wrote(dtype):
    case = outputs.poisoned(Case({"out": np.arange(8)}, outputs={"out": np.empty(8, dtype)}))
    assert np.isnan(case.outputs["out"].astype(np.float64)).all() and "out[0] is never written, expected 0; 8 of 8" in outputs.complaint(case, "")
    case.outputs["out"][:3] = np.nan, np.float32(-np.nan), np.inf
    assert "out[0] is nan, expected 0; 8 of 8" in outputs.complaint(case, "")
    case.outputs["out"][:3] = 0, 1, 2
    assert "out[3] is never written, expected 3; 5 of 8" in outputs.complaint(case, "")


@pytest.mark.parametrize("dtype", [np.int32, np.uint16, np.uint8])
def test_of_whole_numbers_the_largest_says_that_nobody_wrote_it(dtype):
    case = outputs.poisoned(Case({"out": np.arange(4)}, outputs={"out": np.empty(4, dtype)}))
    case.outputs["out"][0] = 0
    assert "out[1] is never written, expected 1; 3 of 4" in outputs.complaint(case, "")
