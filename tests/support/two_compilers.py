# SPDX-License-Identifier: Apache-2.0
"""One source, two compilers: clang's PTX and NVRTC's are for the same launches, and what is asynchronous or synchronises stands at the same lines."""
from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from unittest import mock

from hopperlab.emulator import Program
from hopperlab.runtime import uses
from hopperlab.runtime.compile import assemble, toolchain
from hopperlab.runtime.compile.nvrtc import Source, compile_source
from hopperlab.runtime.compile.signature import read_signatures
from hopperlab.runtime.errors import CompileError, ToolchainError

from .ptx_alone import nvrtc_ptx

OPCODES = ("cp", "mbarrier", "wgmma", "bar", "fence", "setmaxnreg", "ldmatrix", "stmatrix", "mma", "multimem", "red", "tensormap", "griddepcontrol")
LIBRARY = re.compile(r"^(?:cuda/|cuda_|cooperative_groups)")


def _only_clang(only_nvrtc: bool = False) -> str:
    if only_nvrtc:
        raise ToolchainError("nothing of NVIDIA's is here")
    return "clang"


@contextmanager
def clang_alone() -> Iterator[list[Source]]:
    """As on a machine that has clang and nothing of NVIDIA's; yields what is compiled inside the block, for sm_90a, as it is compiled."""
    sources: list[Source] = []

    def listen(kind: str, what: object) -> None:
        if kind == uses.COMPILED and isinstance(what, Source) and what.arch == "sm_90a":
            sources.append(what)
    with (mock.patch.dict(os.environ, HOPPERLAB_COMPILER="clang"), mock.patch.object(toolchain, "compiler", _only_clang),
          mock.patch.object(assemble, "ptxas", lambda: None), uses.telling(listen)):
        yield sources


def differing(sources: Iterable[Source]) -> dict[str, object]:
    """Where the two compilers' PTX differs, of each text with the first of its sets of macros: launches, or what stands at other lines by opcode."""
    found: dict[str, object] = {}
    for source in {(source.name, source.code): source for source in reversed(list(sources))}.values():
        theirs = _ptx(source, nvrtc_ptx)
        with mock.patch.dict(os.environ, HOPPERLAB_COMPILER="clang"):
            ours = _ptx(source, lambda source: compile_source(source).ptx)
        if isinstance(theirs, CompileError) or isinstance(ours, CompileError):
            if not isinstance(theirs, CompileError) or not isinstance(ours, CompileError) and "ptxas" not in str(theirs):
                found[source.name] = (theirs, ours)         # one alone refuses it, and not for an asm statement, which ptxas reads and clang does not
            continue
        assert "LLVM" in ours and "LLVM" not in theirs
        if launches(theirs) != launches(ours):
            found[source.name] = (launches(theirs), launches(ours))
        there, here = places(theirs), places(ours)
        for opcode in there.keys() | here.keys():
            if chains := there.get(opcode, set()) ^ here.get(opcode, set()):
                found[f"{source.name}: {opcode}"] = chains
    return found


def _ptx(source: Source, made: Callable[[Source], str]) -> str | CompileError:
    try:
        return made(source)
    except CompileError as problem:
        return problem


def places(ptx: str) -> dict[str, set[tuple[tuple[str, int], ...]]]:
    """Opcode -> (file, line) of every frame of its instructions, outermost first, without those inside a library."""
    program, found = Program(ptx), {}
    for name in program.kernels:
        for instr in program.function(name).body:
            if instr.op.startswith(OPCODES) and instr.site:
                chain = tuple((site.file, site.line) for site in instr.site.chain if not LIBRARY.match(site.file))
                found.setdefault(".".join([instr.op, *instr.mods]), set()).add(chain)
    return found


def launches(ptx: str) -> dict[str, tuple[object, ...]]:
    """Kernel -> sizes of its parameters, and what it says of its launch."""
    return {name: ([(p.size, p.align) for p in s.parameters], s.max_threads, s.min_blocks, s.cluster) for name, s in read_signatures(ptx).items()}
