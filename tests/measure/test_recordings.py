"""Recordings: what is stored can be read back, what breaks the schema is named, and the stored ones hold together."""
import json
from dataclasses import fields

import pytest

from hopperlab.measure import bugs, record, recordings
from hopperlab.measure.record import FILES
from hopperlab.measure.recordings import HEADER_FIELDS, Record

HEADER = {**dict.fromkeys(HEADER_FIELDS, "x"), "gpu": "NVIDIA H200", "driver": "580.1", "cuda": "13.0", "date": "2026-01-01"}


def test_round_trip(tmp_path):
    records = [Record("gemm", "ours", ("STAGES=4",), (1, 2, 3), "bfloat16", ms=1.5, tflops=2.0, grid=(1, 2)), Record("bugs", "theirs", outcome="hang")]
    recordings.save("some", HEADER, records, tmp_path)
    back = recordings.load("some", tmp_path)
    assert list(back) == records
    assert recordings.names(tmp_path) == ["some"]
    assert back.source == "recorded on NVIDIA H200, driver 580.1, CUDA 13.0, 2026-01-01"


def test_where_and_one():
    data = {"header": HEADER, "records": [{"suite": "s", "kernel": "a", "shape": [1, 2]}, {"suite": "s", "kernel": "b"}, {"suite": "s", "kernel": "b"}]}
    recording = recordings.parse("some", data)
    assert recording.one(shape=[1, 2]).kernel == "a"
    assert len(recording.where(kernel="b")) == 2
    with pytest.raises(LookupError, match="has 2 records"):
        recording.one(kernel="b")
    with pytest.raises(LookupError, match="has 0 records"):
        recording.one(kernel="c")


def test_missing_recording_names_those_there_are(tmp_path):
    recordings.save("some", HEADER, [], tmp_path)
    with pytest.raises(FileNotFoundError, match="'other'; there are: some"):
        recordings.load("other", tmp_path)


@pytest.mark.parametrize(("record", "message"), [
    ({"suite": "s", "kernel": "a", "tflop": 1}, "unknown fields: tflop"),
    ({"suite": "s"}, "needs a kernel"),
    ({"suite": "s", "kernel": "a", "ms": "1"}, "ms is '1'"),
    ({"suite": "s", "kernel": "a", "ms": True}, "ms is True"),
    ({"suite": "s", "kernel": "a", "shape": 3}, "shape is 3"),
    ({"suite": "s", "kernel": "a", "note": 3}, "note is 3"),
])
def test_bad_record_is_named(record, message):
    with pytest.raises(ValueError, match=message):
        recordings.parse("some", {"header": HEADER, "records": [record]})


def test_bad_header_is_named():
    with pytest.raises(ValueError, match="lacks driver"):
        recordings.parse("some", {"header": {key: 1 for key in HEADER_FIELDS if key != "driver"}, "records": []})
    with pytest.raises(ValueError, match="not header and records"):
        recordings.parse("some", {"header": HEADER})


def test_every_planted_bug_is_recorded():
    stored = {(record.kernel, record.options, record.shape) for record in recordings.load("bugs")}
    assert {case.key for case in bugs.CASES} == stored


def test_missing_bugs_are_run_and_the_others_kept(monkeypatch):
    ran = []

    def records(cases):
        ran.extend(cases)
        return [Record(case.suite, case.kernel, case.key[1], case.key[2], outcome="wrong", runs=20, wrong=20) for case in cases]
    monkeypatch.setattr(bugs, "records", records)
    stored = list(recordings.load("bugs"))
    again = record.with_missing_bugs(stored[2:])
    assert [case.key for case in ran] == [(r.kernel, r.options, r.shape) for r in stored[:2]] and again[2:] == stored[2:]
    assert len(again) == len(bugs.CASES)


@pytest.mark.parametrize("name", recordings.names())
def test_stored_recording_keeps_the_schema(name):
    recording = recordings.load(name)
    assert len(recording)
    assert "H200" in recording.header["gpu"] or "H100" in recording.header["gpu"]
    assert (recordings.FOLDER / f"{name}.json").read_text() == written(recording)
    for record in recording:
        if record.ms is not None:
            assert 0 < record.ms_min <= record.ms <= record.ms_max
        if record.ratio is not None:
            assert record.ratio_min <= record.ratio <= record.ratio_max
        if record.wrong is not None:
            assert record.outcome == ("right" if record.wrong == 0 else "wrong" if record.wrong == record.runs else "sometimes wrong")
        # Lesson 11 measures what spills cost; attention keeps a word or two of what it needs between tiles in local memory. One fp8 configuration that is only tried spills more.
        assert not record.spills or name == "roles" or name == "attention" and record.spills <= 8 or name == "attention_fp8" and record.kernel != "final" and record.spills <= 32


def written(recording) -> str:
    """The text that save() writes for a recording."""
    import tempfile
    from pathlib import Path
    with tempfile.TemporaryDirectory() as folder:
        return recordings.save(recording.name, recording.header, recording.records, Path(folder)).read_text()


def test_rates_follow_from_times():
    for record in recordings.load("gemm"):
        m, n, k = record.shape
        assert record.tflops == pytest.approx(2 * m * n * k / record.ms / 1e9, rel=0.01)
    for record in recordings.load("copy"):
        rows, columns = record.shape
        assert record.gb_s == pytest.approx(2 * rows * columns * 2 / record.ms / 1e6, rel=0.01)


def test_all_recordings_are_stored():
    assert set(recordings.names()) >= set(FILES.values())


def test_every_field_of_a_record_is_explained():
    for item in fields(Record):
        assert item.name in Record.__doc__, item.name
    assert json.dumps(Record("s", "k").as_json()) == '{"suite": "s", "kernel": "k"}'
