# SPDX-License-Identifier: Apache-2.0
"""fp8/grouped.cu: every group gets its own product and nobody else's rows, whatever the router gave, under every schedule, without a hazard."""
import ml_dtypes
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.measure.launches import fp8
from hopperlab.measure.launches import fp8_grouped
from hopperlab.measure.launches.operand_checks import OperandError

ROUTED = ((64, 130, 0, 1), (5,), (0, 0, 256), (129, 127, 2), (200, 300))


def operands(rows, n, k, seed=0):
    """Random operands, quantised: (a8, b8, a_scales, b_scales, first)."""
    rng = np.random.default_rng([seed, n, k, *rows])
    first = np.cumsum([0, *rows]).astype(np.int32)
    a = rng.standard_normal((int(first[-1]), k)).astype(np.float32) * 10.0 ** rng.integers(-3, 4, (int(first[-1]), 1))
    a8, _, a_scales, _ = fp8.quantise(a, a[:1])
    made = [fp8.quantise(a[:1], rng.standard_normal((n, k)).astype(np.float32)) for _ in rows]
    return a8, np.stack([b for _, b, _, _ in made]), a_scales, np.stack([s for *_, s in made]), first


def check(rows, n, k, blocks, schedule="lazy", seed=0, beyond=0):
    a, b, a_scales, b_scales, first = given = operands(rows, n, k, seed)
    if beyond:                                              # rows that the router gave to nobody
        first = given[4].copy()
        first[-1] -= beyond
        given = (*given[:4], first)
    c = np.full((len(a), n), 7, ml_dtypes.bfloat16)
    launch = fp8_grouped.grouped(a, b, c, a_scales, b_scales, first, blocks=blocks, backend="emulator")
    with hl.emulate(schedule=schedule, seed=seed, hazards="raise"):
        launch()
    exact = fp8_grouped.reference(*given)
    sizes = fp8_grouped.reference(np.abs(a.astype(np.float32)), np.abs(b.astype(np.float32)), a_scales, b_scales, first)
    whose = ~np.isnan(exact)
    assert (np.abs(c.astype(np.float64) - exact) <= 2.0 ** -8 * np.abs(exact) + k * 2.0 ** -22 * sizes)[whose].all()
    assert (c[~whose] == 7).all()


@pytest.mark.parametrize("rows", ROUTED)
@pytest.mark.parametrize("n, k, blocks", [(136, 400, 2), (8, 16, 1), (264, 144, 3)])
@pytest.mark.sampled(every=4)
def test_groups_of_any_size(rows, n, k, blocks):
    check(rows, n, k, blocks)


@pytest.mark.parametrize("schedule, seed", [("eager", 0), ("random", 1), ("random", 2), ("late-wgmma", 0), ("late-copies", 0)])
def test_every_schedule(schedule, seed):
    check((64, 130, 0, 1), 136, 784, 2, schedule, seed)


def test_rows_beyond_the_last_group_stay_as_they_were():
    check((60, 70), 136, 144, 1, beyond=30)


@pytest.mark.parametrize("change, rule", [
    (lambda a, b, c, s, t, f: (a, b, c, s, t, f[:-1].copy()), "shape"),
    (lambda a, b, c, s, t, f: (a, b, c, s, t, f.astype(np.int64)), "dtype"),
    (lambda a, b, c, s, t, f: (a, b, c, s, t[:1].copy(), f), "shape"),
    (lambda a, b, c, s, t, f: (a, b[0], c, s, t, f), "shape"),
    (lambda a, b, c, s, t, f: (a, b, c[:10].copy(), s, t, f), "shape"),
])
def test_bad_operands_name_the_rule(change, rule):
    a, b, s, t, f = operands((60, 70), 136, 144)
    with pytest.raises(OperandError) as problem:
        fp8_grouped.grouped(*change(a, b, np.zeros((130, 136), ml_dtypes.bfloat16), s, t, f), backend="emulator")
    assert problem.value.rule == rule
