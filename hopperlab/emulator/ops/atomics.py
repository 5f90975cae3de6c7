"""atom and red on global and shared memory (PTX ISA 9.7.13.6, 9.7.13.7). Lanes of one instruction apply in lane order."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..ptx.ir import Sink, Vec
from ..translate import DTYPES, MachineOp
from . import cluster_copies
from .common import SHARED_TAG, SPACES, VALUE, WIDTH, find_global, flat_shared, unsupported

OPS = ("add", "min", "max", "and", "or", "xor", "inc", "dec", "exch", "cas")


@dataclass
class Info:
    """A decoded atomic: operation, value dtype, bytes, space."""

    index: int
    op: str
    kind: str
    width: int
    space: str
    returns: bool
    cluster: bool = False
    release: bool = False


def _decode(instr, returns: bool) -> Info:
    mods = instr.mods
    op = next((m for m in mods if m in OPS), None)
    kind = mods[-1]
    if op is None or kind not in WIDTH or kind in ("f16", "bf16", "f16x2", "bf16x2", "b128") or any(m.startswith("v") and m[1:].isdigit() for m in mods):
        raise unsupported(instr)
    space = next((m for m in mods if m in SPACES), "generic")
    return Info(instr.index, op, VALUE.get(kind, kind), WIDTH[kind], "shared" if space.startswith("shared") else space, returns,
                space in ("generic", "shared::cluster"), bool({"release", "acq_rel"} & set(mods)))


def _atom(instr, function) -> MachineOp:
    info = _decode(instr, True)
    target, address, *values = instr.operands
    if any(type(v) is Vec for v in values):
        raise unsupported(instr)
    dsts = () if type(target) is Sink else ((target, info.kind),)
    return MachineOp(atomic, info, ((address, None), *((v, info.kind) for v in values)), dsts, poll=True)


def _red(instr, function) -> MachineOp:
    if "async" in instr.mods:
        return cluster_copies.red_async(instr)
    info = _decode(instr, False)
    address, *values = instr.operands
    return MachineOp(atomic, info, ((address, None), *((v, info.kind) for v in values)))


def atomic(M, C, info: Info, address, *values):
    """atom or red: returns the old values (atom)."""
    if info.returns:
        C.polled = True
    address = M.lanes(C, address)
    values = [M.lanes(C, v) for v in values]
    space = info.space
    if space == "generic":
        space = "shared" if int(address[0]) >> 40 == SHARED_TAG else "global"
    if space == "shared":
        flat = flat_shared(M, C, address, info.width, info.index, info.cluster)
        view = M.smem_views[info.width].view(DTYPES[info.kind])
        old = _apply(M, view, flat >> (info.width.bit_length() - 1), info.op, values)
    else:
        old = np.empty(C.n, DTYPES[info.kind])
        for allocation, where, offset in find_global(M, C, address, info.width, info.index):
            _note(M, C, info, allocation, where, offset)
            view = allocation.view(info.width).view(DTYPES[info.kind])
            part = values if where is None else [v[where] for v in values]
            result = _apply(M, view, offset >> (info.width.bit_length() - 1), info.op, part)
            old[slice(None) if where is None else where] = result
    return old if info.returns else None


def _note(M, C, info: Info, allocation, where, offset) -> None:
    """Atomics synchronise: they race with plain accesses only, and carry what fences published."""
    shadow = M.global_shadow
    if shadow is None:
        return
    sub = C if where is None else type(C)(C.gids[where], None, C.pc)
    shadow.write(sub.gids, allocation, offset, info.width, info.index, sync=True)
    warps, first = np.unique(sub.gids >> 5, return_index=True)
    if len(warps) == 1 or len(np.unique(offset >> 2)) == len(offset):
        shadow.acquire(sub, allocation, offset)
        shadow.release(sub, allocation, offset, info.release)
        return
    for start, end in zip(first, np.append(first[1:], sub.n)):       # warps that meet at a word: one after the other
        one = type(C)(sub.gids[start:end], None, C.pc)
        shadow.acquire(one, allocation, offset[start:end])
        shadow.release(one, allocation, offset[start:end], info.release)


_UFUNC = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def _apply(M, view, index, op: str, values) -> np.ndarray:
    """Read, change, write, lane by lane where lanes meet; counts as progress when something changed."""
    old = view[index]
    if len(np.unique(index)) == len(index):
        new = _result(op, old, values)
        view[index] = new
        if not np.array_equal(new, old):
            M.progress += 1
        return old
    old = old.copy()
    for lane, place in enumerate(index.tolist()):
        before = view[place]
        old[lane] = before
        after = _result(op, before, [v[lane] for v in values])
        view[place] = after
        if after != before:
            M.progress += 1
    return old


def _result(op: str, old, values):
    value = values[0]
    if op in _UFUNC:
        return _UFUNC[op](old, value)
    if op == "exch":
        return value
    if op == "cas":
        return np.where(old == value, values[1], old)
    if op == "inc":
        return np.where(old >= value, 0, old + 1).astype(value.dtype)
    return np.where((old == 0) | (old > value), value, old - 1).astype(value.dtype)


RESOLVERS = {"atom": _atom, "red": _red}
