# SPDX-License-Identifier: Apache-2.0
"""Launches that a module of benchmarks has counted by Nsight Compute: who runs them, and whose numbers are whose; with stand-ins for the GPU."""
import sys
import types

import numpy as np
import pytest

from hopperlab.measure.profile import ncu

counts = pytest.importorskip("benchmarks.counts", reason="a checkout of the repository has it, an installed package not")


@pytest.fixture
def launches():
    done = []
    return done, lambda: iter([(name, lambda name=name: done.append(name)) for name in ("one", "two")])


def test_each_launch_has_its_own_numbers_and_none_runs_here(launches, monkeypatch):
    asked = []

    def run(*given, **how):
        asked.append((given, how))
        return ncu.Answer([{"a": "1,000", "b": "2"}, {"a": "3"}])
    monkeypatch.setattr(sys, "argv", ["counted.py"])
    monkeypatch.setattr(ncu, "find", lambda: "/bin/ncu")
    monkeypatch.setattr(ncu, "run", run)
    done, made = launches
    assert list(counts.counted("benchmarks.drift", made, ("a", "b"))) == [("one", [1000.0, 2.0]), ("two", [3.0, 0.0])] and not done
    assert asked == [(("/bin/ncu", ("a", "b"), ("benchmarks.drift", "launch")), {"module": True, "kernel": "^gemm$"})]
    monkeypatch.setattr(ncu, "run", lambda *given, **how: ncu.Answer([{"a": "1"}]))
    with pytest.raises(ValueError, match="zip"):
        list(counts.counted("benchmarks.drift", made, ("a",)))


def test_the_process_that_is_watched_launches_everything_once(launches, monkeypatch):
    waited = []
    monkeypatch.setattr(sys, "argv", ["counted.py", counts.WATCHED])
    device = types.SimpleNamespace(synchronize=lambda: waited.append(1))
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=types.SimpleNamespace(Device=lambda: device)))
    done, made = launches
    assert list(counts.counted("benchmarks.drift", made, ("a",))) == [] and done == ["one", "two"] and len(waited) == 2


def test_every_sm_has_one_part_in_every_plan_of_merged_requests():
    """GPCs as an H100's and an H200's clusters show them: one of them in parts."""
    merged = pytest.importorskip("benchmarks.merged_requests", reason="a checkout of the repository has it, an installed package not")
    sizes, known = (8, 16, 16, 16, 16, 16, 18, 18, 2, 2, 2, 2), []
    for size in sizes:
        first = sum(map(len, known))
        known.append(tuple(range(first, first + size)))
    for plan in merged.plans(known):
        whose, behind = plan.tables
        assert sorted(sm for group in plan.groups for sm in group) == list(range(merged.SMS))
        assert len(set(whose)) == len(plan.groups) and behind.max() == plan.behind * (max(map(len, plan.groups)) - 1)
    assert {plan.alone for plan in merged.plans(known) if plan.name == "two SMs of a TPC"} == {0}


def test_products_whose_requests_are_counted_are_of_every_kind():
    merged = pytest.importorskip("benchmarks.merged_products", reason="a checkout of the repository has it, an installed package not")
    for size, ways in ((4096, {(0, 0), (0, 1)}), (8192, {(0, 0), (1, 0), (0, 1)})):
        found = list(merged.choices(size))
        assert {(choice.in_step, choice.stream) for choice in found} == ways
        assert {(choice.bm, choice.bn, choice.consumers) for choice in found} == set(merged.TILES)
        assert {(choice.cluster_m, choice.cluster_n) for choice in found} == set(merged.CLUSTERS)


def test_every_kind_of_wait_is_timed():
    """In the emulator: what runs, not how long it takes."""
    waits = pytest.importorskip("benchmarks.waits", reason="a checkout of the repository has it, an installed package not")
    found = waits.measured("emulator", turns=2)
    assert found.keys() == waits.TURN.keys() and all(alone > 0 and beside > 0 for alone, beside in found.values())


@pytest.mark.parametrize("registers", [False, True])
def test_the_clock_is_read_behind_every_product(registers):
    """In the emulator, whose cycles are steps."""
    ahead = pytest.importorskip("benchmarks.wgmma_ahead", reason="a checkout of the repository has it, an installed package not")
    found = ahead.measured(64, 2, registers, "emulator")
    assert found.shape == (2, ahead.COUNT + 2) and found.min() == 0 and (np.diff(found) > 0).all()


def test_every_instruction_is_timed_alone_and_beside_products():
    """In the emulator, whose cycles are steps: what runs, not how long it takes."""
    beside = pytest.importorskip("benchmarks.beside_products", reason="a checkout of the repository has it, an installed package not")
    found = list(beside.measured("emulator", passes=2, products=1, sms=1, wanted=("m64n64k16 bf16", "m64n128k16 bf16")))
    few = [one for one in found if one.product == "m64n64k16 bf16"]
    assert {one.instruction for one in found} == set(beside.INSTRUCTIONS) and len(found) == 2 * (3 + len(beside.INSTRUCTIONS)) and len(few) == 6
    assert all(one.alone > 0 and one.beside > 0 and one.warps in (1, 2) for one in found)
