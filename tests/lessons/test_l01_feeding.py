# SPDX-License-Identifier: Apache-2.0
"""Little's law, the tile panel and the exercise of lesson 01: what they say follows from the recordings and the runs."""
import numpy as np
import pytest

import hopperlab as hl
from hopperlab import measure
from hopperlab.lessons import l01_feeding_the_tensor_core
from hopperlab.lessons.l01_feeding_the_tensor_core import feeding, ladder_start, shares
from hopperlab.measure.recordings import Record, Recording


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    """Everything here runs in the emulator, on a GPU machine too."""
    monkeypatch.setenv("HOPPERLAB_BACKEND", "emulator")
    from hopperlab.runtime import backend

    backend._from_environment.cache_clear()
    yield
    backend._from_environment.cache_clear()


HEADER = {"gpu": "a GPU", "driver": "1.2", "cuda": "13.0", "date": "2026-01-01"}


def load(kernel, rows, per_sm, rate):
    return Record("boxes", kernel, (f"BOX_ROWS={rows}", "BOX_COLS=64", "STAGES=4", f"blocks_per_sm={per_sm}"), (rows, 64), gb_s=rate)


LOADS = Recording("tma_vs_cp_async", HEADER, tuple(load(kernel, rows, per_sm, rate) for kernel in ("tma_load", "cp_async_load")
                                                   for rows, per_sm, rate in ((4, 1, 270.336), (16, 1, 1081.344), (64, 1, 3900.0), (64, 4, 4000.0))))


def test_littles_law_turned_round_gives_the_latency():
    assert [flight.bytes_per_sm for flight in feeding.flights(LOADS)][:4] == [2048, 8192, 32768, 131072]
    assert feeding.memory_latency(LOADS) == pytest.approx(1000)                 # 2 KiB x 132 SMs at 270.336 GB/s
    assert feeding.bytes_in_flight(1000, 4000) == 4_000_000
    assert l01_feeding_the_tensor_core.enough_in_flight(LOADS) == 32768 and l01_feeding_the_tensor_core.enough_in_flight(LOADS, share=0.99) == 131072


def test_littles_law_picture():
    first, second = l01_feeding_the_tensor_core.littles_law(LOADS), l01_feeding_the_tensor_core.littles_law(LOADS)
    assert first.png() == second.png() and len(first.png()) < 60_000
    assert "1000 ns; roof: 4000 GB/s; their product: 30 KiB per SM" in first.text and "recorded on a GPU" in first.text
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in first.figure.axes)


def test_the_stored_loads_obey_the_law_at_few_bytes():
    recorded = measure.load("tma_vs_cp_async")
    few = [flight for flight in feeding.flights(recorded) if flight.bytes_per_sm <= 4096]
    latency = feeding.memory_latency(recorded)
    assert few and all(0.9 * latency < flight.latency_ns < 1.3 * latency for flight in few)
    assert l01_feeding_the_tensor_core.needs_of(measure.load("ceilings"), recorded)["tensor"] > l01_feeding_the_tensor_core.needs_of(measure.load("ceilings"),
            recorded)["fp32"] > 1


NEEDS = {"fp32": 16.0, "tensor": 128.0, "bytes": 20480.0, "enough": 61440.0}


def test_a_tile_counts_what_its_size_says():
    run, fed = feeding.run_tile(64, 64, 16)
    assert fed.right and not run.hazards and (fed.blocks, fed.spills) == (5, 0)
    assert fed.flop / fed.loaded == 64 * 64 / (64 + 64)
    assert fed.shares(NEEDS)["bytes on their way while a tile loads"] == pytest.approx(5 * 128 * 16 * 2 / 61440)
    larger = feeding.run_tile(128, 128, 8)[1]
    assert larger.flop / larger.loaded == 64 and larger.flop / larger.wavefronts == 2 * fed.flop / fed.wavefronts


@pytest.mark.thorough
def test_panel_says_what_is_enough_and_what_is_spilled():
    text = l01_feeding_the_tensor_core.launch_tile(64, 64, 16, NEEDS).text
    assert "product right, 32 FLOP per byte loaded" in text and "for the fp32 units: 2.00 of what is needed" in text
    assert "for the tensor core: 0.25 of what is needed" in text
    assert "SPILLED" in l01_feeding_the_tensor_core.launch_tile(256, 256, 16, NEEDS).text.split("\n")[1]
    picture = l01_feeding_the_tensor_core.launch_tile(128, 64, 16, NEEDS)
    assert picture.png() == l01_feeding_the_tensor_core.launch_tile(128, 64, 16, NEEDS).png() and picture.figure.axes[0].get_xlabel()


