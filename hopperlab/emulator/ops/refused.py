# SPDX-License-Identifier: Apache-2.0
"""Instructions that sm_90a does not have, or that the emulator does not model: each is an error that says why (ptx/instructions.REFUSED)."""
from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from ..ptx.instructions import REFUSED
from .common import unsupported

if TYPE_CHECKING:
    from ..ptx.ir import Function, Instr


def _refuse(instr: Instr, function: Function) -> NoReturn:
    raise unsupported(instr, REFUSED[instr.op])


RESOLVERS = dict.fromkeys(REFUSED, _refuse)
