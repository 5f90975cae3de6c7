# SPDX-License-Identifier: Apache-2.0
"""One array module for both places: CuPy on the GPU, NumPy with device addresses in the emulator.

In the emulator, arrays made through `array_module()` are NumPy arrays whose `.data.ptr` is the synthetic device address
that kernels see, so that tables of pointers work as in CuPy. Plain NumPy arrays are arguments as well.
"""
from __future__ import annotations

import types
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeAlias

import numpy as np

from . import pending
from .backend import backend as choose


Array: TypeAlias = Any
"""An array of either place: numpy.ndarray in the emulator, cupy.ndarray on the GPU (CuPy need not be installed)."""


class DevicePointer:
    """What `array.data` is in the emulator: `ptr` is the device address, as `cupy.ndarray.data.ptr`."""

    def __init__(self, array: np.ndarray):
        self._array = array

    @property
    def ptr(self) -> int:
        """Device address of the array's first element; its base buffer is 512-byte aligned."""
        return address_of(self._array)

    def __repr__(self) -> str:
        return f"<device pointer {self.ptr:#x}>"


class DeviceArray(np.ndarray):
    """A NumPy array with CuPy's `.data.ptr`, `.get()` and `.set()`. Views share its address range."""

    @property
    def data(self) -> DevicePointer:  # type: ignore[override]  # as cupy.ndarray.data, which is no memoryview
        """The device pointer (NumPy's memoryview of the same name is `memoryview(array)`)."""
        return DevicePointer(self)

    def data_ptr(self) -> int:
        """The device address, by PyTorch's name: Triton's TensorDescriptor asks for it."""
        return address_of(self)

    def get(self) -> np.ndarray:
        """A copy as a plain NumPy array (CuPy: a copy to the host), once the current stream's work is over."""
        pending.host_uses(self)
        return np.array(self.view(np.ndarray))

    def set(self, values: np.ndarray) -> None:
        """Overwrite the contents (CuPy: a copy from the host), once the current stream's work is over."""
        pending.host_uses(self, writes=True)
        self[...] = values


class _AnyArray(type):
    """Of `xp.ndarray` every NumPy array is an instance."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, np.ndarray)


class ndarray(DeviceArray, metaclass=_AnyArray):
    """What `xp.ndarray` is in the emulator: makes arrays as CuPy's does, also over the memory of `RawModule.get_global`."""

    def __new__(cls, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: Any = "C") -> DeviceArray:  # type: ignore[misc]
        """memptr: what `get_global` gave; None makes new memory."""
        return np.ndarray.__new__(DeviceArray, shape, dtype, memptr, 0, strides, order)


def address_of(array: np.ndarray, name: str | None = None) -> int:
    """Synthetic device address of a NumPy array's first element; its base buffer becomes known to the emulator.

    name: what the emulator's messages call the buffer from now on.
    """
    from ..emulator.machine import memory
    return memory.default().address_of(array, name)


def base_of(array: Array) -> Array:
    """The array (NumPy or CuPy) that owns the memory `array` looks at: itself, unless it is a view."""
    while (base := getattr(array, "base", None)) is not None:
        owner = base if hasattr(base, "dtype") else getattr(base, "base", None)     # as_strided puts an object between
        if not hasattr(owner, "dtype"):
            break
        array = owner
    return array


def overreach(array: np.ndarray) -> str:
    """Where a NumPy view (of as_strided) reaches outside the array that it looks at, in words; empty for every other view."""
    low, high = np.lib.array_utils.byte_bounds(array)
    first, end = np.lib.array_utils.byte_bounds(base_of(array))
    if low >= first and high <= end:
        return ""
    parts = ([f"{first - low} bytes before the beginning"] if low < first else []) + ([f"{high - end} bytes past the end"] if high > end else [])
    return f"reaches {' and '.join(parts)} of the array that it is a view of (shape {array.shape}, strides {array.strides} bytes)"


class EmulatorArrays(types.ModuleType):
    """NumPy, with every array a function returns seen as a DeviceArray. Stands where `cupy` stands on the GPU."""

    def __init__(self, name: str, wrapped: types.ModuleType):
        super().__init__(name, f"{wrapped.__name__} with device addresses, for kernels in the emulator")
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        value = ndarray if name == "ndarray" else getattr(self._wrapped, name)
        if isinstance(value, types.ModuleType):
            value = EmulatorArrays(f"{self.__name__}.{name}", value)
        elif callable(value) and not isinstance(value, (type, np.ufunc)):
            value = _returning_device_arrays(value)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return dir(self._wrapped)

    @staticmethod
    def asnumpy(array: Array) -> np.ndarray:
        """The array as plain NumPy (cupy.asnumpy), once the current stream's work is over."""
        return asnumpy(array)

    @staticmethod
    def get_array_module(*_arrays: Array) -> types.ModuleType:
        """The module itself (cupy.get_array_module)."""
        return _emulator_module()


def _returning_device_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if type(result) is np.ndarray:
            return result.view(DeviceArray)
        return result
    return call


@lru_cache(maxsize=1)
def _emulator_module() -> EmulatorArrays:
    return EmulatorArrays("numpy", np)


def array_module(backend: str | None = None) -> Any:
    """`cupy` on the GPU, a NumPy that knows device addresses in the emulator.

    backend: None takes this process's place; 'gpu' or 'emulator' asks for one. Both modules have `asnumpy`.
    """
    if choose(backend) == "gpu":
        import cupy
        return cupy
    return _emulator_module()


def is_cuda_array(value: object) -> bool:
    """True for CuPy arrays and whatever else lives on a GPU and says so (`__cuda_array_interface__`)."""
    return hasattr(value, "__cuda_array_interface__")


def asnumpy(array: Array) -> np.ndarray:
    """The values of an array of either place as a plain NumPy array (a copy where they lie on the GPU)."""
    if is_cuda_array(array):
        import cupy
        copied: np.ndarray = cupy.asnumpy(array)
        return copied
    host: np.ndarray = np.asarray(array).view(np.ndarray)
    pending.host_uses(host)
    return host


def synchronize(backend: str | None = None) -> None:
    """Wait until the GPU has finished (all of `hl.devices`, and launches on all streams), and raise what a kernel did wrong."""
    pending.synchronise()
    if choose(backend) == "gpu":
        from .gpu.cuda_errors import synchronize as wait
        wait(pending.devices_opened())
