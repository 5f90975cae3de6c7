# SPDX-License-Identifier: Apache-2.0
"""Lesson 05x: the recorded latencies and their line, tensor maps by place, the queue behind the panel, announced bytes, the exercise."""
import re

import pytest

from hopperlab import measure
from hopperlab.lessons.l05x_inside_tma import blocks, copy_engine
from hopperlab.measure.recordings import Record

MICRO, LOADS, ENGINE = (measure.load(name) for name in ("micro", "tma_vs_cp_async", "engine"))


class Made:
    """A recording of two points on a line of 300 cycles and 64 bytes per cycle."""

    def where(self, **chosen):
        return [Record("tma_latency", "tma_latency", ("HOW=tensor", "from=L2"), shape, value=300 + 2 * shape[0] * shape[1] / 64) for shape in ((128, 64), (1, 64))]


def test_the_line_through_the_latencies():
    assert list(copy_engine.latencies(Made(), "tensor", "L2")) == [128, 16384]
    start, stream = copy_engine.start_and_stream(Made(), "tensor", "L2")
    assert start == pytest.approx(300) and stream == pytest.approx(64)


def test_every_size_and_path_is_recorded():
    for how in ("tensor", "bulk"):
        for source in ("L2", "memory"):
            assert list(copy_engine.latencies(MICRO, how, source)) == [128, 1024, 8192, 16384, 32768, 65536]
    assert copy_engine.latency_table(MICRO).count("cycles + bytes / ") == 4 and "64 KiB" in copy_engine.latency_chart(MICRO).text


def test_maps_by_place_and_state():
    found = copy_engine.first_uses(MICRO)
    assert len(found) == 9 and found["global memory, cold"] == next(
        r.value for r in MICRO.where(suite="descriptors") if r.options == ("place=global", "prefetch=0", "use=first"))
    chart = copy_engine.descriptor_chart(MICRO)
    assert MICRO.source in chart.text and chart.png()[:4] == b"\x89PNG"


def test_the_map_of_the_unit_gives_no_prediction_away():
    assert not re.search(r"\d\d|cycles", copy_engine.unit_map().text) and copy_engine.unit_map().png()[:4] == b"\x89PNG"


def test_issue_costs_by_who_asks():
    told = copy_engine.issue_table(MICRO)
    assert told.count("one thread") == 2 and told.count("128 threads") == 1


@pytest.mark.parametrize(("rows", "columns", "depth", "how"), [(64, 64, 4, "tensor"), (8, 64, 2, "bulk"), (1, 64, 8, "tensor")])
@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
def test_the_queue_holds_as_many_boxes_as_it_is_deep(rows, columns, depth, how, schedule):
    spans, most, run = copy_engine.run_queue(rows, columns, depth, how, schedule)
    assert len(spans) == 2 * depth and not run.hazards
    assert most <= depth * rows * columns * 2 and (most == depth * rows * columns * 2 or schedule != "lazy")


def test_the_panel_divides_by_the_recorded_latency_and_refuses():
    cycles = copy_engine.latencies(MICRO, "tensor", "memory")[8192]
    assert copy_engine.launch_queue("64x64", 2, "tensor", MICRO).text.count(f"= {2 * 8192 / cycles:.1f} bytes per cycle") == 1, "said once"
    with pytest.raises(ValueError, match="4 boxes of 128 x 256 bf16 are 256 KiB; a block has 227 KiB"):
        copy_engine.launch_queue("128x256", 4, "tensor", MICRO)


@pytest.mark.parametrize(("announced", "kinds"), [(8192, set()), (4096, {"barrier-misuse"}), (0, {"exit-in-flight", "read-before-arrival"}), (12288, {"deadlock"})])
def test_announced_bytes_are_compared_with_those_that_land(announced, kinds):
    share, run = copy_engine.announce(announced)
    assert {hazard.kind for hazard in run.hazards} == kinds and (share == 1 or announced != 8192)


def test_the_exercise():
    cycles, rate = copy_engine.needed(MICRO, LOADS)
    least = -(-int(cycles * rate) // 8192)
    asked = copy_engine.check_boxes(MICRO, LOADS, None)
    assert "Not answered" in asked and f"{cycles:.0f} cycles alone, {1000 * cycles / MICRO.header['clocks']['sm_max_mhz']:.0f} ns" in asked
    for boxes, words in ((least, "Right"), (least - 1, "Too few"), (least + 1, "More than needed")):
        assert copy_engine.check_boxes(MICRO, LOADS, boxes).startswith(words)
    assert "round up" in copy_engine.check_boxes(MICRO, LOADS, least - 0.2) and "'2' is a text" in copy_engine.check_boxes(MICRO, LOADS, "2")
    assert copy_engine.check_boxes(MICRO, LOADS, 1).startswith("Too few: 1 box in")
    said = copy_engine.check_boxes(MICRO, LOADS, least)
    assert re.search(r"not enough for a busy memory.* 16 KiB on their way in each SM \d\d % of the best bandwidth were recorded",
                     said), "the sum's result is a lower bound"


def test_each_block_of_the_patent_has_what_the_recording_says_of_it():
    found = {name: words for name, _, words in blocks.engine_blocks(MICRO, ENGINE)}
    assert list(found) == ["request queue", "set-up block", "descriptor cache", "request generator", "response tracking", "address translation"]
    cold = copy_engine.first_uses(MICRO)["global memory, cold"]
    assert f"takes {cold:.0f} cycles" in found["descriptor cache"]
    apart = max(abs(copy_engine.latencies(MICRO, "tensor", "L2")[size] - copy_engine.latencies(MICRO, "bulk", "L2")[size]) for size in (128, 1024, 8192,
            16384, 32768, 65536))
    assert f"within {apart:.0f} cycles" in found["set-up block"]
    lines = int(re.search(r"of their 512 lines some (\d+) were", found["request generator"])[1])
    assert 1 < lines < 512
    assert all(len(line) <= 112 for line in blocks.blocks_table(MICRO, ENGINE).splitlines())
