# SPDX-License-Identifier: Apache-2.0
"""RawModule.get_global, tensor maps that kernels take by address, and views with strides of their own."""
import ctypes

import numpy as np
import pytest
from support.patience import PATIENCE

import hopperlab as hl
from hopperlab.runtime import variables
from hopperlab.runtime.arrays import base_of, overreach
from hopperlab.runtime.errors import LaunchError, VariableNotFound
from hopperlab.runtime.workers import isolated

CODE = """
#include <hopperlab/tma.cuh>
__constant__ float factor[4];
__device__ int counter = 5;
__device__ double unused;
namespace inner { __constant__ int deep = 3; }
__constant__ TensorMap map;
extern "C" __global__ void scale(const float* x, float* y) {
    y[threadIdx.x] = x[threadIdx.x] * factor[threadIdx.x % 4] + inner::deep;
    if (threadIdx.x == 0) counter += 1;
}
__device__ void box(const TensorMap* m, float* y) {
    __shared__ __align__(128) float tile[256];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_arrive_expect_tx(&full, 1024);
        cp_async_bulk_tensor_2d_load(tile, m, &full, 8, 4);
    }
    __syncthreads();
    mbarrier_wait_parity(&full, 0);
    for (int i = threadIdx.x; i < 256; i += blockDim.x) y[i] = tile[i];
}
extern "C" __global__ void constant_map(float* y) { box(&map, y); }
extern "C" __global__ void pointed_map(const TensorMap* m, float* y) { box(m, y); }
extern "C" __global__ void changes_map(TensorMap* m) { m->words[threadIdx.x] = 0; }
"""


@pytest.fixture
def module():
    return hl.RawModule(code=CODE, backend="emulator", name="variables.cu", name_expressions=("&inner::deep",))


def test_constants_are_set_and_variables_read_as_with_cupy(module):
    xp = hl.array_module("emulator")
    pointer = module.get_global("factor")
    values = xp.ndarray((4,), xp.float32, pointer)
    values[...] = xp.array([1, 2, 3, 4], xp.float32)
    counter = xp.ndarray((1,), xp.int32, memptr=module.get_global("counter"))
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    for _ in range(2):
        module.get_function("scale")((1,), (8,), (x, y))
    assert y.tolist() == [4, 5, 6, 7] * 2 and counter[0] == 7
    assert pointer.ptr == values.data.ptr and pointer.ptr % 4 == 0 and isinstance(values, xp.ndarray) and isinstance(np.zeros(2), xp.ndarray)


def test_pointers_move_and_copy_as_cupys(module):
    pointer = module.get_global("factor")
    data = np.array([5, 6], np.float32)
    (pointer + 8).copy_from_host(ctypes.c_void_p(data.ctypes.data), 8)
    pointer.copy_from(data.ctypes.data, 8)
    back = np.zeros(4, np.float32)
    pointer.copy_to_host(back.ctypes.data, 16)
    assert back.tolist() == [5, 6, 5, 6] and (pointer + 8).ptr == pointer.ptr + 8 and int(pointer) == pointer.ptr
    pointer.copy_from(pointer + 8, 8)
    pointer.memset(0, 16)
    assert not pointer.any() and "16 bytes" in repr(pointer)
    with pytest.raises(ValueError, match="20 bytes, but the variable has 16 from here on"):
        pointer.memset(0, 20)


def test_names_and_what_is_said_of_those_that_are_missing(module):
    xp = hl.array_module("emulator")
    assert xp.ndarray((1,), np.int32, module.get_global("&inner::deep"))[0] == 3
    with pytest.raises(VariableNotFound, match="variables.cu has no variable 'nothing'; it has: "):
        module.get_global("nothing")
    with pytest.raises(VariableNotFound, match=r'no kernel uses is left out by the compiler.*name_expressions=\("&deep",\)'):
        module.get_global("deep")
    text = (".version 8.0\n.target sm_90a\n.address_size 64\n.const .align 4 .b8 c[16];\n.visible .global .align 8 .u64 g = 5;\n.extern .shared .b8 "
            "s[];\n.global .f32 plain;\n")
    assert variables.names(text) == ["c", "g", "plain"]
    foreign = hl.RawModule(ptx=text, backend="emulator")
    assert xp.ndarray((1,), np.uint64, foreign.get_global("g"))[0] == 5
    with pytest.raises(TypeError, match="buffer is too small"):
        xp.ndarray((3,), np.uint64, foreign.get_global("g"))


