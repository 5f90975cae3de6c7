# SPDX-License-Identifier: Apache-2.0
"""What is checked before a launch, in both places alike."""
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from hopperlab.hopper import limits
from hopperlab.runtime import arguments, launch_attributes
from hopperlab.runtime.errors import LaunchError
from hopperlab.runtime.compile.ptxas import KernelUse
from hopperlab.runtime.compile.signature import Parameter, Signature
from hopperlab.runtime.tensor_map import PointedMap, TensorMap

POINTER, INT, FLOAT = Parameter("p", 8, 8, "u64"), Parameter("n", 4, 4, "u32"), Parameter("x", 4, 4, "f32")
MAP, HALF = Parameter("map", 128, 64, "b8"), Parameter("h", 2, 2, "b8")
PLACES = ("emulator", "gpu")


class FakeCudaArray:
    """As much of a CuPy array as the checks look at."""

    def __init__(self, shape=(4,), strides=None, contiguous=True):
        self.shape, self.dtype, self.strides = shape, np.dtype(np.float32), strides
        self.flags = SimpleNamespace(c_contiguous=contiguous, f_contiguous=contiguous)
        self.__cuda_array_interface__ = {"data": (0x1000, False), "shape": shape, "version": 3}


def array_for(place: str, **kwargs):
    return FakeCudaArray(**kwargs) if place == "gpu" else np.zeros(4, np.float32)


def signature(*parameters: Parameter, **more) -> Signature:
    return Signature("k", parameters, **more)


def launch(grid=(1,), block=(32,), shared_mem=0, use=KernelUse("k"), **more):
    return arguments.check_launch(signature(**more), use, grid, block, shared_mem)


def attributes(grid, asked=None, cooperative=False, block=(32, 1, 1), shared_mem=0, use=KernelUse("k"), **more):
    return launch_attributes.checked(signature(**more), use, grid, block, shared_mem, asked, cooperative)


def check(parameters, args, place="emulator"):
    return arguments.check_arguments(signature(*parameters), args, place)


def test_grid_and_block_become_triples():
    assert launch((2, 3), (4,)) == ((2, 3, 1), (4, 1, 1))
    assert launch(5, np.int64(7)) == ((5, 1, 1), (7, 1, 1))


@pytest.mark.parametrize("grid, block, words", [
    ((0,), (32,), "grid (0, 1, 1) has 0 blocks along x"),
    ((1, 70000), (32,), "70000 blocks along y; 1 to 65535"),
    ((1,), (0,), "0 threads along x"),
    ((1,), (1, 1, 65), "65 threads along z; 1 to 64"),
    ((1,), (-5,), "-5 threads"),
    ((1,), (32, 33), "1056 threads; a block holds at most 1024"),
    ((1.5,), (32,), "grid must be a tuple of one to three whole numbers"),
    ((1, 1, 1, 1), (32,), "one to three numbers, not 4"),
    ((), (32,), "one to three numbers, not 0"),
    (None, (32,), "not None"),
])
def test_impossible_shapes(grid, block, words):
    with pytest.raises(LaunchError) as caught:
        launch(grid, block)
    assert words in str(caught.value)


def test_more_threads_than_the_launch_bounds():
    with pytest.raises(LaunchError, match=r"256 threads, but its __launch_bounds__ allow 128"):
        launch(block=(256,), max_threads=128)
    assert launch(block=(128,), max_threads=128)


def test_a_block_size_the_kernel_was_not_compiled_for():
    with pytest.raises(LaunchError, match=r"exactly \(128, 1, 1\)"):
        launch(block=(64,), required_block=(128, 1, 1))


def test_a_grid_that_splits_a_cluster():
    with pytest.raises(LaunchError, match=r"not a multiple of its cluster \(2, 1, 1\)"):
        attributes((3, 1, 1), cluster=(2, 1, 1))
    assert attributes((4, 1, 1), cluster=(2, 1, 1)).plain


def test_more_registers_than_a_multiprocessor_has():
    with pytest.raises(LaunchError, match=r"1024 threads of 168 registers need 172032 registers"):
        launch(block=(1024,), use=KernelUse("k", registers=168))
    assert launch(block=(384,), use=KernelUse("k", registers=168))


@pytest.mark.parametrize("static, dynamic, fits", [
    (0, limits.SHARED_PER_BLOCK, True), (0, limits.SHARED_PER_BLOCK + 1, False), (1024, limits.SHARED_PER_BLOCK, False)])
def test_shared_memory_ends_at_227_kib(static, dynamic, fits):
    use = KernelUse("k", static_shared=static)
    if fits:
        launch(shared_mem=dynamic, use=use)
    else:
        with pytest.raises(LaunchError, match="a block has at most 232448"):
            launch(shared_mem=dynamic, use=use)


@pytest.mark.parametrize("amount, words", [(-1, "cannot be negative"), (1.5, "whole number of bytes")])
def test_nonsense_amounts_of_shared_memory(amount, words):
    with pytest.raises(LaunchError, match=words):
        launch(shared_mem=amount)


@pytest.mark.parametrize("args, words", [((), "takes 2 arguments, 0 given. It takes: 8 bytes (.u64), 4 bytes (.u32)"),
                                         ((1,), "1 given"), ((1, 2, 3), "3 given")])
