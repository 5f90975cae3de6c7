# SPDX-License-Identifier: Apache-2.0
"""The suite `mixed` without a GPU: its kernels run in the emulator at small shapes, on arrays that stand in for CuPy's, and times are made up."""
import sys
import types
from importlib.machinery import ModuleSpec

import numpy as np
import pytest

from hopperlab.measure.launches import mixed as launches
from hopperlab.measure.launches.launch import Launch
from hopperlab.measure.machine.timing import Sample
from hopperlab.measure.suites import mixed, mixed_peers

SHAPES = ((16, 128, 256), (40, 128, 256))


@pytest.fixture
def stand_in(monkeypatch):
    """NumPy under CuPy's name, launches that run in the emulator, and times by place: the first of a round takes 1 us, each further one 1 us more."""
    cupy = types.ModuleType("cupy")
    cupy.__getattr__ = lambda name: getattr(np, name)
    cupy.__spec__ = ModuleSpec("cupy", None)
    cupy.cuda = types.SimpleNamespace(runtime=types.SimpleNamespace(deviceSynchronize=lambda: None))
    cupy.get_default_memory_pool = lambda: types.SimpleNamespace(free_all_blocks=lambda: None)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(Launch, "bound", lambda self: self)
    monkeypatch.setattr(mixed.peers, "products", lambda names, a, b, c: {"cublasGemmEx TN": ("cuBLAS", lambda: None), "torch TN": ("cuBLAS", lambda: None),
                                                                         "torch NN": ("cuBLAS", lambda: None)})
    monkeypatch.setattr(mixed, "interleaved", lambda runs, rounds, clean=False: {name: Sample((0.001 * (1 + place),) * rounds) for place, name in enumerate(runs)})
    monkeypatch.setattr(mixed, "load", lambda run, seconds: {"watts": 500.0, "joules": 0.25})
    monkeypatch.setattr(mixed, "compile_ahead", lambda wanted: [])
    for name, shapes in (("FEW", SHAPES[:1]), ("MANY", SHAPES[1:]), ("TRIED", SHAPES[:1] * 3), ("LOADED", SHAPES[1:])):
        monkeypatch.setattr(mixed, name, shapes)
    monkeypatch.setattr(mixed, "GROUPS", (64, 256))
    every = mixed.tried
    monkeypatch.setattr(mixed, "tried", lambda shape: every((16, 4096, 256))[:1] + [launches.Choice(16)])


@pytest.mark.thorough
def test_every_experiment_makes_records(stand_in):
    kept = []
    found = mixed.measure(3, keep=lambda records: kept.append(len(records)))
    assert len(kept) == len(mixed.EXPERIMENTS) and kept[-1] == len(found)
    assert {record.suite for record in found} == set(mixed.EXPERIMENTS)
    for record in found:
        assert record.peer == "cuBLAS" and record.mode in ("cold L2", "clean L2") and record.tflops > 0 and record.gb_s > 0
        assert (record.joules == 0.25) == (record.suite == "energy")
    assert [record.kernel for record in found if record.suite == "few" and record.mode == "clean L2"] == [
            record.kernel for record in found if record.suite == "few" and record.mode == "cold L2"]
    few = [record for record in found if record.suite == "few" and record.mode == "cold L2" and record.shape == SHAPES[0]]
    assert [record.kernel for record in few] == ["cublasGemmEx TN", "torch TN", "int_weights", "int_weights", "sparse"] and [record.ratio
            for record in few] == [1, 0.5, 0.3333, 0.25, 0.2]
    assert few[2].options[:2] == ("weights=int4", "GROUP=128") and any(option.startswith("STAGES=") for option in few[4].options) and few[2].registers == 168
    shown = mixed.shown(found).splitlines()
    assert len(shown) == len(found) and any(line.endswith("0.2500 J, 500 W") for line in shown)
    assert {option for record in found if record.suite == "groups" for option in record.options if option.startswith("GROUP=")} == {"GROUP=64", "GROUP=256"}


def test_what_is_wrong_is_not_timed(stand_in, monkeypatch):
    given, whole = mixed.Operands(SHAPES[0]), launches.int_weights
    monkeypatch.setattr(mixed.launches, "int_weights", lambda x, made, y, choice: whole(x, made, y, choice, ("-DBUG_NIBBLES=1",)))
    with pytest.raises(mixed.WrongProduct, match="int4 at"):
        mixed.ours(given, "int4")


def test_bytes_are_those_of_the_weights(stand_in):
    given = mixed.Operands(SHAPES[0])
    m, n, k = SHAPES[0]
    activations = 2 * m * (n + k)
    assert [mixed.ours(given, kind)[0].nbytes - activations for kind in mixed.KINDS] == [n * k // 2 + 2 * n * k // 128, n * k + 2 * n * k // 128, n * k + n * k // 8]
    assert mixed.bf16(given)[0].nbytes - activations == 2 * n * k


def test_kernels_are_compiled_ahead_as_they_are_launched(stand_in):
    wanted = set(mixed.wanted_kernels())
    for shape in SHAPES:
        given = mixed.Operands(shape)
        for kind in mixed.KINDS:
            kernel = mixed.ours(given, kind)[0].launch.kernel
            assert (f"mixed/{kernel.name}.cu", kernel.name, tuple(kernel.module.options)) in wanted


def test_peers_that_fail_are_told_and_left_out(stand_in, capsys):
    def broken():
        raise RuntimeError("no such operator")
    assert mixed_peers._tried("some peer", broken, np.ones(3)) is None and "some peer is left out: RuntimeError: no such operator" in capsys.readouterr().err
    result = types.SimpleNamespace(float=lambda: types.SimpleNamespace(contiguous=lambda: np.array([1.0, 2, 3.5])))
    assert mixed_peers._tried("near", lambda: result, np.array([1.0, 2, 3.5])) and mixed_peers._tried("far", lambda: result, np.array([2.0, 1, 3.5])) is None
    assert "far is left out: its result is off by 0.286 of the largest" in capsys.readouterr().err


@pytest.mark.parametrize("name", mixed.EXPERIMENTS)
def test_every_experiment_says_what_it_measures(name):
    assert len(mixed.EXPERIMENTS[name].__doc__) > 30
