# SPDX-License-Identifier: Apache-2.0
"""Recorded measurements in pictures and tables: what they say is what the recording holds, with its source."""

import pytest

from hopperlab import measure, show
from hopperlab.measure.recordings import Record, Recording

HEADER = {"gpu": "a GPU", "driver": "1.2", "cuda": "13.0", "libraries": {}, "clocks": {}, "power_limit_watts": 700, "date": "2026-01-01", "method": "m"}


def recording(*records):
    return Recording("test", HEADER, tuple(records))


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


def test_a_stored_recording_can_be_drawn():
    assert len(show.gemm_bars(measure.load("gemm")).text.split("\n")) >= 2
