# SPDX-License-Identifier: Apache-2.0
"""The suite `launches` without a GPU: moments from marks, what a part of it makes of its records, and what is shown."""
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.measure import recordings, timelines
from hopperlab.measure.launches import chain as chains
from hopperlab.measure.suites import launches, launches_when
from hopperlab.measure.timelines import KernelTimeline, Mark


def mark(launch, warp, event, number, start, end, block=0):
    return Mark(launch * launches_when.BLOCKS + block, warp, 0, event, number, start, end)


def test_moments_by_hand():
    rows = KernelTimeline([
        mark(0, 0, "kernel", 0, 1000, 5000), mark(0, 4, "kernel", 0, 1100, 4000), mark(0, 4, "wait", 0, 1200, 1300), mark(0, 0, "mma", 0, 1400, 4500),
        mark(0, 0, "mma", 0, 1400, 4700, block=3), mark(1, 0, "kernel", 0, 3000, 9000), mark(1, 4, "wait", 0, 3100, 5500), mark(1, 4, "wait", 0, 3100, 5600, block=1)])
    found = launches_when.moments(rows, [("product", 0), ("rms_norm", 1)])
    assert found == {("product", 0, "begins"): 0.0, ("product", 0, "ends"): 4.0, ("product", 0, "reads"): 0.3, ("product", 0, "multiplied"): 3.7,
                     ("rms_norm", 1, "begins"): 2.0, ("rms_norm", 1, "ends"): 8.0, ("rms_norm", 1, "reads"): 4.5}


def test_moments_of_one_kernel_are_those_of_its_layers():
    rows = KernelTimeline([mark(0, 0, "kernel", 0, 0, 9000), mark(0, 4, "wait", 1, 100, 3000), mark(0, 0, "mma", 0, 50, 2000), mark(0, 0, "mma", 1, 3000, 6000)])
    found = launches_when.moments(rows, [("persistent_chain", 0)])
    assert found["persistent_chain", 1, "reads"] == 3.0 and found["persistent_chain", 0, "multiplied"] == 2.0 and found["persistent_chain", 1, "multiplied"] == 6.0


def test_every_launch_of_a_traced_chain_has_its_own_marks():
    """Kernels apart have modules of their own, whose images differ: on a GPU one image is one module, however often it is loaded."""
    xp = hl.array_module("emulator")
    made = chains.chain(chains.operands(xp, 64, 64, 2), options=("-DHOPPERLAB_TRACE",), apart=True, backend="emulator")
    assert len({launch.kernel.module.cubin for launch in made.launches}) == len(made.launches) == 3
    buffers = [timelines.emulated_target(launch.kernel, 8 * 5 * launches_when.WORDS, 8, launches_when.MARKS) for launch in made.launches]
    with hl.emulate(hazards="collect") as run:
        made(True)
        hl.synchronize("emulator")
    assert not run.hazards and made.right() and all(np.asarray(buffer).any() for buffer in buffers)


def test_what_is_shown_has_a_line_a_record():
    recording = recordings.load("launches")
    shown = launches.shown(recording).splitlines()
    assert len(shown) == len(recording) and any("of way=graph's speed" in line for line in shown) and any(line.endswith("wrong") for line in shown)
    assert {record.suite for record in recording} == {"chain", "placement", "length", "depth", "one kernel", "starts", "when", "clusters", "bugs"}
    for record in recording.where(suite="chain"):
        assert record.ms_min <= record.ms <= record.ms_max and (record.options[0] != "way=graph" or record.ratio == 1)


@pytest.mark.parametrize("name", launches.EXPERIMENTS)
def test_every_experiment_says_what_it_measures(name):
    assert len(launches.EXPERIMENTS[name].__doc__) > 30
