# SPDX-License-Identifier: Apache-2.0
"""Lesson 09x: the tables name metrics and lessons that exist, the counts are the profiler's, the recorded profile is read rightly."""
import json
import re
from types import SimpleNamespace

import pytest

from hopperlab import measure
from hopperlab.lessons.l08_wgmma.one_tile import multiply_tile
from hopperlab.lessons.l09x_profiling import estimate_beside, profiling
from hopperlab.measure import recordings, timelines
from hopperlab.measure.profile import lesson_metrics

TITLES = {lesson_metrics.title(metric) for metric in lesson_metrics.METRICS}
GROUPS = {metric.group for metric in lesson_metrics.METRICS}
MICRO, PRODUCTS = measure.load("micro"), measure.load("profiles_products")


def test_every_symptom_has_a_metric_and_a_lesson():
    for _, metric, _, lessons in profiling.SYMPTOMS:
        assert metric in TITLES, metric
        assert re.fullmatch(r"\d\dx?(, \d\dx?)*", lessons) and all(lesson[:2] <= "18" for lesson in lessons.split(", "))
    assert profiling.symptoms_table().count("\n") == len(profiling.SYMPTOMS) >= 12


def test_the_map_shows_metrics_that_exist():
    shown = [title for place in profiling.PLACES for title in place[-1]]
    assert shown and all(title in TITLES or title in GROUPS for title in shown)
    picture = profiling.machine_map()
    assert "TMA unit" in picture.text and picture.png()[:4] == b"\x89PNG"


def test_words_of_groups():
    told = profiling.metric_words("tensor cores")
    assert "tensor pipe busy" in told and "sm__pipe_tensor_cycles_active" in told and "issue slots" not in told
    assert all(f"  {metric.title}" in profiling.metric_words() for metric in lesson_metrics.METRICS)
    with pytest.raises(LookupError, match="there are: time"):
        profiling.metric_words("no such group")


def test_the_recorded_profile():
    found = profiling.profiled(PRODUCTS)
    assert set(found) == set(profiling.HALVES) and all({profiling.PIPE, profiling.ARRIVED, profiling.CYCLES} <= set(values) for values in found.values())
    fewest = min(found, key=lambda pair: found[pair][profiling.INSTRUCTIONS])
    assert fewest == ("TMA", "wgmma") == min(found, key=lambda pair: found[pair][profiling.CYCLES])
    assert profiling.issue_share(PRODUCTS) == found["TMA", "wgmma"][profiling.ISSUED]
    told = profiling.profile_chart(PRODUCTS).text
    assert told.count("TMA + wgmma") == 3 and "recorded on NVIDIA H200" in told
    table = profiling.profile_table(PRODUCTS, MICRO)
    assert table.count("2.147 GB") == 4, "2 * 4096^3 * 2 / 128 bytes, once each"


def test_two_counters_of_what_arrives():
    """At the SMs' door every byte is counted, on both boards; in the L2 as many as were asked for with multicast, and fewer than arrive without."""
    for board in ("h200", "h100"):
        micro = measure.load("micro", board=board)
        rows = [line.split() for line in profiling.doors_table(micro).splitlines()[2:]]
        assert len(rows) == 7
        for cluster, *words, must, _, door, _, inside, _ in rows:
            assert door == must and float(inside) < float(must)
            if words == ["multicast"]:
                assert float(inside) == pytest.approx(float(must) / int(cluster), rel=0.01)


def test_the_share_of_the_tensor_cores_is_the_time_they_need():
    loop = SimpleNamespace(options=("A=SS",), shape=(64, 256, 16), value=128.0)      # 2048 products per cycle
    micro = SimpleNamespace(where=lambda **_: [loop])
    cycles = 1024 ** 3 / 132 / 2048
    assert profiling.tensor_share(cycles, micro, 1024) == pytest.approx(100) and profiling.tensor_share(2 * cycles, micro, 1024) == pytest.approx(50)


@pytest.mark.parametrize("name", profiling.TRANSPOSES)
def test_the_emulators_counts_are_the_profilers(name):
    right, run = profiling.count_kernel(name)
    told = profiling.counters_beside(profiling.TRANSPOSES[name][0], run)
    assert right and not run.hazards and told.count(" equal") >= 6 and "DIFFERENT" not in told


