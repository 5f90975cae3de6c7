# SPDX-License-Identifier: Apache-2.0
"""PTX and SASS side by side: grouped by line, highlighted, folded, and readable without the disassembler."""

import re

import pytest

import hopperlab as hl
from hopperlab import show
from hopperlab.runtime import uses
from hopperlab.runtime.sass import sass as room
from hopperlab.show import side_by_side
from hopperlab.show.style import ink_on


@pytest.fixture(scope="module")
def kernel():
    return hl.load_kernel("gemm/warp_specialized.cu", "gemm", ("-DSTAGES=4",), backend="emulator")


def line_of(text):
    return next(n for n, row in enumerate(hl.kernel_source("gemm/warp_specialized.cu").split("\n"), 1) if text in row)


def test_each_line_stands_beside_what_came_of_it(kernel):
    rows = {row.line: row for row in show.sass(kernel).rows}
    load = rows[line_of("cp_async_bulk_tensor_2d_load(stage, &a")]
    assert any(text.startswith("cp.async.bulk.tensor.2d") for _, text in load.ptx)
    assert any("UTMALDG.2D" in text for _, text in load.sass)
    assert ("register budget" in {kind for kind, _ in rows[line_of("setmaxnreg_inc<")].sass})


def test_others_are_folded_into_a_count_and_full_folds_nothing(kernel):
    from hopperlab.emulator.ptx.parser import parse
    folded, full = show.sass(kernel), show.sass(kernel, full=True)
    assert len(folded.html()) < 30_000 < len(full.html())
    assert "… " in str(folded) and "… " not in re.sub(r"…$", "", str(full), flags=re.MULTILINE)
    assert sum(len(row.sass) for row in full.rows) > 0.9 * len(hl.sass(kernel).instructions)
    assert sum(len(row.ptx) for row in full.rows) > 0.9 * len(parse(kernel.module.ptx).functions["gemm"].body)


def test_lines_choose_a_part(kernel):
    at = line_of("wgmma_m64n128k16_bf16")
    assert [row.line for row in show.sass(kernel, lines=(at, at)).rows] == [at]


def test_counts_stand_below_and_colours_are_readable(kernel):
    shown = show.sass(kernel)
    assert shown.counts == hl.sass(kernel).counts() and "main loop, SASS: " in str(shown)
    colours = side_by_side.COLOURS
    assert set(colours) == set(room.HOPPER) and {ink_on(colour) for colour in colours.values()} == {"#1A1A1A"}


def test_without_the_disassembler_ptx_is_shown_and_the_reason(kernel, monkeypatch):
    def missing(cubin):
        raise hl.ToolchainError("no disassembler <here>")
    monkeypatch.setattr(room, "disassemble", missing)
    shown = show.sass(kernel)
    assert shown.rows and not any(row.sass for row in shown.rows)
    assert "no disassembler <here>" in str(shown) and "no disassembler &lt;here&gt;" in shown.html()


def test_the_file_whose_lines_it_shows_is_told(kernel):
    """So that a stored listing is stale when a comment in it changes (authoring/stamps/made_of.py)."""
    heard = []
    with uses.telling(lambda kind, what: heard.append((kind, what))):
        show.sass(kernel)
        show.sass(hl.RawModule(code='extern "C" __global__ void k(int* y) { y[0] = 1; }', name="mine.cu", backend="emulator").get_function("k"))
    assert [what for kind, what in heard if kind == uses.SHOWN] == ["gemm/warp_specialized.cu"]


def test_a_loop_that_only_waits_is_not_called_the_main_loop():
    shown = show.sass(hl.load_kernel("wgmma/one_tile.cu", "one_tile", ("-DN=64",)))
    assert "HGMMA" in str(shown) and "main loop" not in str(shown) + shown.html()
    assert "no loop but those that wait for an mbarrier" in str(shown)
