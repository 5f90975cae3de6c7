# SPDX-License-Identifier: Apache-2.0
"""How a product's configuration is picked: everything worth considering can be launched, the model ranks it, `tune` is remembered."""
import json

import numpy as np
import pytest

from hopperlab.hopper import limits
from hopperlab.measure import recordings
from hopperlab.measure.launches import gemm, gemm_choice, gemm_corrections, gemm_model, gemm_tuned
from hopperlab.measure.launches.gemm_configurations import FEW_TILES, MOST_STAGES, Final, SplitK, StreamK, candidates, choice_named, few_tiles, kernel_of, parsed
from hopperlab.measure.launches.random_shapes import MOST_FLOP, few_tiles_shapes, random_shapes

SHAPES = [(16, 4096, 14336), (300, 1000, 2048), (1536,) * 3, (3072,) * 3, (4966, 328, 13360), (8192,) * 3, (1, 8, 8)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_is_worth_considering_can_be_launched(shape):
    found = list(candidates(*shape))
    assert len(found) == len(set(found)) > 3
    for choice in found:
        assert choice.shared_bytes <= limits.SHARED_PER_BLOCK and choice.stages > choice.in_flight
        assert choice.swapped or choice.pieces % choice.c_slots == 0
        assert choice.mail_bytes <= choice.stages * (choice.bm + choice.bn) * 128 and choice.cluster <= 8
        assert choice.bm // choice.consumers * choice.bn <= 64 * 384 and choice.bn % choice.finishers == 0
        assert not (choice.stream and (choice.split > 1 or not choice.group)) and (choice.split == 1 or choice.bm // choice.consumers * choice.bn <= 64 * 256)


def test_narrow_tiles_where_few_rows_and_wide_ones_where_many():
    few, many = gemm_choice.choose(16, 4096, 14336), gemm_choice.choose(8192, 8192, 8192)
    assert few.swapped and few.bn == 16 and many.bm * many.bn >= 128 * 256
    assert gemm_choice.choose(300, 300, 16000).split > 1                    # a deep k, few tiles
    assert gemm_choice.choose(4096, 4096, 4088) in set(candidates(4096, 4096, 4088))


@pytest.mark.parametrize("shape", [(16, 4096, 4096), (300, 520, 136), (3072, 3072, 3072), (449, 7936, 1752)])
def test_a_b_of_rows_of_n_is_read_in_panels(shape):
    """Every configuration for a B stored k x n has a B side of whole panels of 64 columns, and the model sees which rows are split."""
    for choice in candidates(*shape, b_mn=True):
        assert choice.b_mn and (choice.bm if choice.swapped else choice.bn) % 64 == 0
        assert choice.boxes[0 if choice.swapped else 1] == (64 // (choice.cluster_n if choice.swapped else choice.cluster_m), 64)
        assert all(64 % side == 0 or side % 8 == 0 for box in choice.boxes for side in box) and "-DB_MN=1" in choice.options
    best = gemm_choice.choose(*shape, b_mn=True)
    assert best in set(candidates(*shape, b_mn=True)) and best not in set(candidates(*shape))
    assert gemm_model.microseconds(best, *shape, whole_lines=(False, False)) >= gemm_model.microseconds(best, *shape, whole_lines=(False, True)) \
        >= gemm_model.microseconds(best, *shape)


def test_both_orientations_are_worth_considering():
    """What is left over at C's edges differs: 192 x 112 tiles lie in 23 rows of 11 when turned (two waves), in 14 of 19 when not (three)."""
    found = list(candidates(2536, 2112, 776))
    of = {choice.swapped: choice.tiles(2536, 2112) for choice in found if (choice.bm, choice.bn, choice.cluster) == (192, 112, 1)}
    assert of == {0: (14, 19), 1: (11, 23)}
    assert {choice.bn for choice in found if choice.bm == 192} >= {96, 144, 176, 192} and not [choice for choice in found if choice.bm == 192 and choice.bn > 192]


def test_turned_tiles_leave_in_parts():
    """A slot of C holds all of a narrow turned tile, and at most 96 of a wide one's columns; of three consumers 64."""
    assert [Final(192, columns, 3, swapped=1).width for columns in (48, 64, 80, 96, 144, 176, 192)] == [48, 64, 16, 48, 48, 16, 64]
    assert [Final(bn=columns, swapped=1).width for columns in (16, 112, 128, 144, 176, 192, 240, 256)] == [16, 112, 128, 48, 16, 96, 80, 64]
    wide = next(choice for choice in candidates(449, 7936, 1752) if choice.swapped and choice.bn == 240 and choice.bm == 128)
    assert wide.stages >= 4 and wide.c_slots * wide.slot_bytes <= 20480 and wide.c_box == (80, 64)


def test_the_model_orders_what_it_ranks():
    ranked = gemm_choice.ranked(2000, 3000, 1000)
    estimates = [gemm_model.microseconds(choice, 2000, 3000, 1000, whole_lines=(False, False)) for choice in ranked]
    times = estimates * gemm_corrections.factors(ranked, 2000, 3000, 1000, estimates)
    assert list(times) == sorted(times) and ranked[0] == gemm_choice.choose(2000, 3000, 1000)
    assert np.argmin(estimates) < len(ranked) // 4


def expected(shape, choices, *files):
    """Microseconds of configurations by the formula and these corrections."""
    whole = (shape[2] % 64 == 0,) * 2
    estimates = np.array([gemm_model.microseconds(choice, *shape, whole_lines=whole) for choice in choices])
    return estimates * np.prod([gemm_corrections.factors(choices, *shape, estimates, file) for file in files], axis=0)


def test_where_tiles_are_few_the_first_are_ordered_again():
    """The first AGAIN by both groups of trees, the first group's pick MARGIN ahead; they, and what stands behind them, are those of the first group."""
    shape = (128, 640, 2560)
    ranked = gemm_choice.ranked(*shape)
    first, both = expected(shape, ranked, gemm_corrections.FILE), expected(shape, ranked, gemm_corrections.FILE, gemm_corrections.FEW_FILE)
    again = both[:gemm_choice.AGAIN].copy()
    again[np.argmin(first)] /= gemm_choice.MARGIN
    assert list(again) == sorted(again) and list(first[:gemm_choice.AGAIN]) != sorted(first[:gemm_choice.AGAIN])
    assert max(first[:gemm_choice.AGAIN]) <= min(first[gemm_choice.AGAIN:]) and list(first[gemm_choice.AGAIN:]) == sorted(first[gemm_choice.AGAIN:])


@pytest.mark.thorough
def test_another_is_picked_where_the_second_trees_expect_more_than_a_margin():
    """At 512x1024x7168 the deep ring, 1.2 times as fast when measured; within MARGIN what the first trees pick."""
    assert gemm_choice.choose(512, 1024, 7168, b_mn=True).stages == 13
    kept = 0
    for shape in few_tiles_shapes(8, 5):
        ranked = gemm_choice.ranked(*shape, whole_lines=(shape[2] % 64 == 0,) * 2)
        first, both = expected(shape, ranked, gemm_corrections.FILE), expected(shape, ranked, gemm_corrections.FILE, gemm_corrections.FEW_FILE)
        best = np.argmin(first)
        kept += best == 0
        assert best == 0 or both[0] < both[best] / gemm_choice.MARGIN, shape
    assert 0 < kept < 8


def test_other_products_are_picked_as_before(monkeypatch):
    """Beyond what the second trees were fitted on, nobody asks them, and no ring is deeper than MOST_STAGES."""
    asked = []
    monkeypatch.setattr(gemm_corrections, "trees", lambda file, real=gemm_corrections.trees: asked.append(file) or real(file))
    gemm_choice.ranked.cache_clear()
    for shape in ((1664, 1672, 2048), (8, 1024, 4096), (32, 8192, 4096), (512, 512, 512), (512, 1024, 16448), (4096,) * 3):
        assert max(choice.stages for choice in gemm_choice.ranked(*shape)) <= MOST_STAGES, shape
    assert set(asked) == {gemm_corrections.FILE}
    gemm_choice.ranked(512, 1024, 7168)
    assert asked[-1] == gemm_corrections.FEW_FILE


def test_what_is_fitted_is_what_the_first_trees_leave_over():
    """Of benchmarks.few_tiles_model: without second trees its losses are those of the first, and the mean that is left at a shape counts for nothing."""
    few_tiles_model = pytest.importorskip("benchmarks.few_tiles_model", reason="a checkout of the repository")
    recording = recordings.load("search_few")
    shape = next(iter(recording)).shape
    left = few_tiles_model.Left(few_tiles_model.of(recording, {shape}))
    found = [(record.ms, parsed(record)) for record in recording if record.shape == shape]
    for place, b_mn in enumerate((0, 1)):
        times, choices = zip(*[(ms, choice) for ms, choice in found if choice.b_mn == b_mn], strict=True)
        loss = times[np.argmin(expected(shape, choices, gemm_corrections.FILE))] / min(times) - 1
        assert left.losses(np.zeros(len(found)))[place] == pytest.approx(loss)
        one = left.search.shapes[place]
        assert np.average(left.wanted[one], weights=left.weights[one]) == pytest.approx(0) and left.losses(left.wanted)[place] == 0


def test_rings_are_as_deep_as_fits_where_one_consumer_has_one_tile_of_few():
    found = [choice for choice in candidates(512, 1024, 7168) if choice.stages > MOST_STAGES]
    assert {(choice.bn, choice.stages) for choice in found if choice.cluster == 1} == {(64, 13), (80, 12)}
    assert all(choice.consumers == 1 and choice.group == 0 and choice.split <= 2 for choice in found)
    assert min(choice.bn for choice in candidates(128, 640, 2560) if choice.stages > MOST_STAGES) == 64
    assert all(choice.shared_bytes + (choice.bm + choice.bn) * 128 + 16 > limits.SHARED_PER_BLOCK for choice in found), "one stage more does not fit"
    assert not [choice for choice in candidates(512, 1024, 1024) if choice.split == 2 and choice.stages > MOST_STAGES], "8 k-blocks each"


def test_second_corrections_help_where_tiles_are_few():
    """Over the H100's recording `search_few`, on which they were fitted with others: what is picked loses less than by the first trees alone."""
    before, after = [], []
    records = [(record, parsed(record)) for record in recordings.load("search_few", recordings.FOLDER / "h100")]
    for shape in dict.fromkeys(record.shape for record, _ in records):
        choices, times = zip(*[(choice, record.ms) for record, choice in records if record.shape == shape and not choice.b_mn], strict=True)
        times = np.array(times) / min(times)
        before.append(times[np.argmin(expected(shape, choices, gemm_corrections.FILE))])
        after.append(times[np.argmin(expected(shape, choices, gemm_corrections.FILE, gemm_corrections.FEW_FILE))])
    assert np.mean(after) < np.mean(before) - 0.005


def test_corrections_follow_their_trees():
    """Two trees by hand: bounds belong to the branch below, a leaf alone is a sum, and no choice has no factor."""
    trees = gemm_corrections.Trees(0.5, [([0, -1, 1, -1, -1], [3.0, 10.0, 7.0, 20.0, 30.0], [1, 0, 3, 0, 0]), ([-1], [100.0], [0])])
    rows = np.array([[3.0, 9.0], [3.1, 7.0], [4.0, 7.5]])
    assert trees.of(rows).tolist() == [110.5, 120.5, 130.5]
    assert gemm_corrections.factors([], 8, 8, 8, []).size == 0


def test_corrections_are_small_and_help():
    """Over the recording `search`, on which they were fitted with others: what is picked loses less than by the formula, and no factor is wild."""
    formula, corrected, factors = [], [], []
    records = [(record, parsed(record)) for record in recordings.load("search")]
    for shape, b_mn in dict.fromkeys((record.shape, choice.b_mn) for record, choice in records):
        choices, times = zip(*[(choice, record.ms) for record, choice in records if (record.shape, choice.b_mn) == (shape, b_mn)], strict=True)
        whole, times = (shape[2] % 64 == 0, shape[1 + (not b_mn)] % 64 == 0), np.array(times)
        estimates = np.array([gemm_model.microseconds(choice, *shape, whole_lines=whole) for choice in choices])
        factors += list(gemm_corrections.factors(choices, *shape, estimates))
        formula.append(times[np.argmin(estimates)] / times.min())
        corrected.append(times[np.argmin(estimates * factors[-len(choices):])] / times.min())
    assert np.mean(corrected) < np.mean(formula) and np.mean(corrected) < 1.0155
    assert 0.3 < min(factors) and max(factors) < 3


def test_work_is_counted():
    todo = gemm_model.work(Final(), 8192, 8192, 8192)
    assert todo.operands == 8192 ** 3 // (64 * 256 * 16) * 320 * 32 and todo.tiles == 16 and todo.cluster == 1 and todo.memory == 3 * 2 * 8192 ** 2
    half = gemm_model.work(Final(bm=64, bn=128, consumers=1, split=2, group=0, cluster_m=1), 64, 128, 8192)
    assert half.blocks == 64 and half.split == 1 and half.exchanged == 64 * 128 * 4 // 2
    assert gemm_model.work(Final(stream=1), 256 * 67, 256, 640).blocks == pytest.approx(67 / 66 * 10)
    for other in (SplitK(), StreamK()):
        assert gemm_model.MODEL.microseconds(gemm_model.work(other, 512, 512, 8192)) > 0


def test_more_work_takes_longer_by_the_model():
    for choice in (Final(), Final(bn=160, cluster_m=1), Final(swapped=1, bn=64, c_slots=1)):
        times = [gemm_model.microseconds(choice, 512, 4096, k) for k in (512, 4096, 16384)]
        assert times == sorted(times) and times[0] > gemm_model.MODEL.start
        assert gemm_model.microseconds(choice, 512, 4096, 4096, whole_lines=(False, False)) > gemm_model.microseconds(choice, 512, 4096, 4096)


def test_the_model_was_fitted_on_other_shapes_than_it_is_judged_on():
    fitted = {record.shape for record in recordings.load("search")}
    judged = {record.shape for record in recordings.load("products")}
    assert len(fitted) >= 40 and len(judged) >= 60 and not fitted & judged
    chosen = [record for record in recordings.load("search") if record.kernel == "final"]
    assert all(set(record.options) <= set(parsed(record).named) for record in chosen)


def test_random_shapes_are_what_they_say():
    shapes = random_shapes(400, 5)
    assert shapes == random_shapes(400, 5) and shapes[:60] == random_shapes(60, 5) and shapes != random_shapes(400, 6)
    assert all(2 * m * n * k <= MOST_FLOP and m >= 1 and n % 8 == 0 and k % 8 == 0 for m, n, k in shapes)
    assert 120 < sum(n % 128 == 0 and k % 128 == 0 for _, n, k in shapes) < 280 and min(m for m, _, _ in shapes) < 40


def test_random_shapes_of_few_tiles_are_few():
    shapes = few_tiles_shapes(100, 5)
    assert len(set(shapes)) == 100 and shapes[:40] == few_tiles_shapes(40, 5) and all(few_tiles(*shape) for shape in shapes)
    assert max(m * n for m, n, _ in shapes) > 0.9 * FEW_TILES and few_tiles(2048, 1320, 1024) and not few_tiles(2048, 1321, 1024)
    judged, fitted = ({record.shape for record in recordings.load(name, board="h100")} for name in ("products_best", "search_few"))
    assert not judged & fitted


def test_what_tune_found_is_remembered_by_board(monkeypatch, tmp_path):
    monkeypatch.setenv("HOPPERLAB_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(gemm_tuned, "board", lambda: "a board, driver 1")
    gemm_tuned._known.cache_clear()
    assert gemm_tuned.remembered(100, 200, 304) is None
    choice = Final(bn=160, split=2, group=0, stagger=0, cluster_m=1)
    gemm_tuned.remember(100, 200, 304, choice)
    assert gemm_tuned.remembered(100, 200, 304) == choice and gemm_tuned.remembered(100, 200, 312) is None
    monkeypatch.setattr(gemm_tuned, "board", lambda: "another, driver 1")
    assert gemm_tuned.remembered(100, 200, 304) is None
    (tmp_path / gemm_tuned.FILE).write_text("{not whole")
    gemm_tuned._known.cache_clear()
    assert gemm_tuned.remembered(100, 200, 304) is None
    gemm_tuned.remember(1, 8, 8, choice)
    assert list(json.loads((tmp_path / gemm_tuned.FILE).read_text())) == ["another, driver 1"]
    assert choice_named(choice.named) == choice and choice_named(["UNKNOWN=1"]) is None
    gemm_tuned._known.cache_clear()


def test_the_emulator_takes_the_models_pick():
    a, b, c = np.zeros((64, 128), np.uint16), np.zeros((256, 128), np.uint16), np.zeros((64, 256), np.uint16)
    launch = gemm.final(a, b, c, backend="emulator")
    choice = gemm_choice.choose(64, 256, 128)
    assert kernel_of(choice) == "final" and launch.grid == choice.grid(64, 256, 128)
    assert gemm_choice.wanted(choice, 256) == [("gemm/final.cu", "gemm", choice.options)] and "-DTMA_STORE=0" in gemm_choice.wanted(choice, 255)[0][2]
