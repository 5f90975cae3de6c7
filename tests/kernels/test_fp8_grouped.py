# SPDX-License-Identifier: Apache-2.0
"""fp8/grouped.cu and grouped_tall.cu: every group gets its own product and nobody else's rows, whatever the router gave, under every schedule, without a hazard."""
from dataclasses import replace
from functools import partial

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


def check(rows, n, k, blocks, schedule="lazy", seed=0, beyond=0, product=fp8_grouped.grouped):
    a, b, a_scales, b_scales, first = given = operands(rows, n, k, seed)
    if beyond:                                              # rows that the router gave to nobody
        first = given[4].copy()
        first[-1] -= beyond
        given = (*given[:4], first)
    c = np.full((len(a), n), 7, ml_dtypes.bfloat16)
    launch = product(a, b, c, a_scales, b_scales, first, blocks=blocks, backend="emulator")
    with hl.emulate(schedule=schedule, seed=seed, hazards="raise"):
        launch()
    whose = ~np.isnan(fp8_grouped.reference(*given)[:, 0])
    assert near(c, *given)[whose].all() and (c[~whose] == 7).all()


def near(c, a, b, a_scales, b_scales, first):
    """Which elements are as exact as fp8 products are."""
    exact = fp8_grouped.reference(a, b, a_scales, b_scales, first)
    sizes = fp8_grouped.reference(np.abs(a.astype(np.float32)), np.abs(b.astype(np.float32)), a_scales, b_scales, first)
    return np.abs(c.astype(np.float64) - exact) <= 2.0 ** -8 * np.abs(exact) + b.shape[2] * 2.0 ** -22 * sizes