@pytest.mark.usefixtures("own_memory")
def test_a_constant_tensor_map_and_one_by_address(module):
    x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    tensor_map = hl.TensorMap.tiled(x, box=(16, 16))
    xp, y = hl.array_module("emulator"), np.zeros(256, np.float32)
    xp.ndarray((128,), xp.uint8, module.get_global("map"))[...] = np.frombuffer(bytes(tensor_map), np.uint8)
    module.get_function("constant_map")((1,), (64,), (y,))
    assert (y.reshape(16, 16) == x[4:20, 8:24]).all()
    y[:] = 0
    report = hl.explore(lambda: module.get_function("pointed_map")((1,), (64,), (tensor_map, y)), seeds=2)
    assert report.clean and (y.reshape(16, 16) == x[4:20, 8:24]).all()
    y[:] = 0
    isolated.run_isolated(hl.RawModule(code=CODE, backend="emulator").get_function("pointed_map"), (1,), (64,), (tensor_map, y), timeout=60 * PATIENCE)
    assert (y.reshape(16, 16) == x[4:20, 8:24]).all()


def test_the_copy_of_a_map_is_not_written(module):
    tensor_map = hl.TensorMap.tiled(np.zeros((64, 64), np.float32), box=(16, 16))
    with pytest.raises(hl.MemoryFault, match="the device's copy of argument 1, a tensor map is read-only"):
        module.get_function("changes_map")((1,), (16,), (tensor_map,))


def test_variables_do_not_travel_to_another_process(module):
    module.get_global("factor")
    with pytest.raises(LaunchError, match="does not travel to another process"):
        hl.run_isolated(module.get_function("scale"), (1,), (8,), (np.ones(8, np.float32), np.ones(8, np.float32)))


def strided(array, shape, strides):
    return np.lib.stride_tricks.as_strided(array, shape, strides)


def test_views_of_as_strided_share_the_address_range_of_their_base():
    x = np.arange(4096, dtype=np.float32)
    view = strided(x[8:], (16, 16), (64, 4))
    assert base_of(view) is x and not overreach(view)
    xp = hl.array_module("emulator")
    assert xp.asarray(view).data.ptr == xp.asarray(x).data.ptr + 32
    windows = np.lib.stride_tricks.sliding_window_view(x[:256], 16)
    assert base_of(windows) is x


def test_tensor_maps_over_overlapping_windows():
    """An image whose rows overlap: each row of the map begins 16 bytes after the one before."""
    x = np.arange(1024, dtype=np.float32)
    windows = strided(x, (64, 64), (16, 4))
    y = np.zeros(256, np.float32)
    hl.RawModule(code=CODE, backend="emulator").get_function("pointed_map")((1,), (64,), (hl.TensorMap.tiled(windows, box=(16, 16)), y))
    assert (y.reshape(16, 16) == windows[4:20, 8:24]).all()


KERNEL = 'extern "C" __global__ void twice(float* a) { a[threadIdx.x] *= 2; }'


def test_contiguous_views_are_arguments_and_others_are_refused():
    kernel = hl.RawModule(code=KERNEL, backend="emulator").get_function("twice")
    x = np.ones(64, np.float32)
    kernel((1,), (16,), (strided(x[8:], (4, 4), (16, 4)),))
    assert x.sum() == 64 + 16 and (x[8:24] == 2).all()
    for view in (strided(x, (4, 4), (4, 4)), x[::2], x[::-1], np.broadcast_to(x[:1], 16), np.lib.stride_tricks.sliding_window_view(x, 4)):
        with pytest.raises(LaunchError, match="is a view with gaps"):
            kernel((1,), (4,), (view,))
    with pytest.raises(LaunchError, match="reaches 64 bytes past the end of the array that it is a view of"):
        kernel((1,), (4,), (strided(x[48:], (32,), (4,)),))
    with pytest.raises(hl.TensorMapError, match="reaches 256 bytes past the end"):
        hl.TensorMap.tiled(strided(x, (2, 64), (256, 4)), box=(1, 64))


def test_an_array_with_gaps_over_foreign_memory_can_be_described():
    raw = bytearray(4096)
    x = np.ndarray((16, 16), np.float32, raw, 0, (128, 4))
    x[...] = np.arange(256).reshape(16, 16)
    y = np.zeros(256, np.float32)
    hl.RawModule(code=CODE.replace("&full, 8, 4", "&full, 0, 0"), backend="emulator").get_function("pointed_map")((1,), (64,), (hl.TensorMap.tiled(x, box=(16, 16)), y))
    assert (y.reshape(16, 16) == x).all()
