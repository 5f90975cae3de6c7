# SPDX-License-Identifier: Apache-2.0
"""The suite `backward` without a GPU: what it counts, what it checks before it times, what it makes of samples, and what it shows; kernels run in the emulator."""
import sys
import types
from dataclasses import replace
from importlib.machinery import ModuleSpec

import ml_dtypes
import numpy as np
import pytest

from hopperlab.hopper import limits
from hopperlab.measure.launches import attention
from hopperlab.measure.launches import attention_backward as ours
from hopperlab.measure.machine.timing import Sample
from hopperlab.measure.recordings import Record
from hopperlab.measure.suites import backward, prechecked
from hopperlab.measure.suites.race import WrongResult

BF16 = ml_dtypes.bfloat16


class Tensor:
    """What the suite asks of a torch tensor, over a NumPy array."""

    def __init__(self, array):
        self.array = array

    def __getitem__(self, of):
        return Tensor(self.array[of])

    def float(self):
        return self.array.view(BF16).astype(np.float32)


@pytest.fixture
def stand_in(monkeypatch):
    """NumPy in CuPy's place, and operands that need no torch."""
    cupy = types.ModuleType("cupy")
    cupy.__dict__.update(np.__dict__)
    cupy.__spec__ = ModuleSpec("cupy", None)
    cupy.get_default_memory_pool = lambda: types.SimpleNamespace(free_all_blocks=lambda: None)
    cupy.cuda = types.SimpleNamespace(runtime=types.SimpleNamespace(deviceSynchronize=lambda: None))
    monkeypatch.setitem(sys.modules, "cupy", cupy)

    def operands(tokens, length, heads, d, causal, seed=0):
        rng = np.random.default_rng(seed)
        arrays = {name: rng.standard_normal((tokens, heads, d)).astype(BF16) for name in ("q", "k", "v", "d_o")}
        starts = np.arange(0, tokens + 1, length)
        o, lse = attention.reference(arrays["q"], arrays["k"], arrays["v"], starts, starts, causal)
        arrays |= {"o": o.astype(BF16), **{name: np.zeros(o.shape, BF16) for name in ours.MADE}}
        arrays = {name: x.view(np.uint16) for name, x in arrays.items()}
        return {"tensors": {name: Tensor(x) for name, x in arrays.items()}, "lse": lse.astype(np.float32), "length": length, "causal": causal, **arrays}
    monkeypatch.setattr(backward, "operands", operands)


def test_operations_are_those_of_five_products():
    assert backward.flop(128, False, 4096) == 5 * 2 * 4 * 16 * 4096 ** 2 * 128 and backward.flop(64, True, 1024) == backward.flop(64, False, 1024) // 2
    assert len(backward.CELLS) == 20


def test_every_configuration_fits_in_shared_memory():
    assert [name for name, (d, choice) in backward._named().items() if choice.shared_bytes(d) > limits.SHARED_PER_BLOCK] == []
    assert list(backward._named())[:5] == ["64: bulk", "64: bulk, not rotated", "64: atomics", "64: ordered", "64: ahead"]        # each kernel once
    assert "128: step one_warpgroup" not in backward._named()
    assert list(backward._passed(64, backward.CONFIGURATIONS, ["64: bulk", "128: ordered"])) == ["bulk", "bulk, group 1", "bulk, group 16"]


def test_a_check_passes_what_is_right_and_tells_what_is_wrong(stand_in, monkeypatch, capsys):
    monkeypatch.setattr(backward, "CHECKS", (70,))
    assert backward.check("64: ordered") == 0 and "64: ordered: right at 2 shapes" in capsys.readouterr().out
    given = backward.operands(140, 70, 2, 64, True)
    launches = backward.make(given, backward.CONFIGURATIONS["bulk"])
    assert backward.wrong(given, launches) == 0

    def spoiled():
        launches()
        given["dk"][3, 0, 5] ^= 0x4000
    assert 0 < backward.wrong(given, spoiled) < 1e-3
    assert backward.wrong(given, lambda: None) == 1                    # not a number
    monkeypatch.setattr(backward, "wrong", lambda given, run: 0.25)
    assert backward.check("64: bulk") == 1 and "25.00% wrong at length 70 full" in capsys.readouterr().out


