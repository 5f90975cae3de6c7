# SPDX-License-Identifier: Apache-2.0
"""Lesson 19: its runs on emulated devices, the model of an overlap, the exercise inside the lesson, and what it says of a recording."""
import pytest

from hopperlab.lessons import l19_two_gpus as lesson
from hopperlab import measure
from hopperlab.lessons.l19_two_gpus import bounds, device_runs, overlap_model, recorded
from hopperlab.measure import Recording
from hopperlab.measure.recordings import HEADER_FIELDS, Record
from hopperlab.measure.suites import two_gpus

SCHEDULES = ("lazy", "eager", "random")
HEADER = dict.fromkeys(HEADER_FIELDS, "made up")


def test_the_model_by_hand():
    """Two devices, 4 rows of tiles each, 4 columns on 4 CTAs: a shard of 4 units of work, over the link in 2."""
    own, lie = overlap_model.overlap("own first", 2, rank=1), overlap_model.overlap("as they lie", 2, rank=1)
    assert (own.ends, own.waits) == (8.0, 0.0) and (lie.ends, lie.waits) == (9.0, 4.0)
    assert overlap_model.overlap("as they lie", 2, rank=0) == overlap_model.overlap("own first", 2, rank=0)
    assert overlap_model.overlap("as they lie", 1, rank=1).waits == 8.0, "one piece: the first tile waits for the whole shard"
    assert overlap_model.overlap("own first", 2, copiers=4, rank=1).waits > 0, "few CTAs: the link is slower than the product"
    whole = overlap_model.overlap("own first", 2, rank=3, devices=4)
    assert whole.waits == 0 and sum(kind == overlap_model.OWN for _, kind, _, _ in whole.spans) == 8


@pytest.mark.parametrize("order", overlap_model.ORDERS)
def test_no_tile_begins_before_its_piece(order):
    for rank in (0, 1):
        spans = overlap_model.overlap(order, 2, 8, rank).spans
        link = [last for row, _, _, last in spans if row == "link"]
        assert min(first for _, kind, first, _ in spans if kind == overlap_model.OTHERS) >= link[0]
        assert sum(kind in (overlap_model.OWN, overlap_model.OTHERS) for _, kind, _, _ in spans) == overlap_model.ROWS * overlap_model.COLUMNS


def test_tables_are_counted_from_the_kernels():
    assert "4.0" in lesson.waits_table().splitlines()[2] and len(lesson.waits_table().splitlines()) == 4
    rows = [line.split() for line in lesson.reduce_table().splitlines()[1:]]
    assert len(rows) == 9 and rows[0][-3:] == ["1.00", "V", "3"] and rows[-1][-3:] == ["1.75", "V", "6"]


@pytest.mark.parametrize("landing", SCHEDULES)
def test_runs_are_right_and_silent(landing):
    for right, run in (lesson.run_reduce(landing=landing), lesson.run_gathered(landing=landing), lesson.run_scattered(landing=landing),
                       lesson.handed_over(landing=landing)):
        assert right and not run.hazards
    assert lesson.copied(landing=landing).count("right: True") == 2


@pytest.mark.parametrize("landing", SCHEDULES)
def test_what_the_lesson_breaks_is_named(landing):
    for _, run in (lesson.run_reduce(landing=landing, options=("-DBUG_GPU_SCOPE=1",)), lesson.run_scattered(landing=landing, options=("-DBUG_FLAG_BEFORE_DATA=1",)),
                   lesson.run_reduce(landing=landing, options=("-DBUG_OVERWRITTEN=1",)), lesson.handed_over(True, landing)):
        assert {str(hazard.kind) for hazard in run.hazards} == {"race"}
    assert "mail of device" in str(lesson.run_reduce(landing=landing,
                                                     options=("-DBUG_GPU_SCOPE=1",))[1].hazards[0]), "memory that only a table of pointers names has a name"


def test_this_place_and_the_panel():
    assert lesson.in_this_place().count("True") == 5 and "emulated devices" in lesson.where()
    picture = lesson.launch_gathered("as they lie", 1, 4, "random")
    assert "result right, no hazard" in picture.text and "no time is recorded" in picture.text and picture.png()[:4] == b"\x89PNG"
    assert lesson.draw_share().png()[:4] == b"\x89PNG" and "Device 1" in lesson.draw_pieces(1).text


def test_on_a_machine_with_two_gpus_it_says_so(monkeypatch):
    monkeypatch.setattr(device_runs, "backend", lambda: "gpu")
    monkeypatch.setattr(device_runs.machine, "gpus", lambda: 2)
    assert lesson.where().startswith("Two GPUs are here")


@pytest.mark.parametrize("letters, words", [(None, "Not answered"), ("bcef", "Right"), ("b, c, e, f", "Right"), ("bce", "f, the step"),
                                            ("abcef", "a, a counter"), ("z", "no line 'z'")])
def test_the_exercise_inside_the_lesson(letters, words):
    assert words in lesson.check_flags(letters)


