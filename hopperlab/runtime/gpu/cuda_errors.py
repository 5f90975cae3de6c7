# SPDX-License-Identifier: Apache-2.0
"""CUDA's errors in words: `guarded` calls a CuPy function, and what CUDA reports becomes a GpuError that says what it means and what to do."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..errors import GpuError

ADVICE = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "the kernel read or wrote outside its arrays",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "the kernel used an address that its instruction's alignment forbids",
    "CUDA_ERROR_LAUNCH_FAILED": "the kernel failed: often a block ended while a copy was still landing in its shared memory",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "the kernel ran an instruction that its operands or this GPU do not allow",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "a block needs more registers or shared memory than a multiprocessor has",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the kernel was compiled for another generation of GPU",
    "CUDA_ERROR_INVALID_CLUSTER_SIZE": "this cluster does not fit on the GPU",
}
LOST = ("ILLEGAL_ADDRESS", "MISALIGNED_ADDRESS", "LAUNCH_FAILED", "LAUNCH_FAILURE", "ILLEGAL_INSTRUCTION",
        "HARDWARE_STACK_ERROR", "ASSERT")


def synchronize(devices: Iterable[int] = ()) -> None:
    """Wait for the current GPU and for those named; an error of an earlier kernel is raised here as GpuError."""
    import cupy
    for number in devices:
        guarded("an earlier kernel", cupy.cuda.Device(number).synchronize)
    guarded("an earlier kernel", cupy.cuda.runtime.deviceSynchronize)


def guarded(what: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a CuPy function; a CUDA error becomes a GpuError that says what it means and what to do."""
    from cupy.cuda import driver, runtime
    try:
        return function(*args, **kwargs)
    except (driver.CUDADriverError, runtime.CUDARuntimeError) as problem:
        raise GpuError(explain(what, str(problem))) from problem


def explain(what: str, text: str) -> str:
    """A CUDA error in words: what it says, what it means, and whether the process can still use the GPU."""
    upper = text.replace("cudaError", "CUDA_ERROR_").upper().replace(" ", "_")
    advice = next((words for code, words in ADVICE.items() if _plain(code) in _plain(upper)), None)
    message = f"{what}: {text}" + (f"\n{advice[0].upper()}{advice[1:]}." if advice else "")
    if any(_plain(code) in _plain(upper) for code in LOST):
        message += ("\nThe GPU is lost to this process: restart the kernel (Kernel > Restart). Run the launch again inside "
                    "`with hl.emulate():` to see the line, or with hl.run_isolated, which survives it.")
    return message


def _plain(text: str) -> str:
    return text.replace("_", "").replace("CUDAERROR", "")
