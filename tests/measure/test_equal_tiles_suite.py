# SPDX-License-Identifier: Apache-2.0
"""The suite `schedules` without a GPU: its kernels run in the emulator at small shapes, on arrays that stand in for CuPy's, and times are made up."""
import sys
import types
from importlib.machinery import ModuleSpec

import numpy as np
import pytest

from hopperlab.measure.launches.launch import Launch
from hopperlab.measure.launches.operands import bf16_bits, bf16_values
from hopperlab.measure.machine.timing import Sample
from hopperlab.measure.suites import equal_tiles


def product(onto: bool):
    """What stands in for cuBLAS: c = a b^T, and + c."""
    def peer(a, b, c):
        def run():
            c[...] = bf16_bits(bf16_values(a) @ bf16_values(b).T + (bf16_values(c) if onto else 0))
        return run
    return peer


@pytest.fixture
def stand_in(monkeypatch):
    """NumPy under CuPy's name, launches that run in the emulator, and times by place: the first of a round takes 1 us, each further one 1 us more."""
    cupy = types.ModuleType("cupy")
    cupy.__getattr__ = lambda name: getattr(np, name)
    cupy.__spec__ = ModuleSpec("cupy", None)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(Launch, "bound", lambda self: self)
    monkeypatch.setattr(equal_tiles.peers, "cublas", product(False))
    monkeypatch.setattr(equal_tiles.peers, "cublas_onto", product(True))
    monkeypatch.setattr(equal_tiles, "interleaved", lambda runs, rounds: {name: Sample((0.001 * (1 + place),) * rounds) for place, name in enumerate(runs)})
    for name, value in (("EQUAL", (136, 264)), ("DEPTHS", (64, 136)), ("ONTO", ((136, 264, 72),))):
        monkeypatch.setattr(equal_tiles, name, value)


@pytest.mark.thorough
def test_every_comparison_makes_records(stand_in):
    found = equal_tiles.measure(3)
    assert [(r.suite, r.note, r.kernel, r.shape[2], r.ratio) for r in found] == [
        *((("equal", name, kernel, k, ratio)) for k in (64, 136)
          for name, kernel, ratio in (("cuBLAS", "cuBLAS", 2), ("cooperative", "cooperative", 1), ("ping-pong", "pingpong", 0.6667))),
        ("onto", "only writes C", "overlapped_store", 72, 1), ("onto", "adds to C", "reads_c", 72, 0.5),
        ("onto", "cuBLAS, only writes C", "cuBLAS", 72, 0.3333), ("onto", "cuBLAS, adds to C", "cuBLAS", 72, 0.25)]
    for record in found:
        assert record.tflops > 0 and (record.registers is None) == (record.kernel == "cuBLAS") and not record.spills


def test_equal_means_equal():
    """Full waves on an H200 at the recorded shape, and the same ring, tile and block on both sides."""
    a, b, c = (np.zeros(shape, np.uint16) for shape in ((equal_tiles.EQUAL[0], 64), (equal_tiles.EQUAL[1], 64), equal_tiles.EQUAL))
    ours, theirs = equal_tiles.beside_ladder.cooperative(a, b, c, backend="emulator"), equal_tiles.gemm.pingpong(a, b, c, backend="emulator")
    assert ours.grid == theirs.grid == (132,) and ours.block == theirs.block and ours.shared_mem == theirs.shared_mem
    assert [map_.fields for map_ in ours.args[:2]] == [map_.fields for map_ in theirs.args[:2]]
    assert ours.kernel.use.spill_stores == theirs.kernel.use.spill_stores == 0


@pytest.mark.parametrize("wrong", ["cooperative", "reads_c"])
@pytest.mark.sampled(every=2)
def test_what_is_wrong_is_not_timed(stand_in, monkeypatch, wrong):
    whole = getattr(equal_tiles.beside_ladder, wrong)
    monkeypatch.setattr(equal_tiles.beside_ladder, wrong, lambda a, b, c: whole(a, np.ascontiguousarray(b[::-1]), c))
    with pytest.raises(AssertionError, match="largest error against cuBLAS"):
        equal_tiles.measure(3)
