# SPDX-License-Identifier: Apache-2.0
"""The cell magic %%cuda: compile a cell of CUDA C++ and show registers, spills, shared memory and notes.

    %%cuda NAME [-DSTAGES=4 …] [--backend emulator]

NAME becomes a RawModule in the notebook. Notes that change what runs are errors here. A cell that fails leaves NAME unbound: nothing older passes for it.
"""
from __future__ import annotations

import argparse
import shlex
from typing import Any, NoReturn

from .errors import CompileError, HopperlabError
from .module import RawModule


class MagicError(HopperlabError, ValueError):
    """The line after %%cuda is not understood."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise MagicError(f"{message}\nUsage: %%cuda NAME [-DNAME=VALUE …] [--backend gpu|emulator] [--instance 'kernel<4>']")


def _parser() -> _Parser:
    parser = _Parser(prog="%%cuda", add_help=False)
    parser.add_argument("name")
    parser.add_argument("--backend", choices=("gpu", "emulator"))
    parser.add_argument("--instance", action="append", default=[])
    return parser


def cuda(line: str, cell: str, namespace: dict[str, Any]) -> RawModule:
    """Compile `cell`, bind the module to the name in `line`, and print what ptxas says about its kernels.

    The module's file name in messages is NAME.cu; line 1 is the first line under %%cuda.
    Raises MagicError, CompileError or NoteError; `name` is then bound to nothing, whatever it was before.
    """
    given, options = _parser().parse_known_args(shlex.split(line))
    if not given.name.isidentifier():
        raise MagicError(f"{given.name!r} cannot name a variable. Usage: %%cuda NAME [-DNAME=VALUE …]")
    before = namespace.pop(given.name, None)
    try:
        module = RawModule(code=cell, options=tuple(options), backend=given.backend, name=f"{given.name}.cu", strict=True,
                           name_expressions=tuple(given.instance))
    except CompileError as error:
        if isinstance(before, RawModule):
            error.add(f"{given.name} is bound to nothing until this cell compiles: what an earlier cell made under this name is not used in its place.")
        raise
    namespace[given.name] = module
    if module.warnings:
        print(module.warnings)
    print(module.ptxas_info)
    return module


def register(shell: Any) -> None:
    """Add %%cuda to an IPython shell."""
    def run(line: str, cell: str) -> None:
        cuda(line, cell, shell.user_ns)
    shell.register_magic_function(run, magic_kind="cell", magic_name="cuda")
