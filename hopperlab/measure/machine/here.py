# SPDX-License-Identifier: Apache-2.0
"""Whether this machine can measure: a Hopper GPU, CuPy, and nothing that sends kernels elsewhere."""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...runtime.gpu.driver import Gpu


def gpu() -> Gpu | None:
    """The GPU of this machine as the driver names it (runtime.gpu.driver.Gpu), or None."""
    from ...runtime.gpu.driver import find_gpu
    return find_gpu()


def gpus() -> int:
    """How many GPUs this process sees; 0 without CuPy or a driver."""
    from ...runtime import backend
    if not backend.has_cupy():
        return 0
    import cupy
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError:
        return 0


def no_gpu(what: str = "timing") -> str | None:
    """Why `what` cannot be done on this machine; None where it can."""
    from ...runtime import backend
    found = gpu()
    if found is None:
        return f"{what} needs a Hopper GPU (H100, H200), and there is no NVIDIA GPU here" + ("; `hopperlab estimate` needs none" if what == "timing" else "")
    if found.capability != backend.HOPPER:
        return f"{what} needs a Hopper GPU (H100, H200); {found.name} has compute capability {found.capability[0]}.{found.capability[1]}"
    if not backend.has_cupy():
        return f"{what} needs CuPy: {backend.install_cupy(found)}"
    if backend.backend() != "gpu":
        return f"{what} needs the GPU, but HOPPERLAB_BACKEND sends kernels to the emulator: unset it"
    return None
