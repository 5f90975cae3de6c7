# SPDX-License-Identifier: Apache-2.0
"""The fp8 ladder: every step gives the float64 product of its quantised operands on awkward shapes, under every schedule, without a hazard."""
from dataclasses import replace
from math import prod

import ml_dtypes
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.measure.launches import fp8, fp8_choice
from hopperlab.measure.launches.fp8_choice import BlockScaled
from hopperlab.measure.launches.operand_checks import OperandError

SHAPES = ((1, 8, 16), (64, 64, 128), (130, 264, 144), (200, 136, 400))
TALL, HIGH = replace(fp8.TALL, blocks=4), fp8.HIGH
CONFIGURATIONS = {
    "multicast, double": fp8.BlockScaled(blocks=4), "alone, double": fp8.BlockScaled(cluster_n=1, blocks=3), "single": fp8.BlockScaled(parts=1, blocks=4),
    "tall pair": TALL, "tall pair, unrolled": replace(TALL, unroll=8), "tall": replace(TALL, cluster_n=1, blocks=2),
    "tall, a slot": replace(TALL, cluster_n=1, stages=4, c_slots=1),
    "tall, one consumer": replace(TALL, cluster_n=1, consumers=1, blocks=3), "tall pair a tile": replace(TALL, group=0), "64 wide": fp8.BlockScaled(bn=64, blocks=4),
    "one consumer": fp8.BlockScaled(consumers=1, cluster_n=1, group=0), "a CTA per tile": fp8.BlockScaled(group=0),
    "B once": fp8.BlockScaled(bn=64, cluster_n=1, group=0, stream_b=1), "B once, few CTAs": fp8.BlockScaled(consumers=1, cluster_n=1, stages=8, stream_b=1,
            blocks=2), "two stages": fp8.BlockScaled(stages=2, blocks=2),
    "four clustered": fp8.BlockScaled(cluster_n=4, blocks=4),
    "64 x 128, k by 2": replace(fp8.SHORT, split=2, stream_b=1), "64 x 128, k by 3": replace(fp8.SHORT, split=3), "128 x 64, k by 4": replace(fp8.NARROW, split=4),
    "128 x 128, k by 4": fp8.BlockScaled(cluster_n=1, group=0, split=4), "tall, k by 3": replace(TALL, cluster_n=1, group=0, split=3, c_slots=2),
    "192 x 128": replace(HIGH, cluster_n=1, blocks=3), "192 x 128 pairs": replace(HIGH, blocks=4),
}


def operands(shape, seed=0):
    m, n, k = shape
    rng = np.random.default_rng([seed, *shape])
    a = rng.standard_normal((m, k)).astype(np.float32) * 10.0 ** rng.integers(-3, 4, (m, 1))
    return fp8.quantise(a, rng.standard_normal((n, k)).astype(np.float32))


def bound(a8, b8, a_scales, b_scales, exact):
    """One rounding to bf16 (2^-9, doubled), and sums in fp32 of k products in any order."""
    sizes = fp8.reference(np.abs(a8.astype(np.float32)), np.abs(b8.astype(np.float32)), a_scales, b_scales)
    return 2.0 ** -8 * np.abs(exact) + a8.shape[1] * 2.0 ** -22 * sizes


def run(make, shape, schedule="lazy", seed=0):
    given = operands(shape, seed)
    c = np.full((shape[0], shape[1]), np.nan, ml_dtypes.bfloat16)
    launch = make(given[0], given[1], c, *given[2:])
    with hl.emulate(schedule=schedule, seed=seed, hazards="raise") as session:
        launch()
    exact = fp8.reference(*given)
    assert (np.abs(c.astype(np.float64) - exact) <= bound(*given, exact)).all()
    return session.counters


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("step", fp8.STEPS)
@pytest.mark.sampled(by="step")
def test_every_step_on_awkward_shapes(step, shape):
    run(lambda *given: fp8.STEPS[step](*given, backend="emulator"), shape)


@pytest.mark.parametrize("schedule, seed", [("eager", 0), ("random", 1), ("late-wgmma", 0), ("late-copies", 0)])
@pytest.mark.parametrize("name", ["multicast, double", "tall pair", "tall pair, unrolled", "tall", "single", "a CTA per tile", "B once", "64 x 128, k by 3",
                                  "128 x 64, k by 4", "128 x 128, k by 4", "192 x 128 pairs"])
@pytest.mark.sampled(every=9)
def test_under_every_schedule(name, schedule, seed):
    run(lambda *given: fp8.block_scaled(*given, CONFIGURATIONS[name], backend="emulator"), (200, 264, 400), schedule, seed)


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.sampled(every=7)
def test_every_configuration(name):
    run(lambda *given: fp8.block_scaled(*given, CONFIGURATIONS[name], backend="emulator"), (200, 264, 528), "random", 2)


