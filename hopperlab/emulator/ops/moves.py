# SPDX-License-Identifier: Apache-2.0
"""mov of special registers and symbols, and address-space conversions: cvta, isspacep, mapa (PTX ISA 9.7.9.2 to 9.7.9.23)."""
from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.machine_constants import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from ..isa import convert
from ..ptx.ir import Reg, Special, Sym, Vec
from ..compile.translated import DTYPES, MachineOp
from .common import SPACES, unsupported

if TYPE_CHECKING:
    from ..isa.value import Value
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine

WINDOWS = {"shared": SHARED_WINDOW, "shared::cta": SHARED_WINDOW, "shared::cluster": SHARED_WINDOW, "local": LOCAL_WINDOW}
VECTORS = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
MOVED = ("pred", "u16", "u32", "s32", "u64", "s64")
TYPES = {"b32": "u32", "b64": "u64", "b16": "u16"}


def _mov(instr, function):
    target, source = instr.operands
    if instr.mods[-1] == "b128" and Vec in (type(target), type(source)):
        return _mov128(instr, target, source)
    if type(source) not in (Special, Sym):
        return None
    kind = TYPES.get(instr.mods[-1], instr.mods[-1])
    wide = type(source) is Special and source.name in ("%clock64", "%globaltimer", "%current_graph_exec")
    if kind not in MOVED or instr.mods[:-1] not in ((), ("v4",)) or wide and kind[1:] != "64":
        raise unsupported(instr, f"a special register or an address is no .{instr.mods[-1]}")
    if type(source) is Special and "cluster" in source.name and kind == "u16":
        raise unsupported(instr, f"{source.name} has 32 bits")
    if type(target) is Vec:
        if type(source) is not Special or source.name[1:] not in VECTORS or len(target.items) != 4 or "v4" not in instr.mods:
            raise unsupported(instr, "mov.v4 takes the four parts of a special register that has them")
        return MachineOp(move_axes, (source.name, DTYPES[kind]), (), tuple((t, kind) for t in target.items))
    if type(source) is Special and "." not in source.name and source.name[1:] in VECTORS:
        raise unsupported(instr, f"{source.name} has four parts: {source.name}.x, or mov.v4")
    if type(source) is Special:
        return MachineOp(move_special, (source.name, DTYPES[kind]), (), ((instr.operands[0], kind),), poll=source.tells_time)
    return MachineOp(move_symbol, (source.name, DTYPES[kind]), (), ((instr.operands[0], kind),))


def _mov128(instr, target, source) -> MachineOp:
    """mov.b128 between a register and its two 64-bit halves (or four 32-bit quarters)."""
    parts = (target if type(target) is Vec else source).items
    if type(target) is type(source) or len(parts) not in (2, 4):
        raise unsupported(instr, "128 bits have two halves or four quarters")
    kind = "u64" if len(parts) == 2 else "u32"
    if type(target) is Vec:
        return MachineOp(unpack128, kind, ((source, "b128"),), tuple((p, kind) for p in parts))
    return MachineOp(pack128, kind, tuple((p, kind) for p in parts), ((target, "b128"),))


def pack128(M: Machine, C: Cohort, kind: str, *parts: Value) -> Value:
    """mov.b128 d, {low, …, high}."""
    return np.stack([M.lanes(C, p) for p in parts], axis=1).view(np.complex128)[:, 0]


def unpack128(M: Machine, C: Cohort, kind: str, value: Value) -> tuple[Value, ...]:
    """mov.b128 {low, …, high}, s."""
    rows = np.ascontiguousarray(M.lanes(C, value))[:, None].view(DTYPES[kind])
    return tuple(np.ascontiguousarray(rows[:, k]) for k in range(rows.shape[1]))


def move_special(M: Machine, C: Cohort, info: Any) -> Value:
    """A special register (PTX ISA 10)."""
    name, dtype = info
    value = M.special(C, name)
    if name.startswith(("%clock", "%globaltimer")):
        C.polled = True
    return value if value.dtype == dtype else value.astype(dtype)


def move_axes(M: Machine, C: Cohort, info: Any) -> tuple[Value, ...]:
    """mov.v4 of a special register: its parts x, y, z and w."""
    return tuple(move_special(M, C, (f"{info[0]}.{axis}", info[1])) for axis in "xyzw")


