"""Fences, setmaxnreg, griddepcontrol, nanosleep, trap (PTX ISA 9.7.13.3 to 9.7.13.5, 9.7.19)."""
from __future__ import annotations

from .. import checks_collective
from ..errors import EmulatorError
from ..ptx.ir import Imm
from ..register_budget import RegisterWait
from ..translate import MachineOp
from . import loadstore
from .common import unsupported


SCOPES = {"cta", "cluster", "gpu", "sys"}


def _fence(instr, function) -> MachineOp:
    """fence and membar. The emulator performs accesses in order anyway; fences change what the checker knows. The proxy
    alias has no cache here."""
    mods = instr.mods
    if instr.op == "membar" and mods in (("cta",), ("gl",), ("sys",)):
        return MachineOp(memory_fence, mods[0])
    if mods and mods[0] in ("proxy", "mbarrier_init") and (instr.op == "fence" or mods == ("proxy", "alias")):
        return _special_fence(instr)
    if instr.op == "fence" and len(mods) == 1 and mods[0] in SCOPES:               # .acq_rel when nothing is said
        return MachineOp(memory_fence, None)
    if instr.op == "fence" and mods[0] in ("sc", "acq_rel", "acquire", "release") and len(mods) > 1 and mods[-1] in SCOPES:
        return MachineOp(memory_fence, mods[-1])
    raise unsupported(instr)


def _special_fence(instr) -> MachineOp:
    kind, rest = ".".join(instr.mods[:2]), instr.mods[2:]
    if kind == "proxy.async" and rest in ((), ("shared::cta",), ("shared::cluster",), ("global",)):
        return MachineOp(proxy_fence, rest[0] if rest else "")
    if _tensormap_fence(instr, kind, rest):
        return MachineOp(map_fence, rest[0], ((instr.operands[0], None),) if rest[0] == "acquire" else ())
    known = (kind == "mbarrier_init.release" and rest == ("cluster",) or kind == "proxy.alias" and not rest
             or kind == "proxy.async::generic" and rest[:1] in (("acquire",), ("release",)))
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


def init_fence(M, C, info):
    """fence.mbarrier_init: the barriers this thread initialised may be published by a relaxed cluster barrier."""
    if M.barriers.checks is not None and M.cluster > 1:
        M.barriers.checks.init_fenced(C)


def map_fence(M, C, kind: str, address=None):
    """fence.proxy.tensormap::generic: tensor maps that the kernel changed, released by their writer or acquired by their user."""
    if M.global_shadow is not None:
        if kind == "acquire":
            M.global_shadow.maps.acquire(C, M.lanes(C, address))
        else:
            M.global_shadow.maps.release(C)


def proxy_fence(M, C, info):
    """fence.proxy.async: generic accesses so far become visible to the async proxy."""
    units, epoch, ran = M.units(C), M.clocks.epoch, []
    first = epoch[units.gw]
    if info != "global":
        M.clocks.proxy_fence(C, units)
        ran.append(M.clocks.lane_fences)
    if M.global_shadow is not None and not (info or "").startswith("shared"):
        M.global_shadow.proxy_fence(C)
        ran.append(M.global_shadow.lane_fences)
    for fences in ran:
        fences.ran(C, units, first, epoch[units.gw])


def memory_fence(M, C, info):
    """fence.sc, fence.acq_rel, membar: later synchronising writes publish what this thread has made and learned so far."""
    if M.global_shadow is not None:
        M.global_shadow.fence(C, narrow=info == "cta")


def _setmaxnreg(instr, function) -> MachineOp:
    count = instr.operands[0].value if type(instr.operands[0]) is Imm else 0
    if not 24 <= count <= 256 or count % 8:
        raise unsupported(instr, f"setmaxnreg {count}: the count is 24 to 256 in steps of 8")
    info = (instr.index, instr.mods[0], count)
    return MachineOp(more_registers if info[1] == "inc" else fewer_registers, info, collective=True, gate=info[1] == "inc")


def fewer_registers(M, C, info):
    """setmaxnreg.dec: warps give registers back to their CTA's pool."""
    _check_registers(M, C, info)
    M.session.count("setmaxnreg_dec", C.n // 32)
    M.registers.set(C.gids[::32] >> 5, info[2], info[0])


def more_registers(M, C, info):
    """setmaxnreg.inc: warps wait until the pool has what they ask for."""
    _check_registers(M, C, info)
    if M.registers.counts:
        return RegisterWait(C.gids >> 5, info[2], info[0])
    M.session.count("setmaxnreg_inc", C.n // 32)
    M.registers.set(C.gids[::32] >> 5, info[2], info[0])
    return None


def _check_registers(M, C, info) -> None:
    site, direction, count = info
    checks_collective.whole_warpgroups(M, C, site)
    if M.session.check:
        M.registers.check(C, site, direction, count)


def _griddepcontrol(instr, function) -> MachineOp:
    """Launches run one after another here: the grids before this one are complete, and the next waits for all of this one."""
    if instr.mods not in (("wait",), ("launch_dependents",)):
        raise unsupported(instr)
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


RESOLVERS = {"fence": _fence, "membar": _fence, "setmaxnreg": _setmaxnreg, "griddepcontrol": _griddepcontrol,
             "nanosleep": _nanosleep, "trap": _trap, "brkpt": _trap}
