# SPDX-License-Identifier: Apache-2.0
"""The kernels of lessons 01 and 02: right in every layout and clean, conflicts as the rules count them, bugs still planted."""
import numpy as np
import pytest
from ml_dtypes import bfloat16

import hopperlab as hl
from hopperlab.measure.launches import gemm, operands


def transpose(*options: str):
    kernel = hl.load_kernel("banks/transpose.cu", "transpose", options, backend="emulator")
    x = np.random.default_rng(3).permutation(1024).astype(np.float32).reshape(32, 32)
    y = np.full_like(x, np.nan)
    with hl.emulate(hazards="collect") as run:
        kernel((1,), (32, 32), (x, y))
    return run, bool((y == x.T).all())


@pytest.mark.parametrize(("options", "wavefronts"), [(("-DPITCH=32",), 1024), (("-DPITCH=33",), 32), (("-DPITCH=34",), 64),
                                                     (("-DPITCH=36",), 128), (("-DSWIZZLE=1",), 32)], ids=str)
def test_transpose_costs_what_its_layout_costs(options, wavefronts):
    run, right = transpose(*options)
    assert right and not run.hazards
    assert run.counters["shared_load_wavefronts"] == wavefronts and run.counters["shared_store_wavefronts"] == 32


def test_swizzle_mismatch_is_wrong_without_a_hazard_and_shows_in_the_conflicts():
    run, right = transpose("-DSWIZZLE=1", "-DBUG_SWIZZLE_MISMATCH=1")
    assert not right and not run.hazards
    (site, conflicts), = run.counters.by_line("shared_load_conflicts").items()
    line = hl.kernel_source("banks/transpose.cu").split("\n")[int(str(site).split(":")[-1]) - 1]
    assert "BUG_SWIZZLE_MISMATCH" in line and conflicts == 992


def product(*options: str):
    random = np.random.default_rng(4)
    a, b = (random.integers(-1, 2, size=(rows, 64)).astype(bfloat16) for rows in (16, 64))
    c = np.full((16, 64), 0x7FC0, np.uint16)
    kernel = hl.load_kernel("banks/mma_warp.cu", "product", options, backend="emulator")
    with hl.emulate(hazards="collect") as run:
        kernel((1,), (32,), (a.view(np.uint16), b.view(np.uint16), c))
    return run, bool((c.view(bfloat16).astype(np.float32) == a.astype(np.float32) @ b.astype(np.float32).T).all())


@pytest.mark.parametrize(("swizzle", "conflicts"), [(0, 672), (1, 0)])
def test_one_warp_multiplies_in_both_layouts(swizzle, conflicts):
    run, right = product(f"-DSWIZZLE={swizzle}")
    assert right and not run.hazards
    assert run.counters["shared_load_conflicts"] + run.counters["shared_store_conflicts"] == conflicts


def test_the_product_with_a_mismatch_is_wrong():
    run, right = product("-DBUG_SWIZZLE_MISMATCH=1")
    assert not right and not run.hazards


@pytest.mark.parametrize(("form", "stores", "kinds"), [(0, 2, set()), (1, 2, set()), (2, 1, {"uninitialised-read"})])
def test_without_volatile_and_memory_a_store_is_lost(form, stores, kinds):
    kernel = hl.load_kernel("banks/clobber.cu", "load_twice", (f"-DFORM={form}",), backend="emulator")
    out = np.zeros(32, np.uint32)
    with hl.emulate(hazards="collect") as run:
        kernel((1,), (32,), (np.arange(64, dtype=np.uint32), out))
    assert kernel.module.ptx.count("st.shared") == stores
    assert {hazard.kind for hazard in run.hazards} == kinds


@pytest.mark.parametrize("tile", [(64, 64, 16), (128, 64, 16), (128, 128, 8), (64, 128, 32), (192, 64, 16)], ids=str)
@pytest.mark.sampled(every=2)
def test_shared_tile_with_any_tile(tile):
    a, b = operands.integer_bf16(np, (150, 40), seed=5), operands.integer_bf16(np, (140, 40), seed=6)
    c = np.full((150, 140), 0x7FC0, np.uint16)
    with hl.emulate(hazards="raise"):
        gemm.shared_tile(a, b, c, backend="emulator", tile=tile)()
    assert (c == operands.bf16_bits(operands.bf16_values(a) @ operands.bf16_values(b).T)).all()


def test_a_tile_that_the_threads_cannot_share_out_is_refused():
    with pytest.raises(hl.CompileError, match="share the loads"):
        hl.load_kernel("gemm/shared_tile.cu", "gemm", ("-DBK=8",), backend="emulator")
    with pytest.raises(hl.CompileError, match="64 x 64 pieces"):
        hl.load_kernel("gemm/shared_tile.cu", "gemm", ("-DBM=96",), backend="emulator")


@pytest.mark.parametrize("bug", ["BUG_NO_TILE_BARRIER", "BUG_NO_REUSE_BARRIER"])
@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
def test_a_missing_barrier_is_a_race_whatever_the_values(bug, schedule):
    a, b = operands.integer_bf16(np, (64, 48), seed=7), operands.integer_bf16(np, (64, 48), seed=8)
    c = np.zeros((64, 64), np.uint16)
    with hl.emulate(schedule=schedule, seed=2, hazards="collect") as run:
        gemm.shared_tile(a, b, c, (f"-D{bug}=1",), backend="emulator")()
    assert {hazard.kind for hazard in run.hazards} == {"race"}


def test_bugs_of_shared_tile_take_one_barrier_each():
    def barriers(*options: str) -> int:
        return hl.load_kernel("gemm/shared_tile.cu", "gemm", options, backend="emulator").module.ptx.count("bar.sync")
    whole = barriers()
    assert whole > barriers("-DBUG_NO_TILE_BARRIER=1") > 0 and whole > barriers("-DBUG_NO_REUSE_BARRIER=1") > 0
