# SPDX-License-Identifier: Apache-2.0
"""atom and red on global and shared memory (PTX ISA 9.7.13.5, 9.7.13.6). Lanes of one instruction apply in lane order."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..ptx.ir import Sink, Vec
from ..compile.translated import DTYPES, MachineOp
from . import cluster_copies, updates
from .common import SHARED_TAG, SPACES, VALUE, WIDTH, find_writable, flat_shared, unsupported

if TYPE_CHECKING:
    from ..isa.value import Value
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine

QUALIFIERS = {"relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys", "noftz", "L2::cache_hint", "async"}
VECTORS = {"f32": (2, 4), "f16": (2, 4, 8), "bf16": (2, 4, 8), "f16x2": (2, 4), "bf16x2": (2, 4)}


@dataclass
class Info:
    """A decoded atomic: operation, value dtype, bytes per element, elements a lane, space; fn(old, value…) -> new. narrow: of CTA
    scope; system: of system scope."""

    index: int
    op: str
    kind: str
    width: int
    space: str
    returns: bool
    cluster: bool = False
    release: bool = False
    count: int = 1
    fn: Callable | None = None
    fn_shared: Callable | None = None
    narrow: bool = False
    system: bool = False
    acquire: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes a lane changes."""
        return self.width * self.count


def _decode(instr, returns: bool) -> Info:
    mods = instr.mods
    op, kind = next((m for m in mods if m in updates.OPS), None), mods[-1]
    vector = next((m for m in mods if m in ("v2", "v4", "v8")), None)
    rest = set(mods[:-1]) - QUALIFIERS - set(SPACES) - {op, vector}
    if op is None or kind not in WIDTH or rest:
        raise unsupported(instr, f"modifier .{sorted(rest)[0]} is not known here" if rest else "no such operation and type")
    count = int(vector[1]) if vector else 1
    if count > 1 and count not in VECTORS.get(kind, ()) or not _legal(op, kind, count):
        raise unsupported(instr, f"there is no .{op} of .{kind}" + (f" in vectors of {count}" if vector else ""))
    space = next((m for m in mods if m in SPACES), "generic")
    return Info(instr.index, op, VALUE.get(kind, kind), WIDTH[kind], "shared" if space.startswith("shared") else space, returns,
                space in ("generic", "shared::cluster"), bool({"release", "acq_rel"} & set(mods)), count,
                updates.update(op, kind, True), updates.update(op, kind), "cta" in mods, "sys" in mods, bool({"acquire", "acq_rel"} & set(mods)))


def _legal(op: str, kind: str, count: int) -> bool:
    """Which types an operation has (PTX ISA 9.7.13.5)."""
    if op in ("exch", "cas"):
        return kind[0] == "b" and "bf" not in kind and (kind != "b16" or op == "cas") and kind != "b8"
    if kind in updates.HALVES:
        return op == "add" or op in ("min", "max") and count > 1
    if op in ("and", "or", "xor"):
        return kind in ("b32", "b64")
    if op in ("inc", "dec"):
        return kind == "u32"
    if op == "add":
        return kind in ("u32", "s32", "u64", "s64", "f32", "f64")
    return kind in ("u32", "s32", "u64", "s64")


def _values(instr, values: list, info: Info) -> tuple:
    """The value operands: vectors flattened, a cache policy left out."""
    if "L2::cache_hint" in instr.mods:
        values = values[:-1]
    flat = [item for v in values for item in (v.items if type(v) is Vec else (v,))]
    if len(flat) != info.count * (2 if info.op == "cas" else 1):
        raise unsupported(instr, f"{len(flat)} values")
    return tuple((v, info.kind) for v in flat)


