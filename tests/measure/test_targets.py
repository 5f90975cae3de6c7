# SPDX-License-Identifier: Apache-2.0
"""The table of targets: what a row says of made-up recordings, and that every row finds something in the stored ones."""
import pytest

from hopperlab.measure import Recording, recordings, targets
from hopperlab.measure.recordings import HEADER_FIELDS, Record

HEADER = dict.fromkeys(HEADER_FIELDS, "made up")


def of(*ratios):
    return lambda load: list(ratios)


@pytest.mark.parametrize("mean, least, told", [(1.0, 0.5, "1.000, 0.500 (2)"), (1.1, None, "1.000, 0.500 (2) **missed**"), (None, 0.6, "1.000, 0.500 (2) **missed**"),
                                               (None, 0.5, "1.000, 0.500 (2)")])
def test_mean_and_least_are_both_asked(mean, least, told):
    assert targets.Target("speed", mean, least, of(0.5, 2.0)).told(None) == told


def test_what_is_asked_in_words_and_a_board_without_a_recording():
    target = targets.Target("speed", 1.1, 0.98, lambda load: load("two_gpus"))
    assert target.asked == "mean 1.10, least 0.98" and target.told(lambda name: recordings.load(name, recordings.FOLDER / "nowhere")) == ""


def decoding(shape, ours, cudnn, torch):
    return [Record("cells", kernel, shape=shape, ms=ms, ms_min=ms, ms_max=ms, ratio=0.9) for kernel, ms in (("decode", ours), ("cuDNN, rows", cudnn), ("PyTorch", torch))]


def test_a_decoding_step_is_held_against_the_fastest_of_the_others_at_large_caches():
    records = decoding((32, 8192, 64, 8, 128), 2.0, 1.0, 4.0) + decoding((1, 1024, 64, 8, 128), 9.0, 1.0, 1.0)
    load = {"decoding": Recording("decoding", HEADER, tuple(records))}.__getitem__
    assert targets._decoding(load) == [0.5] and targets._read(load) == [0.9]


def test_back_to_back_each_side_has_its_faster_order_of_b():
    def record(kernel, tflops, joules, shape=(1, 2, 3), mode="sustained"):
        return Record("gemm", kernel, shape=shape, tflops=tflops, joules=joules, mode=mode)
    rows = (record("final", 6.0, 4.0), record("final", 5.0, 1.0), record("final", 9.0, 9.0, mode="cold L2"),
            record("cublasGemmEx TN", 4.0, 2.0), record("cublasGemmEx NN", 3.0, 9.0), record("cuBLASLt TN", 9.0, 1.0))
    dependent = next(target for target in targets.TARGETS if target.what == "the same, in dependent launches")
    assert dependent.told({"products_sustained": Recording("products_sustained", HEADER, rows)}.__getitem__) == "", "not recorded"
    rows += (record("final_dependent", 8.0, 4.0), record("final_dependent", 7.0, 1.0))
    load = {"products_sustained": Recording("products_sustained", HEADER, rows)}.__getitem__
    speed, energy = (next(target for target in targets.TARGETS if target.what == what) for what in
                     ("the same shapes, back to back, of cublasGemmEx", "the same, launches per joule"))
    assert speed.ratios(load) == [1.5] and energy.ratios(load) == [0.5] and dependent.ratios(load) == [2.0]


@pytest.mark.parametrize("target", targets.TARGETS, ids=lambda target: target.what)
def test_every_row_is_recorded_on_a_board(target):
    told = [target.told(lambda name, board=board: recordings.load(name, recordings.FOLDER / board)) for board in recordings.BOARDS]
    assert any(told) and all(not one or float(one.split(",")[0]) > 0 for one in told)
