# SPDX-License-Identifier: Apache-2.0
"""Lesson 15: formats and scales by hand, every step right and silent, planted bugs named, and the model beside the recording."""
import ml_dtypes
import numpy as np
import pytest

from hopperlab import measure
from hopperlab.lessons.l15_fp8_gemm import fp8_measured, fp8_steps, scales
from hopperlab.measure.launches import fp8
from hopperlab.measure.launches.operand_checks import OperandError
from hopperlab.measure.recordings import Record
from hopperlab.show import excerpts

RECORDING = measure.load("fp8")


def test_errors_of_e4m3_by_hand():
    # 17/16 lies half way between 1 and 9/8; 2^-10 is half of the smallest number and rounds to even, zero; 3 x 2^-10 goes to 2^-8.
    assert scales.relative_error(np.array([1, 17 / 16, 2.0 ** -10, 3 * 2.0 ** -10, 448])) == pytest.approx([0, 1 / 17, 1, 1 / 3, 0])
    assert np.isinf(scales.relative_error(np.array([500.0])))
    worst = scales.worst_errors()
    assert worst[0] == worst[8] == pytest.approx(1 / 17) and worst[-9] == pytest.approx(1 / 3) and worst[-12] == 1
    assert scales.e4m3_chart().png()[:4] == b"\x89PNG"


@pytest.mark.parametrize("sharing", scales.SCALES.values())
def test_quantised_operands_stand_for_the_originals(sharing):
    a, b = scales.outlying(scales.OUTLIERS[2], 6, 256)
    a8, b8, a_scales, b_scales = scales.quantised(a, b, sharing)
    assert len(np.unique(a_scales)) == {"one": 1, "row": 128, "block": 256}[sharing]
    assert b_scales.shape == (1, 2) and len(np.unique(b_scales)) == (2 if sharing == "block" else 1)
    back = a8.astype(np.float64) * a_scales.T.repeat(128, 1)
    assert (np.abs(back - a) <= np.abs(a) / 16 + 2.0 ** -10 * a_scales.max()).all()
    assert float(np.abs(a8.astype(np.float32)).max()) == float(np.abs(b8.astype(np.float32)).max()) == 448


def test_scales_by_block_are_those_of_the_launch():
    a, b = scales.outlying(scales.OUTLIERS[1], 9, 256)
    for mine, its in zip(scales.quantised(a, b, "block"), fp8.quantise(a, b), strict=True):
        assert (mine == its).all()


def test_what_each_sharing_loses():
    def zeros_and_error(where, sharing):
        a, b = scales.outlying(scales.OUTLIERS[where], 20, 256)
        c, run, given = scales.run_scales(a, b, sharing)
        assert not run.hazards
        return (scales.fates(a, given[0], given[2]) == 2).mean(), np.median(scales.row_errors(c, a, b))
    assert zeros_and_error(1, "one") == pytest.approx((120 / 128, 1), abs=0.02)        # all rows but the eight loud ones
    for where, sharing in ((1, "row"), (1, "block"), (2, "block")):
        zeros, error = zeros_and_error(where, sharing)
        assert zeros < 0.001 and 0.03 < error < 0.045
    assert zeros_and_error(2, "row")[0] == pytest.approx(0.5, abs=0.02)                # the k-block that is not loud


def test_the_panel_draws_a_run_and_names_a_k_that_tma_does_not_take():
    picture = scales.launch_scales("one per matrix", scales.OUTLIERS[1], 20, 128)
    assert "no hazard" in picture.text and "different scales of A and B: 1 and 1" in picture.text and picture.png()[:4] == b"\x89PNG"
    with pytest.raises(OperandError, match="k of 16"):
        scales.launch_scales("one per matrix", scales.OUTLIERS[1], 20, 200)
    with pytest.raises(ValueError, match="no place"):
        scales.outlying("nowhere", 1, 128)


