# SPDX-License-Identifier: Apache-2.0
"""Lesson 03x: what the C++ copies compile to, their runs, the panel, the planted bugs, the recorded table and the exercise."""
import re
from pathlib import Path

import hopperlab as hl
import pytest

from hopperlab import measure
from hopperlab.lessons.l03x_cuda_pipeline import cpp_pipeline as cpp
from hopperlab.measure.recordings import Record, Recording
from hopperlab.measure.suites import pipeline_causes as pipelines

MOVES = ("cp.async", "cp.async.bulk", "cp.async.bulk.tensor")
RIGHT = dict(zip(cpp.WAYS, ["cp.async"] * 4 + ["cp.async.bulk"] * 2))


@pytest.mark.parametrize("way", cpp.WAYS)
@pytest.mark.sampled(every=5)           # one that copies by cp.async, one in bulk
def test_every_way_copies_with_one_engine_and_is_right(way):
    found = cpp.way_families(way)
    assert [name for name in MOVES if found[name]] == [RIGHT[way]]
    for schedule in ("lazy", "eager"):
        right, run = cpp.run_way(way, schedule)
        assert right and not run.hazards
    assert bool(run.counters["bulk_loads"]) == ("bulk" in RIGHT[way]) and bool(run.counters["cp_async_bytes"]) == (RIGHT[way] == "cp.async")


@pytest.mark.thorough
def test_a_threads_pipeline_has_groups_and_a_blocks_has_barriers():
    thread, block = (cpp.way_families(f"memcpy_async, {whose} pipeline") for whose in ("a thread's", "the block's"))
    assert thread["cp.async.commit_group"] and not thread["mbarrier.try_wait"]
    assert block["cp.async.mbarrier.arrive"] and block["mbarrier.try_wait"] and not block["cp.async.commit_group"]


def test_families_are_told_apart():
    found = cpp.issued_families("cp.async.mbarrier.arrive.shared.b64 [%r1];\ncp.async.bulk.tensor.2d.shared::cluster.global.tile [x];\n"
                                "mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 16;")
    assert {name for name, count in found.items() if count} == {"cp.async.mbarrier.arrive", "cp.async.bulk.tensor", "mbarrier.arrive", "mbarrier…expect_tx"}


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(("scope", "stages", "bug", "kinds"), [
    ("thread", 3, "NO_ACQUIRE", set()), ("block", 3, "NO_ACQUIRE", {"overwrite-in-flight"}), ("block", 2, "NO_ACQUIRE", set()),
    ("block", 3, "NO_RELEASE", {"read-before-arrival", "deadlock"})])
def test_planted_bugs_are_named(scope, stages, bug, kinds):
    _, run = cpp.run_pipeline(scope, stages, bugs=(f"BUG_{bug}",))
    assert {hazard.kind for hazard in run.hazards} == kinds


def test_the_panel_runs_and_refuses():
    text = cpp.launch_cpp_pipeline("block", 3, "no", "lazy").text
    assert "overwrite-in-flight" in text and "arrivals on mbarriers" in text
    with pytest.raises(ValueError, match="stages is 8"):
        cpp.launch_cpp_pipeline("block", 8, "yes", "lazy")


def made_up():
    """A recording in which a form's share of the speed tells where it stands among the choices."""
    records = [Record("pipelines", "x", choice.words, (8, 8, 8), tflops=100.0 + place, ratio=1 - place / 100, registers=100 + place)
               for place, choice in enumerate(pipelines.choices())]
    return Recording("pipelines", {"gpu": "G", "driver": "1", "cuda": "2", "date": "3"}, (*records, Record("pipelines", "cuBLAS", (), (8, 8, 8), tflops=700.0)))


@pytest.mark.thorough
def test_instructions_for_one_more_tile():
    """Sixteen warps' worth of products is the same in each; the pipelines have more branches, and fewer of them without the code for edges."""
    lines = [line.rsplit(None, 4) for line in cpp.instructions_table().splitlines()[1:]]
    rows = {name: [int(cell) for cell in cells] for name, *cells in lines}
    assert list(rows) == [*cpp.WORDS.values(), "a thread's pipeline, no edges", "the block's pipeline, no edges"]
    assert [row[3] for row in rows.values()] == [0, 3, 0, 4, 0, 4]
    assert rows["the block's pipeline"][2] > rows["the block's pipeline, no edges"][2] > rows["mbarriers, by hand"][2]


def test_the_causes_stand_beside_each_other():
    told = cpp.causes_table(made_up())
    assert "  groups, by hand            1.00     0.99   100 101" in told and "  the block's pipeline       0.74     0.73" in told
    assert told.count("the block's pipeline") == 4 and told.count("mbarriers, by hand") == 3


def test_the_recorded_causes_and_chart():
    recording = measure.load("pipelines")
    told = cpp.causes_table(recording)
    assert recording.source in told and "  groups, by hand            1.00" in told
    chart = cpp.pipeline_chart(recording, 3)
    assert "cuda::pipeline of the block" in chart.text and recording.source in chart.text and chart.png()[:4] == b"\x89PNG"


@pytest.mark.thorough
def test_the_chart_marks_what_is_compiled():
    assert "memcpy_async_tx, one thread: mbarrier.arrive" in cpp.ways_chart().text


@pytest.mark.parametrize(("change", "words"), [({}, "Right for all six"), ({cpp.WAYS[2]: "cp.async.bulk.tensor"}, "not cp.async.bulk.tensor"),
                                               ({cpp.WAYS[4]: "cp.async"}, "not cp.async;"), ({cpp.WAYS[0]: "TMA"}, "is none of")])
def test_the_exercise(change, words):
    assert words in cpp.check_engines({**RIGHT, **change})
    assert "Not answered" in cpp.check_engines(dict.fromkeys(cpp.WAYS))


def test_a_wrong_instruction_is_told_how_to_look_at_the_ptx():
    said = cpp.check_engines({**RIGHT, cpp.WAYS[4]: "cp.async"})
    shown = f"hl.RawModule(code=lesson.way_source({cpp.WAYS[4]!r})).ptx"
    assert f"print({shown})" in said and "cp.async.bulk.shared" in eval(shown, {"hl": hl, "lesson": cpp})


@pytest.mark.thorough
def test_the_panel_offers_the_stages_that_fit():
    """Every number of stages that the lesson's panel offers is taken; one more is refused."""
    source = (Path(__file__).parents[2] / "notebooks" / "sources" / "03x_cuda_pipeline.md").read_text(encoding="utf-8")
    offered = [int(stages) for stages in re.search(r'Slider\("Stages", \(([^)]*)\)', source)[1].split(",")]
    assert offered == [2, 3, 4, 5, 6, 7]
    assert "result right" in cpp.launch_cpp_pipeline("block", offered[-1], "yes", "lazy").text
    with pytest.raises(ValueError, match="7"):
        cpp.launch_cpp_pipeline("block", offered[-1] + 1, "yes", "lazy")
