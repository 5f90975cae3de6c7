# SPDX-License-Identifier: Apache-2.0
"""Fences, setmaxnreg, griddepcontrol, nanosleep, trap (PTX ISA 9.7.13.4, 9.7.13.13, 9.7.19)."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from ..compile.translated import MachineOp
from ..errors import EmulatorError
from ..machine.register_pool import RegisterWait
from ..machine.waits import GivesWay, GridWait
from ..ptx import places
from ..ptx.ir import Imm
from . import loadstore
from .common import unsupported, whole_warpgroups

if TYPE_CHECKING:
    from ..isa.value import Value
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine


SCOPES, ORDERS = {"cta", "cluster", "gpu", "sys"}, {"sc", "acq_rel", "acquire", "release"}


def _fence(instr, function) -> MachineOp:
    """fence and membar. The emulator performs accesses in order anyway; fences change what the checker knows. The proxy
    alias has no cache here."""
    mods = instr.mods
    if instr.op == "membar" and mods in (("cta",), ("gl",), ("sys",)):
        return MachineOp(memory_fence, mods[0])
    if mods and mods[0] in ("proxy", "mbarrier_init") and (instr.op == "fence" or mods == ("proxy", "alias")):
        return _special_fence(instr)
    if instr.op == "fence" and len(mods) == 1 and mods[0] in SCOPES:               # .acq_rel when nothing is said
        return MachineOp(memory_fence, mods[0])
    if instr.op == "fence" and len(mods) == 2 and mods[0] in SCOPES and mods[1] in ORDERS:    # either one first
        mods = mods[::-1]
    if instr.op == "fence" and mods[0] in ORDERS and len(mods) > 1 and mods[-1] in SCOPES:
        return MachineOp(memory_fence, mods[-1])
    raise unsupported(instr)


def _special_fence(instr) -> MachineOp:
    kind, rest = ".".join(instr.mods[:2]), instr.mods[2:]
    if kind == "proxy.async" and rest in ((), ("shared::cta",), ("shared::cluster",), ("global",)):
        return MachineOp(proxy_fence, rest[0] if rest else "")
    if kind == "proxy.async::generic" and rest == ("release", "sync_restrict::shared::cta", "cluster"):      # the same machine code as .proxy.async.shared::cta
        return MachineOp(proxy_fence, "shared::cta")
    if _tensormap_fence(instr, kind, rest):
        return MachineOp(map_fence, rest[0], ((instr.operands[0], None),) if rest[0] == "acquire" else ())
    known = (kind == "mbarrier_init.release" and rest == ("cluster",) or kind == "proxy.alias" and not rest
             or kind == "proxy.async::generic" and rest == ("acquire", "sync_restrict::shared::cluster", "cluster"))     # no machine code
    if not known:
        raise unsupported(instr)
    return MachineOp(init_fence if kind == "mbarrier_init.release" else loadstore.no_effect, None)


def _tensormap_fence(instr, kind: str, rest: tuple) -> bool:
    """fence.proxy.tensormap::generic.release.SCOPE, or .acquire.SCOPE [address], 128."""
    if kind != "proxy.tensormap::generic" or len(rest) != 2 or rest[1] not in SCOPES:
        return False
    if rest[0] == "release":
        return not instr.operands
    return rest[0] == "acquire" and len(instr.operands) == 2 and type(instr.operands[1]) is Imm and instr.operands[1].value == 128


def init_fence(M: Machine, C: Cohort, info: Any) -> None:
    """fence.mbarrier_init: the barriers this thread initialised may be published by a relaxed cluster barrier."""
    M.tell.inits_fenced(C)


def map_fence(M: Machine, C: Cohort, kind: str, address: Value | None = None) -> None:
    """fence.proxy.tensormap::generic: tensor maps that the kernel changed, released by their writer or acquired by their user."""
    if kind == "acquire":
        M.tell.maps_acquired(C, M.lanes(C, address))
    else:
        M.tell.maps_released(C)
        M.progress += 1


def proxy_fence(M: Machine, C: Cohort, info: str) -> None:
    """fence.proxy.async: generic accesses so far become visible to the async proxy."""
    M.tell.proxy_fenced(C, info)


def memory_fence(M: Machine, C: Cohort, info: str | None) -> None:
    """fence.sc, fence.acq_rel, membar: later synchronising writes publish what this thread has made and learned so far."""
    M.tell.memory_fenced(C, info == "cta", info == "sys")


def _setmaxnreg(instr, function) -> MachineOp:
    count = instr.operands[0].value if type(instr.operands[0]) is Imm else 0
    if not 24 <= count <= 256 or count % 8:
        raise unsupported(instr, f"setmaxnreg {count}: the count is 24 to 256 in steps of 8")
    if instr.mods[0] not in ("inc", "dec") or instr.mods[1:] != ("sync", "aligned", "u32"):
        raise unsupported(instr, "the form is setmaxnreg.{inc,dec}.sync.aligned.u32")
    info = (instr.index, instr.mods[0], count)
    return MachineOp(more_registers if info[1] == "inc" else fewer_registers, info, collective=True, gate=info[1] == "inc")


def fewer_registers(M: Machine, C: Cohort, info: tuple[int, str, int]) -> None:
    """setmaxnreg.dec: warps give registers back to their CTA's pool."""
    _check_registers(M, C, info)
    M.registers.set(C.gids[::32] >> 5, "dec", info[2], info[0])


