# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of measuring, which needs no GPU: medians, ratios, board queries."""
import itertools
import subprocess
import sys
from types import SimpleNamespace

import pytest

from hopperlab.measure.machine import board, timing
from hopperlab.measure.machine.timing import Sample, order_of, speed_ratios


def test_sample_reports_median_and_extremes():
    sample = Sample((3.0, 1.0, 2.0, 10.0))
    assert (sample.ms, sample.least, sample.most) == (2.5, 1.0, 10.0)


def test_ratios_are_taken_round_by_round():
    ours, theirs = Sample((2.0, 4.0, 2.0)), Sample((1.0, 4.0, 3.0))
    assert speed_ratios(ours, theirs) == (1.0, 0.5, 1.5)


def test_samples_of_different_length_do_not_compare():
    with pytest.raises(ValueError):
        speed_ratios(Sample((1.0,)), Sample((1.0, 2.0)))


def test_header_reads_the_board(monkeypatch):
    answer = subprocess.CompletedProcess([], 0, stdout="NVIDIA H200, 580.1, 700.00, 1980, [N/A]\n", stderr="")
    monkeypatch.setattr(board.subprocess, "run", lambda *args, **kwargs: answer)
    head = board.header()
    assert (head["gpu"], head["driver"], head["power_limit_watts"]) == ("NVIDIA H200", "580.1", 700.0)
    assert head["clocks"] == {"sm_max_mhz": 1980.0, "memory_max_mhz": None}
    assert head["cuda"].count(".") == 1
    assert head["libraries"]["numpy"]


def test_header_names_the_libraries_of_the_peers(monkeypatch):
    there = {"nvidia-cudnn-cu13": "9.20", "nvidia-cublas": "13.1", "quack-kernels": "0.6.5", "nvidia-cutlass-dsl": "4.8.1", "sgl-deep-gemm": "0.0.1", "triton": "3.5",
             "torch": "2.11"}

    def version(name):
        if name not in there:
            raise board.importlib.metadata.PackageNotFoundError(name)
        return there[name]
    monkeypatch.setattr(board.importlib.metadata, "version", version)
    assert board._libraries() == there


def test_no_driver_says_so(monkeypatch):
    def missing(*args, **kwargs):
        raise FileNotFoundError("nvidia-smi")
    monkeypatch.setattr(board.subprocess, "run", missing)
    with pytest.raises(RuntimeError, match="is there an NVIDIA driver"):
        board.header()


def test_load_without_nvml_is_unknown_not_zero(monkeypatch):
    monkeypatch.setattr(board, "_METERS", [])
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    calls = []
    load = board.under_load(lambda: calls.append("run"), lambda: calls.append("wait"), seconds=0.01)
    assert load == board.Load(None, None)
    assert calls[:2] == ["run", "wait"] and calls[-1] == "wait"


def test_every_contestant_has_every_place_in_the_order():
    names = ["ours", "theirs", "another"]
    orders = [order_of(names, turn) for turn in range(5)]
    assert orders[0] == names and orders[3] == orders[0] and all(sorted(order) == sorted(names) for order in orders)
    assert all({order[place] for order in orders[:3]} == set(names) for place in range(3))
    assert order_of([], 2) == []


def test_rounds_begin_with_another_contestant_and_each_launch_is_prepared(monkeypatch):
    """`interleaved` on a stand-in for CuPy: who ran when, and in which order a launch, its flush and its preparation came."""
    done = []
    clock = itertools.count()

    class Event:
        def record(self):
            self.at = next(clock)
    flush = SimpleNamespace(fill=lambda value: done.append("flush"), max=lambda out: done.append("read"))
    cuda = SimpleNamespace(Event=Event, runtime=SimpleNamespace(deviceSynchronize=lambda: None), get_elapsed_time=lambda start, end: end.at - start.at)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda, empty=lambda *args, **kwargs: flush, uint32=None))
    samples = timing.interleaved({name: (lambda name=name: done.append(name)) for name in ("a", "b", "c")}, rounds=2, warmups=1, prepare=lambda: done.append("prepare"))
    assert [step for step in done if len(step) == 1] == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]
    assert done[:3] == ["prepare", "flush", "a"] and done.count("prepare") == done.count("flush") == 9
    assert {name: len(sample.times) for name, sample in samples.items()} == {"a": 2, "b": 2, "c": 2}
    done.clear()
    timing.interleaved({"a": lambda: done.append("a")}, rounds=1, warmups=1, clean=True)
    assert done == ["flush", "read", "a"] * 2
