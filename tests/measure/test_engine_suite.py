# SPDX-License-Identifier: Apache-2.0
"""The suite `engine` without a GPU: its probes run in the emulator, small; what a barrier that opened early means in a record."""
import subprocess

import numpy as np
import pytest

from hopperlab.measure.launches import micro
from hopperlab.measure.suites import engine, micro_records


@pytest.fixture
def here(monkeypatch):
    """Probes in the emulator, small, and no L2 to flush."""
    for name in ("map_cache", "early_opening"):
        make = getattr(micro, name)
        monkeypatch.setattr(micro, name, lambda *given, backend, make=make, **more: make(*given, **more, backend="emulator"))
    for module in (engine, micro_records):
        monkeypatch.setattr(module, "flush", lambda: None)
    for name, value in (("COUNTS", (1, 3)), ("STRIDES", (2,)), ("BOXES", ((4, 64),)), ("TRIALS", 2), ("SMALL", (16, 600)), ("PASSES", 3)):
        monkeypatch.setattr(engine, name, value)


def test_maps(here):
    found = engine.maps(2)
    assert [record.options for record in found] == [
        (f"maps={count}", "stride=256", f"order={order}", f"use={use}")
        for order, uses in (("forwards", ("again", "first")), ("there and back", ("again",))) for count in (1, 3) for use in uses]
    assert all(record.value_min > 0 and record.unit == "cycles" for record in found)


@pytest.mark.parametrize("box", engine.BOXES, ids=str)
def test_announcements_end_with_the_whole_box(box):
    told = list(engine.announcements(*box))
    whole = 2 * box[0] * box[1]
    assert told[-1] == whole and told == sorted(set(told)) and 16 in told and all(told[at] < whole for at in range(len(told) - 1))


def test_a_record_of_pieces():
    probe = micro.early_opening(4, 64, 512, 2, backend="emulator")
    record = engine._opened(np.array([-1, 2, 4, 3]), ("announced=256",), (4, 64), probe)
    assert (record.runs, record.note, record.value, record.value_min, record.value_max) == (4, "opened in 3", 384, 256, 512)
    never = engine._opened(np.array([-1, -1]), ("announced=600",), (4, 64), probe)
    assert (never.runs, never.note, never.value) == (2, "opened in 0", None)


def test_pieces(here, monkeypatch):
    monkeypatch.setattr(engine, "announcements", lambda *box: [512])
    found = engine.pieces(1)
    assert [(record.options[1], record.note, record.value) for record in found] == [("from=memory", "opened in 2", 512), ("from=L2", "opened in 2", 512)]


def told(*made):
    """What a process prints, or how it dies, in place of one."""
    return lambda command, **more: subprocess.CompletedProcess(command, *made)


def test_corners_in_the_emulator():
    """With the emulator in the GPU's place: right corners are right, exchanged ones are not, but where the two are the same."""
    found = [engine.laid_out(case, "emulator") for case in range(2 * len(engine.CONVOLUTIONS))]
    assert {fields["outcome"] for fields in found[::2]} == {"right"} and all(fields["note"].endswith("wrong, as in the emulator") for fields in found)
    assert engine.CONVOLUTIONS[0] == ((3, 3), 1, 1) and found[1]["outcome"] == "right" and {fields["outcome"] for fields in found[3::2]} == {"wrong"}


def test_a_corner_is_a_process(monkeypatch):
    monkeypatch.setattr(engine.subprocess, "run", told(0, 'hopperlab: …\n{"outcome": "wrong", "note": "4 of 9 pixels wrong, as in the emulator"}\n', ""))
    found = engine.corners(1)
    assert len(found) == 2 * len(engine.CONVOLUTIONS) and [record.options[3] for record in found[:2]] == ["corners=right", "corners=exchanged"]
    assert (found[5].options[0], found[5].outcome, found[5].note[:6], found[5].shape) == ("filter=5 x 3", "wrong", "4 of 9", engine.IMAGE)
    monkeypatch.setattr(engine.subprocess, "run", told(1, "", "CUDADriverError: CUDA_ERROR_ILLEGAL_INSTRUCTION: an illegal instruction was encountered"))
    assert engine.corner(3).outcome == "illegal instruction"
    monkeypatch.setattr(engine.subprocess, "run", told(1, "", "ModuleNotFoundError: No module named 'cupy'"))
    with pytest.raises(RuntimeError, match="cupy"):
        engine.corner(3)


def test_a_corner_that_hangs(monkeypatch):
    def late(command, **more):
        raise subprocess.TimeoutExpired(command, more["timeout"])
    monkeypatch.setattr(engine.subprocess, "run", late)
    assert engine.corner(0, 3).outcome == "hang"


def test_what_there_is_is_kept_after_each_experiment(monkeypatch):
    kept = []
    for name in ("maps", "pieces", "corners"):
        monkeypatch.setattr(engine, name, lambda rounds, name=name: [name])
    assert engine.measure(2, keep=kept.append) == ["maps", "pieces", "corners"] == kept[-1] and len(kept) == 3