def more_registers(M: Machine, C: Cohort, info: tuple[int, str, int]) -> RegisterWait | None:
    """setmaxnreg.inc: warps wait until the pool has what they ask for."""
    _check_registers(M, C, info)
    if M.registers.counts:
        return RegisterWait(C.gids >> 5, info[2], info[0])
    M.registers.set(C.gids[::32] >> 5, "inc", info[2], info[0])
    return None


def _check_registers(M, C, info) -> None:
    site, direction, count = info
    whole_warpgroups(M, C, site)
    M.tell.registers_asked(C, site, direction, count)


def _griddepcontrol(instr, function) -> MachineOp:
    """A launch of its own has nobody in front of it and nobody behind: the grids before it are over, and the next waits for all of it."""
    if instr.mods == ("wait",):
        return MachineOp(wait_for_grids, None, gate=True)
    if instr.mods == ("launch_dependents",):
        return MachineOp(launch_dependents, None, gate=True)
    raise unsupported(instr)


def wait_for_grids(M: Machine, C: Cohort, info: Any) -> GridWait | None:
    """griddepcontrol.wait: until the grids in front are over, and what they wrote is there."""
    return None if M.grid is None else GridWait(C.gids)


def launch_dependents(M: Machine, C: Cohort, info: Any) -> GivesWay | None:
    """griddepcontrol.launch_dependents: once a thread of each CTA has said so (or the CTA has ended), the grid behind may start."""
    if M.grid is None:
        return None
    M.grid.trigger(C.gids)
    return None if M.grid.goes_on else GivesWay(C.gids)


def _nanosleep(instr, function) -> MachineOp:
    return MachineOp(sleep, None, poll=True)


def sleep(M: Machine, C: Cohort, info: Any) -> None:
    """nanosleep: gives way to others."""
    C.polled = True


def _trap(instr, function) -> MachineOp:
    return MachineOp(trap, instr.index)


def trap(M: Machine, C: Cohort, index: int) -> NoReturn:
    """trap: the kernel ends itself."""
    gid = int(C.gids[0])
    raise EmulatorError(f"trap at {places.place(M.body[index])}, block {M.block_index(gid)}, thread {gid % M.T}: "
                        "the kernel ended itself (an assert, or __trap())")


RESOLVERS = {"fence": _fence, "membar": _fence, "setmaxnreg": _setmaxnreg, "griddepcontrol": _griddepcontrol,
             "nanosleep": _nanosleep, "trap": _trap, "brkpt": _trap}