def _atom(instr, function) -> MachineOp:
    info = _decode(instr, True)
    target, address, *values = instr.operands
    targets = target.items if type(target) is Vec else (target,)
    if len(targets) != info.count and type(target) is not Sink:
        raise unsupported(instr, f"{len(targets)} registers for {info.count} elements")
    dsts = () if type(target) is Sink else tuple((t, info.kind) for t in targets)
    return MachineOp(atomic, info, ((address, None), *_values(instr, values, info)), dsts, poll=True)


def _red(instr, function) -> MachineOp:
    if "async" in instr.mods:
        return cluster_copies.red_async(instr)
    info = _decode(instr, False)
    address, *values = instr.operands
    return MachineOp(atomic, info, ((address, None), *_values(instr, values, info)))


def atomic(M: Machine, C: Cohort, info: Info, address: Value, *values: Value) -> Value | tuple[Value, ...] | None:
    """atom or red: returns the old values (atom), one array an element."""
    if info.returns:
        C.polled = True
    values = [M.lanes(C, v) for v in values]
    if info.count > 1:
        values = [np.stack(values, axis=1)]
    old = _somewhere(M, C, info, M.lanes(C, address), values)
    if not info.returns:
        return None
    return old if info.count == 1 else tuple(np.ascontiguousarray(old[:, k]) for k in range(info.count))


def _somewhere(M, C, info: Info, address, values):
    """Lanes of a generic atomic may point into shared and global memory at once."""
    if info.space == "generic":
        shared = (address >> np.uint64(40)) == np.uint64(SHARED_TAG)
        if shared.all() or not shared.any():
            return _one_space(M, C, info, "shared" if shared[0] else "global", address, values)
        old = np.empty_like(values[0])
        for space, mask in (("shared", shared), ("global", ~shared)):
            where = np.flatnonzero(mask)
            sub = type(C)(C.gids[where], None, C.pc)
            old[where] = _one_space(M, sub, info, space, address[where], [v[where] for v in values])
        return old
    return _one_space(M, C, info, info.space, address, values)


def _one_space(M, C, info: Info, space: str, address, values):
    shift = info.width.bit_length() - 1
    if space == "shared":
        flat = flat_shared(M, C, address, info.nbytes, info.index, info.cluster)
        M.tell.shared_atomic(C, flat, info)
        view = M.smem_wide if info.width == 16 else M.smem_views[info.width].view(DTYPES[info.kind])
        return _apply(M, view, flat >> shift, replace(info, fn=info.fn_shared), values)
    old = np.empty_like(values[0])
    parts = find_writable(M, C, address, info.nbytes, info.index)
    M.tell.global_atomic(C, parts, info)
    for allocation, where, offset in parts:
        view = allocation.view(info.width).view(DTYPES[info.kind])
        part = values if where is None else [v[where] for v in values]
        old[slice(None) if where is None else where] = _apply(M, view, offset >> shift, info, part)
    return old


def _apply(M, view, index, info: Info, values) -> np.ndarray:
    """Read, change, write, lane by lane where lanes meet; counts as progress when something changed."""
    if info.count > 1:
        index = index[:, None] + np.arange(info.count)
    old = view[index]
    if index.size == 1 or len(np.unique(index)) == index.size:
        new = info.fn(old, *values)
        view[index] = new
        if not np.array_equal(new, old):
            M.progress += 1
        return old
    if info.fn in _ADDITIVE and not (info.returns and M.translation.wants_result(info.index)):
        M.progress += 1
        info.fn.at(view, index, values[0])
        return old
    if np.array_equal(info.fn(old, *values), old):                 # no lane changes anything: a lock that is taken, a maximum that stands
        return old
    flat = old.reshape(-1)
    rows = [v.reshape(-1) for v in values]
    for lane, place in enumerate(index.reshape(-1).tolist()):
        before = view[place]
        flat[lane] = before
        after = info.fn(before, *(v[lane] for v in rows))
        view[place] = after
        if after != before:
            M.progress += 1
    return old


_ADDITIVE = tuple(updates.UFUNC.values())
RESOLVERS = {"atom": _atom, "red": _red}
