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

from ..hopper import limits
from .arrays import is_cuda_array
from .errors import GpuError
from .tensor_map import TensorMap

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


@lru_cache(maxsize=1)
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="hopperlab-cubin-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def load(image: bytes, suffix: str = ".cubin"):
    """A cupy.RawModule of a cubin (or PTX) image. CuPy reads the file at first use, so it stays until the process ends."""
    import cupy
    path = _folder() / (hashlib.sha256(image).hexdigest()[:32] + suffix)
    if not path.exists():
        path.write_bytes(image)
    return cupy.RawModule(path=str(path))


def get_function(module, name: str):
    """The cupy.RawKernel of a (mangled) name. Raises GpuError when the driver refuses the module."""
    return guarded(f"loading {name}", module.get_function, name)


def launch(kernel, name: str, grid, block, args: Sequence, shared_mem: int, stream=None) -> None:
    """Launch a cupy.RawKernel with checked arguments. Shared memory over 48 KiB, static and dynamic together, is opted into here."""
    if shared_mem and kernel.shared_size_bytes + shared_mem > limits.SHARED_DEFAULT:
        # Up to 48 KiB of dynamic memory the driver's own number does not tell whether the static part was counted.
        if shared_mem <= limits.SHARED_DEFAULT or kernel.max_dynamic_shared_size_bytes < shared_mem:
            kernel.max_dynamic_shared_size_bytes = shared_mem
    passed = tuple(_passed(value) for value in args)
    if stream is None:
        guarded(name, kernel, grid, block, passed, shared_mem=shared_mem)
    else:
        with stream:
            guarded(name, kernel, grid, block, passed, shared_mem=shared_mem)


def _passed(value):
    import cupy
    if isinstance(value, TensorMap):
        return value.value
    if is_cuda_array(value) and not isinstance(value, cupy.ndarray):
        return cupy.asarray(value)
    return value


def synchronize() -> None:
    """Wait for the GPU; an error of an earlier kernel is raised here as GpuError."""
    import cupy
    guarded("an earlier kernel", cupy.cuda.runtime.deviceSynchronize)


def guarded(what: str, function, *args, **kwargs):
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
