# SPDX-License-Identifier: Apache-2.0
"""Launching CuPy arrays in the emulator, with a stand-in for CuPy: mirrors go in, results come back."""
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.hopper import tensormap
from hopperlab.runtime import emulated
from hopperlab.runtime.tensor_map import TensorMap

START = 0x7F00_0000_0000


class DeviceArray:
    """As much of cupy.ndarray as mirrors use; the 'device' is another NumPy array."""

    def __init__(self, memory: np.ndarray, base=None):
        self.memory, self.base = memory, base
        self.shape, self.strides, self.dtype, self.flags = memory.shape, memory.strides, memory.dtype, memory.flags

    @property
    def data(self):
        root = self.base if self.base is not None else self
        return SimpleNamespace(ptr=START + id(root) * 512 + self._offset())

    def _offset(self) -> int:
        root = self.base if self.base is not None else self
        return self.memory.__array_interface__["data"][0] - root.memory.__array_interface__["data"][0]

    @property
    def __cuda_array_interface__(self):
        return {"data": (self.data.ptr, False), "shape": self.shape, "version": 3}

    def __getitem__(self, key):
        return DeviceArray(self.memory[key], self.base or self)

    def set(self, values):
        self.memory[...] = values


@pytest.fixture(autouse=True)
def fake_cupy(monkeypatch):
    module = SimpleNamespace(asarray=lambda a: a, asnumpy=lambda a: np.array(a.memory), ndarray=DeviceArray)
    monkeypatch.setitem(sys.modules, "cupy", module)


def launch(code: str, name: str, block: int, *args, shared_mem: int = 0) -> None:
    module = hl.RawModule(code=code, backend="emulator", name="mirror.cu")
    emulated.launch(module.program, name, (1, 1, 1), (block, 1, 1), args, shared_mem)


SHIFT = 'extern "C" __global__ void shift(const int* from, int* to, int by) { to[threadIdx.x] = from[threadIdx.x] + by; }'


def test_arrays_are_mirrored_and_copied_back():
    one, two = DeviceArray(np.arange(8, dtype=np.int32)), DeviceArray(np.zeros(8, np.int32))
    launch(SHIFT, "shift", 8, one, two, np.int32(5))
    assert two.memory.tolist() == list(range(5, 13)) and one.memory.tolist() == list(range(8))


def test_views_of_one_array_share_its_mirror():
    base = DeviceArray(np.arange(8, dtype=np.int32))
    launch(SHIFT, "shift", 4, base[:4], base[4:], np.int32(0))
    assert base.memory.tolist() == [0, 1, 2, 3] * 2


def test_results_come_back_from_a_launch_that_failed():
    one, two = DeviceArray(np.arange(8, dtype=np.int32)), DeviceArray(np.zeros(4, np.int32))
    with pytest.raises(hl.MemoryFault):
        launch(SHIFT, "shift", 8, one, two, np.int32(0))


def test_a_map_of_a_device_array_is_moved_to_its_mirror():
    array = DeviceArray(np.zeros((64, 64), np.float32))
    made = object.__new__(TensorMap)
    made.fields = tensormap.TensorMapFields("float32", 2, array[2:].data.ptr, (64, 62), (256,), (16, 4))
    made.array, made.place = array[2:], "gpu"
    mirrors = emulated.Mirrors()
    moved = tensormap.unpack(mirrors.pack(made, "argument 1"))
    base = int.from_bytes(mirrors.pack(array, "argument 2"), "little")
    assert moved.global_address == base + 2 * 256 and moved.global_dim == (64, 62)