def test_panel_refuses_a_tile_that_cannot_be_shared_out():
    with pytest.raises(ValueError, match="64 x 64 pieces"):
        l01_feeding_the_tensor_core.launch_tile(96, 64, 16, NEEDS)
    with pytest.raises(ValueError, match="128 rows of 8 at once, which do not go evenly into 64 rows"):
        l01_feeding_the_tensor_core.launch_tile(128, 64, 8, NEEDS)


@pytest.mark.parametrize("tile", [(bm, bn, bk) for bm in (64, 96, 128) for bn in (64, 128) for bk in (8, 16, 32)], ids=str)
def test_the_refusal_is_the_kernels_own(tile):
    def legal(test):
        try:
            test()
        except (ValueError, hl.CompileError):
            return False
        return True
    options = tuple(f"-D{name}={size}" for name, size in zip(("BM", "BN", "BK"), tile))
    assert legal(lambda: feeding.refuse_tile(*tile)) == legal(lambda: hl.load_kernel("gemm/shared_tile.cu", "gemm", options, backend="emulator"))


@pytest.mark.parametrize("bug", ["BUG_NO_TILE_BARRIER", "BUG_NO_REUSE_BARRIER"])
def test_missing_barriers_are_named_though_the_product_is_right(bug):
    run, fed = feeding.run_tile(64, 64, 16, options=(f"-D{bug}=1",))
    assert fed.right and {hazard.kind for hazard in run.hazards} == {"race"}


def test_first_steps_take_the_best_recorded_rate():
    stored = measure.load("ladder")
    rates = ladder_start.best_rates(stored)
    assert list(rates) == list(ladder_start.STEPS) and sorted(rates.values()) == list(rates.values())
    assert "naive: " in l01_feeding_the_tensor_core.first_steps(stored).text and stored.source in l01_feeding_the_tensor_core.first_steps(stored).text
    times = l01_feeding_the_tensor_core.step_times(stored)
    assert times.startswith("recorded on") and times.count(" ms (") == 3


RIGHT = {"bytes per SM": 800 * 3000 / 132, "loads per thread": 800 * 3000 / 132 / 8192, "tiles": 3}


def test_flight_exercise():
    def check(**changed):
        return l01_feeding_the_tensor_core.check_flight({**RIGHT, **changed}, 800, 3000, 8192)
    assert check().count(": right") == 3
    assert "for the whole GPU" in check(**{"bytes per SM": 2_400_000}) and "round up" in check(tiles=2.2)
    assert "16 at a time" in check(**{"loads per thread": 35.5})
    assert "tiles: '3' is a text" in check(tiles="3") and "tiles: [3] is no number" in check(tiles=[3])
    assert l01_feeding_the_tensor_core.check_flight(dict.fromkeys(RIGHT), 800, 3000, 8192).count("not answered yet") == 3


def test_needs_are_ratios_of_the_roofs():
    roofs = Recording("ceilings", HEADER, (Record("ceilings", "device copy", gb_s=4000.0), Record("ceilings", "cuBLAS product", dtype="bfloat16", tflops=800.0),
                                           Record("ceilings", "cuBLAS product", dtype="float32", tflops=48.0)))
    needs = l01_feeding_the_tensor_core.needs_of(roofs, LOADS)
    assert (needs["fp32"], needs["tensor"]) == (12, 200) and needs["bytes"] == pytest.approx(1000 * 4000 / 132)
    assert needs["enough"] == feeding.enough_in_flight(LOADS), "the panel's last bar asks for what was enough, and not for the lower bound"
    assert np.isclose(feeding.Fed(True, 2.0, 1, 1, 1, 1, 1, 0, "x").shares(needs)["FLOP per wavefront of loads, for the fp32 units"], 2 / 256)


def test_the_picture_of_who_computes_what_is_the_kernels_arithmetic():
    """Each kernel's threads share its block's tile out, every element once; a block's size is the kernel's."""
    sizes = {"naive": (8, 32), "shared_tile": (64, 64), "register_double_buffer": (128, 128)}
    for place, (kernel, tile) in enumerate(sizes.items()):
        counted = np.zeros(tile, int)
        for thread in range(256):
            share = shares.shares(thread)[place]
            assert (share.kernel, share.tile) == (kernel, tile)
            for row, column, down, right in share.pieces:
                counted[row:row + down, column:column + right] += 1
        assert (counted == 1).all(), kernel
        source = hl.kernel_source(f"gemm/{kernel}.cu")
        assert {"naive": "grid (ceil(n/32), ceil(m/8))", "shared_tile": "#define BM 64", "register_double_buffer": "BM = 128, BN = 128, BK = 8"}[kernel] in source
    words = shares.who_computes().text
    assert "2 numbers for 1 product," in words and "8 numbers for 16 products" in words and "16 numbers for 64 products" in words