@pytest.mark.thorough
def test_bits_and_errors_come_from_runs(stand_in, monkeypatch):
    monkeypatch.setattr(backward, "BIT_RUNS", 2)
    monkeypatch.setattr(backward, "HIDDEN", 128)
    monkeypatch.setattr(backward, "PEERS", {"none": lambda given: None})
    monkeypatch.setattr(ours, "HEAD_SIZES", (64,))
    assert [(r.options[-1], r.unit) for r in backward.bits({"64: ordered"}, 140)] == [("DQ=ordered", "of 2 runs differ")]
    assert backward.bits({"64: ordered"}, 140)[0].value == 0
    found = backward.accuracy({"64: bulk"}, 140)
    assert [r.options[2:] for r in found] == [("bulk", name) for name in ours.MADE] and all(0 < r.value < 0.01 and r.value < r.value_max < 0.1 for r in found)


RECORDS = backward._records


def _plain(cell, timed, kernel=None, chosen=None):
    """Records of samples without launches: which of them are configurations is told by the name alone."""
    return [r if kernel is None or r.kernel == "cuDNN" else replace(r, kernel=kernel, note=r.kernel) for r in RECORDS(cell, ({}, timed[1]), None, chosen)]


def samples(names, speed):
    return {name: Sample((1.0 / speed.get(name, 1), 1.1 / speed.get(name, 1), 0.9 / speed.get(name, 1))) for name in names}


def test_the_fastest_of_each_kind_is_timed_once_more(monkeypatch):
    speed, timed = {"bulk, group 1": 1.3, "ordered": 0.9, "ordered, group 1": 0.8, "ordered, ahead": 0.7, "final": 1.25}, []

    def times(cell, choices, rounds, peers=("cuDNN",)):
        timed.append((cell, dict(choices), tuple(peers)))
        return {}, samples([*choices, "cuDNN"], speed)
    monkeypatch.setattr(prechecked, "right", lambda module, names: set(names))
    monkeypatch.setattr(backward, "_timed", times)
    monkeypatch.setattr(backward, "CELLS", ((64, False, 1024), (128, True, 4096)))
    monkeypatch.setattr(backward, "parts", lambda *given: [Record("", "part", ("D=128", "causal", "attention_backward"), (4, 4096, 16, 128), ms=0.1)])
    monkeypatch.setattr(backward, "accuracy", lambda right: [])
    monkeypatch.setattr(backward, "bits", lambda right: [])
    monkeypatch.setattr(backward, "_records", _plain)
    kept = []
    found = backward.measure(3, lambda records: kept.append(len(records)))
    assert len(kept) == 3 and kept[-1] == len(found) and {r.suite for r in found} == {"backward"}
    final, = [r for r in found if r.kernel == "final" and r.options[0] == "D=64"]
    assert ours.parsed(final.options[2:]) == backward.CONFIGURATIONS["bulk, group 1"] and final.ratio == pytest.approx(1.25, rel=1e-3)
    ordered, = [r for r in found if r.kernel == "ordered" and r.options[0] == "D=64"]
    assert ours.parsed(ordered.options[2:]) == backward.CONFIGURATIONS["ordered"]
    assert "overlapped" in timed[3][1] and "one_warpgroup" not in timed[3][1] and timed[3][2] == tuple(backward.PEERS)
    shown = backward.shown(found, backward.CELLS)
    assert "d64 full 1024: bulk, group 1" in shown and "final, geometric mean: 1.25" in shown and ("ordered, geometric mean: "
                                                                                                   "0.9") in shown and ("part D=128 causal attention_backward: "
                                                                                                                        "100.0 us") in shown


def test_nothing_wrong_is_timed(stand_in, monkeypatch):
    monkeypatch.setattr(backward, "TOKENS", 140)
    monkeypatch.setattr(backward, "HIDDEN", 64)
    monkeypatch.setattr(backward, "wrong", lambda given, run: 0.1)
    monkeypatch.setattr(backward, "interleaved", lambda *given: pytest.fail("timed"))
    with pytest.raises(WrongResult, match="bulk is wrong at d64 full 70"):
        backward._timed((64, False, 70), {"bulk": ours.Backward()}, 3)


def test_a_suite_asks_for_its_checks_first(monkeypatch):
    def none(module, names, limit=60):
        raise WrongResult(f"{module}: {len(list(names))}")
    monkeypatch.setattr(prechecked, "right", none)
    with pytest.raises(WrongResult, match="suites.backward: "):
        backward.measure(2)
