# SPDX-License-Identifier: Apache-2.0
"""hopperlab: asynchronous programming on NVIDIA Hopper. The public names, and nothing else.

Names are looked up at first use, so that `import hopperlab` is quick and needs no GPU.
"""
from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

_NAMES = {
    "RawModule": "runtime.module",
    "RawKernel": "runtime.module",
    "load_kernel": "runtime.library",
    "from_triton": "runtime.triton_kernels.kernel",
    "kernel_source": "runtime.library",
    "TensorMap": "runtime.tensor_map",
    "Stream": "runtime.streams",
    "Event": "runtime.streams",
    "devices": "runtime.devices",
    "array_module": "runtime.arrays",
    "asnumpy": "runtime.arrays",
    "synchronize": "runtime.arrays",
    "emulate": "estimates.emulating",
    "explore": "runtime.explore",
    "backend": "runtime.backend",
    "timeline": "measure.timelines",
    "estimate": "estimates.estimating",
    "run_isolated": "runtime.workers.isolated",
    "sass": "runtime.sass.sass",
    "diff": "show.differences",
    "edit": "lessons.editing",
    "check": "lessons.catalogue",
    "CheckFailed": "checking.check",
    "HopperlabError": "runtime.errors",
    "CompileError": "runtime.errors",
    "NoteError": "runtime.errors",
    "LaunchError": "runtime.errors",
    "KernelNotFound": "runtime.errors",
    "SourceError": "runtime.errors",
    "VariableNotFound": "runtime.errors",
    "TritonError": "runtime.errors",
    "BackendError": "runtime.errors",
    "ToolchainError": "runtime.errors",
    "GpuError": "runtime.errors",
    "IsolatedError": "runtime.errors",
    "PtxasWarning": "runtime.errors",
    "EmulatorError": "emulator",
    "Hazard": "emulator",
    "HazardError": "emulator",
    "HazardWarning": "emulator",
    "DeadlockError": "emulator",
    "BudgetExceeded": "emulator",
    "MemoryFault": "emulator",
    "UnsupportedInstruction": "emulator",
    "TensorMapError": "hopper.tensormap",
}
_ROOMS = ("hopper", "kernels", "emulator", "runtime", "measure", "estimates", "show", "checking", "lessons", "grading", "recordings")

__all__ = ["__version__", *_NAMES]


def __getattr__(name: str) -> object:
    if name in _NAMES:
        value = getattr(import_module(f"hopperlab.{_NAMES[name]}"), name)
        globals()[name] = value
        return value
    if name in _ROOMS:
        return import_module(f"hopperlab.{name}")
    raise AttributeError(f"module 'hopperlab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_NAMES, *_ROOMS])


def load_ipython_extension(shell: object) -> None:
    """`%load_ext hopperlab`: adds the cell magic %%cuda."""
    from .runtime.magic import register
    register(shell)
