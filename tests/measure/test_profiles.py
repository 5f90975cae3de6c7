# SPDX-License-Identifier: Apache-2.0
"""The recording `profiles`: made of what Nsight Compute says of each target, and whole as it is stored."""
import pytest

from hopperlab.measure.profile import lesson_metrics, step, profiles
from hopperlab.measure import recordings
from hopperlab.measure.profile.ncu import ProfileError

HEADER = dict.fromkeys(recordings.HEADER_FIELDS, "x")


def test_each_target_becomes_records_of_its_metrics(monkeypatch, tmp_path, capsys):
    asked = []

    def measure(command, module, kernel, launches):
        asked.append((command, module, launches))
        return [{"kernel": "gemm", "values": {"time: duration": 12.5, "tensor cores: tensor pipe busy": 80.0}}], []
    monkeypatch.setattr(lesson_metrics, "measure", measure)
    monkeypatch.setattr(profiles, "header", lambda: HEADER)
    assert profiles.main(["--out", str(tmp_path)]) == 0
    assert asked[0] == (["hopperlab.measure.profile.step", "final", "1024"], True, 1) and len(asked) == len(profiles.TARGETS)
    found = recordings.load("profiles", tmp_path)
    one = found.one(kernel="fp8", options=("16384",), note="time: duration")
    assert (one.value, one.unit) == (12.5, "µs") and len(list(found)) == 2 * len(profiles.TARGETS)
    assert "final 1024" in capsys.readouterr().out


def test_what_cannot_be_measured_is_said_and_nothing_is_written(monkeypatch, tmp_path, capsys):
    def missing(*_):
        raise ProfileError("ncu is not installed")
    monkeypatch.setattr(lesson_metrics, "measure", missing)
    assert profiles.main(["--out", str(tmp_path)]) == 2
    monkeypatch.setattr(lesson_metrics, "measure", lambda *_: ([], []))
    assert profiles.main(["--out", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "final 1024: ncu is not installed" in told and "no kernel of final 1024 was seen" in told and not list(tmp_path.iterdir())


def test_targets_are_steps_that_can_be_launched():
    assert {target[0] for target in profiles.TARGETS} <= {*step.gemm.LADDER, *step.CAPSTONES}


@pytest.mark.parametrize("target", profiles.TARGETS, ids=" ".join)
def test_the_stored_recording_has_every_target(target):
    values = {record.note: record.value for record in recordings.load("profiles").where(kernel=target[0], options=target[1:])}
    assert set(values) <= {lesson_metrics.title(metric) for metric in lesson_metrics.METRICS}
    assert values["time: duration"] > 1 and 1 < values["tensor cores: tensor pipe busy"] <= 100 and values["traffic: L2 to the SMs"] > 0
