# SPDX-License-Identifier: Apache-2.0
"""Where kernels run: on a GPU or in the emulator. Chosen once a process, from HOPPERLAB_BACKEND.

'auto' (the default) takes a GPU of compute capability 9.0 with CuPy installed, and otherwise the emulator, and says so
in one line: quietly on standard output in a notebook, which shows standard error as an error in red, and on standard error elsewhere.
"""
from __future__ import annotations

import importlib.util
import os
import sys
from functools import lru_cache

from . import installing, uses
from .errors import BackendError
from .gpu.driver import Gpu, extra_for, find_gpu

PLACES = ("gpu", "emulator")
HOPPER = (9, 0)


def backend(choice: str | None = None) -> str:
    """'gpu' or 'emulator'.

    choice: None takes the environment's choice; 'auto', 'gpu' or 'emulator' overrides it.
    Raises BackendError when a GPU is asked for and cannot be used, with what to do.
    """
    if choice is None:
        place = _from_environment()
        uses.tell(uses.PLACE, place)
        return place
    if choice == "auto":
        return decide(find_gpu(), has_cupy())[0]
    if choice not in PLACES:
        raise BackendError(f"backend {choice!r} is unknown: choose 'gpu', 'emulator' or 'auto'")
    if choice == "gpu":
        _require_gpu(find_gpu(), has_cupy())
    return choice


@lru_cache(maxsize=1)
def _from_environment() -> str:
    choice = os.environ.get("HOPPERLAB_BACKEND", "auto").strip().lower() or "auto"
    if choice != "auto":
        return backend(choice)
    place, why = decide(find_gpu(), has_cupy())
    in_notebook = type(sys.stdout).__module__.partition(".")[0] == "ipykernel"
    print(f"hopperlab: kernels run {'on the GPU' if place == 'gpu' else 'in the emulator'} ({why})", file=sys.stdout if in_notebook else sys.stderr)
    return place


def decide(gpu: Gpu | None, cupy: bool) -> tuple[str, str]:
    """What 'auto' means on this machine: (place, reason)."""
    if gpu is None:
        return "emulator", "no NVIDIA GPU found"
    name = f"{gpu.name}, compute capability {gpu.capability[0]}.{gpu.capability[1]}"
    if gpu.capability != HOPPER:
        return "emulator", f"{name}, is not a Hopper GPU"
    if not cupy:
        return "emulator", f"{name}, but CuPy is not installed: {install_cupy(gpu)}"
    return "gpu", name


def install_cupy(gpu: Gpu) -> str:
    """The command that installs the CuPy that fits this driver."""
    extra = extra_for(gpu)
    if not extra:
        return "update the NVIDIA driver (CUDA 12 or newer is needed)"
    return f"make cupy, or python -m pip install -e .[{extra}]" if installing.from_clone() else installing.course(extra)


@lru_cache(maxsize=1)
def has_cupy() -> bool:
    """True when CuPy is installed (it is not imported)."""
    return importlib.util.find_spec("cupy") is not None


def _require_gpu(gpu: Gpu | None, cupy: bool) -> None:
    if gpu is None:
        raise BackendError("backend 'gpu' was asked for, but no NVIDIA GPU or driver is found. "
                           "Use HOPPERLAB_BACKEND=emulator, or see `hopperlab doctor`.")
    if not cupy:
        raise BackendError(f"backend 'gpu' needs CuPy: {install_cupy(gpu)}")


def architecture(place: str) -> str:
    """The target to compile for: 'sm_90a', or the GPU's own when 'gpu' was asked for on another generation."""
    gpu = find_gpu() if place == "gpu" else None
    if gpu is None or gpu.capability == HOPPER:
        return "sm_90a"
    return f"sm_{gpu.capability[0]}{gpu.capability[1]}"
