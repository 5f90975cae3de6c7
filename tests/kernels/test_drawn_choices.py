# SPDX-License-Identifier: Apache-2.0
"""What the course picks at random shapes, each configuration once on a small one in the emulator: right, and without a hazard."""
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.measure.launches import attention, fp8, gemm, operands
from hopperlab.measure.launches.gemm_configurations import MOST_STAGES, candidates
from hopperlab.measure.launches.random_cells import Cell, random_cells
from hopperlab.measure.launches.random_shapes import fp8_shapes
from hopperlab.measure.suites.race_attention import picked

BF16 = ml_dtypes.bfloat16
PRODUCTS = list(dict.fromkeys(fp8.choose(*shape) for shape in fp8_shapes(300, 1)))
CELLS = list(dict.fromkeys((cell.d, cell.causal, picked(cell)) for cell in map(Cell.of, random_cells(300, 1))))


def deep_rings() -> list:
    """Rings of more than MOST_STAGES: every width alone in a part of k, turned or not, in both orders of B; and every cluster."""
    found: dict = {}
    for choice in (choice for shape in ((128, 640, 2560), (32, 1408, 2560), (512, 1024, 7168)) for b_mn in (False, True) for choice in candidates(*shape, b_mn)):
        if choice.stages > MOST_STAGES:
            tile = (choice.bn, choice.split) if choice.cluster_m * choice.cluster_n == 1 else ("cluster", choice.cluster_m, choice.cluster_n)
            found.setdefault((*tile, choice.swapped, choice.b_mn), choice)
    return list(found.values())


@pytest.mark.parametrize("choice", deep_rings(), ids=str)
@pytest.mark.sampled(every=17, ci=6)
def test_every_deep_ring_of_a_product_of_few_tiles(choice):
    """More k-blocks than stages, so that every slot is used again."""
    m, n, k = 140, 168, 64 * (choice.stages + 2) * choice.split + 8
    a, b, c = operands.integer_bf16(np, (m, k), 1), operands.integer_bf16(np, (n, k), 2), np.full((m, n), 0x7FC0, np.uint16)
    launch = gemm.final(a, np.ascontiguousarray(b.T).T if choice.b_mn else b, c, choice, backend="emulator")
    with hl.emulate(schedule="random", seed=1, hazards="raise"):
        launch()
    assert (c == operands.bf16_bits(operands.bf16_values(a) @ operands.bf16_values(b).T)).all()


@pytest.mark.parametrize("choice", PRODUCTS, ids=str)
@pytest.mark.sampled(every=6)
def test_every_configuration_of_an_fp8_product_that_is_drawn(choice):
    m, n, k = 200, 264, 1168                                # edges on every side, more k-blocks than stages
    rng = np.random.default_rng(4)
    given = fp8.quantise(*(rng.standard_normal((rows, k)).astype(np.float32) for rows in (m, n)))
    c = np.full((m, n), np.nan, BF16)
    launch = fp8.block_scaled(given[0], given[1], c, *given[2:], replace(choice, blocks=4), backend="emulator")
    with hl.emulate(schedule="random", seed=1, hazards="raise"):
        launch()
    exact = fp8.reference(*given)
    assert (np.abs(c.astype(np.float64) - exact) <= 2.0 ** -8 * np.abs(exact) + 2.0 ** -9 * np.sqrt(np.square(exact).mean())).all()


@pytest.mark.parametrize(("d", "causal", "choice"), CELLS, ids=str)
@pytest.mark.thorough
def test_every_configuration_of_attention_that_is_drawn(d, causal, choice):
    lengths, heads, kv_heads = (200, 65, 1), 2, 1
    rng = np.random.default_rng(d)
    q, k, v = (rng.standard_normal((sum(lengths), h, d)).astype(BF16) for h in (heads, kv_heads, kv_heads))
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    o, lse = np.full(q.shape, np.nan, BF16), np.full((heads, len(q)), np.nan, np.float32)
    launch = attention.forward(q, k, v, o, lse, starts, starts, causal, choice=replace(choice, blocks=4), backend="emulator")
    with hl.emulate(schedule="random", seed=1, hazards="raise"):
        launch()
    expected, expected_lse = attention.reference(q, k, v, starts, starts, causal)
    assert (np.abs(o.astype(np.float64) - expected) <= 2.0 ** -7 * np.maximum(np.abs(expected), np.abs(v.astype(np.float32)).max())).all()
    assert (np.abs(lse - expected_lse) <= 2e-5 * np.maximum(1, np.abs(expected_lse))).all()
