# SPDX-License-Identifier: Apache-2.0
"""The peer that times cuBLASLt's candidates, and quack's, with stand-ins for the libraries: what is multiplied, which candidate is kept, what is told where none is."""
import ctypes
import gc
import sys
import types
import weakref

import numpy as np
import pytest

from hopperlab.measure.launches.operands import bf16_bits, bf16_values
from hopperlab.measure.machine import peers, peers_cublaslt
from hopperlab.measure.machine.timing import Sample

ctypes_value = ctypes._SimpleCData


class Held:
    """A NumPy array with what of CuPy's is read here."""

    def __init__(self, values: np.ndarray):
        self.values, self.shape, self.strides, self.itemsize, self.nbytes = values, values.shape, values.strides, values.itemsize, values.nbytes
        self.data = types.SimpleNamespace(ptr=values.ctypes.data)


class StandIn(peers_cublaslt.Library):
    """cuBLASLt as its documentation has it: column-major layouts, the first operand transposed where that is set, `count` candidates of which one is refused."""

    def __init__(self, count: int = 3):
        self.things, self.count, self.launched = {}, count, []

    def __call__(self, name, *arguments):
        plain = [argument.value if isinstance(argument, ctypes_value) else argument for argument in arguments]
        getattr(self, name)(*plain)

    def made(self, name, *arguments):
        self.things[len(self.things) + 1] = [name, *(argument.value for argument in arguments)]
        return ctypes.c_void_p(len(self.things))

    def MatmulDescSetAttribute(self, operation, attribute, value, size):
        assert (attribute, value._obj.value, size) == (3, 1, 4)
        self.things[operation].append("transposed")

    def MatmulPreferenceSetAttribute(self, wish, attribute, value, size):
        assert (attribute, size, ctypes.sizeof(value._obj)) == (1, 8, 8)
        self.workspace = value._obj.value

    def MatmulAlgoGetHeuristic(self, handle, operation, a, b, c, d, wish, asked, found, count):
        assert self.things[handle] == ["Create"] and c == d and asked == len(found) == 8 and ctypes.sizeof(found[0]) == 96
        for place in range(self.count):
            found[place].algo[0], found[place].state = place, 15 if place == 1 else 0
        count._obj.value = self.count

    def Matmul(self, handle, operation, one, a_at, a, b_at, b, zero, c_at, c, d_at, d, algo, room, most, stream):
        assert one._obj.value == 1 and zero._obj.value == 0 and (c_at, c) == (d_at, d) and most == self.workspace and stream == 7 and room
        self.launched.append(algo._obj[0])
        left, right, out = (self.matrix(*pair) for pair in ((a_at, a), (b_at, b), (d_at, d)))
        left = left.T if "transposed" in self.things[operation] else left
        out[:] = bf16_bits(bf16_values(left) @ bf16_values(right))

    def matrix(self, at, layout):
        name, kind, rows, columns, pitch = self.things[layout]
        assert name == "MatrixLayoutCreate" and kind == 14
        raw = np.frombuffer((ctypes.c_uint16 * (pitch * columns)).from_address(at), np.uint16)
        return raw.reshape(columns, pitch).T[:rows]


def operands(m=5, n=24, k=16, seed=1):
    rng = np.random.default_rng(seed)
    a, b = (bf16_bits(rng.standard_normal(shape).astype(np.float32)) for shape in ((m, k), (n, k)))
    return a, b, np.zeros((m, n), np.uint16)


@pytest.mark.parametrize("transposed", [True, False])
def test_each_candidate_multiplies_in_its_layout(transposed):
    a, b, c = operands()
    stored = b if transposed else np.ascontiguousarray(b.T)
    library = StandIn()
    runs = peers_cublaslt.candidates(Held(a), Held(stored), Held(c), transposed, Held(np.zeros(64, np.uint8)), library, lambda: 7)
    assert len(runs) == 2 and library.workspace == 64           # the one with a bad state is left out
    for run in runs:
        c[:] = 0x7FC0
        run()
        np.testing.assert_allclose(bf16_values(c), bf16_values(a) @ bf16_values(b).T, rtol=2 ** -7, atol=1e-3)
    assert library.launched == [0, 2]


