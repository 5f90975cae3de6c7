# SPDX-License-Identifier: Apache-2.0
"""Asynchronous transfers between the CTAs of a cluster: bulk copies, st.async and red.async (PTX ISA 9.7.9.25.4, 9.7.9.12,
9.7.13.7). Each signals an mbarrier of the CTA it writes to."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.in_flight import BarrierOp
from ..ptx.ir import Vec
from ..compile.translated import DTYPES, MachineOp
from .common import VALUE, WIDTH, flat_shared, unsupported
from .updates import update

if TYPE_CHECKING:
    from ..isa.value import Value
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine
    from ..ptx.ir import Instr

SHARED_REDUCTIONS = {"add": ("u32", "s32", "u64"), "min": ("u32", "s32"), "max": ("u32", "s32"), "inc": ("u32",), "dec": ("u32",),
                     "and": ("b32",), "or": ("b32",), "xor": ("b32",)}
"""Operations and types of reductions into shared memory (PTX ISA 9.7.9.25.4.2, 9.7.13.7)."""


@dataclass
class Info:
    """A decoded transfer: value type, bytes per element, elements a lane, operation ('' for a store)."""

    index: int
    type: str = "u32"
    width: int = 4
    count: int = 1
    op: str = ""
    cluster: bool = True


def between_ctas(instr: Instr, info: Any) -> MachineOp:
    """cp.async.bulk.shared::cluster.shared::cta: shared memory of this CTA to that of another."""
    target, source, size, barrier = instr.operands[:4]
    if info.op and info.kind not in SHARED_REDUCTIONS[info.op]:
        raise unsupported(instr, f"there is no reduction .{info.op} of .{info.kind} in shared memory")
    form = Info(instr.index, VALUE.get(info.kind, info.kind), WIDTH.get(info.kind, 1), 1, info.op)
    return MachineOp(copy, form, ((target, None), (source, None), (size, "u32"), (barrier, None)))


def copy(M: Machine, C: Cohort, info: Info, target: Value, source: Value, size: Value, barrier: Value) -> None:
    """Each lane copies `size` bytes; they complete on the barrier of the destination's CTA."""
    ids = M.barriers.ids(C, barrier, info)
    size = M.lanes(C, size)
    for lane in range(C.n):
        sub = type(C)(C.gids[lane:lane + 1], None, C.pc)
        nbytes, gid = int(size[lane]), int(C.gids[lane])
        to = int(flat_shared(M, sub, M.lanes(C, target)[lane:lane + 1], 16, info.index, True)[0])
        of = int(flat_shared(M, sub, M.lanes(C, source)[lane:lane + 1], 16, info.index)[0])
        if nbytes % 16:
            raise M.fault(C, info.index, lane, f"a bulk copy of {nbytes} bytes: the size is a multiple of 16", "misaligned", nbytes)
        if not nbytes:
            continue
        M.tell.copy_out(gid, of, nbytes, int(ids[lane]), info.index, bool(info.op))

        def move(to=to, of=of, nbytes=nbytes):
            data = M.smem[of:of + nbytes]
            if info.op:
                dtype = DTYPES[info.type]
                data = _updated(info.op, M.smem[to:to + nbytes].view(dtype), data.view(dtype)).view(np.uint8)
            M.smem[to:to + nbytes] = data
        _issue(M, info, gid, int(ids[lane]), to, nbytes, move)


def _issue(M, info: Info, gid: int, barrier: int, to: int, nbytes: int, move, phase: int | None = None) -> None:
    M.tell.remote_issued(gid, barrier, to, nbytes, info.index, bool(info.op))
    M.landing.issue_copy(BarrierOp(barrier, nbytes, move, gid, info.index, to // M.stride, phase))


def _known(instr, more: set) -> None:
    """Refuse words that neither st.async nor red.async has on sm_90a."""
    strange = [m for m in instr.mods if m not in more | {"async", "shared::cluster", "mbarrier::complete_tx::bytes"}]
    if strange or "shared::cluster" not in instr.mods and "mbarrier::complete_tx::bytes" not in instr.mods:
        raise unsupported(instr, f"modifier .{strange[0]} is not known here" if strange else "it needs .shared::cluster and .mbarrier::complete_tx::bytes")


def st_async(instr: Instr) -> MachineOp:
    """st.async: a register (or vector) to another CTA's shared memory."""
    _known(instr, {"weak", "v2", "v4", "b32", "b64", "u32", "u64", "s32", "s64", "f32", "f64"})
    if len(instr.operands) != 3:
        raise unsupported(instr, "it takes an address, a value and a barrier")
    address, value, barrier = instr.operands
    kind = instr.mods[-1]
    items = value.items if type(value) is Vec else (value,)
    if len(items) != next((int(m[1]) for m in instr.mods if m in ("v2", "v4")), 1) or kind not in WIDTH:
        raise unsupported(instr, f"{len(items)} values")
    info = Info(instr.index, VALUE.get(kind, kind), WIDTH[kind], len(items))
    return MachineOp(remote, info, ((address, None), (barrier, None), *((v, info.type) for v in items)))


def red_async(instr: Instr) -> MachineOp:
    """red.async: an arithmetic update of another CTA's shared memory."""
    op, kind = next((m for m in instr.mods if m in SHARED_REDUCTIONS), None), instr.mods[-1]
    if op is None or kind not in SHARED_REDUCTIONS[op] and (op, kind) != ("add", "s64"):
        raise unsupported(instr, f"there is no red.async .{op or '?'} of .{kind}")
    _known(instr, {"relaxed", "cluster", op, kind})
    if len(instr.operands) != 3:
        raise unsupported(instr, "it takes an address, a value and a barrier")
    address, value, barrier = instr.operands
    info = Info(instr.index, VALUE.get(kind, kind), WIDTH[kind], 1, op)
    return MachineOp(remote, info, ((address, None), (barrier, None), (value, info.type)))


def remote(M: Machine, C: Cohort, info: Info, address: Value, barrier: Value, *values: Value) -> None:
    """st.async and red.async: one small transfer a lane."""
    ids = M.barriers.ids(C, barrier, info)
    nbytes = info.width * info.count
    flat = flat_shared(M, C, address, nbytes, info.index, True)
    rows = np.stack([M.lanes(C, v).view(DTYPES[info.type]) for v in values], axis=1)
    view = M.smem_views[info.width].view(DTYPES[info.type])
    M.tell.async_stored(C, flat, nbytes, ids, info.index, bool(info.op))
    phases = (M.barriers.phase[ids] + 1).tolist()
    for lane in range(C.n):
        first = int(flat[lane]) // info.width

        def move(first=first, row=rows[lane]):
            view[first:first + info.count] = _updated(info.op, view[first:first + info.count], row)
        _issue(M, info, int(C.gids[lane]), int(ids[lane]), int(flat[lane]), nbytes, move, phases[lane])


def _updated(op: str, old: np.ndarray, value: np.ndarray) -> np.ndarray:
    return update(op, "")(old, value) if op else value
