"""Fences, setmaxnreg, griddepcontrol, nanosleep, trap (PTX ISA 9.7.13.3 to 9.7.13.5, 9.7.19)."""
from __future__ import annotations

from ..errors import EmulatorError
from ..ptx.ir import Imm
from ..translate import MachineOp
from . import loadstore
from .common import unsupported


def _fence(instr, function) -> MachineOp:
    mods = instr.mods
    if "proxy" in mods or any(m.startswith("proxy") for m in mods):
        if "async" in mods or any(m.startswith("async") for m in mods):
            return MachineOp(proxy_fence, None)
        return MachineOp(loadstore.no_effect, None)
    return MachineOp(loadstore.no_effect, None)


def proxy_fence(M, C, info):
    """fence.proxy.async: generic accesses so far become visible to the async proxy."""
    M.clocks.proxy_fence(C, M.units(C))


def _setmaxnreg(instr, function) -> MachineOp:
    count = instr.operands[0].value if type(instr.operands[0]) is Imm else 0
    if not 24 <= count <= 256 or count % 8:
        raise unsupported(instr, f"setmaxnreg {count}: the count is 24 to 256 in steps of 8")
    return MachineOp(set_registers, (instr.mods[0], count), collective=True)


def set_registers(M, C, info):
    """setmaxnreg: warps of a warpgroup change their share of the register file."""
    direction, count = info
    M.session.count(f"setmaxnreg_{direction}", len(M.units(C).gw))


def _nothing(instr, function) -> MachineOp:
    return MachineOp(loadstore.no_effect, None)


def _nanosleep(instr, function) -> MachineOp:
    return MachineOp(sleep, None, poll=True)


def sleep(M, C, info):
    """nanosleep: gives way to others."""
    C.polled = True


def _trap(instr, function) -> MachineOp:
    return MachineOp(trap, instr.index)


def trap(M, C, index):
    """trap: the kernel ends itself."""
    gid = int(C.gids[0])
    from .. import reports
    raise EmulatorError(f"trap at {reports.place(M.body[index])}, block {M.block_index(gid)}, thread {gid % M.T}: "
                        "the kernel ended itself (an assert, or __trap())")


RESOLVERS = {"fence": _fence, "membar": _fence, "setmaxnreg": _setmaxnreg, "griddepcontrol": _nothing, "pmevent": _nothing,
             "nanosleep": _nanosleep, "trap": _trap, "brkpt": _trap, "createpolicy": _nothing, "applypriority": _nothing,
             "discard": _nothing}