def test_rows_that_lie_apart_are_told_to_the_library():
    a, b, c = operands()
    wide = np.zeros((len(a), 24), np.uint16)
    wide[:, :16] = a
    apart = Held(wide[:, :16])
    peers_cublaslt.candidates(apart, Held(b), Held(c), True, Held(np.zeros(64, np.uint8)), StandIn(1), lambda: 7)[0]()
    np.testing.assert_allclose(bf16_values(c), bf16_values(a) @ bf16_values(b).T, rtol=2 ** -7, atol=1e-3)


def test_a_launch_keeps_what_it_points_to():
    """The transposed copy of B and the workspace belong to nobody else."""
    arrays = [Held(array) for array in (*operands(), np.zeros(64, np.uint8))]
    left = [weakref.ref(array) for array in arrays]
    runs = peers_cublaslt.candidates(*arrays[:3], True, arrays[3], StandIn(1), lambda: 7)
    del arrays
    gc.collect()
    assert all(array() is not None for array in left)
    del runs
    gc.collect()
    assert all(array() is None for array in left)


def test_the_fastest_that_can_be_launched_is_kept(monkeypatch, capsys):
    def refuses():
        raise RuntimeError("cublasLtMatmul: status 15")
    runs = [lambda: None, refuses, lambda: None]
    monkeypatch.setattr(peers_cublaslt, "interleaved", lambda able, rounds: {name: Sample(({"0": 2.0, "2": 1.0}[name],)) for name in able})
    assert peers_cublaslt.fastest(runs) is runs[2] and "candidate 1: cublasLtMatmul: status 15" in capsys.readouterr().err
    assert peers_cublaslt.fastest([refuses]) is None and peers_cublaslt.fastest([]) is None


def test_a_status_is_an_error_and_a_library_that_is_not_there_is_told(monkeypatch, capsys):
    monkeypatch.setattr(peers_cublaslt, "_opened", lambda names: types.SimpleNamespace(cublasLtCreate=lambda it: 14))
    with pytest.raises(RuntimeError, match="cublasLtCreate: status 14"):
        peers_cublaslt.Library().made("Create")
    monkeypatch.undo()
    with pytest.raises(OSError, match="no-such-library"):
        peers_cublaslt.Library(("no-such-library.so.2", "no-such-library.so.1"))
    cupy = types.ModuleType("cupy")
    cupy.empty, cupy.uint8 = np.empty, np.uint8
    cupy.cuda = types.SimpleNamespace(device=types.SimpleNamespace(get_cublas_handle=lambda: 0))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(peers_cublaslt, "_opened", lambda names: ctypes.CDLL("no-such-library.so"))
    a, b, c = operands()
    assert peers_cublaslt.best(Held(a), Held(b), Held(c), True) is None and "cuBLASLt: no-such-library.so" in capsys.readouterr().err


class Tensor:
    """A tensor with what of PyTorch's is called here."""

    def __init__(self, array):
        self.array = array

    def view(self, dtype):
        return self

    @property
    def T(self):
        return Tensor(self.array.T)


def test_quack_multiplies_and_what_it_does_not_take_is_told(monkeypatch, capsys):
    a, b, c = operands()
    monkeypatch.setitem(sys.modules, "quack", None)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(as_tensor=lambda array, device: Tensor(array), bfloat16="bf16"))
    assert peers.quack_matmul(a, b, c) is None                  # not installed
    calls = []

    def gemm(left, right, out, split_k):
        calls.append(split_k)
        out.array[:] = bf16_bits(bf16_values(left.array) @ bf16_values(right.array)).view(out.array.dtype)
    module = types.ModuleType("quack.gemm_interface")
    module.gemm = gemm
    monkeypatch.setitem(sys.modules, "quack", types.ModuleType("quack"))
    monkeypatch.setitem(sys.modules, "quack.gemm_interface", module)
    monkeypatch.setattr(Tensor, "view", lambda self, dtype: Tensor(self.array.view(np.uint16)))
    run = peers.quack_matmul(a, b, c)
    np.testing.assert_allclose(bf16_values(c), bf16_values(a) @ bf16_values(b).T, rtol=2 ** -7, atol=1e-3)
    c[:] = 0
    run()
    assert c.any() and calls == [None, None]

    def refuses(*arguments, **more):
        raise ValueError("k is odd\nmore")
    module.gemm = refuses
    assert peers.quack_matmul(a, b, c) is None and "quack: ValueError: k is odd\n" in capsys.readouterr().err
