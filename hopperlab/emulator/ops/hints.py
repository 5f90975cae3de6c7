# SPDX-License-Identifier: Apache-2.0
"""Instructions about caches and profiling: prefetch, createpolicy, applypriority, discard, pmevent (PTX ISA 9.7.9.15 to 9.7.9.19).

They change no value, except createpolicy, which makes one, and discard, which destroys data. Their forms are checked.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..ptx.ir import Imm
from ..compile.translated import MachineOp
from .common import find_global, unsupported
from .loadstore import no_effect

if TYPE_CHECKING:
    from ..isa.value import Value
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine

LINE = 128
POLICY = np.uint64(0x10F0_0000_0000_0000)      # opaque: what createpolicy returns
DESTROYED = 0xCD
PREFETCH = {
    ("L1",), ("L2",), ("global", "L1"), ("global", "L2"), ("local", "L1"), ("local", "L2"), ("global", "L2::evict_last"),
    ("global", "L2::evict_normal"), ("L2::evict_last",), ("L2::evict_normal",), ("tensormap",), ("const", "tensormap"), ("param", "tensormap"),
    ("param::entry", "tensormap"),
}
PRIORITIES = ("L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged")


def _prefetch(instr, function) -> MachineOp:
    if instr.op == "prefetchu" and instr.mods != ("L1",) or instr.op == "prefetch" and instr.mods not in PREFETCH:
        raise unsupported(instr, "there is no such prefetch")
    return MachineOp(no_effect, None)


def _createpolicy(instr, function) -> MachineOp:
    mods = instr.mods
    known = mods[-1] == "b64" and (mods[0] == "fractional" or mods[0] == "range" or mods[:2] == ("cvt", "L2"))
    if not known or any(m not in ("fractional", "range", "cvt", "L2", "global", "b64", *PRIORITIES) for m in mods):
        raise unsupported(instr, "there is no such cache policy")
    return MachineOp(policy, None, (), ((instr.operands[0], "u64"),))


def policy(M: Machine, C: Cohort, info: Any) -> Value:
    """createpolicy: an opaque value that cache-hint operands take."""
    return POLICY


def _line_size(instr) -> None:
    size = instr.operands[1]
    if type(size) is not Imm or size.value != LINE:
        raise unsupported(instr, f"the size must be {LINE}")


def _applypriority(instr, function) -> MachineOp:
    if instr.mods not in (("L2::evict_normal",), ("global", "L2::evict_normal")):
        raise unsupported(instr, "only .L2::evict_normal exists")
    _line_size(instr)
    return MachineOp(no_effect, None)


def _discard(instr, function) -> MachineOp:
    if instr.mods not in (("L2",), ("global", "L2")):
        raise unsupported(instr, "only discard{.global}.L2 exists")
    _line_size(instr)
    return MachineOp(discard, instr.index, ((instr.operands[0], None),))


def discard(M: Machine, C: Cohort, index: int, address: Value) -> None:
    """discard.L2: the 128 bytes lose their contents (reading them is undefined; here they become 0xCD)."""
    address = M.lanes(C, address)
    parts = find_global(M, C, address, LINE, index)
    M.tell.region_written(C, parts, LINE, index)
    for allocation, _, offset in parts:
        allocation.view(1)[(offset[:, None] + np.arange(LINE)).reshape(-1)] = DESTROYED
    M.progress += 1


def _pmevent(instr, function) -> MachineOp:
    mask = instr.mods == ("mask",)
    event = instr.operands[0]
    if type(event) is not Imm or not 0 <= event.value < (1 << 16 if mask else 16) or instr.mods not in ((), ("mask",)):
        raise unsupported(instr, "performance events are 0 to 15")
    return MachineOp(no_effect, None)


RESOLVERS = {"prefetch": _prefetch, "prefetchu": _prefetch, "createpolicy": _createpolicy, "applypriority": _applypriority,
             "discard": _discard, "pmevent": _pmevent}
