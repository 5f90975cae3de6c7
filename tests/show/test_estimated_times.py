# SPDX-License-Identifier: Apache-2.0
"""Estimated times drawn: warps, slots, the tensor core, in cycles or microseconds, and what stands beside them."""
import numpy as np
import pytest

from hopperlab import show
from hopperlab.estimates import emulating
from hopperlab.measure.launches import gemm
from hopperlab.show import estimated_times


@pytest.fixture(scope="module")
def times():
    arrays = (np.zeros(shape, np.uint16) for shape in ((512, 256), (512, 256), (512, 512)))
    return emulating.times_of(gemm.launch("cluster_multicast", *arrays, backend="emulator"), "h200")


def rows(picture):
    return [label.get_text() for label in picture.figure.axes[0].get_yticklabels()]


def test_a_row_for_each_role_each_slot_and_the_tensor_core(times):
    picture = show.estimated(times)
    assert rows(picture) == ["warp 0", "warps 4 to 7", "warps 8 to 11", "slot 0", "slot 1", "slot 2", "slot 3", "tensor core"]
    assert "bound by" in picture.text and "not measured" in picture.text and "mean error" in picture.figure.axes[0].get_xlabel()
    assert picture.png()


def test_other_ctas_other_units_and_the_beginning_alone(times):
    ends = {}
    for unit in ("cycles", "us"):
        picture = show.estimated(times, "mine", block=times.blocks[1], unit=unit)
        ends[unit] = picture.figure.axes[0].get_xlim()[1] - 0.5
        assert picture.text.startswith("mine\n")
    assert ends["cycles"] == pytest.approx(ends["us"] * times.estimate.mhz, rel=0.001)
    assert show.estimated(times, last=3000).figure.axes[0].get_xlim()[1] <= 3001
    for wrong in ({"block": 77}, {"unit": "ns"}, {"last": -1}):
        with pytest.raises(ValueError, match="77|choose one of cycles, us|nothing begins"):
            show.estimated(times, **wrong)


def test_a_launch_without_an_estimate_is_told_and_not_drawn():
    assert estimated_times.told("spin: no estimate: it waits") == "not estimated: spin: no estimate: it waits"
    with pytest.raises(ValueError, match="nothing to draw: spin"):
        show.estimated("spin: no estimate: it waits")


def test_the_timeline_that_marks_would_leave_is_drawn_as_an_estimate(times):
    picture = show.timeline(times.timeline("us"), warps=(0, 4))
    assert picture.figure.axes[0].get_xlabel().startswith("estimated microseconds\nestimated for an NVIDIA H200, not measured")
