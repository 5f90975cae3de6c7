# SPDX-License-Identifier: Apache-2.0
"""One program through NVRTC: text and options in, PTX, cubin and log out. Debug builds run in a process of their own.

NVRTC keeps some of what `-G` switches on for the rest of the process: all later programs come out with other PTX (the cvta of kernel parameters stands
elsewhere, .file in another order; NVRTC 13.0, where none of 17 other options did so). Hashes of PTX would depend on what was compiled before, and kernels
on a GPU would be other ones.
"""
from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import CompileError
from . import barrier_counts, toolchain

LASTING = re.compile(r"-G|--device-debug|-device-debug")
ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Program:
    """What NVRTC is given: text, its name in messages, options, template instances, and headers (name, text) that stand for files."""

    code: str
    name: str
    options: tuple[str, ...]
    name_expressions: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Result:
    """PTX text, cubin bytes, and the mangled name of each name expression."""

    ptx: str
    cubin: bytes
    lowered: dict[str, str]


def compile_program(program: Program) -> tuple[Result | None, str]:
    """(result, or None when it does not compile; NVRTC's log). Raises CompileError when NVRTC refuses the program before it reads it, ToolchainError without NVRTC."""
    if barrier_counts.doubtful(program.code, program.options) and (error := _barrier_without_arrivals(program)):
        return None, error
    if any(LASTING.fullmatch(option) for option in program.options):
        return _in_a_process(program)
    return _here(program)


def _barrier_without_arrivals(program: Program) -> str:
    """'' or the error that keeps the program from ptxas, which would end this process."""
    to_ptx = tuple(option.replace("=sm_", "=compute_") if "architecture" in option else option for option in program.options
                   if not option.startswith("--pch") and not LASTING.fullmatch(option))
    result, _ = _here(replace(program, options=to_ptx))
    return barrier_counts.without_arrivals(result.ptx, program.name) if result else ""


def _in_a_process(program: Program) -> tuple[Result | None, str]:
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run([sys.executable, "-m", __name__], input=pickle.dumps(program), capture_output=True, check=False,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)})
    if done.returncode:
        raise CompileError(f"{program.name}: the process that compiles debug builds (-G) ended with {done.returncode}", done.stderr.decode(errors="replace"))
    found: tuple[Result | None, str] = pickle.loads(done.stdout)
    return found


def _here(given: Program) -> tuple[Result | None, str]:
    nvrtc = toolchain.nvrtc()
    status, program = nvrtc.nvrtcCreateProgram(given.code.encode(), given.name.encode(), len(given.headers), [text.encode() for _, text in given.headers],
                                               [name.encode() for name, _ in given.headers])
    if status.value:
        raise CompileError(f"NVRTC refused {given.name}: {status.name}")
    try:
        for expression in given.name_expressions:
            nvrtc.nvrtcAddNameExpression(program, expression.encode())
        status, = nvrtc.nvrtcCompileProgram(program, len(given.options), [o.encode() for o in given.options])
        log = _text(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).decode(errors="replace")
        if status.value:
            return None, log or f"NVRTC reports {status.name}"
        ptx = _text(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX).decode()
        cubin = _text(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, strip=False)
        lowered = {e: nvrtc.nvrtcGetLoweredName(program, e.encode())[1].decode() for e in given.name_expressions}
        return Result(ptx, cubin, lowered), log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _text(program: Any, size: Callable[[Any], tuple[Any, int]], read: Callable[[Any, bytes], object], strip: bool = True) -> bytes:
    status, count = size(program)
    if status.value or not count:
        return b""
    buffer = bytes(count + 1)           # NVRTC writes into it, and there is one object alone for each bytes of length 1: an empty text's 0 would change all spaces
    read(program, buffer)
    return buffer.rstrip(b"\0 ") if strip else buffer[:count]


if __name__ == "__main__":
    from hopperlab.runtime.compile import nvrtc_program         # as the module whose classes the caller reads

    sys.stdout.buffer.write(pickle.dumps(nvrtc_program._here(pickle.load(sys.stdin.buffer))))
