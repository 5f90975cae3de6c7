# SPDX-License-Identifier: Apache-2.0
"""Exceptions of the runtime. Every one says what happened and what to try.

In a notebook each shows its message alone: IPython asks an exception for `_render_traceback_` before it prints frames.
"""
from __future__ import annotations


class HopperlabError(Exception):
    """Base class of what the runtime raises."""

    def _render_traceback_(self) -> list[str]:
        """Lines a notebook shows instead of a traceback."""
        return [f"{type(self).__name__}: {self}"]


class CompileError(HopperlabError):
    """The source did not compile. `log` is NVRTC's log, with lines numbered as in the source that was given."""

    def __init__(self, message: str, log: str = ""):
        super().__init__(f"{message}\n\n{log}".rstrip() if log else message)
        self.log = log

    def add(self, more: str) -> None:
        """Another sentence behind the message."""
        self.args = (f"{self}\n\n{more}", *self.args[1:])


class SourceError(HopperlabError, ValueError):
    """What was given as source is none: a missing file, machine code, or a file's name in place of its text."""


class NoteError(CompileError):
    """The source compiled, but ptxas says that it changed what the kernel does (C7508, C7510, C7511, C7515)."""


class PtxError(HopperlabError, ValueError):
    """PTX whose kernels' headers cannot be read."""


class LaunchError(HopperlabError, ValueError):
    """A launch that cannot work: grid, block, shared memory or arguments. Raised before anything runs."""


class KernelNotFound(HopperlabError, AttributeError):
    """The module has no kernel of that name."""


class VariableNotFound(HopperlabError, AttributeError):
    """The module has no global or constant variable of that name."""


class ToolchainError(HopperlabError, RuntimeError):
    """NVRTC, its headers or a driver is missing or does not fit."""


class TritonError(HopperlabError, RuntimeError):
    """Triton is missing or of another version, does not compile the kernel, or was told other parameters than it has."""


class BackendError(HopperlabError, RuntimeError):
    """The place that was asked for is not available on this machine."""


class GpuError(HopperlabError, RuntimeError):
    """The GPU reported an error while it ran a kernel."""


class IsolatedError(HopperlabError, RuntimeError):
    """A launch in a worker process failed. `kind` is 'timeout', 'crash' or the name of the exception raised there."""

    def __init__(self, message: str, kind: str):
        super().__init__(message)
        self.kind = kind


class PtxasWarning(UserWarning):
    """ptxas changed what a kernel does; the kernel still runs."""