def test_a_wrong_number_of_arguments(args, words):
    with pytest.raises(LaunchError) as caught:
        check((POINTER, INT), args)
    assert words in str(caught.value)


def test_arguments_without_a_tuple():
    with pytest.raises(LaunchError, match=r"write \(a,\)"):
        check((POINTER,), np.zeros(3))


@pytest.mark.parametrize("parameter, value, words", [
    (INT, 5, "is a Python int (sent as int64) of 8 bytes, but the parameter is 4 bytes (.u32). Write np.int32(5)"),
    (INT, np.int64(5), "is int64 of 8 bytes, but the parameter is 4 bytes (.u32). Write np.int32(5)"),
    (FLOAT, 2.5, "Python float (sent as float64) of 8 bytes, but the parameter is 4 bytes (.f32). Write np.float32(2.5)"),
    (FLOAT, np.int32(5), "int32, but the parameter is a floating-point number (.f32). Write np.float32(5)"),
    (INT, np.float32(5), "float32, but the parameter is a whole number (.u32). Write np.int32(5.0)"),
    (POINTER, np.int32(5), "int32 of 4 bytes, but the parameter is 8 bytes (.u64)"),
    (MAP, np.int32(5), "but the parameter is a 128-byte structure passed by value"),
    (HALF, np.float32(5), "a 2-byte structure passed by value"),
    (INT, True, "Python bool (sent as bool) of 1 byte, but"),
    (INT, "five", "is a str; kernels take arrays, NumPy scalars"),
    (INT, [5], "is a list; kernels take"),
    (INT, None, "is None, but the parameter is 4 bytes (.u32)"),
    (POINTER, None, "is None, and the null pointer is np.uint64(0)"),
])
@pytest.mark.parametrize("place", PLACES)
def test_a_scalar_that_is_not_the_parameters(place, parameter, value, words):
    with pytest.raises(LaunchError) as caught:
        check((parameter,), (value,), place)
    assert words in str(caught.value) and str(caught.value).startswith("k, argument 1 is")


@pytest.mark.parametrize("parameter, value", [
    (INT, np.int32(-5)), (INT, np.uint32(5)), (FLOAT, np.float32(1)), (POINTER, 5), (POINTER, 2**63 + 1), (POINTER, np.uint64(7)),
    (HALF, ml_dtypes.bfloat16(1)), (HALF, np.float16(1)), (MAP, np.zeros((), "V128")[()]),
])
def test_scalars_that_fit(parameter, value):
    passed, = check((parameter,), (value,))
    assert passed.dtype.itemsize == parameter.size


def test_a_number_that_fits_in_no_parameter():
    with pytest.raises(LaunchError, match="does not fit in 8 bytes"):
        check((POINTER,), (2**70,))


@pytest.mark.parametrize("place", PLACES)
def test_arrays_of_this_place_pass(place):
    array = array_for(place)
    assert check((POINTER,), (array,), place) == [array]


@pytest.mark.parametrize("place, other, words", [
    ("gpu", "emulator", "an array of host memory (NumPy), but the kernel runs on the GPU"),
    ("emulator", "gpu", "an array of the GPU, but the kernel runs in the emulator")])
def test_arrays_of_the_other_place(place, other, words):
    with pytest.raises(LaunchError) as caught:
        check((POINTER,), (array_for(other),), place)
    assert words in str(caught.value) and "hl.array_module()" in str(caught.value)


def test_views_with_gaps():
    with pytest.raises(LaunchError, match=r"a view with gaps \(shape \(4, 2\), strides \(16, 8\) bytes\)"):
        check((POINTER,), (np.zeros((4, 4), np.float32)[:, ::2],))
    with pytest.raises(LaunchError, match="a view with gaps"):
        check((POINTER,), (FakeCudaArray((4, 2), (16, 8), contiguous=False),), "gpu")


def test_contiguous_views_pass():
    base = np.zeros((4, 4), np.float32)
    check((POINTER, POINTER), (base[1:], base.T))


@pytest.mark.parametrize("dtype", [object, ">f4"])
def test_dtypes_no_kernel_can_read(dtype):
    with pytest.raises(LaunchError, match="which a kernel cannot read"):
        check((POINTER,), (np.zeros(4, dtype),))


@pytest.mark.parametrize("parameter", [INT, MAP])
def test_an_array_for_a_parameter_that_is_no_pointer(parameter):
    with pytest.raises(LaunchError, match="so a pointer of 8 bytes"):
        check((parameter,), (np.zeros(4),))


def test_tensor_maps():
    tensor_map = TensorMap.tiled(np.zeros((64, 64), np.float32), box=(8, 8))
    assert check((MAP,), (tensor_map,)) == [tensor_map]
    with pytest.raises(LaunchError, match="__grid_constant__ TensorMap"):
        check((INT,), (tensor_map,))
    (pointed,) = check((POINTER,), (tensor_map,))
    assert isinstance(pointed, PointedMap) and bytes(pointed) == bytes(tensor_map) and pointed.array is tensor_map.array
    with pytest.raises(LaunchError, match="a tensor map of host memory"):
        check((MAP,), (tensor_map,), "gpu")
