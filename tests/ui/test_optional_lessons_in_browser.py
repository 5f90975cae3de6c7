# SPDX-License-Identifier: Apache-2.0
"""The optional notebooks in JupyterLab: each runs top to bottom, every control of its panel launches by mouse and by keyboard, what
cannot be is explained where there is such a thing, and no output is an error (SCREENSHOTS names a folder for screenshots).
"""

from __future__ import annotations

import pytest
from support import browser
from support.panel import PanelDriver

pytestmark = [pytest.mark.browser, pytest.mark.thorough]      # lesson 05 takes the same path in `make test`

# lesson -> (moves: each a control's kind, its number and an entry or pixels; moves that end in a refusal, and its words)
LESSONS = {
    "03x_cuda_pipeline": ([("slider", 0, 60), ("list", 1, "no"), ("list", 2, "eager"), ("list", 0, "block")], [], ""),
    "05x_inside_tma": ([("list", 0, "8x64"), ("slider", 0, 60), ("list", 1, "bulk")], [], ""),
    "06x_im2col_interleave": ([("slider", 0, 60), ("slider", 1, 60), ("slider", 2, 60), ("list", 1, "middle"), ("list", 0, "NC/16HWC16"), ("slider", 3, 80)],
                              [("slider", 3, "End"), ("slider", 3, "ArrowLeft"), ("list", 0, "NHWC")], "multiple of 16"),
    "08x_wgmma_operands": ([("list", 1, "RS"), ("list", 3, "MN"), ("list", 2, "K"), ("list", 0, "bf16")],
                           [("list", 0, "e4m3"), ("list", 3, "MN")], "K-major only"),
    "09x_profiling": ([("list", 0, "transpose, XOR")], [], ""),
    "13x_launches_that_overlap": ([("slider", 0, -60), ("list", 0, "ordinary launches"), ("list", 1, "multiplied"), ("list", 2, "start"), ("list", 3, "eager")], [], ""),
    "16d_decoding": ([("slider", 0, 60), ("list", 1, "2 a row"), ("list", 0, "16"), ("slider", 1, -60), ("list", 1, "in a line")], [], ""),
    "16x_fp8_attention": ([("list", 0, "128"), ("slider", 0, 60), ("list", 1, "yes"), ("list", 2, "128")], [("list", 0, "256"), ("list", 2, "192")],
                          "together more than"),
}


@pytest.fixture(scope="module", params=LESSONS)
def lesson(request, window):
    """(stem, page, driver of its panel) after Run All."""
    browser.ran(window, request.param)
    return request.param, window, PanelDriver(window)


@pytest.mark.sampled(every=100, ci=2)           # tests/lessons launch every panel
def test_runs_top_to_bottom_and_every_control_launches(lesson, shots):
    name, page, panel = lesson
    code = [cell for cell in browser.cells(page) if cell["type"] == "code"]
    assert [cell["count"] for cell in code] == list(range(1, len(code) + 1))
    for kind, number, how in LESSONS[name][0]:
        before = panel.launches
        if kind == "list" and panel.chosen(number) != how:
            panel.pick(number, how)
            panel.relaunched(before)
        elif kind == "slider":
            panel.drag(number, how)
            panel.relaunched(before)
        before = panel.launches
        if kind == "list":
            panel.list_key(number, "ArrowDown" if panel.first(number) else "ArrowUp")
        else:
            panel.key(number, "ArrowLeft")
        panel.relaunched(before)
    shots(page, f"{name}_panel_moved.png")
    for kind, number, how in LESSONS[name][1]:
        panel.pick(number, how) if kind == "list" else panel.key(number, how)
    if LESSONS[name][1]:
        panel.refused(LESSONS[name][2])
        shots(page, f"{name}_refused.png")
    assert not [out for cell in browser.cells(page) for out in cell["outputs"] if out["kind"] == "error"]

