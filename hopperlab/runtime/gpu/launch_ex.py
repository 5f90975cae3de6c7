# SPDX-License-Identifier: Apache-2.0
"""Launches that CuPy's call cannot make: cuLaunchKernelEx with attributes, on a CuPy kernel and CuPy's stream.

[CUDA Driver API, cuLaunchKernelEx, CUlaunchAttribute, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED]
"""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays import is_cuda_array
from ..errors import GpuError
from ..launch_attributes import LaunchAttributes
from .cuda_errors import explain


def allow_non_portable(kernel: Any, name: str) -> None:
    """Let a cupy.RawKernel be launched in clusters of more than 8 CTAs."""
    from cuda.bindings import driver
    _told(f"{name}: clusters of more than 8 CTAs",
          driver.cuFuncSetAttribute(driver.CUfunction(kernel.kernel.ptr), driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1))


def launch(kernel: Any, name: str, grid: tuple[int, ...], block: tuple[int, ...], args: Sequence[Any], shared_mem: int, stream: Any,
           attributes: LaunchAttributes) -> None:
    """Launch a cupy.RawKernel with attributes. args: CuPy arrays and NumPy scalars. stream: a cupy.cuda.Stream, or None for CuPy's current one."""
    prepared(kernel, name, grid, block, args, shared_mem, stream, attributes)()


def prepared(kernel: Any, name: str, grid: tuple[int, ...], block: tuple[int, ...], args: Sequence[Any], shared_mem: int, stream: Any,
             attributes: LaunchAttributes) -> Callable[[], None]:
    """The same launch, to be made again and again: the driver's structures are built once. The stream is chosen now."""
    import cupy
    from cuda.bindings import driver
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = (*grid, 1, 1)[:3]
    config.blockDimX, config.blockDimY, config.blockDimZ = (*block, 1, 1)[:3]
    config.sharedMemBytes = shared_mem
    config.hStream = driver.CUstream((stream if stream is not None else cupy.cuda.get_current_stream()).ptr)
    config.attrs = _attributes(driver, attributes)
    config.numAttrs = len(config.attrs)
    held = [_bytes(value) for value in args]
    pointers = (ctypes.c_void_p * max(len(held), 1))(*(ctypes.addressof(value) for value in held))
    function, address = driver.CUfunction(kernel.kernel.ptr), ctypes.addressof(pointers)

    def run(_held: object = (held, pointers, args)) -> None:
        _told(name, driver.cuLaunchKernelEx(config, function, address, 0))
    return run


def most_clusters(kernel: Any, name: str, size: int, threads: int, shared_mem: int) -> int:
    """How many clusters of `size` CTAs of `threads` threads the GPU holds at a time. Raises GpuError. [CUDA Driver API, cuOccupancyMaxActiveClusters]"""
    from cuda.bindings import driver
    if shared_mem > kernel.max_dynamic_shared_size_bytes:
        kernel.max_dynamic_shared_size_bytes = shared_mem
    if size > 8:
        allow_non_portable(kernel, name)
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = size, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
    config.sharedMemBytes = shared_mem
    config.attrs = _attributes(driver, LaunchAttributes(cluster=(size, 1, 1)))
    config.numAttrs = len(config.attrs)
    answer = driver.cuOccupancyMaxActiveClusters(driver.CUfunction(kernel.kernel.ptr), config)
    _told(f"{name}: clusters of {size}", answer)
    return int(answer[1])


def _attributes(driver: Any, attributes: LaunchAttributes) -> list[Any]:
    """The driver's list of attributes."""
    listed = []
    if attributes.dependent:
        dependent = driver.CUlaunchAttribute()
        dependent.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        dependent.value.programmaticStreamSerializationAllowed = 1
        listed.append(dependent)
    if attributes.cluster is not None:
        cluster = driver.CUlaunchAttribute()
        cluster.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        shape = cluster.value.clusterDim
        shape.x, shape.y, shape.z = attributes.cluster
        listed.append(cluster)
    if attributes.cooperative:
        cooperative = driver.CUlaunchAttribute()
        cooperative.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        cooperative.value.cooperative = 1
        listed.append(cooperative)
    return listed


def _bytes(value: Any) -> Any:
    """One parameter as the driver copies it: the address of an array, or the bytes of a scalar."""
    if is_cuda_array(value):
        return ctypes.c_uint64(int(value.__cuda_array_interface__["data"][0]))
    scalar: np.generic = value
    return ctypes.create_string_buffer(scalar.tobytes(), scalar.dtype.itemsize)


def _told(what: str, answer: tuple[Any, ...]) -> None:
    """Raise GpuError for what the driver refuses."""
    status = answer[0]
    if status.value:
        raise GpuError(explain(what, status.name))
