# SPDX-License-Identifier: Apache-2.0
"""Panels on a GPU: what the emulator ran is launched there too, timed, and comes out the same."""
import re

import numpy as np
import pytest

import hopperlab as hl
from hopperlab import show
from hopperlab.lessons import l00_start_here, l06_tma_layouts, l06x_im2col_interleave, l07_tma_stores, l08_wgmma, l09_multistage, l12_clusters, l16_attention
from hopperlab.measure.launches import variants
from hopperlab.runtime.gpu.relaunch import OnGpu, apart
from hopperlab.runtime.watching import watching
from hopperlab.show import panel_on_gpu, panels

PANELS = {                      # a launch of each kind: plain arrays, tensor maps, im2col, reductions in place, clusters, wgmma
    "copies": lambda: l00_start_here.launch_on_roof(128, 64, "fp32 scaling", {"bf16": 1e15}, 4e12),
    "im2col": lambda: l06x_im2col_interleave.launch_im2col(3, 2, 1, 12, "NC/8HWC8", "last"), "reduce": lambda: l07_tma_stores.launch_reduce("add", "float32"),
    "cluster": lambda: l12_clusters.launch_cluster(2, 1, 2, "lazy"), "groups": lambda: l08_wgmma.launch_groups(64, 1, 2, "lazy"),
    "columns": lambda: l06_tma_layouts.launch_columns("128B", 128, 3, 5, 0)}


@pytest.mark.parametrize("name", PANELS)
def test_the_launch_is_timed_and_gives_the_same(name):
    panel = show.panel(PANELS[name])
    assert panel.launches == 1 and "On this GPU (" in panel.status and " us (" in panel.on_gpu and "the same result" in panel.on_gpu, panel.status
    assert panel.on_gpu in panel._repr_mimebundle_()[0]["text/plain"]


def test_arrays_are_put_back_before_each_launch():
    """A reduction in place gives the same after many launches, each on what the array held before."""
    seen = []
    with watching(seen.append):
        PANELS["reduce"]()
    on_gpu = OnGpu(seen[0])
    for _ in range(3):
        on_gpu.restore()
        on_gpu()
    assert all(apart(here, there) == (0.0, -1) for here, there in zip(on_gpu.left, on_gpu.after(), strict=True))
    on_gpu()
    assert any(apart(here, there)[0] for here, there in zip(on_gpu.left, on_gpu.after(), strict=True))
    on_gpu.close()
    assert all((here == hl.asnumpy(base)).all() for here, base in zip(on_gpu.left, seen[0].arrays, strict=True))


def test_bits_of_bf16_are_compared_as_numbers():
    """Attention passes bf16 as uint16: exponentials differ in their last bits, not by a `largest integer`."""
    panel = show.panel(lambda: l16_attention.launch_attention(64, 256, "yes", 64, "overlapped"))
    assert "results apart by" in panel.on_gpu or "the same result" in panel.on_gpu, panel.on_gpu


def test_a_launch_with_a_hazard_is_not_made():
    seen = []
    with watching(seen.append):
        PANELS["reduce"]()
    assert "not launched: the emulator found a hazard" in panel_on_gpu.timed(type(seen[0])(**{**vars(seen[0]), "clean": False}))


def test_an_estimate_stands_beside_what_is_measured(monkeypatch):
    """One tile of lesson 09 by the estimate, and on this GPU: of one size."""
    monkeypatch.setattr(panels, "have_widgets", lambda: True)
    panel = show.panel(lambda stages: l09_multistage.launch_multistage(stages, 64, "lazy"), clock="h200", stages=show.Slider("Stages", (3, 4), 3))
    panel._inputs[panels.CLOCK].value = "estimated cycles"
    estimated, measured = (float(re.search(pattern, panel.status)[1]) for pattern in (r"cycles, ([\d.]+) us on", r"gemm ([\d.]+) us"))
    assert 0.6 < estimated / measured < 1.6, panel.status


def test_arrays_of_the_gpu_have_the_estimate_of_others():
    found = []
    for xp in (np, hl.array_module()):
        a, b, c = xp.zeros((256, 128), np.uint16), xp.zeros((256, 128), np.uint16), xp.zeros((256, 256), np.uint16)
        launch = variants.multistage(a, b, c, stages=3, bk=64, backend="emulator" if xp is np else None)
        with hl.emulate(clock="h200") as run:
            launch()
        found.append(run.clock[0].estimate)
    assert found[0] == found[1]
