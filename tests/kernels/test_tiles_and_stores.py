# SPDX-License-Identifier: Apache-2.0
"""The small kernels of lessons 06 and 08 in the emulator: right under every schedule, clean, and their planted bugs named."""
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.lessons.l06_tma_layouts import columns
from hopperlab.lessons.l08_wgmma import one_tile

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
    options, size = columns.column_options(mode, row_bytes, start=384)
    x = np.random.default_rng(row_bytes).integers(0, 1 << 30, (3 * 32, row_bytes // 4)).astype(np.int32)
    out = np.zeros((3, row_bytes // 16, 32, 4), np.int32)
    kernel = hl.load_kernel("layouts/columns.cu", "columns", options)
    with hl.emulate(schedule=schedule, seed=2, hazards="raise"):
        kernel((3,), (128,), (hl.TensorMap.tiled(x, box=(32, row_bytes // 4), swizzle=mode), out), shared_mem=size)
    assert (out == x.reshape(3, 32, row_bytes // 16, 4).swapaxes(1, 2)).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_tile_on_64_bytes_is_named_and_one_on_128_is_silent(schedule):
    right, run = columns.read_columns("128B", options=("-DBUG_TILE_AT_64=1",))
    assert {hazard.kind for hazard in run.hazards} == {"misaligned"}
    right, run = columns.read_columns("128B", options=("-DBUG_TILE_AT_128=1",))
    assert not right and not run.hazards, "the accesses are ordered; only the addresses are wrong"
    with pytest.raises(hl.EmulatorError, match="trap at columns.cu"):
        columns.read_columns("128B", start=128, options=("-DSWIZZLE_OFFSET=1",))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("in_flight", [0, 1, 3])
@pytest.mark.parametrize("n", one_tile.WIDTHS)
@pytest.mark.sampled(by="n")
def test_one_tile_is_exact_and_clean(n, in_flight, schedule):
    made = one_tile.multiply_tile(n, 3, in_flight, schedule=schedule)
    assert made.right and not made.run.hazards and made.run.counters["wgmma"] == 12


@pytest.mark.parametrize("row_bytes", [32, 64, 128])
def test_one_tile_in_every_swizzle(row_bytes):
    made = one_tile.multiply_tile(32, 4, 1, row_bytes)
    assert made.right and not made.run.hazards and made.run.counters["wgmma"] == 4 * row_bytes // 32


@pytest.mark.parametrize("bug, kind, right", [("BUG_DESCRIPTOR_SWIZZLE", "layout-mismatch", False), ("BUG_READ_BEFORE_WAIT", "register-in-flight", True)])
@pytest.mark.sampled(ci=1)
def test_bugs_of_one_tile_are_named(bug, kind, right):
    made = one_tile.multiply_tile(64, 2, 1, options=(f"-D{bug}=1",))
    assert {hazard.kind for hazard in made.run.hazards} == {kind} and made.right is right


def test_ptxas_sees_the_early_read():
    early, right = (one_tile.multiply_tile(64, 1, 1, options=options) for options in (("-DBUG_READ_BEFORE_WAIT=1",), ()))
    assert set(early.notes) == {"C7514"} and right.notes == ()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("place, right", [(0, False), (1, True), (2, True), (3, False), (4, False)])
def test_two_of_five_places_of_the_fence_are_enough(place, right, schedule):
    x = np.random.default_rng(place).integers(-99, 99, 3 * 512).astype(np.float32)
    y = np.zeros_like(x)
    kernel = hl.load_kernel("stores/fence_places.cu", "doubled", (f"-DPLACE={place}",))
    with hl.emulate(schedule=schedule, seed=4, hazards="collect") as run:
        kernel((3,), (128,), (x, y))
    assert {hazard.kind for hazard in run.hazards} == (set() if right else {"missing-proxy-fence"})
    assert not right or (y == 2 * x).all()


def test_the_places_differ_by_one_instruction_only():
    fences = {place: hl.load_kernel("stores/fence_places.cu", "doubled", (f"-DPLACE={place}",)).module.ptx.count("fence.proxy.async.shared::cta;") for place in range(5)}
    assert fences == {0: 0, 1: 1, 2: 1, 3: 1, 4: 1}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("rows", [[1], [5, 16, 39, 1], [17, 32, 15]])
def test_each_group_is_clipped_by_its_own_map(rows, schedule):
    first = np.concatenate([[0], np.cumsum(rows)]).astype(np.int32)
    matrices, maps = np.zeros((int(first[-1]) + 20, 32), np.float32), np.zeros((len(rows), 128), np.uint8)
    with hl.emulate(schedule=schedule, seed=5, hazards="raise") as run:
        hl.load_kernel("stores/grouped.cu", "grouped")((len(rows),), (32,), (hl.TensorMap.tiled(matrices, box=(16, 32)), maps, matrices, first))
    assert (matrices[:first[-1], 0] == np.repeat(np.arange(1, len(rows) + 1), rows)).all() and (matrices == matrices[:, :1]).all()
    assert not matrices[first[-1]:].any() and run.counters["tma_stores"] == sum(-(-n // 16) for n in rows)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("bounds", [[0, 24], [0, 7, 7, 50], [0, 30, 31, 64, 100]])
def test_split_k_adds_up(bounds, schedule):
    a, b = (np.random.default_rng(seed).integers(-3, 4, (32, bounds[-1])).astype(np.float32) for seed in (1, 2))
    c = np.zeros((32, 32), np.float32)
    with hl.emulate(schedule=schedule, seed=6, hazards="raise") as run:
        hl.load_kernel("stores/split_k.cu", "split_k")((len(bounds) - 1,), (128,), (hl.TensorMap.tiled(c, box=(32, 32)), a, b, np.array(bounds, np.int32),
                                                                                     np.int32(bounds[-1])))
    assert (c == a @ b.T).all() and run.counters["tma_reduces"] == len(bounds) - 1


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("options, kinds", [((), set()), (("-DCTA_SCOPE=1",), {"read-before-arrival"})])
def test_a_handover_between_blocks_needs_gpu_scope(options, kinds, schedule):
    x = np.random.default_rng(8).integers(0, 9, 512).astype(np.float32)
    middle, flag, total = np.zeros_like(x), np.zeros(1, np.int32), np.zeros(1, np.float32)
    with hl.emulate(schedule=schedule, seed=7, hazards="collect") as run:
        hl.load_kernel("stores/handover.cu", "handover", options)((2,), (128,), (x, middle, flag, total))
    assert {hazard.kind for hazard in run.hazards} == kinds and (options or total[0] == 2 * x.sum())


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_four_rows_on_one_barrier(schedule):
    """Any rows, also twice and outside: gather_rows takes what NumPy's index takes, and zeros."""
    x = np.random.default_rng(4).integers(-99, 99, (40, 64)).astype(np.float32)
    kernel = hl.load_kernel("layouts/gather_rows.cu", "gather_rows")
    for wanted in ([3, 17, 39, 0], [5, 5, -1, 40]):
        out = np.full((4, 64), np.nan, np.float32)
        with hl.emulate(schedule=schedule, seed=4, hazards="raise") as run:
            kernel((1,), (64,), (hl.TensorMap.tiled(x, box=(1, 64)), np.asarray(wanted, np.int32), out))
        assert (out == np.stack([x[row] if 0 <= row < 40 else np.zeros(64, np.float32) for row in wanted])).all()
        assert run.counters["tma_loads"] == 4 and run.counters["tma_load_bytes"] == 4 * 256


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_four_rows_by_four_stores(schedule):
    """scatter_rows writes what NumPy's index writes; what lies outside is left out."""
    x = np.random.default_rng(5).integers(-99, 99, (4, 64)).astype(np.float32)
    kernel = hl.load_kernel("layouts/scatter_rows.cu", "scatter_rows")
    for wanted in ([3, 17, 39, 0], [5, 40, 6, 99]):
        out, expected = (np.full((40, 64), -1, np.float32) for _ in range(2))
        for row, values in zip(wanted, x, strict=True):
            expected[row:row + 1] = 2 * values
        with hl.emulate(schedule=schedule, seed=4, hazards="raise"):
            kernel((1,), (64,), (hl.TensorMap.tiled(out, box=(1, 64)), np.asarray(wanted, np.int32), x))
        assert (out == expected).all()
