# SPDX-License-Identifier: Apache-2.0
"""What NVIDIA driver and GPU this machine has, asked of the driver library alone: no CUDA context, no package needed.

Run as a script it prints the CuPy extra that fits: 'cuda13', 'cuda12', or nothing. `make` uses that before anything is
installed, so this file imports the standard library only.
"""
from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from functools import lru_cache

_MAJOR, _MINOR = 75, 76         # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
_MULTIPROCESSORS = 16


@dataclass(frozen=True)
class Gpu:
    """The GPU that kernels would run on, and the newest CUDA version its driver knows, such as (13, 0)."""

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    driver_cuda: tuple[int, int]


@lru_cache(maxsize=1)
def find_gpu() -> Gpu | None:
    """The first GPU the driver shows, or None without a driver or a GPU."""
    library = _load()
    if library is None or library.cuInit(0):
        return None
    count, device, version = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if library.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return None
    library.cuDeviceGet(ctypes.byref(device), 0)
    library.cuDriverGetVersion(ctypes.byref(version))
    name = ctypes.create_string_buffer(100)
    library.cuDeviceGetName(name, len(name), device)
    return Gpu(name.value.decode(), (_attribute(library, device, _MAJOR), _attribute(library, device, _MINOR)),
               _attribute(library, device, _MULTIPROCESSORS), (version.value // 1000, version.value % 1000 // 10))


def _load() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return None


def _attribute(library: ctypes.CDLL, device: ctypes.c_int, which: int) -> int:
    value = ctypes.c_int()
    library.cuDeviceGetAttribute(ctypes.byref(value), which, device)
    return value.value


def extra_for(gpu: Gpu | None) -> str:
    """The extra of pyproject.toml that brings a fitting CuPy: 'cuda13', 'cuda12' or ''."""
    if gpu is None or gpu.driver_cuda < (12, 0):
        return ""
    return "cuda13" if gpu.driver_cuda >= (13, 0) else "cuda12"


if __name__ == "__main__":
    print(extra_for(find_gpu()))
