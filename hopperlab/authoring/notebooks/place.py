# SPDX-License-Identifier: Apache-2.0
"""Where a notebook runs: the GPU with its driver and CUDA, or the emulator; with the compiler's version either way."""

from __future__ import annotations

import importlib.metadata

from ...runtime.compile import toolchain


def describe() -> dict[str, str]:
    """A small JSON-able record: `backend`, `nvrtc`, and on a GPU `gpu`, `driver`, `cuda` and `cupy`."""
    import hopperlab as hl

    record = {"backend": "emulator" if hl.array_module().__name__ == "numpy" else "gpu", "nvrtc": _nvrtc()}
    if record["backend"] == "gpu":
        record.update(_gpu())
    return record


def _nvrtc() -> str:
    if not toolchain.has_nvrtc():
        return "none"
    try:
        return importlib.metadata.version("nvidia-cuda-nvrtc")
    except importlib.metadata.PackageNotFoundError:
        return ".".join(str(part) for part in toolchain.nvrtc_version())


def _gpu() -> dict[str, str]:
    import cupy

    device = cupy.cuda.Device()
    name = cupy.cuda.runtime.getDeviceProperties(device.id)["name"].decode()
    cuda = ".".join(str(part) for part in toolchain.nvrtc_version())
    return {"gpu": name, "driver": _driver(), "cuda": cuda, "cupy": cupy.__version__}


def _driver() -> str:
    """The kernel driver's version, such as 580.159.03, from NVML's command line; its CUDA level where that is missing."""
    import subprocess

    try:
        asked = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                               capture_output=True, text=True, timeout=20, check=True)
        return asked.stdout.split("\n")[0].strip()
    except (OSError, subprocess.SubprocessError):
        import cupy

        return f"CUDA {cupy.cuda.runtime.driverGetVersion()}"
