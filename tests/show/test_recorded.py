"""Recorded measurements in pictures and tables: what they say is what the recording holds, with its source."""

import pytest

from hopperlab import measure, show
from hopperlab.measure.recordings import Record, Recording

HEADER = {"gpu": "a GPU", "driver": "1.2", "cuda": "13.0", "libraries": {}, "clocks": {}, "power_limit_watts": 700, "date": "2026-01-01", "method": "m"}


def recording(*records):
    return Recording("test", HEADER, tuple(records))


def stage(depth, rate, bn=128):
    return Record("stages", "mma_multistage", (f"STAGES={depth}", "BM=128", f"BN={bn}"), (64, 64, 64), tflops=rate)


STAGES = recording(stage(2, 50.0), stage(3, 99.0), stage(4, 100.0), stage(2, 40.0, 256), stage(4, 80.0, 256), Record("stages", "cuBLAS", tflops=200.0, shape=(64, 64, 64)))


def test_stages_leave_a_gap_where_nothing_was_measured():
    text = show.stages_chart(STAGES).text
    assert "3 | 99 | – | 200" in text and "recorded on a GPU, driver 1.2, CUDA 13.0, 2026-01-01" in text


def test_best_depth_says_which_is_enough():
    assert show.best_depth(STAGES).split("\n")[0] == "cp.async + mma.sync, 128x128: fastest with 4 stages; 3 are within 2 % of that"


def test_gemm_bars_take_the_best_variant():
    records = [Record("gemm", "mma_multistage", shape=(8, 8, 8), tflops=rate, ratio=rate / 100) for rate in (40.0, 60.0)]
    products = recording(*records, Record("gemm", "cuBLAS", shape=(8, 8, 8), tflops=100.0, ratio=1.0))
    assert "cp.async + mma.sync: 60" in show.gemm_bars(products, (8, 8, 8)).text
    assert show.percent_of_peer(products, "mma_multistage", (8, 8, 8)) == pytest.approx(60)


def test_ceilings():
    both = recording(Record("ceilings", "device copy", gb_s=4200.0), Record("ceilings", "cuBLAS product", dtype="bfloat16", tflops=800.0),
                     Record("ceilings", "cuBLAS product", dtype="tf32", tflops=400.0))
    assert show.ceilings(both) == ({"bf16 tensor core": 800.0}, 4.2)


def test_bugs_say_hang_and_share():
    bugs = recording(Record("bugs", "k", ("BUG_A",), runs=20, wrong=3, outcome="sometimes wrong", worst=0.05),
                     Record("bugs", "k", ("BUG_B",), runs=1, outcome="hang", note="ended by its time limit"))
    text = show.bugs_table(bugs, "k")
    assert "3 of 20 wrong, up to 5 % of the elements" in text and "hang" in text and "time limit" in text


@pytest.mark.parametrize("draw, name", [(show.stages_chart, "stages"), (show.gemm_bars, "gemm"), (show.boxes_chart, "tma_vs_cp_async"),
                                        (show.boxes_table, "tma_vs_cp_async"), (show.folds_table, "bugs"), (show.best_depth, "stages")])
def test_stored_recordings_can_be_drawn(draw, name):
    drawn = draw(measure.load(name))
    text = drawn if isinstance(drawn, str) else drawn.text
    assert len(text.split("\n")) >= 2


def test_timing_without_a_gpu_shows_recorded_times(monkeypatch):
    monkeypatch.setattr("hopperlab.runtime.backend.backend", lambda choice=None: "emulator")
    monkeypatch.setattr("hopperlab.backend", lambda choice=None: "emulator", raising=False)
    text = show.timing_lesson(recording(Record("copy", "bulk_copy", ("STAGES=4",), ms=0.5, ms_min=0.4, ms_max=0.6, gb_s=4000.0)))
    assert "recorded on a GPU" in text and "0.5000 ms (0.4000 to 0.6000)" in text