def test_a_difference_is_shown():
    _, run = profiling.count_kernel("transpose, XOR")
    assert "DIFFERENT" in profiling.counters_beside("transpose_plain", run)
    with pytest.raises(LookupError, match="no kernel 'nothing'"):
        profiling.counters_beside("nothing", run)
    with pytest.raises(LookupError, match="there are: transpose"):
        profiling.count_kernel("nothing")


@pytest.mark.parametrize("name", profiling.PRODUCTS)
def test_the_panel_counts_each_product(name):
    text = profiling.launch_counters(name).text
    assert "right, 0 hazards" in text and "Nsight Compute:" not in text
    assert ("tma_load_bytes" in text) == name.startswith("TMA") and ("wgmma_wavefronts" in text) == name.endswith("wgmma")


def test_the_panel_shows_the_profilers_counts_where_there_are_some():
    picture = profiling.launch_counters("transpose, dense rows")
    assert "shared_load_conflicts: 992  (Nsight Compute: 992)" in picture.text and picture.png()[:4] == b"\x89PNG"


def test_no_counter_shows_the_race():
    sound, broken = (multiply_tile(64, blocks=4, in_flight=1, options=options) for options in ((), ("-DBUG_READ_BEFORE_WAIT=1",)))
    assert profiling.same_counts(sound.run, broken.run) and not sound.run.hazards
    assert {hazard.kind for hazard in broken.run.hazards} == {"register-in-flight"}
    assert not profiling.same_counts(sound.run, multiply_tile(64, blocks=2).run)


@pytest.mark.parametrize("file", ["counters", "counters_engines"])
def test_the_lesson_may_say_that_all_recorded_counts_are_equal(file):
    data = json.loads(recordings.path_of(file, "h200").read_text(encoding="utf-8"))
    assert data["rows"] and not any(row["differing"] or row["gpu"] is None for row in data["rows"])


RIGHT = {"TMA bytes": 262144, "wgmma": 64, "wavefronts": 3072}


@pytest.mark.parametrize(("change", "words"), [
    ({}, "TMA bytes: right, 262,144\nwgmma: right, 64\nwavefronts: right, 3,072"), ({"TMA bytes": 131072}, "each matrix once"), ({"wgmma": 16}, "one CTA's"),
    ({"wgmma": 32}, "two warpgroups"), ({"wgmma": 256}, "256 is not it (that counts warps"), ({"wavefronts": 5}, "wavefronts: 5 is not it"),
    ({"wgmma": None}, "wgmma: not answered yet")])
def test_the_exercise_is_checked_by_running_it(change, words):
    assert words in profiling.check_counts(RIGHT | change)


def test_an_exercise_without_answers_runs_nothing():
    assert "Not answered" in profiling.check_counts(dict.fromkeys(RIGHT))


def test_profiles_are_told_with_how_busy_shared_memory_was():
    values = {"time: duration": 10.0, "time: SM clock": 1000.0, "tensor cores: tensor pipe busy": 80.0, "issue slots: issue slots used": 20.0,
              "traffic: L2 to the SMs": 50.0,
              "traffic: TMA into shared memory": 128 * 132e-3, "traffic: TMA out of shared memory": 0.0, "shared memory: wgmma operands": 132 * 5000.0,
              "shared memory: loads": 132 * 500.0,
              "shared memory: stores": 0.0}
    assert profiling.shared_memory_busy(values) == pytest.approx((5000 + 500) / 10000)          # what TMA writes goes beside
    header = dict.fromkeys(recordings.HEADER_FIELDS, "x")
    made = recordings.parse("profiles", {"header": header, "records": [{"suite": "profiles", "kernel": "fp8", "options": ["8"], "value": v, "note": k} for k,
                                                                       v in values.items()]})
    line = profiling.profiles_table(made, [("fp8", "8")]).split("\n")[-1]
    assert line.split() == ["fp8", "8", "10.0", "1000", "80.0", "%", "20.0", "%", "55.0", "%", "5.00", "TB/s"]


