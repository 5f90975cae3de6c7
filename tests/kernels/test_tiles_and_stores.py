"""The small kernels of lessons 06 and 08 in the emulator: right under every schedule, clean, and their planted bugs named."""
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.show import products, swizzles

SCHEDULES = ("lazy", "eager", "random")


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    """Everything here runs in the emulator, on a GPU machine too."""
    monkeypatch.setenv("HOPPERLAB_BACKEND", "emulator")
    from hopperlab.runtime import backend

    backend._from_environment.cache_clear()
    yield
    backend._from_environment.cache_clear()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("mode, row_bytes", [("none", 128), ("32B", 16), ("64B", 64), ("128B", 128)])
def test_columns_of_many_tiles(mode, row_bytes, schedule):
    options, size = swizzles.column_options(mode, row_bytes, start=384)
    x = np.random.default_rng(row_bytes).integers(0, 1 << 30, (3 * 32, row_bytes // 4)).astype(np.int32)
    out = np.zeros((3, row_bytes // 16, 32, 4), np.int32)
    kernel = hl.load_kernel("layouts/columns.cu", "columns", options)
    with hl.emulate(schedule=schedule, seed=2, hazards="raise"):
        kernel((3,), (128,), (hl.TensorMap.tiled(x, box=(32, row_bytes // 4), swizzle=mode), out), shared_mem=size)
    assert (out == x.reshape(3, 32, row_bytes // 16, 4).swapaxes(1, 2)).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_tile_on_64_bytes_is_named_and_one_on_128_is_silent(schedule):
    right, run = swizzles.read_columns("128B", options=("-DBUG_TILE_AT_64=1",))
    assert {hazard.kind for hazard in run.hazards} == {"misaligned"}
    right, run = swizzles.read_columns("128B", options=("-DBUG_TILE_AT_128=1",))
    assert not right and not run.hazards, "the accesses are ordered; only the addresses are wrong"
    with pytest.raises(hl.EmulatorError, match="trap at columns.cu"):
        swizzles.read_columns("128B", start=128, options=("-DSWIZZLE_OFFSET=1",))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("in_flight", [0, 1, 3])
@pytest.mark.parametrize("n", products.WIDTHS)
def test_one_tile_is_exact_and_clean(n, in_flight, schedule):
    made = products.multiply_tile(n, 3, in_flight, schedule=schedule)
    assert made.right and not made.run.hazards and made.run.counters["wgmma"] == 12


@pytest.mark.parametrize("row_bytes", [32, 64, 128])
def test_one_tile_in_every_swizzle(row_bytes):
    made = products.multiply_tile(32, 4, 1, row_bytes)
    assert made.right and not made.run.hazards and made.run.counters["wgmma"] == 4 * row_bytes // 32


@pytest.mark.parametrize("bug, kind, right", [("BUG_DESCRIPTOR_SWIZZLE", "layout-mismatch", False), ("BUG_READ_BEFORE_WAIT", "register-in-flight", True)])
def test_bugs_of_one_tile_are_named(bug, kind, right):
    made = products.multiply_tile(64, 2, 1, options=(f"-D{bug}=1",))
    assert {hazard.kind for hazard in made.run.hazards} == {kind} and made.right is right


def test_ptxas_sees_the_early_read():
    early, right = (products.multiply_tile(64, 1, 1, options=options) for options in (("-DBUG_READ_BEFORE_WAIT=1",), ()))
    assert set(early.notes) == {"C7514"} and right.notes == ()