@pytest.mark.parametrize("split", [2, 3, 8])
def test_each_part_of_k_multiplies_its_share(split):
    """9 k-blocks in uneven parts: as many products, loads and stores as without parts, and each of two finishers hears of all others."""
    shape, counted = (70, 136, 1040), {}
    for parts in (1, split):
        counted[parts] = run(lambda *given, parts=parts: fp8.block_scaled(*given, replace(fp8.SHORT, split=parts), backend="emulator"), shape)
    for what in ("wgmma", "tma_load_bytes", "tma_store_bytes"):
        assert counted[1][what] == counted[split][what]
    tiles, mail = 4, 64 * 64 * 4                            # a tile of 64 x 128 has two halves of columns, in fp32
    assert counted[1]["dsmem_store_bytes"] == 0 and counted[split]["dsmem_store_bytes"] == tiles * 2 * (split - 1) * mail
    with pytest.raises(OperandError, match="9 k-blocks"):
        run(lambda *given: fp8.block_scaled(*given, replace(fp8.SHORT, split=10), backend="emulator"), shape)


@pytest.mark.parametrize("schedule", ["lazy", "eager"])
def test_one_scale_for_all(schedule):
    m, n, k = 200, 136, 400
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, size).astype(ml_dtypes.float8_e4m3fn) for size in ((m, k), (n, k)))
    c = np.full((m, n), np.nan, ml_dtypes.bfloat16)
    with hl.emulate(schedule=schedule, hazards="raise"):
        fp8.tensor_scale(a, b, c, 0.5, blocks=2, backend="emulator")()
    exact = 0.5 * (a.astype(np.float64) @ b.astype(np.float64).T)
    assert (np.abs(c.astype(np.float64) - exact) <= 2.0 ** -8 * np.abs(exact)).all()


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.sampled(every=4)
def test_nothing_spills_and_no_wait_is_injected(name):
    given = operands((64, 64, 512))
    c = np.zeros((64, 64), ml_dtypes.bfloat16)
    module = fp8.block_scaled(given[0], given[1], c, *given[2:], CONFIGURATIONS[name], backend="emulator").kernel.module
    assert "C75" not in module.log
    assert module.ptxas_info.kernels["gemm"].spill_stores == 0


@pytest.mark.parametrize("change, rule", [
    (lambda a, b, c, s, t: (a[:, :8].copy(), b[:, :8].copy(), c, s, t), "size"),
    (lambda a, b, c, s, t: (a.astype(np.float32), b, c, s, t), "dtype"),
    (lambda a, b, c, s, t: (a, b, c.T.copy()[:3], s, t), "shape"),
    (lambda a, b, c, s, t: (a, b, c, s[:0], t), "size"),
    (lambda a, b, c, s, t: (a, b, c, s, t.T.copy()), "shape"),
])
def test_bad_operands_name_the_rule(change, rule):
    a, b, s, t = operands((64, 136, 400))
    with pytest.raises(OperandError) as problem:
        fp8.promoted(*change(a, b, np.zeros((64, 136), ml_dtypes.bfloat16), s, t), backend="emulator")
    assert problem.value.rule == rule


def test_quantised_operands_stand_for_the_originals():
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((70, 300)).astype(np.float32), rng.standard_normal((140, 300)).astype(np.float32)
    a8, b8, a_scales, b_scales = fp8.quantise(a, b)
    back = a8.astype(np.float32) * a_scales[:, :70].T.repeat(128, 1)[:, :300]
    assert (np.abs(back - a) <= 2.0 ** -4 * np.abs(a) + 2.0 ** -10 * np.abs(a).max()).all()
    assert float(np.abs(a8.astype(np.float32)).max()) == 448


@pytest.mark.parametrize(("bytes_", "word"), [(0, "none"), (256, "256B")])
def test_operands_are_promoted_into_the_l2_as_the_choice_says(bytes_, word):
    a8, b8, a_scales, b_scales = fp8.quantise(np.ones((128, 128)), np.ones((128, 128)))
    launch = fp8.block_scaled(a8, b8, np.zeros((128, 128), ml_dtypes.bfloat16), a_scales, b_scales, fp8.BlockScaled(promotion=bytes_), backend="emulator")
    assert [launch.args[i].fields.l2_promotion for i in range(2)] == [word] * 2 and "-DPROMOTION" not in " ".join(launch.kernel.module.options)