def test_the_diagnosis_has_a_column_a_launch():
    launches = {"8192": ("final", "8192"), "k = 8184": ("final", "8192", "8192", "8184")}
    lines = profiling.diagnosis_table(measure.load("profiles"), launches).split("\n")
    busy = next(line for line in lines if line.startswith("tensor cores: tensor pipe busy"))
    assert "recorded on NVIDIA H200" in lines[0] and lines[-1] == ("the board's highest clock: 1980 "
                                                                   "MHz") and len(lines) == 3 + len(profiling.DIAGNOSIS) and len(re.findall(r"\d+\.\d", busy)) == 2
    assert all(title in TITLES for title in profiling.DIAGNOSIS)
    with pytest.raises(LookupError, match="no launch final 1"):
        profiling.diagnosis_table(measure.load("profiles"), {"1": ("final", "1")})


def test_fragments_wait_where_wgmma_does_not():
    """What the lesson reads off the table of stall reasons: three lines are those of ldmatrix and mma.sync, and a late tile stands under memory."""
    found = profiling.profiled(PRODUCTS)
    fetched = {pair: sum(values[f"stall reasons: {reason}"] for reason in ("shared memory", "shared-memory queue", "arithmetic pipe")) for pair, values in found.items()}
    assert {pair: round(warps, 1) for pair, warps in fetched.items()} == {
        ("cp.async", "mma.sync"): 5.6, ("TMA", "mma.sync"): 6.0, ("cp.async", "wgmma"): 0.8, ("TMA", "wgmma"): 0.9}
    lines = profiling.stalls_table(PRODUCTS).split("\n")
    assert "recorded on NVIDIA H200" in lines[0] and len(lines) == 6 and "shared-memory queue" in lines[1]
    assert lines[-1].split() == ["TMA", "+", "wgmma", "75.1", "%", "6.21", "0.41", "0.11", "0.47", "0.31", "1.68"]


def test_rows_that_begin_inside_a_sector_and_their_multicast():
    """The k = 8184 bullet: what does not come by multicast has grown by whole sectors, what does by twice that; and no profiled launch stands at a fence."""
    profiles = measure.load("profiles")

    def bytes_of(*sizes):
        found = {record.note: record.value for record in profiles.where(kernel="final", options=sizes)}
        return found["traffic: TMA into shared memory"], found["traffic: of that, multicast"]
    whole, none = bytes_of("8192")
    every, shared = bytes_of("8192", "8192", "8184")
    assert none == 0 and round((every - shared) / (whole / 3), 3) == 1.126 and round(shared / (2 * whole / 3), 3) == 1.255
    assert [round(100 * part / total) for total, part in ((every, shared), bytes_of("1024"))] == [69, 67]
    assert all(record.value < 0.005 for recording in (profiles, PRODUCTS) for record in recording.where() if record.note == "stall reasons: fence")


def test_the_estimate_ranks_the_four_products_as_the_profiler_did():
    """And says of itself that it is none; the text names the two that are furthest off."""
    head, _, *rows = estimate_beside.estimate_table(PRODUCTS).split("\n")
    assert "recorded on NVIDIA H200" in head and "estimated for an H200, not measured" in head and len(rows) == 4
    cycles = [[int(number) for number in re.findall(r"(\d+) k", row)] for row in rows]
    assert sorted(range(4), key=lambda k: cycles[k][0]) == sorted(range(4), key=lambda k: cycles[k][1])
    assert all(abs(found / counted - 1) < 0.2 for counted, found in cycles) and abs(cycles[3][1] / cycles[3][0] - 1) < 0.05


def test_two_timelines_side_by_side():
    recorded, times = timelines.load(), estimate_beside.estimated_block()
    lines = estimate_beside.timelines_beside(recorded, times).split("\n")
    assert lines[0] == recorded.source and lines[1] == times.source and "not measured" in lines[1] and len(lines) == 7
    values = {line[:40].strip(): [int(number) for number in re.findall(r"(\d+) +(\d+)  [+-]", line)[0]] for line in lines[3:]}
    block, stores = values["one k-block"], values["stores of the tile"]
    assert block[0] > 1.5 * block[1] > 300, "marks in the loop cost as much as the text says"
    assert 1.1 < stores[1] / stores[0] < 1.4
