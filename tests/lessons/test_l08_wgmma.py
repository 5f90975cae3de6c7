# SPDX-License-Identifier: Apache-2.0
"""Lesson 08's figures, panel and exercise: descriptors decoded, fragments owned, groups in flight, recordings in words."""

import pytest

from hopperlab import show
from hopperlab.hopper import fragments, wgmma
from hopperlab.lessons import l08_wgmma
from hopperlab.lessons.l08_wgmma import descriptors, one_tile
from hopperlab.measure.recordings import Record, Recording

HEADER = {"gpu": "a GPU", "driver": "1.2", "cuda": "13.0", "libraries": {}, "clocks": {}, "power_limit_watts": 700, "date": "2026-01-01", "method": "m"}


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    """Everything here runs in the emulator, on a GPU machine too."""
    monkeypatch.setenv("HOPPERLAB_BACKEND", "emulator")
    from hopperlab.runtime import backend

    backend._from_environment.cache_clear()
    yield
    backend._from_environment.cache_clear()


def test_descriptor_words_are_the_fields():
    words = l08_wgmma.decode_words(wgmma.encode(0x2020, 16, 1024, "128B"))
    assert "bits  0 to 13  start address            514 = 0x2020 (8224 bytes)" in words
    assert "stride offset (SBO)       64 = 1024 bytes" in words and "swizzle                    1 = 128B" in words


@pytest.mark.parametrize("descriptor, rows", [(wgmma.encode(0x2020, 16, 1024, "128B"), 8), (wgmma.encode(0x400, 16, 512, "64B"), 64),
                                              (wgmma.encode(0, 128, 256, "none"), 16)])
@pytest.mark.sampled(every=3)
def test_descriptor_map_draws_every_piece_it_reads(descriptor, rows):
    first, second = (l08_wgmma.descriptor_map(descriptor, rows) for _ in range(2))
    assert first.png() == second.png() and len(first.png()) < 60_000
    drawn = [text.get_text() for text in first.figure.axes[1].texts]
    assert len(drawn) == 2 * rows and set(drawn) == {f"{row}.{piece}" for row in range(rows) for piece in (0, 1)}
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in first.figure.axes)


def test_owner_of_every_element_is_the_fragment_formula():
    where = fragments.wgmma_d(64)
    for thread, register in ((0, 0), (54, 5), (127, 31)):
        assert descriptors.fragment_owner(int(where.row[thread, register]), int(where.col[thread, register])) == (thread, register)
    assert "warp 1, lane 22 (thread 54), register d[5] of 32" in l08_wgmma.owner_words(21, 13)
    with pytest.raises(ValueError, match="not in a 64 x 8"):
        descriptors.fragment_owner(0, 8, 8)


def test_fragment_map_is_small_and_marks_one_thread():
    picture = descriptors.fragment_map(21, 13)
    bold = [text.get_text() for text in picture.figure.axes[0].texts if text.get_fontweight() == "bold"]
    assert bold == ["54"] * 4 and len(picture.png()) < 60_000 and picture.png() == descriptors.fragment_map(21, 13).png()


def test_step_table_swizzles_the_address():
    assert l08_wgmma.step_table(128, 0x2000).split("\n")[1] == "k-step 1: start field 0x202; row 0 begins at 0x2020, row 1 at 0x20b0"
    assert len(l08_wgmma.step_table(64).split("\n")) == 2


def test_wait_group_counts_the_newest_groups():
    for pending in (0, 1, 3):
        made = one_tile.multiply_tile(32, 4, pending)
        assert made.right and one_tile.most_in_flight(made.run, 4) == pending + 1


def test_panel_checks_its_product_and_refuses_what_does_not_exist():
    picture = l08_wgmma.launch_groups(32, 1, 3, "random")
    assert "result right, 0 hazards; 12 wgmma in 3 groups" in picture.text and "16 of" in picture.text
    for values, message in (((100, 1, 2, "lazy"), "multiple of 8"), ((24, 1, 2, "lazy"), "no wrapper"), ((256, 1, 6, "lazy"), "shared memory")):
        with pytest.raises(Exception, match=message):
            l08_wgmma.launch_groups(*values)


def test_a_wrong_layout_is_named():
    made = one_tile.multiply_tile(32, 4, row_bytes=64, layout=wgmma.encode(0, 16, 512, "128B"))
    assert not made.right and "layout-mismatch" in {hazard.kind for hazard in made.run.hazards}


def test_descriptor_exercise():
    right = {"start": 0x500, "stride": 32, "swizzle": 2, "second k-step": 0x502}
    words = l08_wgmma.check_descriptor(right)
    assert words.count(": right") == 4 and "result right" in words
    assert l08_wgmma.check_descriptor({}).count("not answered yet") == 4
    assert "counts 16 bytes" in l08_wgmma.check_descriptor({**right, "start": 0x5000})
    assert "layout-mismatch" in l08_wgmma.check_descriptor({**right, "swizzle": 1, "stride": 64})
    for code, why in ((1, "1 stands for the swizzle of 128 bytes, and this tile was written with that of 64 bytes"), (0, "0 stands for no swizzle"),
                      (4, "the field has two bits: 0 to 3")):
        assert f"swizzle: {code:#x} is not it ({why}" in l08_wgmma.check_descriptor({**right, "swizzle": code})


def test_rates_are_products_a_cycle_of_what_was_recorded():
    def rate(suite, n, cycles, groups=1, source="SS"):
        return Record(suite, "wgmma_rate", (f"N={n}", f"A={source}", f"warpgroups={groups}", "IN_FLIGHT=1"), (64, n, 16), "bf16", value=cycles, unit="cycles")
    micro = Recording("micro", HEADER, (rate("wgmma_rate", 64, 32.0), rate("wgmma_rate", 256, 128.0, 2), rate("wgmma_rate", 64, 1.0, 1, "RS"),
                                        rate("wgmma_groups", 64, 64.0)))
    words = l08_wgmma.wgmma_rates(micro).text
    assert "64 | 2048 | –" in words and "256 | – | 2048" in words
    assert "N =  64, 1 warpgroup(s), 1 in flight:  1024" in l08_wgmma.wgmma_groups(micro)


def test_without_a_recording_the_lesson_says_so():
    def missing():
        raise FileNotFoundError("no recording")
    assert show.if_recorded(missing) is None and show.if_recorded(lambda: 3) == 3
    assert "nothing recorded" in repr(l08_wgmma.wgmma_rates(None)) and "nothing recorded" in l08_wgmma.wgmma_groups(None)


def test_fragment_panel_shows_the_kernels_value_and_its_owner():
    picture = l08_wgmma.launch_fragment(63, 62)
    a, b = one_tile.one_tile_operands(64, 1)
    value = float((a.astype("float32") @ b.astype("float32").T)[63, 62])
    assert f"the kernel left {value:g} there" in picture.text and "(thread 127), register d[30] of 32" in picture.text
    assert picture.figure.axes[0].get_xticklabels()[0].get_text() == "48", "the window follows the element"
