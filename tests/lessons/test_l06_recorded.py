# SPDX-License-Identifier: Apache-2.0
"""Lessons 06 and 07: what they say of swizzled reads, reductions and messages is what was recorded."""

from hopperlab.lessons import l06_tma_layouts, l07_tma_stores
from hopperlab.measure.recordings import Record, Recording
from hopperlab.show.recorded import NOT_RECORDED

HEADER = {"gpu": "a GPU", "driver": "1.2", "cuda": "13.0", "libraries": {}, "clocks": {}, "power_limit_watts": 700, "date": "2026-01-01", "method": "m"}


def test_swizzle_cost_compares_equal_boxes_only():
    def copied(swizzle, rate, box="BOX_ROWS=64"):
        return Record("copy", "tma_copy", (box, f"swizzle={swizzle}"), (8, 8), "bfloat16", gb_s=rate)
    words = l06_tma_layouts.swizzle_cost(Recording("copy", HEADER, (copied("none", 100.0), copied("128B", 99.0), copied("none", 50.0, "BOX_ROWS=8"))))
    assert "swizzle 128B: 99 GB/s, 0.990 of the plain one" in words and "50 GB/s" not in words
    assert NOT_RECORDED in l06_tma_layouts.swizzle_cost(Recording("copy", HEADER, ()))


def test_reads_reductions_and_exchange_are_what_was_recorded():
    def read(mode, rows, access, cycles, pad=0):
        return Record("swizzled_reads", "swizzle_reads", (f"swizzle={mode}", f"ROW_BYTES={rows}", f"PAD={pad}", f"access={access}"), value=cycles, unit="cycles")
    micro = Recording("micro", HEADER, (
        read("none", 128, "column, 16 bytes", 31.9), read("none", 128, "row, 16 bytes", 4.0), read("128B", 128, "column, 16 bytes", 4.0),
        read("none", 128, "column, 4 bytes", 1.0, 4),
        Record("reductions", "tma_reduce", ("into=L2, tensor", "op=add.u32"), gb_s=100.0), Record("reductions", "tma_reduce", ("into=L2, tensor", "op=min.u32"),
                gb_s=90.0),
        Record("exchange", "exchange", ("how=st.async",), value=600.0, unit="cycles")))
    rows = l06_tma_layouts.swizzle_reads(micro).split("\n")
    assert rows[3].split()[-4:] == ["–", "–", "31.9", "–"] and rows[4].split()[-2:] == ["4.0", "–"] and "+ 4" in rows[5]
    assert "2 kinds, 90 to 100" in l07_tma_stores.reduction_rates(micro) and "st.async: 600" in l07_tma_stores.exchange_chart(micro).text
    for empty in (l06_tma_layouts.swizzle_reads(None), l07_tma_stores.reduction_rates(None), repr(l07_tma_stores.exchange_chart(None))):
        assert "nothing recorded" in empty
