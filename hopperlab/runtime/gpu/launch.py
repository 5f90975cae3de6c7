# SPDX-License-Identifier: Apache-2.0
"""Launches on the GPU through CuPy: an sm_90a cubin is loaded by path, and the kernel is CuPy's own RawKernel.

CuPy itself would compile for sm_90, where ptxas rejects wgmma and setmaxnreg; hence the cubin.
"""
from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...hopper import limits
from ..arrays import is_cuda_array
from ..launch_attributes import LaunchAttributes
from ..tensor_map import PointedMap, TensorMap
from . import launch_ex
from .cuda_errors import guarded

PLAIN = LaunchAttributes()


@lru_cache(maxsize=1)
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="hopperlab-cubin-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def load(image: bytes, suffix: str = ".cubin") -> Any:
    """A cupy.RawModule of a cubin (or PTX) image. CuPy reads the file at first use, so it stays until the process ends."""
    import cupy
    path = _folder() / (hashlib.sha256(image).hexdigest()[:32] + suffix)
    if not path.exists():
        path.write_bytes(image)
    return cupy.RawModule(path=str(path))


def get_function(module: Any, name: str) -> Any:
    """The cupy.RawKernel of a (mangled) name. Raises GpuError when the driver refuses the module."""
    return guarded(f"loading {name}", module.get_function, name)


def launch(kernel: Any, name: str, grid: tuple[int, ...], block: tuple[int, ...], args: Sequence[Any], shared_mem: int, stream: Any = None,
           attributes: LaunchAttributes = PLAIN) -> None:
    """Launch a cupy.RawKernel with checked arguments. Shared memory over 48 KiB, static and dynamic together, is opted into here."""
    if shared_mem and kernel.shared_size_bytes + shared_mem > limits.SHARED_DEFAULT:
        # Up to 48 KiB of dynamic memory the driver's own number does not tell whether the static part was counted.
        if shared_mem <= limits.SHARED_DEFAULT or kernel.max_dynamic_shared_size_bytes < shared_mem:
            kernel.max_dynamic_shared_size_bytes = shared_mem
    passed = tuple(_passed(value) for value in args)
    if attributes.non_portable:
        launch_ex.allow_non_portable(kernel, name)
    if not attributes.plain:
        launch_ex.launch(kernel, name, grid, block, passed, shared_mem, stream, attributes)
    elif stream is None:
        guarded(name, kernel, grid, block, passed, shared_mem=shared_mem)
    else:
        with stream:
            guarded(name, kernel, grid, block, passed, shared_mem=shared_mem)


def _passed(value: Any) -> Any:
    import cupy
    if isinstance(value, PointedMap):
        return value.on_gpu()
    if isinstance(value, TensorMap):
        return value.value
    if is_cuda_array(value) and not isinstance(value, cupy.ndarray):
        return cupy.asarray(value)
    return value
