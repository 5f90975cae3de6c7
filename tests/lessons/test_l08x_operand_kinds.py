# SPDX-License-Identifier: Apache-2.0
"""Lesson 08x: counts by formula, by emulator and by profiler agree; both majors read what TMA wrote; the mistakes; the exercise."""
import numpy as np
import pytest

from hopperlab import measure
from hopperlab.hopper import wgmma
from hopperlab.lessons.l08x_wgmma_operands import operand_kinds

ANSWER = {"start": 0x600, "leading": 256, "stride": 64, "swizzle": 1, "second k-step": 0x680}


@pytest.mark.parametrize("kind", list(operand_kinds.OPERANDS))
@pytest.mark.parametrize("source", ["SS", "RS"])
@pytest.mark.sampled(every=3)
def test_the_formula_is_the_emulators_count(kind, source):
    made = operand_kinds.multiply_operands(kind, source)
    count = made.run.counters
    assert made.right and not made.run.hazards and count["wgmma"] == 16
    assert count["wgmma_wavefronts"] == 16 * operand_kinds.wavefronts_of(128, source)
    assert count["shared_load_wavefronts"] == (256 if source == "RS" else 0)


def test_the_formula_is_the_profilers_count():
    told = operand_kinds.wavefronts_beside({"wgmma_n64": (64, "SS"), "wgmma_n256": (256, "SS"), "wgmma_a_in_registers": (128, "RS"), "wgmma_b_mn_major": (128, "SS")})
    assert told.count(": equal") == 4 and "DIFFERENT" not in told
    assert "DIFFERENT" in operand_kinds.wavefronts_beside({"wgmma_n64": (128, "SS")})


@pytest.mark.parametrize("majors", [("MN", "K"), ("K", "MN"), ("MN", "MN")], ids=str)
@pytest.mark.parametrize("schedule", ["lazy", "random"])
def test_every_major_is_right(majors, schedule):
    made = operand_kinds.multiply_operands("bf16", "SS", *majors, schedule=schedule)
    assert made.right and not made.run.hazards


@pytest.mark.parametrize("kind", ["tf32", "e4m3", "s8"])
def test_only_16_bit_types_have_a_major(kind):
    with pytest.raises(ValueError, match="K-major only"):
        operand_kinds.launch_operands(kind, "SS", "K", "MN")


def test_tf32_cuts():
    ones = np.ones((128, 64), dtype=np.float32)
    made = operand_kinds.multiply_operands("tf32", numbers=(ones * np.float32(1 + 3 / 4096), ones))
    assert (made.c == 64).all() and not made.right


def test_transposed_by_mistake():
    a, b = operand_kinds.operand_numbers("bf16")
    told = operand_kinds.multiply_operands("bf16", b_major="MN", told="K")
    assert not told.right and (told.c == a @ b).all() and not told.run.hazards
    outside = operand_kinds.multiply_operands("bf16", b_major="MN", options=("-DBUG_TRANSPOSED=1",))
    assert not outside.right and {hazard.kind for hazard in outside.run.hazards} == {"read-before-arrival", "out-of-bounds"}
    inside = operand_kinds.multiply_operands("bf16", options=("-DBUG_TRANSPOSED=1",))
    assert not inside.right and not (inside.c == a @ b).all() and not inside.run.hazards


@pytest.mark.parametrize("step", range(4))
def test_the_k_steps_read_each_element_of_a_tile_once(step):
    for major in ("K", "MN"):
        read = [wgmma.operand_addresses(desc, 64, 16, 2, major) for desc in operand_kinds.k_steps(major)]
        assert len(np.unique(np.concatenate(read))) == 64 * 64
    lies = operand_kinds.tile_addresses(0x2000, 64, 128)
    assert (wgmma.operand_addresses(operand_kinds.k_steps("MN")[step], 128, 16, 2, "MN") == lies[:, 16 * step:16 * step + 16]).all()


def test_the_pictures_say_what_they_show():
    told = operand_kinds.step_map(1)
    assert "64 lines (0 to 63), 2 pieces" in told.text and "16 lines (16 to 31), 8 pieces" in told.text and told.png()[:4] == b"\x89PNG"
    wide = operand_kinds.width_chart(measure.load("micro"))
    assert "recorded on NVIDIA H200" in wide.text and "\n  8 | " in wide.text and "256" not in wide.text.split("multipliers")[1]
    panel = operand_kinds.launch_operands("bf16", "RS", "K", "MN")
    assert "right, 0 hazards" in panel.text and "A, by ldmatrix: 256" in panel.text and "fragments of A: 32" in panel.text and "recorded on" in panel.text
    assert "no rate of this choice was recorded" in operand_kinds.launch_operands("f16", "SS", "MN", "K").text


def test_what_small_widths_wait_for_is_shared_memory():
    """The lesson's reading of its chart: SS takes what the slower of reads and multipliers needs, to within 3 per cent."""
    rows = [r for r in measure.load("micro").where(suite="wgmma_rate") if {"A=SS", "warpgroups=2"} <= set(r.options)]
    assert len(rows) >= 5
    for row in rows:
        n = row.shape[1]
        assert abs(row.value / max(operand_kinds.wavefronts_of(n), n / 2) - 1) < 0.03


def test_the_tables_of_the_recordings():
    told = operand_kinds.type_rates(measure.load("micro"), measure.load("variants"))
    assert told.count("\n") == 11 and "recorded on" in told and all(f"{kind:5s} RS" in told for kind in operand_kinds.OPERANDS)
    majors = operand_kinds.major_rates(measure.load("variants"))
    assert majors.count("-major, B ") == 8 and "recorded on" in majors
    assert set(operand_kinds.rates_chart(measure.load("variants")).text.split()) >= {"s8:", "e4m3:", "bf16:", "f16:", "tf32:"}


@pytest.mark.parametrize(("change", "words"), [
    ({}, "second k-step: right\nevery element of both k-steps is read where TMA left it: right"),
    ({"leading": None}, "leading: not answered yet"), ({"leading": 4096}, "leading: 0x1000 is not it (the field counts 16 bytes)"),
    ({"leading": 512}, "element n = 64, k = 0 lies at 0x7000 and would be read at 0x8000"), ({"swizzle": 0}, "would be read at"),
    ({"second k-step": 0x602}, "k-step 1: element n = 0, k = 16"), ({"stride": 1 << 14}, "14 bits"), ({"stride": 32}, "k = 8 lies at")])
def test_the_exercise_names_the_first_wrong_element(change, words):
    assert words in operand_kinds.check_mn_descriptor(ANSWER | change)


def test_the_exercise_says_when_nothing_is_answered():
    assert operand_kinds.check_mn_descriptor(dict.fromkeys(ANSWER)).count("not answered yet") == 5


@pytest.mark.parametrize(("options", "warned"), [((), set()), (("-DBUG_NO_READER_FENCE=1",), {"unfenced-overwrite"})])
def test_readers_of_a_fence_before_the_slot_is_filled_again(options, warned):
    made = operand_kinds.multiply_operands("bf16", "RS", numbers=operand_kinds.operand_numbers("bf16", tiles=6), options=options)
    assert made.right and not made.run.hazards and {warning.kind for warning in made.run.warnings} == warned
