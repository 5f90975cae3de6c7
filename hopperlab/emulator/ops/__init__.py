# SPDX-License-Identifier: Apache-2.0
"""What the engine does for every instruction that touches memory, other threads or time: one module a family.

`RESOLVERS` maps the first component of an opcode to a function (instr, function) -> MachineOp or None (None: plain
arithmetic, see isa/). Each module that has such a table is found by itself. To add an instruction, write a resolver and a handler beside its relatives, and its
row in ptx/instructions.py.
"""
from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from . import forms

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..compile.translated import MachineOp
    from ..ptx.ir import Function, Instr

RESOLVERS: dict[str, Callable[[Instr, Function], MachineOp | None]] = {}
for _path in sorted(Path(__file__).parent.glob("[a-z]*.py")):
    RESOLVERS.update(getattr(import_module(f"{__package__}.{_path.stem}"), "RESOLVERS", {}))


def resolve(instr: Instr, function: Function) -> MachineOp | None:
    """The MachineOp of an instruction, or None when it is plain arithmetic."""
    forms.check(instr)
    resolver = RESOLVERS.get(instr.op)
    return resolver(instr, function) if resolver is not None else None
