"""One array module for both places: CuPy on the GPU, NumPy with device addresses in the emulator.

In the emulator, arrays made through `array_module()` are NumPy arrays whose `.data.ptr` is the synthetic device address
that kernels see, so that tables of pointers work as in CuPy. Plain NumPy arrays are arguments as well.
"""
from __future__ import annotations

import types
from functools import lru_cache, wraps

import numpy as np

from .backend import backend as choose


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
    def data(self) -> DevicePointer:
        """The device pointer (NumPy's memoryview of the same name is `memoryview(array)`)."""
        return DevicePointer(self)

    def get(self) -> np.ndarray:
        """A copy as a plain NumPy array (CuPy: a copy to the host)."""
        return np.array(self.view(np.ndarray))

    def set(self, values: np.ndarray) -> None:
        """Overwrite the contents (CuPy: a copy from the host)."""
        self[...] = values


def address_of(array: np.ndarray, name: str | None = None) -> int:
    """Synthetic device address of a NumPy array's first element; its base buffer becomes known to the emulator.

    name: what the emulator's messages call the buffer from now on.
    """
    from ..emulator import memory
    return memory.default().address_of(array, name)


def base_of(array):
    """The array (NumPy or CuPy) that owns the memory `array` looks at: itself, unless it is a view."""
    while getattr(array, "base", None) is not None and hasattr(array.base, "dtype"):
        array = array.base
    return array


class EmulatorArrays(types.ModuleType):
    """NumPy, with every array a function returns seen as a DeviceArray. Stands where `cupy` stands on the GPU."""

    def __init__(self, name: str, wrapped: types.ModuleType):
        super().__init__(name, f"{wrapped.__name__} with device addresses, for kernels in the emulator")
        self._wrapped = wrapped

    def __getattr__(self, name: str):
        value = getattr(self._wrapped, name)
        if isinstance(value, types.ModuleType):
            value = EmulatorArrays(f"{self.__name__}.{name}", value)
        elif callable(value) and not isinstance(value, (type, np.ufunc)):
            value = _returning_device_arrays(value)
        setattr(self, name, value)
        return value

    def __dir__(self):
        return dir(self._wrapped)

    @staticmethod
    def asnumpy(array) -> np.ndarray:
        """The array as plain NumPy (cupy.asnumpy)."""
        return np.asarray(array).view(np.ndarray)

    @staticmethod
    def get_array_module(*_arrays) -> types.ModuleType:
        """The module itself (cupy.get_array_module)."""
        return array_module("emulator")


def _returning_device_arrays(function):
    @wraps(function)
    def call(*args, **kwargs):
        result = function(*args, **kwargs)
        if type(result) is np.ndarray:
            return result.view(DeviceArray)
        return result
    return call


@lru_cache(maxsize=1)
def _emulator_module() -> EmulatorArrays:
    return EmulatorArrays("numpy", np)


def array_module(backend: str | None = None):
    """`cupy` on the GPU, a NumPy that knows device addresses in the emulator.

    backend: None takes this process's place; 'gpu' or 'emulator' asks for one. Both modules have `asnumpy`.
    """
    if choose(backend) == "gpu":
        import cupy
        return cupy
    return _emulator_module()


def is_cuda_array(value) -> bool:
    """True for CuPy arrays and whatever else lives on a GPU and says so (`__cuda_array_interface__`)."""
    return hasattr(value, "__cuda_array_interface__")


def asnumpy(array) -> np.ndarray:
    """The values of an array of either place as a plain NumPy array (a copy where they lie on the GPU)."""
    if is_cuda_array(array):
        import cupy
        return cupy.asnumpy(array)
    return np.asarray(array).view(np.ndarray)


def synchronize(backend: str | None = None) -> None:
    """Wait until the GPU has finished, and raise what a kernel did wrong. Returns at once in the emulator."""
    if choose(backend) == "gpu":
        from .gpu import synchronize as wait
        wait()
