# SPDX-License-Identifier: Apache-2.0
"""The public names as type checkers see them: those that __init__.py looks up at first use (a test compares both)."""
from typing import Any

from . import (
    checking as checking,
    emulator as emulator,
    estimates as estimates,
    grading as grading,
    hopper as hopper,
    lessons as lessons,
    measure as measure,
    runtime as runtime,
    show as show,
)
from .checking.check import CheckFailed as CheckFailed
from .emulator import (
    BudgetExceeded as BudgetExceeded,
    DeadlockError as DeadlockError,
    EmulatorError as EmulatorError,
    Hazard as Hazard,
    HazardError as HazardError,
    HazardWarning as HazardWarning,
    MemoryFault as MemoryFault,
    UnsupportedInstruction as UnsupportedInstruction,
)
from .estimates.emulating import emulate as emulate
from .estimates.estimating import estimate as estimate
from .hopper.tensormap import TensorMapError as TensorMapError
from .lessons.catalogue import check as check
from .lessons.editing import edit as edit
from .measure.timelines import timeline as timeline
from .runtime.arrays import array_module as array_module, asnumpy as asnumpy, synchronize as synchronize
from .runtime.backend import backend as backend
from .runtime.devices import devices as devices
from .runtime.errors import (
    BackendError as BackendError,
    CompileError as CompileError,
    GpuError as GpuError,
    HopperlabError as HopperlabError,
    IsolatedError as IsolatedError,
    KernelNotFound as KernelNotFound,
    LaunchError as LaunchError,
    NoteError as NoteError,
    PtxasWarning as PtxasWarning,
    SourceError as SourceError,
    ToolchainError as ToolchainError,
    TritonError as TritonError,
    VariableNotFound as VariableNotFound,
)
from .runtime.explore import explore as explore
from .runtime.library import kernel_source as kernel_source, load_kernel as load_kernel
from .runtime.module import RawKernel as RawKernel, RawModule as RawModule
from .runtime.sass.sass import sass as sass
from .runtime.streams import Event as Event, Stream as Stream
from .runtime.tensor_map import TensorMap as TensorMap
from .runtime.triton_kernels.kernel import from_triton as from_triton
from .runtime.workers.isolated import run_isolated as run_isolated
from .show.differences import diff as diff

__version__: str

def load_ipython_extension(shell: Any) -> None: ...
