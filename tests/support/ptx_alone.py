# SPDX-License-Identifier: Apache-2.0
"""NVRTC makes PTX alone, where that is all a test needs: half of the time that it takes would be ptxas's. So it is with the course's kernels as they lie
there, and with every source in the rooms of ROOMS. Registers at entry follow from launch bounds; machine code, spills and notes come from ptxas when
somebody asks, as for PTX of others. What else was edited is compiled as everywhere else, and so is what tests marked `assembled` compile, and all of
`make test-every`.
"""
from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest import mock

from hopperlab.authoring.stamps import kernel_uses
from hopperlab.runtime import module
from hopperlab.runtime.compile import assemble, nvrtc, toolchain
from hopperlab.runtime.compile.nvrtc import ARCH, Compiled, Source

VIRTUAL = ARCH.replace("sm_", "compute_")
TESTS = Path(__file__).resolve().parents[1]
ROOMS = ("emulator", "kernels")         # folders where no test asks what ptxas says of an edit
WHOLE = frozenset(("gemm/shared_tile.cu", "gemm/mma_multistage.cu", "gemm/cp_async_mma.cu", "gemm/multistage.cu", "gemm/wgmma_operands.cu", "gemm/warp_specialized.cu",
                   "registers/roles.cu", "wgmma/one_tile.cu"))         # whose registers lessons show at each launch, or count on

_which = "own"      # of the test that runs: "all" in ROOMS, "none" where it is marked


def begin(path: Path, marked: bool) -> None:
    """A test of this file is next. marked: it wants machine code at once."""
    global _which
    _which = "none" if marked else "all" if any(path.is_relative_to(TESTS / room) for room in ROOMS) else "own"


@cache
def _text(name: str) -> str | None:
    file = toolchain.KERNELS / name
    return toolchain.read_source(file) if file.is_file() else None


def _own(source: Source) -> bool:
    """A kernel of the course that nobody edited."""
    return source.name not in WHOLE and _text(source.name) == source.code


def compile_source(source: Source, use_cache: bool = True, only_nvrtc: bool = False) -> Compiled:
    """As nvrtc.compile_source, without machine code where that is not needed."""
    plain = use_cache and not only_nvrtc and source.arch == ARCH and not source.headers and "HOPPERLAB_COMPILER" not in os.environ
    if plain and (_which == "all" or _which == "own" and _own(source)) and toolchain.has_nvrtc() and assemble.ptxas() is not None:
        return nvrtc.compile_source(replace(source, arch=VIRTUAL), only_nvrtc=True)
    return nvrtc.compile_source(source, use_cache, only_nvrtc)


def nvrtc_ptx(source: Source) -> str:
    """NVRTC's PTX, whichever compiler this machine prefers. Raises CompileError."""
    return nvrtc.compile_source(replace(source, arch=VIRTUAL) if _own(source) else source, only_nvrtc=True).ptx


def _launch_info(whole):
    def launch_info(self: module.RawModule):
        alone = self.compiled_from is not None and not self._compiled.assembled and module.GRID_WORKSPACE not in self.ptx
        return assemble.info(None, self.ptx, self.signatures) if alone else whole.func(self)
    return property(launch_info)


@contextmanager
def taken() -> Iterator[None]:
    """Inside the block modules are compiled so."""
    whole = module.RawModule.__dict__["launch_info"]
    with (mock.patch.object(module, "compile_source", compile_source), mock.patch.object(module.RawModule, "launch_info", _launch_info(whole)),
          mock.patch.object(kernel_uses, "compile_source", lambda source, only_nvrtc: compile_source(source))):       # stamps hash the PTX, which is the same
        yield
