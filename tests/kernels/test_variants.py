# SPDX-License-Identifier: Apache-2.0
"""The controls of the products in the emulator: exact on awkward shapes under every schedule, no hazard; every operand of wgmma."""
import numpy as np
import pytest
from support.products import KINDS, as_stored, check_bf16, values

import hopperlab as hl
from hopperlab.measure.launches import variants

SCHEDULES = ("lazy", "eager", "random")
NEW = {"cp_async_mma": {}, "cp_async_wgmma": {}, "multistage": {}, "cuda_pipeline": {}, "cuda_pipeline block": {"scope": "block"},
       "cp_async_mma after": {"options": ("-DCOPY_AFTER=1",)}, "cuda_pipeline after": {"options": ("-DCOPY_AFTER=1",)},
       "cuda_pipeline before": {"scope": "block", "options": ("-DCOPY_AFTER=0",)}, "cp_async_barriers": {}, "cp_async_barriers before": {"options": ("-DCOPY_AFTER=0",)},
       "producer_warp": {}, "producer_warp 4": {"warps": 4},
       "producer_warp waits": {"options": ("-DWAIT_FOR_OWN_LOAD=1",)}}


def make(name: str):
    return variants.VARIANTS[name.split()[0]]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", NEW)
@pytest.mark.sampled(by="name", thin=False)
def test_variant_is_exact_under_every_schedule(name, schedule):
    check_bf16(make(name), 130, 264, 328, schedule, **NEW[name])


@pytest.mark.parametrize("name", NEW)
@pytest.mark.parametrize("shape", [(1, 1, 8), (129, 257, 72), (257, 100, 136)], ids=str)
@pytest.mark.sampled(by="name")
def test_variant_on_awkward_shapes(name, shape):
    check_bf16(make(name), *shape, "random", **NEW[name])


@pytest.mark.parametrize("stages", [3, 5])
@pytest.mark.parametrize("name", NEW)
@pytest.mark.sampled(every=5)
def test_variant_with_any_number_of_stages(name, stages):
    check_bf16(make(name), 100, 120, 584, "random", stages=stages, **NEW[name])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("bk", "stages"), [(32, 2), (32, 8), (128, 2), (128, 3), (64, 2), (64, 7)])
@pytest.mark.sampled(every=5)
def test_multistage_takes_any_depth_of_a_stage(bk, stages, schedule):
    check_bf16(variants.multistage, 130, 72, 456, schedule, stages=stages, bk=bk)


@pytest.mark.parametrize("pair", variants.TWO_BY_TWO, ids=str)
@pytest.mark.parametrize("choices", [{"stages": 3, "blocks": 2}, {"stages": 4, "blocks": 1}], ids=str)
@pytest.mark.sampled(by="pair")
def test_the_two_by_two_has_equal_tiles(pair, choices):
    launch = check_bf16(variants.TWO_BY_TWO[pair], 140, 130, 264, "lazy", **(choices if pair != ("TMA", "mma.sync") else choices | {"blocks": 2}))
    assert (launch.grid, launch.block) == ((2, 2), (256,))
    assert launch.shared_mem - choices["stages"] * 32768 in range(65)


@pytest.mark.parametrize("scope", ["thread", "block"])
def test_whole_tiles_need_no_second_path(scope):
    launch = check_bf16(variants.cuda_pipeline, 256, 128, 192, "random", scope=scope, options=("-DWHOLE_TILES=1",))
    edges = variants.cuda_pipeline(np.zeros((128, 64), np.uint16), np.zeros((128, 64), np.uint16), np.zeros((128, 128), np.uint16), scope=scope, backend="emulator")
    stores = [kernel.module.ptx.count("st.shared") + kernel.module.ptx.count("st.v4") for kernel in (launch.kernel, edges.kernel)]
    assert stores[0] < stores[1]


def test_producers_of_another_size():
    a = np.zeros((8, 8), np.uint16)
    sizes = [variants.producer_warp(a, a, a, warps=warps, backend="emulator") for warps in (1, 4)]
    assert [launch.block for launch in sizes] == [(288,), (384,)]
    assert ["setmaxnreg" in launch.kernel.module.ptx for launch in sizes] == [False, True]


OPERANDS = [(kind, source, "K", "K") for kind in variants.OPERANDS for source in ("SS", "RS")]
OPERANDS += [(kind, source, a, b) for kind in ("bf16", "f16") for source in ("SS", "RS") for a, b in (("MN", "K"), ("K", "MN"), ("MN", "MN"))]