def test_what_follows_from_two_times_by_hand():
    """A product alone of 1 ms; half of A, 4096 x 64 numbers, at 2 GB/s; half of the sums at 4 GB/s."""
    records = [timed(suite, name, name, (8192, 64, 64), ms, "alone: cuBLAS", 1.0) for suite in ("gather", "scatter") for name, ms in (("alone: cuBLAS", 1.0),
                                                                                                                                    ("alone: final", 1.5))]
    records += [timed("link", "bulk_copy", f"{way}, 32 CTAs", (64,), 1.0, "copy engine", 1.0, gb_s=rate) for way, rate in (("pull", 2.0), ("push", 4.0))]
    recording = Recording("two_gpus", HEADER, tuple(records))
    gather, scatter = (bounds.bound(recording, suite, (8192, 64, 64)) for suite in ("gather", "scatter"))
    assert gather.product == 1000 and gather.link == pytest.approx(4096 * 64 * 2 / 2e3) and gather.under == 1000 and gather.at_once == 1
    assert gather.in_line == pytest.approx(1000 / (1000 + 262.144)) and scatter.link == pytest.approx(gather.link / 2)
    long = bounds.Bound(100.0, 300.0, 325.0)
    assert long.at_once == pytest.approx(100 / 325) and long.in_line == 0.25


def timed(suite, kernel, option, shape, ms, peer, ratio, **more):
    return Record(suite, kernel, (option,), shape, "bfloat16", ms=ms, ms_min=ms, ms_max=ms, peer=peer, peer_value=1.0, ratio=ratio, **more)


def test_what_is_shown_of_a_recording():
    """Made-up records of the suite's form: which of them a line is about."""
    shape, records = (256, 64, 64), []
    for name, kernel, ms in (("all CTAs copy", "gathered_product", 1.25), ("66 CTAs copy", "gathered_product", 1.6)):
        records += [timed("gather", kernel, name, shape, ms, peer, 1 / ms) for peer in ("alone: cuBLAS", "NCCL, then cuBLAS")]
    records += [timed("gather", name, name, shape, ms, "alone: cuBLAS", 1 / ms) for name, ms in (("alone: cuBLAS", 1.0), ("alone: final", 1.1),
            ("NCCL, then cuBLAS", 2.0))]
    records += [timed("ways", "gathered_product", name, shape, 2.0, "alone: cuBLAS", 0.5) for name in two_gpus.WAYS]
    records += [timed("link", "bulk_copy", f"{way}, {count} CTAs", (64,), 1.0, "copy engine", 1.0, gb_s=count) for way in ("pull", "push") for count in (1, 32)]
    records += [timed("link", "cudaMemcpyPeer", "copy engine", (64,), 1.0, "copy engine", 1.0, gb_s=3.0), Record("flag", "round_trip", value=7.0, value_min=6.0,
            value_max=8.0, unit="cycles")]
    records += [timed("all_reduce", how, how, (size,), 0.01, "NCCL", 2.0) for how in ("one-shot", "NCCL") for size in (1024, 4096)]
    recording = Recording("two_gpus", HEADER, tuple(records))
    table = lesson.products_table(recording, "gather").splitlines()
    assert table[2].split()[0] == "256x64x64" and table[2].split()[-4:] == ["0.800", "1.000", "0.500", "0.999"] and lesson.least_share(recording, "gather") == 80.0
    assert len(lesson.ways_table(recording).splitlines()) == 2 + len(two_gpus.WAYS) and "7 cycles (6 to 8)" in lesson.flag_line(recording)
    assert "all at once: 270 us" in lesson.burst_line(recording)
    assert lesson.link_chart(recording).png()[:4] == b"\x89PNG" and lesson.reduce_chart(recording).png()[:4] == b"\x89PNG"


@pytest.mark.parametrize("order, copiers, name", [("own first", 132, "all CTAs copy"), ("own first", 16, "16 CTAs copy"),
                                                  ("as they lie", 132, "tiles as they lie"), ("own last", 132, "own tiles last")])
def test_the_panel_finds_what_is_recorded(monkeypatch, order, copiers, name):
    found = Recording("two_gpus", HEADER, tuple(timed("ways", "gathered_product", way, (256, 64, 64), 2.0 + number, "alone: cuBLAS", 0.5) for number,
                                                way in enumerate(two_gpus.WAYS)))
    monkeypatch.setattr(recorded.measure, "load", lambda wanted: found)
    assert f"{2000.0 + 1000 * list(two_gpus.WAYS).index(name):.1f} us, 0.500 of the product alone" in recorded.way_time(order, copiers)
    assert "no time is recorded" in recorded.way_time("as they lie", 16)


def test_the_stored_recording_holds_what_the_lesson_says():
    """In turns is within three per cent of the fastest at every shape, own tiles last the fastest at none; few copiers gain by telling seldom."""
    recording = measure.load("two_gpus")
    lines = [line.split() for line in lesson.scatter_ways_table(recording).splitlines()[2:]]
    shares = {" ".join(words[:-4]): [float(word) for word in words[-4:]] for words in lines}
    best = [max(column) for column in zip(*shares.values(), strict=True)]
    assert len(shares) == 6 and all(mine >= 0.97 * most for mine, most in zip(shares["in turns"], best, strict=True))
    assert all(last < most for last, most in zip(shares["own tiles last"], best, strict=True))
    ways = {" ".join(line.split()[:-5]): float(line.split()[-1]) for line in lesson.ways_table(recording).splitlines()[2:]}
    assert ways["16 CTAs copy"] > 1.2 * ways["16 CTAs copy, each chunk told"] and abs(ways["all CTAs copy"] - ways["each chunk told"]) < 0.01
    for suite in ("gather", "scatter"):
        assert lesson.least_share(recording, suite) > 93
        assert all(float(line.split()[-4]) > float(line.split()[-2]) for line in lesson.products_table(recording, suite).splitlines()[2:]), "ahead of NCCL"