def _cvt(instr, function):
    """cvt takes a special register where other arithmetic does not."""
    source = instr.operands[1]
    if type(source) is not Special:
        return None
    wide = instr.mods[-1]
    if any(m[0] in "fb" for m in instr.mods):
        raise unsupported(instr, "a special register converts to integers only")
    alu = convert.cvt(replace(instr, operands=(instr.operands[0], Reg("", wide)), _access=None))
    return MachineOp(convert_special, (source.name, alu, DTYPES[alu.ins[0]]), (), ((instr.operands[0], alu.outs[0]),), poll=source.tells_time)


def convert_special(M: Machine, C: Cohort, info: Any) -> Value:
    """cvt d, %special."""
    name, alu, dtype = info
    return alu.fn(move_special(M, C, (name, dtype)))


def move_symbol(M: Machine, C: Cohort, info: Any) -> Value:
    """The address of a variable in its own space."""
    name, dtype = info
    value = M.symbols[name]
    if M.cluster > 1 and value < np.uint64(1 << 24):        # in a cluster a CTA's own shared addresses carry its rank
        value = (M.rank_of(C).astype(np.uint64) << np.uint64(24)) | value
    return value.astype(dtype)


def _cvta(instr, function) -> MachineOp:
    to = instr.mods[0] == "to"
    space, kind = instr.mods[1 if to else 0], TYPES.get(instr.mods[-1], instr.mods[-1])
    if space not in SPACES or len(instr.mods) != 2 + to:
        raise unsupported(instr, f"there is no state space .{space}")
    base = WINDOWS.get(space, 0)
    delta = DTYPES[kind]((-base if to else base) & 0xFFFF_FFFF_FFFF_FFFF)
    return MachineOp(convert_address, delta, ((instr.operands[1], kind),), ((instr.operands[0], kind),))


def convert_address(M: Machine, C: Cohort, delta: Value, address: Value) -> Value:
    """Generic <-> state-space address: the window is added or taken off."""
    return address + delta if delta else address


def _isspacep(instr, function) -> MachineOp:
    space = instr.mods[0]
    if space not in SPACES or len(instr.mods) != 1:
        raise unsupported(instr, f"there is no state space .{space}")
    return MachineOp(is_space, space, ((instr.operands[1], "u64"),), ((instr.operands[0], "pred"),))


def is_space(M: Machine, C: Cohort, space: str, address: Value) -> Value:
    """isspacep: does a generic address lie in this space's window?"""
    tag = address >> np.uint64(40)
    shared, local, param = (np.uint64(w >> 40) for w in (SHARED_WINDOW, LOCAL_WINDOW, PARAM_WINDOW))
    if space == "shared::cluster" or space.startswith("shared") and M.cluster == 1:
        return tag == shared
    if space.startswith("shared"):
        return (tag == shared) & ((address >> np.uint64(24)) & np.uint64(0xFF) == M.rank_of(C).astype(np.uint64))
    if space == "const":
        found = [M.memory.find(int(a)) for a in M.lanes(C, address)]
        return np.array([a is not None and a.name.startswith("constant ") for a in found])
    if space == "local":
        return tag == local
    if space.startswith("param"):
        return tag == param
    return (tag != shared) & (tag != local) & (tag != param)


def _address_kind(instr) -> str:
    if instr.mods not in (("u32",), ("u64",), ("shared::cluster", "u32"), ("shared::cluster", "u64")):
        raise unsupported(instr, f"the form is {instr.op}{{.shared::cluster}}.u32 or .u64")
    return instr.mods[-1]


def _mapa(instr, function) -> MachineOp:
    target, address, rank = instr.operands
    kind = _address_kind(instr)
    return MachineOp(map_address, kind, ((address, kind), (rank, "u32")), ((target, kind),))


def map_address(M: Machine, C: Cohort, kind: str, address: Value, rank: Value) -> Value:
    """mapa: the address of the same variable in the CTA of another rank."""
    dtype = DTYPES[kind]
    rank = rank.astype(dtype)
    return (address & dtype(0xFFFF_FFFF_FFFF_FFFF & ~(0xFF << 24) if kind == "u64" else 0x00FF_FFFF)) | (rank << dtype(24))


def _getctarank(instr, function) -> MachineOp:
    kind = _address_kind(instr)
    return MachineOp(address_rank, kind, ((instr.operands[1], kind),), ((instr.operands[0], "u32"),))


def address_rank(M: Machine, C: Cohort, kind: str, address: Value) -> Value:
    """getctarank: the rank that a shared::cluster address names."""
    return ((address >> DTYPES[kind](24)) & DTYPES[kind](0xFF)).astype(np.uint32)


RESOLVERS = {"mov": _mov, "cvt": _cvt, "cvta": _cvta, "isspacep": _isspacep, "mapa": _mapa, "getctarank": _getctarank}
