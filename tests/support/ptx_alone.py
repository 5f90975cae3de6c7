# SPDX-License-Identifier: Apache-2.0
"""In `make test` NVRTC makes PTX alone of the course's kernels, as they lie there: half of the time that it takes would be ptxas's. Machine code, registers and
notes come from ptxas when somebody asks, as for PTX of others. What was edited, and all of `make test-all`, is compiled as everywhere else.
"""
from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache
from unittest import mock

from hopperlab.runtime import module
from hopperlab.runtime.compile import assemble, nvrtc, toolchain
from hopperlab.runtime.compile.nvrtc import ARCH, Compiled, Source

VIRTUAL = ARCH.replace("sm_", "compute_")

WHOLE = frozenset(("gemm/shared_tile.cu", "gemm/mma_multistage.cu", "gemm/cp_async_mma.cu", "gemm/multistage.cu", "gemm/wgmma_operands.cu", "gemm/warp_specialized.cu",
                   "registers/roles.cu", "wgmma/one_tile.cu"))         # whose registers lessons show at each launch, or count on


@cache
def _text(name: str) -> str | None:
    file = toolchain.KERNELS / name
    return toolchain.read_source(file) if file.is_file() else None


def compile_source(source: Source, use_cache: bool = True, only_nvrtc: bool = False) -> Compiled:
    """As nvrtc.compile_source, without machine code for a kernel of the course that nobody edited."""
    plain = use_cache and not only_nvrtc and source.arch == ARCH and not source.headers and "HOPPERLAB_COMPILER" not in os.environ
    if plain and source.name not in WHOLE and toolchain.has_nvrtc() and assemble.ptxas() is not None and _text(source.name) == source.code:
        return nvrtc.compile_source(replace(source, arch=VIRTUAL), only_nvrtc=True)
    return nvrtc.compile_source(source, use_cache, only_nvrtc)


def taken() -> AbstractContextManager[object]:
    """Inside the block modules are compiled so."""
    return mock.patch.object(module, "compile_source", compile_source)