def ptx_of(choice):
    given = operands((64, 64, 128))
    return fp8.block_scaled(given[0], given[1], np.zeros((64, 64), ml_dtypes.bfloat16), *given[2:], choice, backend="emulator").kernel.module.ptx


def test_b_that_is_read_once_is_loaded_with_a_hint():
    usual, once = (ptx_of(fp8.BlockScaled(bn=64, cluster_n=1, group=0, stream_b=stream)).count(".L2::cache_hint") for stream in (0, 1))
    assert (usual, once) == (0, 1)


def test_unrolled_code_holds_eight_k_blocks_and_does_not_ask_for_the_next_tile():
    loop, unrolled = ptx_of(TALL), ptx_of(replace(TALL, unroll=8))
    assert loop.count("wgmma.mma_async") == 2 * 4 and unrolled.count("wgmma.mma_async") >= 8 * 2 * 4
    assert loop.count("mbarrier.test_wait") == 1 and unrolled.count("mbarrier.test_wait") == 0


@pytest.mark.parametrize(("shape", "expected"), [
    ((64, 4096, 1000), {"consumers": 1, "bn": 128, "stream_b": 1, "group": 0, "split": 1}), ((64, 20000, 4096), {"consumers": 1, "stream_b": 1, "group": 8}),
    ((16, 1792, 10496), {"bn": 128, "split": 6}), ((512, 1024, 7168), {"split": 2}),                  # few tiles and a deep k
    ((4864, 896, 3840), {"consumers": 3, "rows": 1}), ((384, 4608, 13056), {"rows": 1}),              # 133 and 54 tiles of 256 x 128
    ((236, 14920, 9776), {"rows": 2, "cluster_n": 2}), ((9000, 9000, 1008), {"rows": 2, "cluster_n": 2, "unroll": 8, "c_slots": 4})])
def test_a_shape_that_was_not_measured_gets_tiles_by_its_size(shape, expected):
    choice = fp8.choose(*shape)
    assert {name: getattr(choice, name) for name in expected} == expected


def test_a_ring_of_more_stages_than_have_barriers_is_refused():
    a, b, c = np.zeros((64, 128), np.uint8), np.zeros((128, 128), np.uint8), np.zeros((64, 128), np.uint16)
    given = (a, b, c, np.zeros((1, 64), np.float32), np.zeros((1, 1), np.float32))
    with pytest.raises(ValueError, match="stages"):
        fp8.block_scaled(*given, replace(fp8.SHORT, stages=9), backend="emulator")


def test_estimates_of_a_product_count_waves_parts_and_bytes():
    model = replace(fp8_choice.MODEL, memory=1e12, l2=1e12)
    base, costs = BlockScaled(cluster_n=1), model.kinds["128 x 128 that stay"]

    def us(choice, m, n, k):
        return fp8_choice.estimated("128 x 128 that stay", choice, m, n, k, model) - model.start
    assert us(base, 128, 128 * 132, 1024) == pytest.approx(8 * costs.k_block + costs.tile) == pytest.approx(us(base, 128, 128 * 133, 1024) / 2)
    halves = replace(base, group=0, split=2)
    alone, exchange = 5 * costs.k_block + costs.tile, model.exchange + 2 * model.part
    assert us(halves, 128, 128 * 66, 1152) == pytest.approx(alone + exchange) == pytest.approx(us(halves, 128, 128 * 67, 1152) / 2)
    assert us(base, 128, 128, 1040) == pytest.approx(9 * costs.k_block * model.inside + costs.tile)
    slow = replace(model, memory=1e-3 * (128 * 1024 + 128 * 1024 + 2 * 128 * 128), l2=1e12)
    assert fp8_choice.estimated("128 x 128 that stay", base, 128, 128, 1024, slow) == pytest.approx(model.start + 1000, rel=1e-3)
    read = replace(model, l2=1e-3 * (256 * 1024 * 2 + 256 * 1024 * 2))
    assert fp8_choice.estimated("128 x 128 that stay", base, 256, 256, 1024, read) == pytest.approx(model.start + 1000, rel=1e-3)


@pytest.mark.parametrize("shape", [(1, 8, 16), (16, 256, 256), (70, 1000, 16384), (4000, 5000, 656)])
def test_what_is_possible_can_be_launched(shape):
    for name, (kind, choice) in fp8_choice.possible(*shape).items():
        assert name.startswith(kind) and choice.split <= -(-shape[2] // 128) and choice.mail_bytes <= choice.stages * (choice.bm + choice.bn) * 128, name
        assert choice.group or prod(choice.grid(*shape[:2])) <= 132
    assert fp8_choice.ranked(*shape)[0] in fp8_choice.possible(*shape)
