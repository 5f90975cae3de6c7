# SPDX-License-Identifier: Apache-2.0
"""Lesson 00: kernels on the roof, the place that is kind to wrong kernels, one copy timed, and the check of its small exercise."""

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.lessons import l00_start_here
from hopperlab.measure.recordings import Record, Recording

HEADER = {"gpu": "a GPU", "driver": "1.2", "cuda": "13.0", "libraries": {}, "clocks": {}, "power_limit_watts": 700, "date": "2026-01-01", "method": "m"}


def recording(*records):
    return Recording("test", HEADER, tuple(records))


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    """Everything here runs in the emulator, on a GPU machine too."""
    monkeypatch.setenv("HOPPERLAB_BACKEND", "emulator")
    from hopperlab.runtime import backend

    backend._from_environment.cache_clear()
    yield
    backend._from_environment.cache_clear()


def test_roof_panel_counts_more_bytes_than_the_arrays_hold():
    words = l00_start_here.launch_on_roof(256, 128, "bf16 product", {"bf16": 800.0}, 4.0).text
    assert "each array once: 256 KiB" in words and "as counted: 384 KiB" in words
    assert l00_start_here.launch_on_roof(256, 128, "fp32 scaling", {"bf16": 800.0}, 4.0).text.count("256 KiB") == 2


def test_kindest_place_keeps_hazards_quiet():
    x = np.zeros(1024, np.float32)
    kernel = hl.load_kernel("start_here/kernel_1.cu", "fold")
    with l00_start_here.kindest_place() as run:
        kernel((1,), (128,), (x, np.zeros_like(x), np.int32(2)))
    assert run.schedule == "eager" and run.hazards


def test_roofline_says_which_ceiling_binds():
    text = l00_start_here.roofline({"bf16": 900}, 4.5, [l00_start_here.Point("copy", 0.1), l00_start_here.Point("product", 500)]).text
    assert "copy: 0.10 FLOP/byte, roof 0.5 TFLOP/s (bound by memory)" in text
    assert "product: 500.00 FLOP/byte, roof 900.0 TFLOP/s (bound by arithmetic)" in text
    with pytest.raises(ValueError, match="positive"):
        l00_start_here.roofline({"bf16": 900}, 0)


def test_intensity_of_a_product_counts_each_matrix_once():
    assert l00_start_here.gemm_intensity(4096, 4096, 4096, 2, 2) == pytest.approx(4096 / 3)


def test_intensity_exercise():
    assert l00_start_here.check_intensities({"axpy": 1 / 6, "sum": 0.5, "thin product": 15.94}).count("right") == 3
    assert "not answered" in l00_start_here.check_intensities({"axpy": None})
    assert "is not it" in l00_start_here.check_intensities({"axpy": 1.0})
    assert l00_start_here.check_intensities({"axpy": 0.17, "sum": 0.5, "thin product": 16}).count(": right; memory is its ceiling") == 3     # two digits
    assert "axpy: '1/6' is a text: write the number without quotes" in l00_start_here.check_intensities({"axpy": "1/6"})


def test_timing_without_a_gpu_shows_recorded_times(monkeypatch):
    monkeypatch.setattr("hopperlab.runtime.backend.backend", lambda choice=None: "emulator")
    monkeypatch.setattr("hopperlab.backend", lambda choice=None: "emulator", raising=False)
    text = l00_start_here.timing_lesson(recording(Record("copy", "bulk_copy", ("STAGES=4",), ms=0.5, ms_min=0.4, ms_max=0.6, gb_s=4000.0)))
    assert "recorded on a GPU" in text and "0.5000 ms (0.4000 to 0.6000)" in text
