# SPDX-License-Identifier: Apache-2.0
"""The table of micro-experiments: every claim is settled somewhere, every kernel exists, records hold what was sampled."""
import numpy as np
import pytest

from hopperlab.measure.suites import micro, micro_records, micro_traffic, variants
from hopperlab.measure import recordings
from hopperlab.measure.launches.variants import TWO_BY_TWO, VARIANTS
from hopperlab.runtime.compile.toolchain import KERNELS

CLAIMS = range(1, 44)


def test_every_claim_is_settled_somewhere():
    settled = micro.claims()
    assert set(settled) == set(CLAIMS)
    assert all(names or number in micro.ELSEWHERE for number, names in settled.items())
    assert all(number in settled for experiment in micro.EXPERIMENTS.values() for number in experiment.claims)


def test_every_experiment_names_its_kernel_and_question():
    for experiment in micro.EXPERIMENTS.values():
        assert experiment.question.endswith("?") and experiment.measure.__doc__
        assert not experiment.kernel or (KERNELS / experiment.kernel).is_file()


def test_an_unknown_experiment_is_named_with_those_there_are():
    with pytest.raises(KeyError, match="no micro-experiment speed; there are: barriers"):
        micro.measure(1, ["barriers", "speed"])


def test_without_a_gpu_the_experiments_that_need_none_are_named(monkeypatch):
    from hopperlab.runtime.gpu import driver
    monkeypatch.setattr(driver, "find_gpu", lambda: None)
    with pytest.raises(RuntimeError, match="barriers: measured on a Hopper GPU.*instructions, accepted"):
        micro.measure(1, ["barriers", "accepted"])


def test_accepted_instructions(capsys):
    found = {record.options[0]: record for record in micro.measure(1, ["accepted"])}
    assert found["wgmma m64n256k16"].outcome == "accepted" and found["wgmma m128n128k128"].outcome == "refused"
    assert found["cp.async.bulk.tensor … tile::gather4"].outcome == "refused" and "sm_90a" in found["cp.async.bulk.tensor … tile::gather4"].note
    told = capsys.readouterr()
    assert told.err.startswith(f"accepted: {len(found)} records in") and not told.out


@pytest.mark.thorough
def test_counted_instructions():
    found = {(record.kernel, record.options[1]): record.value for record in micro.measure(1, ["instructions"])}
    assert found["tma_load", "class=async_copy"] == 1 and found["cp_async_load", "class=async_copy"] == 4 * 5 + 4
    assert found["tma_load", "class=all"] < found["cp_async_load", "class=all"]
    assert found["multistage", "class=all"] < found["cp_async_wgmma", "class=all"] < found["cp_async_mma", "class=all"]


def test_numbers_are_medians_with_their_spread(tmp_path):
    record = micro_records.numbered("barriers", "syncthreads", ("threads=64",), np.array([3, 1, 2.0]), "cycles", note="x")
    assert (record.value, record.value_min, record.value_max, record.unit) == (2, 1, 3, "cycles")
    header = dict.fromkeys(recordings.HEADER_FIELDS, "x")
    recordings.save("micro", header, [record], tmp_path)
    assert list(recordings.load("micro", tmp_path)) == [record]
    assert micro_records.after_first(2)(np.array([100, 4, 6])).tolist() == [2, 3]


def test_traffic_is_read_from_nsight_computes_rows(monkeypatch):
    metric = next(iter(micro_traffic.TRAFFIC))
    rows = [{metric: f"1,{i}00", "dram__bytes_read.sum": "n/a"} for i in range(len(micro_traffic.CLUSTERS))]
    monkeypatch.setattr(micro_traffic, "counted", lambda *arguments: rows)
    found = micro_traffic.multicast(1)
    assert [record.value for record in found] == [1000 + 100 * i for i in range(len(rows))]
    assert found[2].options[:2] == ("CLUSTER=2", "MULTICAST=1") and str(micro_traffic.arriving(2)) in found[2].note


def test_without_nsight_compute_a_record_says_so(monkeypatch):
    monkeypatch.setattr(micro_traffic.shutil, "which", lambda name: None)
    assert "not installed" in micro_traffic.issue_slots(1)[0].note


def test_the_controls_have_a_suite_each():
    assert set(variants.CONTROLS) == {"two_by_two", "roles", "depth", "cuda_pipeline", "operands"}
    assert len(TWO_BY_TWO) == 4 and "multistage" in VARIANTS


def test_controls_are_measured_in_order_those_that_are_picked(monkeypatch):
    monkeypatch.setattr(variants, "CONTROLS", {name: lambda rounds, name=name: [recordings.Record(name, f"{rounds}")] for name in ("a", "b", "c")})
    assert [(record.suite, record.kernel) for record in variants.measure(3, ["c", "a"])] == [("c", "3"), ("a", "3")]
    assert [record.suite for record in variants.measure(3)] == ["a", "b", "c"]


@pytest.mark.parametrize("name", [name for name in ("micro", "variants", "copies") if name in recordings.names()])
def test_what_was_recorded_holds_together(name):
    for record in recordings.load(name):
        if record.value is not None and record.value_min is not None:
            assert record.value_min <= record.value <= record.value_max
        assert record.outcome in (None, "right", "accepted", "refused")
        if record.tflops is not None and record.ms is not None:
            m, n, k = record.shape
            assert record.tflops == pytest.approx(2 * m * n * k / record.ms / 1e9, rel=0.01)


def two_by_two(stages: int, speeds: dict[tuple[str, str], float]) -> list[recordings.Record]:
    return [recordings.Record("two_by_two", "x", (f"copy={copied}", f"multiply={multiplied}", f"STAGES={stages}"), tflops=speed)
            for (copied, multiplied), speed in speeds.items()]


def test_interaction_of_the_two_by_two():
    speeds = {("cp.async", "mma.sync"): 100.0, ("TMA", "mma.sync"): 110.0, ("cp.async", "wgmma"): 150.0, ("TMA", "wgmma"): 198.0}
    found = variants.interaction([*two_by_two(3, speeds), *two_by_two(4, dict.fromkeys(speeds, 1.0)), recordings.Record("roles", "y")])
    assert found == pytest.approx({"TMA": 1.1, "wgmma": 1.5, "both": 1.98, "together": 1.2})
    assert variants.interaction(two_by_two(4, dict.fromkeys(speeds, 7.0)), 4)["together"] == 1
    with pytest.raises(LookupError, match=r"with 5 stages for \[\('cp.async', 'mma.sync'\)"):
        variants.interaction(two_by_two(3, speeds), 5)