def check_masked(rows, pitch, n, k, tiles, blocks, schedule="lazy", seed=0):
    """The same groups in rooms of `pitch` rows: what is beyond a group's rows stays as it was."""
    a, b, a_scales, b_scales, first = given = operands(rows, n, k, seed)
    room, scales = np.zeros((len(rows), pitch, k), a.dtype), np.zeros((len(a_scales), -(-len(rows) * pitch // 4) * 4), np.float32)
    c = np.full((len(rows), pitch, n), 7, ml_dtypes.bfloat16)
    for group, count in enumerate(rows):
        room[group, :count] = a[first[group]:first[group + 1]]
        scales[:, group * pitch:group * pitch + count] = a_scales[:, first[group]:first[group + 1]]
    launch = fp8_grouped.masked(room, b, c, scales, b_scales, np.array(rows, np.int32), 1, tiles, blocks, "emulator")
    with hl.emulate(schedule=schedule, seed=seed, hazards="raise"):
        launch()
    assert near(np.concatenate([c[group, :count] for group, count in enumerate(rows)]), *given).all()
    assert all((c[group, count:] == 7).all() for group, count in enumerate(rows))


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


TILES = (fp8_grouped.FEW, fp8_grouped.SMALL, fp8_grouped.LOW, fp8_grouped.WIDE, fp8_grouped.SOME, fp8_grouped.MANY, fp8_grouped.Tiles(2, 3, 2, 8, 2, drawn=0),
         fp8_grouped.Tiles(1, 4, 2, 2, 3, drawn=0, wide=192))


@pytest.mark.parametrize("tiles", TILES, ids=str)
@pytest.mark.parametrize("rows, n, k", [(rows, *size) for rows, size in zip(ROUTED, ((136, 784), (8, 16), (264, 400), (136, 144), (520, 272)))])
@pytest.mark.sampled(by="tiles")
def test_tall_tiles_of_any_kind(rows, n, k, tiles):
    check(rows, n, k, 4, product=partial(fp8_grouped.tall, tiles=tiles))


@pytest.mark.parametrize("tiles", TILES, ids=str)
@pytest.mark.parametrize("schedule, seed", [("eager", 0), ("random", 1), ("random", 2), ("late-wgmma", 0), ("late-copies", 0)])
def test_tall_tiles_under_every_schedule(schedule, seed, tiles):
    check((64, 130, 0, 1), 136, 784, 2, schedule, seed, product=partial(fp8_grouped.tall, tiles=tiles))


@pytest.mark.parametrize("tiles", TILES, ids=str)
@pytest.mark.parametrize("rows, pitch", [((64, 130, 0, 1), 132), ((3, 70), 130), ((200, 256, 5), 256)])
@pytest.mark.sampled(by="tiles")
def test_rooms_of_one_size(rows, pitch, tiles):
    check_masked(rows, pitch, 136, 400, tiles, 4)


def test_tall_tiles_leave_rows_beyond_the_last_group():
    check((60, 70), 136, 144, 2, beyond=30, product=fp8_grouped.tall)


@pytest.mark.parametrize("gone, kind", [
    ("                    release(slot);\n", "deadlock"),
    ("                wgmma_wait_group<0>();\n", "register-in-flight"),
    (", fence_proxy_async_shared_cta();      // scales were read by ordinary loads", "unfenced-overwrite"),
    ("        mbarrier_wait_parity(&full[ring.slot], ring.phase);\n        here", "race"),
    ("            mbarrier_arrive(&full[ring.slot]);\n", "deadlock"),
    ("            mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);\n            told", "deadlock"),
])
@pytest.mark.sampled(ci=1)
def test_what_orders_the_tall_tiles_is_missed_when_it_is_gone(gone, kind):
    source = hl.kernel_source("fp8/grouped_tall.cu")
    assert gone in source
    a, b, a_scales, b_scales, first = operands((64, 130), 136, 1296)
    c = np.zeros((len(a), 136), ml_dtypes.bfloat16)
    launch = fp8_grouped.tall(a, b, c, a_scales, b_scales, first, fp8_grouped.Tiles(2, 2), 1, "emulator")
    left = source.replace(gone, ";" if gone.startswith(",") else next((gone.split("\n")[-1] for end in ("here", "told") if gone.endswith(end)), ""))
    module = hl.RawModule(code=left, name="fp8/grouped_tall.cu", options=launch.kernel.module.options, backend="emulator")
    with hl.emulate(hazards="collect") as run:
        replace(launch, kernel=module.get_function("gemm"))()
    assert kind in {hazard.kind for hazard in (*run.hazards, *run.warnings)}


@pytest.mark.parametrize("tiles", [fp8_grouped.FEW, fp8_grouped.SOME, fp8_grouped.MANY], ids=str)
@pytest.mark.parametrize("rows", [(200, 300), (5,)])
def test_every_tile_is_drawn_once_in_every_launch(rows, tiles):
    """Also of the second one: the last draw sets the counter back. With fewer tiles than CTAs, too."""
    a, b, a_scales, b_scales, first = given = operands(rows, 264, 144)
    c = np.full((len(a), 264), 7, ml_dtypes.bfloat16)
    launch = fp8_grouped.tall(a, b, c, a_scales, b_scales, first, tiles, 4, "emulator")
    for _ in range(2):
        c[:] = 7
        with hl.emulate(schedule="random", seed=3, hazards="raise"):
            launch()
        assert near(c, *given).all()
    assert not next(x for x in reversed(launch.args) if getattr(x, "shape", None) == (2,)).any()          # the counter


@pytest.mark.parametrize("rows, n, loaded", [
    ((128,), 256, 3),                                       # lies: its rows once, and two tiles of B
    ((130,), 256, 2 * 3),                                   # two upright tiles: two halves of rows, and B
    ((256 + 128,), 256, 2 * 3 + 3),
    ((64,), 384, 3 + 3),                                    # the second one has columns past the last
])
def test_a_low_end_lies_down(rows, n, loaded):
    a, b, a_scales, b_scales, first = operands(rows, n, 128)
    launch = fp8_grouped.tall(a, b, np.zeros((len(a), n), ml_dtypes.bfloat16), a_scales, b_scales, first, fp8_grouped.SOME, 4, "emulator")
    with hl.emulate() as run:
        launch()
    assert run.counters["tma_load_bytes"] // (128 * 128) == loaded         # scales are less than a tile


@pytest.mark.parametrize("tiles, atomics", [(fp8_grouped.SOME, 8 + 1), (fp8_grouped.MANY, 0), (fp8_grouped.LOW, 0)], ids=str)
def test_tiles_dealt_out_in_turn_are_not_drawn(tiles, atomics):
    a, b, a_scales, b_scales, first = operands((200, 300), 264, 144)                # six upright tiles, and two that lie
    launch = fp8_grouped.tall(a, b, np.zeros((len(a), 264), ml_dtypes.bfloat16), a_scales, b_scales, first, tiles, 2, "emulator")
    with hl.emulate() as run:
        launch()
    assert run.counters["global_atomic_requests"] == atomics                       # a draw for each, and the counter set back


@pytest.mark.parametrize("groups, rows, n, k, tiles", [
    (16, 512, 4096, 7168, fp8_grouped.MANY), (64, 350, 4096, 1024, fp8_grouped.MANY), (64, 186, 6144, 1792, fp8_grouped.MANY),
    (64, 250, 2304, 5888, fp8_grouped.SOME), (128, 16, 4096, 7168, fp8_grouped.FEW),
    (8, 16, 2048, 4096, fp8_grouped.SMALL), (8, 110, 2304, 3456, fp8_grouped.WIDE), (64, 16, 1408, 5760, fp8_grouped.WIDE),
    (8, 900, 2048, 4096, fp8_grouped.MANY), (8, 386, 2176, 6016, fp8_grouped.LOW), (16, 393, 2560, 1024, fp8_grouped.LOW)])
def test_tiles_are_chosen_by_rows_of_a_group(groups, rows, n, k, tiles):
    assert fp8_grouped.chosen(groups, rows, n, k) == tiles and all(one.shared <= 232448 for one in TILES)


@pytest.mark.parametrize("change", [lambda a, b, c, counts: (a[0], b, c, counts), lambda a, b, c, counts: (a, b[:1], c, counts),
                                    lambda a, b, c, counts: (a, b, c[:, :10], counts), lambda a, b, c, counts: (a, b, c, counts[:1])])
@pytest.mark.sampled(ci=1)
def test_rooms_that_do_not_fit_are_refused(change):
    _, b, _, b_scales, _ = operands((60, 70), 136, 144)
    a, c, counts = np.zeros((2, 72, 144), ml_dtypes.float8_e4m3fn), np.zeros((2, 72, 136), ml_dtypes.bfloat16), np.zeros(2, np.int32)
    a, b, c, counts = change(a, b, c, counts)
    with pytest.raises(OperandError, match="groups"):
        fp8_grouped.masked(a, b, c, np.zeros((2, 144), np.float32), b_scales, counts, 10, backend="emulator")


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
