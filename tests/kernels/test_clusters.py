# SPDX-License-Identifier: Apache-2.0
"""Lesson 12's tile that is handed on: right and silent whatever lands when, each synchronisation named when it is dropped, what cannot be launched told; and the
suite `clusters` with stand-ins for CuPy and the clock. shared_tiles.cu is tried in tests/lessons/test_l12_shared_tiles.py."""
import sys
import types
from importlib.machinery import ModuleSpec

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.lessons.l12_clusters import handed
from hopperlab.measure.launches.clusters import WAYS, handed_tiles
from hopperlab.measure.launches.edited import changed
from hopperlab.measure.launches.launch import Launch
from hopperlab.measure.machine.timing import Sample
from hopperlab.measure.recordings import Recording
from hopperlab.measure.suites import clusters

SCHEDULES = ("lazy", "eager", "random")
DROPPED = {
    "the exchange warp's wait": ("if (!BUG_SENDS_EARLY) mbarrier_wait_parity(&landed[ring.slot], ring.phase);", "read-before-arrival"),
    "the consumers' wait for the own half": ("if (HOW == 2) mbarrier_wait_parity(&landed[ring.slot], ring.phase);", "read-before-arrival"),
    "the consumers' wait for the rest": ("            mbarrier_wait_parity(&full[ring.slot], ring.phase);\n", "read-before-arrival"),
    "the producer's wait": ("            mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);\n", "overwrite-in-flight"),
    "the readers' fence": ("fence_proxy_async_shared_cta(), ", "unfenced-overwrite"),
    "the consumers' meeting": (", bar_sync_consumers();", "overwrite-in-flight"),
}


def operands(rows=256, columns=128, depth=384):
    random = np.random.default_rng(7)
    a, b = (random.integers(0, 1 << 16, (high, depth)).astype(np.uint16) for high in (rows, columns))
    of_a, of_b = (matrix.view(np.uint32).reshape(-1, 32 * depth).sum(1, dtype=np.uint32) for matrix in (a, b))
    return a, b, np.stack(np.broadcast_arrays(of_a[:, None], of_b[None]), -1)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.sampled(by="how")
def test_every_way_is_right_and_silent(how, stages, schedule):
    a, b, expected = operands()
    out = np.zeros(expected.shape, np.uint32)
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        handed_tiles(a, b, out, how, stages, backend="emulator")()
    assert (out == expected).all() and not run.hazards and not run.warnings


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", DROPPED)
@pytest.mark.sampled(every=5, ci=1)
def test_each_synchronisation_is_named_when_it_is_dropped(name, schedule):
    old, kind = DROPPED[name]
    a, b, expected = operands(128, 64)
    launch = handed_tiles(a, b, np.zeros(expected.shape, np.uint32), "handed", 2, backend="emulator")
    new = ";" if old.endswith(";") else "\n" if old.endswith("\n") else ""
    with hl.emulate(schedule=schedule, hazards="collect", budget=10**7) as run:
        changed(launch, "clusters/handed_tiles.cu", ((old, new),), ("-DHOW=2", "-DSTAGES=2"))()
    assert kind in {hazard.kind for hazard in (*run.hazards, *run.warnings)}


@pytest.mark.parametrize("bug, kind", [("COUNTS_ONE_CTA", "overwrite-in-flight"), ("SENDS_EARLY", "read-before-arrival"), ("LEAVES_EARLY", "cluster-lifetime")])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.sampled(ci=1)
def test_planted_bugs_are_named(bug, kind, schedule):
    assert kind in {hazard.kind for hazard in handed.run_handed("handed", (f"-DBUG_{bug}=1",), schedule)[1].hazards}


@pytest.mark.parametrize("change, words", [({"how": "pulled"}, "alone, multicast, handed"), ({"a": np.zeros((64, 64), np.uint16)}, "no whole number of clusters"),
                                           ({"out": np.zeros((1, 1, 2), np.uint32)}, "out has shape")])
def test_what_cannot_be_launched_is_told(change, words):
    a, b, expected = operands()
    given = {"a": a, "b": b, "out": np.zeros(expected.shape, np.uint32), "how": "handed"} | change
    with pytest.raises(ValueError, match=words):
        handed_tiles(**given)


@pytest.fixture
def stand_in(monkeypatch):
    """NumPy under CuPy's name, a small shape, launches in the emulator, and times by place."""
    cupy = types.ModuleType("cupy")
    cupy.__getattr__ = lambda name: getattr(np, name)
    cupy.__spec__ = ModuleSpec("cupy", None)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(clusters, "SHAPE", (128, 64, 128))
    monkeypatch.setattr(clusters, "STAGES", (2, 4))
    monkeypatch.setattr(Launch, "bound", lambda self: self)
    monkeypatch.setattr(clusters, "interleaved", lambda runs, rounds: {name: Sample((0.001 * (1 + place),) * rounds) for place, name in enumerate(runs)})


@pytest.mark.emulator_only                      # a GPU cannot have what NumPy holds under CuPy's name
def test_the_suite_makes_what_the_lesson_reads(stand_in):
    records = clusters.clusters(rounds=2)
    assert [record.options for record in records] == [(f"HOW={how}", f"STAGES={stages}") for stages in (2, 4) for how in WAYS]
    assert records[1].ratio == 1 and records[0].ratio == 2 and records[2].gb_s == round(2 * 2 * 16384 / 0.003 / 1e6, 1)
    header = {"gpu": "no GPU", "driver": "", "cuda": "", "date": ""}
    table = handed.handed_table(Recording("clusters", header, records))
    assert "2 stages" in table and all(how in table for how in WAYS)


def test_wrong_sums_are_no_measurement(stand_in, monkeypatch):
    monkeypatch.setattr(clusters, "handed_tiles", lambda *arguments: lambda: None)
    with pytest.raises(AssertionError, match="wrong sums"):
        clusters.clusters()