def check_operands(kind, source, a_major, b_major, shape, schedule):
    m, n, k = shape
    a, b = values(kind, (m, k), m), values(kind, (n, k), n + 1)
    c = np.full((m, n), -1, KINDS[kind].result)
    stored = [as_stored(kind, x, major) for x, major in ((a, a_major), (b, b_major))]
    with hl.emulate(schedule=schedule, seed=4, hazards="raise"):
        variants.wgmma_operands(*stored, c, kind, source, a_major, b_major, backend="emulator")()
    assert (c == a.astype(np.float64) @ b.astype(np.float64).T).all()


@pytest.mark.parametrize(("kind", "source", "a_major", "b_major"), OPERANDS)
@pytest.mark.sampled(every=6)
def test_operands_are_exact(kind, source, a_major, b_major):
    schedule = SCHEDULES[(len(kind) + len(a_major) + len(b_major)) % 3]
    check_operands(kind, source, a_major, b_major, (136, 144, 304), schedule)
    check_operands(kind, source, a_major, b_major, (8, 200, 16), "random")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("source", ["SS", "RS"])
def test_operands_under_every_schedule(source, schedule):
    check_operands("bf16", source, "MN", "MN", (64, 72, 640), schedule)


def test_only_the_operands_that_exist():
    x = np.zeros((64, 64), np.int8)
    with pytest.raises(ValueError, match="s8 K-major only"):
        variants.wgmma_operands(x, x, np.zeros((64, 64), np.int32), "s8", a_major="MN", backend="emulator")
    with pytest.raises(ValueError, match="give int32, not int8 and float32"):
        variants.wgmma_operands(x, x, np.zeros((64, 64), np.float32), "s8", backend="emulator")
    with pytest.raises(ValueError, match="k or c does not fit"):
        variants.wgmma_operands(x, x, np.zeros((64, 32), np.int32), "s8", backend="emulator")


def test_tf32_ignores_thirteen_bits():
    a, b = np.full((64, 32), 1 + 2.0 ** -12, np.float32), np.eye(64, 32, dtype=np.float32)
    c = np.zeros((64, 64), np.float32)
    variants.wgmma_operands(a, b, c, "tf32", backend="emulator")()
    assert (c[:, :32] == 1).all()


def test_the_map_rounds_to_tf32_where_it_says_so():
    """What a map of type tfloat32 does is not this kernel's: its maps hold float32, so all bits arrive in shared memory."""
    a = np.zeros((64, 32), np.float32)
    launch = variants.wgmma_operands(a, a, np.zeros((64, 64), np.float32), "tf32", backend="emulator")
    assert [launch.args[i].fields.dtype for i in (0, 1)] == ["float32", "float32"]


@pytest.mark.parametrize("name", ["cp_async_mma", "cp_async_barriers", "cp_async_wgmma", "cuda_pipeline", "multistage", "producer_warp"])
@pytest.mark.sampled(ci=1)
def test_k_that_no_16_byte_copy_can_take_is_named(name):
    x = np.zeros((8, 12), np.uint16)
    with pytest.raises(ValueError, match="multiple of 8"):
        variants.VARIANTS[name](x, x, np.zeros((8, 8), np.uint16), backend="emulator")


@pytest.mark.parametrize(("make", "choices", "message"), [
    (variants.cp_async_wgmma, {"stages": 2}, "stages is 2; this kernel takes 3 to 7"), (variants.multistage, {"bk": 48}, "bk is 48"),
    (variants.multistage, {"stages": 9}, "stages is 9"), (variants.producer_warp, {"warps": 2}, "warps is 2; this kernel takes 1, 4"),
    (variants.cuda_pipeline, {"scope": "grid"}, "scope is 'grid'"), (variants.wgmma_operands, {"kind": "f64"}, "kind is 'f64'"),
    (variants.wgmma_operands, {"source": "R"}, "source is 'R'"), (variants.wgmma_operands, {"b_major": "N"}, "major is 'N'")])
@pytest.mark.sampled(ci=1)
def test_settings_that_do_not_exist_are_named(make, choices, message):
    x = np.zeros((64, 64), np.uint16)
    with pytest.raises(ValueError, match=message):
        make(x, x, x, backend="emulator", **choices)
