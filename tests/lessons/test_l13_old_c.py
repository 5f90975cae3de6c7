# SPDX-License-Identifier: Apache-2.0
"""Lesson 13: the epilogue that reads C loads it under the products, and what is shown of equal tiles says where it comes from."""
import pytest

from hopperlab.lessons.l13_persistent import old_c
from hopperlab.measure import recordings
from hopperlab.measure.recordings import Record, Recording


@pytest.mark.parametrize("landing", ["lazy", "eager", "random"])
def test_c_is_loaded_under_the_products(landing):
    right, run = old_c.run_reads_c(landing)
    assert right and not run.hazards and old_c.under_the_products(run) == "8 of 8, 8 of 8"


def test_a_load_behind_the_products_is_told():
    """The same kernel without its loader: each consumer loads C itself when it needs it. Right, and no C is on its way under the products."""
    wait = "                mbarrier_wait_parity(&c_full[mine + chunk], phase);             // the old C is there\n"
    itself = ("                if (thread == 0) {\n                    cp_async_bulk_wait_group_read<0>();\n"
              "                    mbarrier_arrive_expect_tx(&c_full[mine + chunk], SLOT_BYTES);\n"
              "                    cp_async_bulk_tensor_2d_load(slot, &c, &c_full[mine + chunk], col0 + chunk * 64, row0);\n                }\n")
    right, run = old_c.run_reads_c("lazy", changes=(("if (threadIdx.x == 32) {", "if (false) {"), (wait, itself + wait)))
    assert right and not run.hazards and old_c.under_the_products(run).startswith("0 of 8")


def test_equal_tiles_as_recorded():
    recording = Recording("schedules", {"gpu": "G", "driver": "1", "cuda": "2", "date": "3"}, (
        Record("equal", "pingpong", (), (6144, 5632, 256), ms=0.04, tflops=444.0, ratio=1.1, ratio_min=1.0, ratio_max=1.2, note="ping-pong"), Record("onto", "reads_c")))
    text = old_c.equal_tiles_table(recording)
    assert text.startswith("recorded on G") and "40.0 us, 444 TFLOP/s" in text and "1.100 (1.000 to 1.200)" in text and "reads_c" not in text


def test_what_adding_to_c_costs_as_recorded():
    text = old_c.onto_table(recordings.load("schedules"))
    assert text.count("8192x8192x") == 12 and "overlapped_store, only writes C" in text and "reads_c, adds to C" in text and "cuBLAS, adds to C" in text
