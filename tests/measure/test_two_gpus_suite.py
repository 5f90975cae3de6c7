# SPDX-License-Identifier: Apache-2.0
"""The suite `two_gpus` without GPUs: its kernels on emulated devices at small shapes, with stand-ins for the clock, cuBLAS, NCCL and the copy engine."""
import numpy as np
import pytest

from hopperlab.measure import Recording
from hopperlab.measure.launches import across, across_products
from hopperlab.measure.launches.across_products import SMALL
from hopperlab.measure.launches.operands import bf16_bits, bf16_values
from hopperlab.measure.machine import here as machine
from hopperlab.measure.machine.timing import Sample
from hopperlab.measure.suites import bench, table, two_gpus, two_gpus_peers
from hopperlab.runtime.errors import BackendError


class HandClock:
    """Runs everything once; each variant takes a millisecond longer than the one before."""

    def __init__(self, here, spin_cycles=0):
        self.here = here

    def interleaved(self, variants, rounds, warmups=2, cold=True, repeats=1):
        for make in variants.values():
            make()()
            self.here.synchronize()
        return {name: Sample((float(number + 1),) * rounds) for number, name in enumerate(variants)}


class ByHand:
    """What Others does, in NumPy."""

    spoil = 0                   # what the sums of all_reduce are off by

    def __init__(self, here):
        self.here = here

    def products(self, a, b, c):
        def run():
            for left, right, out in zip(a, b, c, strict=True):
                out[...] = bf16_bits(bf16_values(np.asarray(left)) @ bf16_values(np.asarray(right)).T)
        return run

    def all_gather(self, a):
        return two_gpus_peers.copies(self.here, a)

    def reduce_scatter(self, partial, c):
        def run():
            total, rows = sum(bf16_values(np.asarray(one)) for one in partial), len(c[0])
            for number, out in enumerate(c):
                out[...] = bf16_bits(total[number * rows:(number + 1) * rows])
        return run

    def all_reduce(self, xs, ys):
        def run():
            for y in ys:
                y[...] = across.summed(xs)
        return run


@pytest.fixture
def stand_in(monkeypatch):
    def copies(here, a):
        def run():
            rows = len(a[0]) // here.count
            for to in a:
                for source, theirs in enumerate(a):
                    to[source * rows:(source + 1) * rows] = theirs[source * rows:(source + 1) * rows]
        return run

    def one_copy(here, source, target):
        def run():
            target[...] = source
        return run
    monkeypatch.setattr(two_gpus_peers, "copies", copies)
    monkeypatch.setattr(two_gpus_peers, "one_copy", one_copy)
    monkeypatch.setattr(two_gpus_peers, "Others", ByHand)
    monkeypatch.setattr(two_gpus, "Clock", HandClock)
    monkeypatch.setattr(two_gpus, "steps", lambda step, count=1: lambda: lambda: [step() for _ in range(count)])
    monkeypatch.setattr(two_gpus, "final_alone", lambda here, a, b, c: ByHand(here).products(a, b, c))
    monkeypatch.setattr(across_products, "widest", lambda rows, **choices: SMALL)
    monkeypatch.setattr(two_gpus, "GATHERED", ((256, 64, 64), (512, 64, 64)))
    monkeypatch.setattr(two_gpus, "SCATTERED", ((256, 64, 64),))
    monkeypatch.setattr(two_gpus, "SMALL_BYTES", (1024, 4096))
    monkeypatch.setattr(two_gpus, "COPY_BYTES", 1 << 16)
    monkeypatch.setattr(two_gpus, "ROUND_TRIPS", 3)
    monkeypatch.setattr(two_gpus, "IN_A_ROW", 2)
    monkeypatch.setattr(two_gpus, "WAYS", {name: {key: 128 if key == "piece_rows" else value for key, value in choices.items() if key != "copiers"} for name,
                                           choices in two_gpus.WAYS.items()})
    monkeypatch.setattr(two_gpus, "widest", lambda rows, **choices: SMALL)
    return across.world(2, "emulator")


@pytest.mark.parametrize("name, count", [("link", 16), ("flags", 1), ("gather", 2 * (3 * 3 + 4)), ("ways", 11 * 3 + 4), ("scatter", 6 * 2 + 3), ("all_reduce", 8)])
@pytest.mark.thorough
def test_every_experiment_checks_and_records(stand_in, name, count):
    found = two_gpus.EXPERIMENTS[name](3, stand_in)
    assert len(found) == count and len(two_gpus.EXPERIMENTS[name].__doc__) > 30
    assert len(two_gpus.shown(Recording("two_gpus", {}, tuple(found))).splitlines()) == count
    for record in found:
        assert record.value is not None or record.peer and record.ratio > 0
    if name == "gather":
        assert {record.peer for record in found if record.kernel == "gathered_product"} == {"alone: cuBLAS", "NCCL, then cuBLAS", "copy engine, then cuBLAS"}


def test_a_wrong_result_is_not_timed(stand_in, monkeypatch):
    monkeypatch.setattr(across, "summed", lambda xs, xp=np: np.zeros(xs[0].shape, np.uint16))
    with pytest.raises(two_gpus.WrongTogether, match="one-shot"):
        two_gpus.all_reduce(2, stand_in)
    monkeypatch.setattr(two_gpus, "near", lambda *given: False)
    with pytest.raises(two_gpus.WrongTogether, match="all CTAs copy"):
        two_gpus.gather(2, stand_in)


def test_near_is_as_wide_as_the_rounding(stand_in):
    values = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
    got = stand_in.put([bf16_bits(values)] * 2)
    assert two_gpus.near(stand_in, got, [values, values]) and two_gpus.numbers(stand_in, got)[1].dtype == np.float32
    got[1][3, 4] = bf16_bits(np.float32([100]))[0]
    assert not two_gpus.near(stand_in, got, [values, values])


def test_a_machine_with_one_gpu_is_told(monkeypatch, capsys):
    def one(*given):
        raise BackendError("devices(2): this machine shows 1 GPU")
    monkeypatch.setattr(across, "world", one)
    with pytest.raises(BackendError):
        two_gpus.measure(2)
    rows = table.rows("all")
    monkeypatch.setattr(machine, "gpus", lambda: 1)
    assert {row.recording for row in rows} - {row.recording for row in bench._possible(rows)} == {"two_gpus"}
    assert "two_gpus is left out: it needs 2 GPUs" in capsys.readouterr().err
    assert bench._possible(table.rows("two_gpus")) == list(table.rows("two_gpus"))


def test_without_pytorch_it_is_said(monkeypatch):
    monkeypatch.setattr(two_gpus_peers.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(across, "world", lambda *given: None)
    with pytest.raises(RuntimeError, match="NCCL, by PyTorch"):
        two_gpus.measure(2)