@pytest.mark.parametrize("landing", ["lazy", "eager", "random"])
@pytest.mark.parametrize("step", fp8_steps.STEPS)
def test_every_step_is_right_and_silent(step, landing):
    right, run = fp8_steps.run_fp8(step, 200, 136, 400, landing)
    assert right and not run.hazards
    if landing == "lazy":
        assert fp8_steps.blocks_in_flight(run) == (2 if step == "overlapped" else 1)


def test_multicast_asks_for_half_of_a():
    (_, alone), (_, pair) = (fp8_steps.run_fp8(step, 128, 256, 256) for step in ("staged_scales", "multicast"))
    stage = 128 * 128
    assert fp8_steps.asked_of_l2("staged_scales", alone) == 4 * (2 * stage + 512) == alone.counters["tma_load_bytes"]
    assert fp8_steps.asked_of_l2("multicast", pair) == 4 * (stage + stage // 2 + 512)


BUGS = {
    "scales read late": ("staged_scales", 2, (("read_scales(upper, lower);", ""), ("release(slot);", "release(slot), read_scales(upper, lower);")),
                         {"overwrite-in-flight"}),
    "no wait": ("overlapped", 3, (("            wgmma_wait_group<1>();\n            release(before);", "            release(before);"),),
                {"overwrite-in-flight", "register-in-flight"}),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_named(bug):
    step, stages, changes, kinds = BUGS[bug]
    _, run = fp8_steps.run_fp8(step, 128, 128, 640, stages=stages, changes=changes)
    assert {hazard.kind for hazard in run.hazards} == kinds


def test_promotion_skipped_is_no_hazard_and_shows_with_scales():
    skipped = (("stage + A_BYTES, 0);", "stage + A_BYTES, i > 0);"), ("            promote(sum[0],", "            if (i == k_tiles - 1) promote(sum[0],"))
    right, run = fp8_steps.run_fp8("promoted", 128, 128, 384, changes=skipped, scaled=False)
    assert right and not run.hazards
    assert not fp8_steps.run_fp8("promoted", 128, 128, 384, changes=skipped)[0]


def test_traffic_by_hand():
    found = {name: tuple(ways.values()) for name, ways in fp8_steps.tiles_traffic().items()}
    assert found["128 x 128"] == (96, 64)                       # 2 x (64 + 128) x 128 bytes read and 256 x 128 written, in 512 cycles
    assert found["256 x 128, one half after the other"] == (96, 48)
    assert found["128 x 256 at once, one scale"] == (80, 48)
    assert [line.split("  ")[-1] for line in fp8_steps.tile_traffic_fp8().split("\n")[1:]] == ["75 %", "75 %", "62 %"]


def test_promotions_lie_between_k_blocks_or_under_them():
    for step, under in (("staged_scales", False), ("overlapped", True)):
        _, run = fp8_steps.run_fp8(step, 128, 128, 512)
        spans = fp8_steps.promotion_spans(run, "two" if under else "one")
        blocks = [s for s in spans if s.kind == "multiplied"]
        first = next(s for s in spans if s.kind == "promoted" and s.label == "0")
        assert len(blocks) == 4 and any(b.start < first.start < b.end for b in blocks) == under
    assert "two parts: tensor core, part 1" in fp8_steps.promotion_picture(384).text


@pytest.mark.parametrize(("answer", "words"), [((None, 1), "Not answered"), ((128, 80), "another place"), ((64, 80), "Not 64"),
                                               ((256, 128), "48 of them are what TMA writes"),
                                               ((256, 144), "Not 144"), ((256, 80), "Right: 80 bytes per cycle")])
def test_the_exercise_names_what_is_wrong(answer, words):
    assert words in fp8_steps.check_wide(*answer)


def test_cut_sums_by_hand():
    one = np.ones((1, 32))
    assert fp8_measured.cut_sum(one, one)[0, 0] == 32
    a = np.array([[2.0 ** 13] + [0.75] * 31])
    assert fp8_measured.cut_sum(a, one)[0, 0] == 2 ** 13        # each 0.75 lies below the last place, 1, and is cut off
    assert fp8_measured.cut_sum(a, one, bits=15)[0, 0] == 2 ** 13 + 31 * 0.75
    long = np.ones((1, 1 << 15))
    assert fp8_measured.cut_sum(long, long)[0, 0] == 1 << 14    # there the last place is 2, and every further 1 is cut off
    assert fp8_measured.cut_sum(long, long, every=128)[0, 0] == 1 << 15


@pytest.mark.parametrize("kind", fp8_measured.KINDS)
@pytest.mark.parametrize("k", [1024, 4096])
def test_the_model_is_near_what_was_recorded(kind, k):
    """Sums of 24 x 24 elements beside recorded ones of 256 x 256: a tenth apart, where other bits would be a factor of two apart."""
    operands = fp8_measured.accuracy_operands(kind, k)
    recorded = next(r for r in RECORDING.where(kernel="accuracy", options=("tensor core alone", kind)) if r.shape[2] == k).value
    assert fp8_measured.mean_error(fp8_measured.cut_sum(*operands), *operands) == pytest.approx(recorded, rel=0.15)
    if kind == "positive":
        for bits, factor in ((12, 1.6), (14, 1 / 1.6)):
            other = fp8_measured.mean_error(fp8_measured.cut_sum(*operands, bits=bits), *operands)
            assert other > factor * recorded if bits == 12 else other < factor * recorded


def test_the_emulator_adds_in_fp32():
    operands = fp8_measured.accuracy_operands("positive", 512)
    exact = operands[0].astype(np.float64) @ operands[1].astype(np.float64).T
    assert (np.abs(fp8_measured.emulated(*operands).astype(np.float64) - exact) <= 2.0 ** -8 * exact).all()
    assert operands[0].dtype == ml_dtypes.float8_e4m3fn
    with pytest.raises(ValueError, match="no kind"):
        fp8_measured.accuracy_operands("other", 128)


def test_tables_and_pictures_of_the_recording():
    told = fp8_measured.fp8_table(RECORDING)
    for name in ("tensor_scale", *fp8_measured.LADDER, "cuBLASLt block-scaled"):
        assert sum(line.startswith(f"{name} ") for line in told.split("\n")) >= 1
    assert "recorded on" in told and "–" not in told
    alone = type(RECORDING)("fp8", RECORDING.header, tuple(r for r in RECORDING if r.kernel != "DeepGEMM"))
    assert "\nDeepGEMM " in told and "DeepGEMM" not in fp8_measured.fp8_table(alone)
    assert 50 < fp8_measured.speed_left(RECORDING) < 100 and fp8_measured.geometric_mean(RECORDING)[1] == 8
    for picture in (fp8_measured.accuracy_chart(RECORDING), fp8_measured.fp8_chart(RECORDING)):
        assert "recorded on" in picture.text and picture.png()[:4] == b"\x89PNG"
    assert "256 x 128, 1 part, A for a pair" in fp8_measured.tiles_table(RECORDING) and "positive: promoted" in fp8_measured.accuracy_table(RECORDING)
    rows = fp8_measured.every_table(k=2048).split("\n")
    assert rows[2].split()[:2] == ["128", "columns"] and rows[-1].split()[0] == "never"


def test_writes_beside_reads_are_told_by_n():
    header = RECORDING.header
    values = {("N=64", "COPY_BYTES=0", "wgmma"): 32.0, ("N=64", "COPY_BYTES=512", "wgmma"): 40.0, ("N=64", "COPY_BYTES=512", "copied"): 90.0}
    made = type(RECORDING)("fp8", header, tuple(Record("fp8", "wgmma_beside_copies", options, (64, 64, 32), value=value) for options, value in values.items()))
    assert fp8_measured.beside_table(made).split("\n")[-1].split() == "64 x 64 x 32 32.0 cycles 40.0 cycles 102.4 bytes 90.0 bytes".split()


def test_what_the_lesson_says_of_the_recorded_writes():
    """At N = 64 all 128 bytes per cycle are read, and copies beside do not slow that down; every N that kernels use keeps its N / 2 cycles."""
    rows = {line.split(" x ")[1]: line.split() for line in fp8_measured.beside_table(RECORDING).split("\n")[2:]}
    for n in ("64", "128", "256"):
        alone, beside, read, written = (float(rows[n][i]) for i in (5, 7, 9, 11))
        assert alone == pytest.approx(int(n) / 2, rel=0.02) and beside == pytest.approx(alone, rel=0.02) and written > 80
    assert float(rows["64"][9]) > 125


def test_what_the_lesson_says_of_the_ladder():
    """By recorded step: what each is compared with, tall tiles in the last one, and the target over all shapes."""
    for size in (4096, 8192):
        ratio = {name: fp8_measured._at(RECORDING, name, (size,) * 3).ratio for name in fp8_measured.LADDER}
        steps = [ratio[after] - ratio[before] for before, after in zip(fp8_measured.LADDER, fp8_measured.LADDER[1:], strict=False)]
        assert steps[0] == max(steps) and steps[1] < 0 < steps[2] < steps[3]
        assert fp8.parsed(fp8_measured._at(RECORDING, "final", (size,) * 3).options).rows == 2
    assert min(r.ratio for r in RECORDING.where(kernel="final") if not r.note) > 1 and fp8_measured.geometric_mean(RECORDING)[0] >= 1.13
    flattest = max((r for r in RECORDING.where(kernel="final") if not r.note), key=lambda record: record.ratio)
    assert flattest.shape[0] == 128 and fp8.parsed(flattest.options).stream_b
    busy = {r.options: r.value for r in measure.load("profiles").where(kernel="fp8") if r.note == "tensor cores: tensor pipe busy"}
    assert min(busy["8192",], busy["16384",]) > 100 * 128 / (96 + 48)               # beyond the bound that adds reads and writes up
    clocks = [r.value for r in measure.load("profiles").where(kernel="fp8") if r.note == "time: SM clock" and r.options != ("2048",)]
    assert max(clocks) < 0.85 * RECORDING.header["clocks"]["sm_max_mhz"]


def test_b_that_leaves_first_is_faster_where_it_is_read_once():
    usual, once = (float(line.split(" us")[0].split()[-1]) for line in fp8_measured.once_table(RECORDING).split("\n")[1:])
    assert once < usual


def test_an_excerpt_names_its_lines():
    shown = excerpts.excerpt("fp8/promoted.cu", "Ring<STAGES> ring;", "return;")
    assert shown.numbered().split("\n")[0].endswith("Ring<STAGES> ring;") and shown.text.rstrip().endswith("return;")
    with pytest.raises(ValueError, match="has no lines"):
        excerpts.excerpt("fp8/promoted.cu", "no such text", "return;")


def test_grouped_products_and_a_map_that_is_not_edited():
    right, run = fp8_steps.run_grouped((64, 130, 0, 1), k=144)
    assert right == [True] * 4 and not run.hazards
    whole = (("store_accumulators_tma<1>(map,", "store_accumulators_tma<1>(&c_map,"), ("1 + me, walk.row(index)", "1 + me, first[walk.group] + walk.row(index)"),
             ("walk.col(index) * BN, rows, n);", "walk.col(index) * BN, 1 << 30, n);"))
    _, run = fp8_steps.run_grouped((64, 130, 0, 1), k=144, changes=whole)
    assert {hazard.kind for hazard in run.hazards} == {"overwrite-in-flight"}


def test_the_grouped_product_is_told_beside_a_launch_a_group():
    lines = fp8_measured.grouped_table(measure.load("fp8")).splitlines()
    assert len(lines) == 4 and lines[0].startswith("16 groups") and "1.00 (1.00 to 1.00)" in lines[3]
