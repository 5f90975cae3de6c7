# SPDX-License-Identifier: Apache-2.0
"""A launch once more on the GPU: the same kernel, on what it was given, wherever it ran first.

`OnGpu` makes a launch that `watching` has shown again on the GPU, and `apart` says how far two results are from one another.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...hopper import tensormap_image
from .. import arguments
from ..arrays import Array, asnumpy, base_of
from ..tensor_map import TensorMap
from ..watching import Seen, passed_array
from . import cuda_errors, launch


def holds_addresses(array: Array) -> bool:
    """True when 8-byte integers of a NumPy array are device addresses of the emulator: such a table means nothing on the GPU."""
    from ...emulator.machine import memory
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "ui" or array.itemsize != 8:
        return False
    return any(memory.default().find(int(value)) is not None for value in np.unique(array[array >= memory.FIRST_ADDRESS])[:64])


def _bytes_on_gpu(array: Array) -> Array:
    """A copy of an array's bytes on the GPU."""
    import cupy
    return cupy.asarray(np.ascontiguousarray(array).view(np.uint8).reshape(-1)) if isinstance(array, np.ndarray) else array.copy()


class OnGpu:
    """A seen launch again, on the GPU: on copies of NumPy arrays, on CuPy arrays themselves.

    `restore()` puts back what the arrays held before the launch; calling it launches, without waiting; `after()` waits and gives each base array's
    bytes, in the order of `seen.arrays`; `left` has them as the seen launch left them; `close()` puts those back into CuPy arrays.
    Raises GpuError when the driver refuses the kernel or a map.
    """

    def __init__(self, seen: Seen):
        self._seen = seen
        self._before = {key: _bytes_on_gpu(held) for key, held in seen.before.items()}
        self._now = {id(base): _bytes_on_gpu(seen.before[id(base)]) if isinstance(base, np.ndarray) else base for base in seen.arrays}
        self.left: list[np.ndarray] = [base if isinstance(base, np.ndarray) else asnumpy(base) for base in seen.arrays]
        args = tuple(arguments.check_arguments(seen.kernel.signature, tuple(map(self._given, seen.args)), "gpu"))
        function = launch.get_function(seen.kernel.module.cupy, seen.kernel.mangled)
        self._launch: Callable[[], None] = lambda: launch.launch(function, seen.kernel.name, seen.grid, seen.block, args, seen.shared_mem,
                                                                   attributes=seen.attributes)

    def _given(self, arg: Any) -> Any:
        """An argument for the GPU: CuPy's own are, NumPy's move."""
        from ...emulator.machine import memory
        array = passed_array(arg)
        if not isinstance(array, np.ndarray):
            return arg
        base = base_of(array)
        address = self._now[id(base)].data.ptr + array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        if not isinstance(arg, TensorMap):
            return np.uint64(address)
        inside = arg.fields.global_address - memory.default().address_of(array)
        return TensorMap(replace(arg.fields, global_address=address + inside), None, "gpu")

    def numbers(self) -> list[np.ndarray]:
        """`left`, as the numbers that the launch's tensor maps say they are: bf16 is often passed as uint16 that hold its bits."""
        from ml_dtypes import bfloat16
        bf16 = {id(base_of(arg.array)) for arg in self._seen.args if isinstance(arg, TensorMap) and arg.fields.dtype == "bfloat16"}
        return [left.view(bfloat16) if id(base) in bf16 and left.dtype == np.uint16 else left
                for base, left in zip(self._seen.arrays, self.left, strict=True)]

    def restore(self) -> None:
        """What the arrays held before the launch."""
        for key, now in self._now.items():
            now[...] = self._before[key]

    def __call__(self) -> None:
        self._launch()

    def after(self) -> list[np.ndarray]:
        """The bytes of every base array now."""
        cuda_errors.synchronize()
        return [np.ascontiguousarray(asnumpy(self._now[id(base)])).view(np.uint8).reshape(-1) for base in self._seen.arrays]

    def close(self) -> None:
        """Give CuPy arrays back what the seen launch had left there."""
        for base, left in zip(self._seen.arrays, self.left, strict=True):
            if not isinstance(base, np.ndarray):
                base.set(left)


def apart(emulated: np.ndarray, gpu_bytes: np.ndarray) -> tuple[float, int]:
    """(0, -1) for equal bytes; else the largest difference as a share of the largest finite magnitude (inf for integers, or a NaN beside a number), and where.

    Tensor maps that a kernel wrote are not compared: their bytes are the driver's in one place and the emulator's own in the other.
    """
    flat = np.ascontiguousarray(emulated).view(np.uint8).reshape(-1)
    same = flat == gpu_bytes
    same[_in_maps(flat)] = True
    if same.all():
        return 0.0, -1
    here = np.ascontiguousarray(emulated).reshape(-1)
    there = gpu_bytes.view(here.dtype)
    if here.dtype.kind not in "fV" and "float" not in here.dtype.name:
        return np.inf, int(np.flatnonzero(here != there)[0])
    a, b = here.astype(np.float64), there.astype(np.float64)
    scale = np.nanmax(np.abs(np.where(np.isfinite(a), a, 0)), initial=1e-30)
    with np.errstate(invalid="ignore"):
        share = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.abs(a - b)) / scale
    share[np.isnan(share)] = np.inf
    worst = int(share.argmax())
    return float(share[worst]), worst


def _in_maps(flat: np.ndarray) -> np.ndarray:
    """True for the bytes of every image of a tensor map, which begins with the emulator's MAGIC."""
    words = flat[:len(flat) // 4 * 4].view(np.uint32)
    inside = np.zeros(len(flat), bool)
    for start in 4 * np.flatnonzero(words == tensormap_image.MAGIC):
        inside[start:start + tensormap_image.IMAGE_BYTES] = True
    return inside
