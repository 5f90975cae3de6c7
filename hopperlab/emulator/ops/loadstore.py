# SPDX-License-Identifier: Apache-2.0
"""ld and st in every space, vectors and qualifiers, and prefetch (PTX ISA 9.7.9.8 to 9.7.9.15)."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.memory import UNSIGNED
from ..ptx.ir import Sym, Vec
from ..compile.translated import DTYPES, MachineOp
from . import cluster_copies
from .common import LOCAL_TAG, PARAM_TAG, SHARED_TAG, SPACES, VALUE, WIDTH, Access, find_global, find_writable, flat_shared, no_sm_90a, unsupported, window

if TYPE_CHECKING:
    from ..isa.value import Value
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine

QUALIFIERS = {"weak", "volatile", "relaxed", "acquire", "release", "nc", "mmio", "unified", "cta", "cluster", "gpu", "sys",
              "ca", "cg", "cs", "lu", "cv", "wb", "wt"}


def _decode(instr) -> tuple[Access, bool]:
    space, count, kind, hint = "generic", 1, None, False
    cluster = not any(m.startswith("shared") for m in instr.mods) or "shared::cluster" in instr.mods
    volatile = False
    for mod in instr.mods:
        if mod in SPACES:
            space = "shared" if mod.startswith("shared") else "param" if mod.startswith("param") else mod
        elif mod in ("v2", "v4"):
            count = int(mod[1])
        elif mod == "v8":
            raise no_sm_90a(instr, "a 256-bit access", "sm_100")
        elif mod in WIDTH:
            kind = mod
        elif mod == "L2::cache_hint":
            hint = True
        elif mod in ("volatile", "relaxed", "acquire", "release", "mmio"):
            volatile = True
        elif mod not in QUALIFIERS and not mod.startswith(("L1::", "L2::")):
            raise unsupported(instr, f"modifier .{mod} is not implemented")
    if kind is None or kind == "b128" and count > 1:
        raise unsupported(instr)
    if count == 4 and WIDTH[kind] == 8:
        raise no_sm_90a(instr, "a 256-bit access", "sm_100")
    return Access(instr.index, VALUE.get(kind, kind), WIDTH[kind], count, space, 0, volatile, cluster=cluster,
                  constant="nc" in instr.mods, release="release" in instr.mods, narrow="cta" in instr.mods,
                  system=any(m in instr.mods for m in ("sys", "volatile", "mmio")), acquire="acquire" in instr.mods), hint


def _load(instr, function) -> MachineOp:
    access, _ = _decode(instr)
    target, address = instr.operands[0], instr.operands[1]
    items = target.items if type(target) is Vec else (target,)
    _count(instr, access, items)
    dsts = tuple((r, _fill(access, r)) for r in items)
    if access.space == "param" and type(address.base) is Sym:
        access.symbol, access.offset = address.base.name, address.offset
        if access.symbol not in {p.name for p in function.params}:
            raise unsupported(instr, f"{access.symbol} is no parameter of {function.name}")
        return MachineOp(load_param, access, (), dsts)
    return MachineOp(load, access, ((address, None),), dsts, poll=access.volatile)


def _count(instr, access: Access, items: tuple) -> None:
    if len(items) != access.count:
        raise unsupported(instr, f"{len(items)} registers for {access.count} elements")


def _fill(access: Access, reg) -> str:
    """A load narrower than its register extends by the sign of the instruction's type: write() does that."""
    return access.type


def load_param(M: Machine, C: Cohort, info: Access) -> Value | tuple[Value, ...]:
    """ld.param of a kernel parameter: the same for every thread."""
    start = M.layout.params[info.symbol] + info.offset
    if not 0 <= start <= len(M.params) - info.nbytes:
        raise M.fault(C, info.index, 0, f"{info.nbytes} bytes at byte {start} of the kernel's {len(M.params)} bytes of parameters", "out-of-bounds", start)
    if any(first < start + info.nbytes and start < end for first, end in M.layout.maps):
        M.tell.map_words_read(C, info.nbytes, info.index)
    values = np.frombuffer(M.params, DTYPES[info.type], info.count, start)
    return values[0] if info.count == 1 else tuple(values)


def load(M: Machine, C: Cohort, info: Access, address: Value) -> Value | tuple[Value, ...]:
    """ld from shared, global, local, const or generic addresses."""
    if info.volatile:
        C.polled = True
    space = info.space
    if space == "generic":
        return _load_generic(M, C, info, address)
    if space == "shared":
        return _load_shared(M, C, info, address)
    if space in ("global", "const"):
        return _load_global(M, C, info, address)
    if space == "param":
        return _load_window(M, C, info, address)
    return _load_local(M, C, info, address)


def _load_generic(M, C, info, address):
    tag = window(address if not address.ndim else address[0])
    if address.ndim and not ((address >> np.uint64(40)) == np.uint64(tag)).all():
        return _load_mixed(M, C, info, address)
    if tag == SHARED_TAG:
        return _load_shared(M, C, info, address)
    if tag == LOCAL_TAG:
        return _load_local(M, C, info, address)
    if tag == PARAM_TAG:
        return _load_window(M, C, info, address)
    return _load_global(M, C, info, address)


def _load_mixed(M, C, info, address):
    """Lanes of one generic load point into different spaces."""
    tags = address >> np.uint64(40)
    outs = [np.empty(C.n, DTYPES[info.type]) for _ in range(info.count)]
    for tag in np.unique(tags):
        index = np.flatnonzero(tags == tag)
        sub = type(C)(C.gids[index], None, C.pc)
        values = _load_generic(M, sub, info, address[index])
        for out, value in zip(outs, values if info.count > 1 else (values,)):
            out[index] = value
    return outs[0] if info.count == 1 else tuple(outs)


def _columns(rows: np.ndarray, info: Access):
    """(n, count) words -> one array a register."""
    typed = rows.view(DTYPES[info.type])
    return tuple(np.ascontiguousarray(typed[:, k]) for k in range(info.count))


def _load_shared(M, C, info, address):
    flat = flat_shared(M, C, address, info.nbytes, info.index, info.cluster)
    M.tell.shared_read(C, flat, info)
    if info.count == 1:
        view = M.smem_views[info.width] if info.width < 16 else M.smem_wide
        value = view[flat >> (info.width.bit_length() - 1)].view(DTYPES[info.type])
        return M.altered.read(C.gids >> 5, M.warps, value) if M.altered.moves else value
    values = _columns(M.smem_views[info.width].reshape(-1, info.count)[flat // info.nbytes], info)
    return tuple(M.altered.read(C.gids >> 5, M.warps, value) for value in values) if M.altered.moves else values


def _load_global(M, C, info, address):
    uniform = not address.ndim
    address = address.reshape(1) if uniform else address
    parts = find_global(M, C, address, info.nbytes, info.index)
    M.tell.global_read(C, address, parts, info)
    if M.altered.moves:
        M.altered.fetched(C.gids >> 5)
    if len(parts) == 1:
        rows = _gather(parts[0][0], parts[0][2], info)
    else:
        rows = np.empty((len(address), info.count), UNSIGNED[info.width])
        for allocation, where, offset in parts:
            rows[where] = _gather(allocation, offset, info).reshape(-1, info.count)
    if info.count == 1:
        flat = rows.reshape(-1).view(DTYPES[info.type])
        return flat[0] if uniform else flat
    columns = _columns(rows.reshape(-1, info.count), info)
    return tuple(c[0] for c in columns) if uniform else columns


def _gather(allocation, offset, info):
    view = allocation.view(info.width)
    if info.count == 1:
        return view[offset >> (info.width.bit_length() - 1)]
    first = offset // info.width
    return view[first[:, None] + np.arange(info.count)]


def _load_window(M, C, info, address):
    """Generic loads of the parameter window (a by-value struct whose address was taken)."""
    address = M.lanes(C, address)
    start = (address & np.uint64(0xFFFFFF)).astype(np.int64)
    raw = np.frombuffer(M.params, np.uint8)
    if (start + info.nbytes > len(raw)).any():
        lane = int(np.argmax(start))
        raise M.fault(C, info.index, lane, f"{info.nbytes} bytes at byte {int(start[lane])} of the kernel's {len(raw)} bytes of parameters", "out-of-bounds",
                      int(address[lane]))
    if any(((start + info.nbytes > first) & (start < end)).any() for first, end in M.layout.maps):
        M.tell.map_words_read(C, info.nbytes, info.index)
    rows = raw[start[:, None] + np.arange(info.nbytes)]
    if info.count == 1:
        return rows.view(DTYPES[info.type])[:, 0]
    return _columns(rows, info)


def _local_view(M, C, info, address):
    """Offsets (one, where all lanes have the same) in local memory, which lies word by word, each word of all threads side by side: M.local[word, thread]."""
    size = M.layout.local_bytes
    if M.local is None:
        M.local = np.zeros((-(-size // 16) * 4, M.slots * M.T), np.uint32)
    offset = address.astype(np.int64) & 0xFFFFFF
    if offset.ndim and (offset == offset[0]).all():
        offset = offset[0]
    if (offset + info.nbytes > size).any():
        offset = np.broadcast_to(offset, C.n)
        lane = int(np.argmax(offset))
        why = ("; the stack for calls that recurse or go through pointers is used up: does the recursion end?" if "%stack" in M.symbols else "")
        raise M.fault(C, info.index, lane, f"local address {int(offset[lane]):#x} of {size} bytes{why}", "out-of-bounds", int(offset[lane]))
    return offset


def _threads(C):
    """Where a cohort's threads stand in local memory: a slice where they follow each other."""
    def make():
        first, last = int(C.gids[0]), int(C.gids[-1])
        return slice(first, last + 1) if last - first == C.n - 1 else C.gids
    return C.cached("threads", make)


def _load_local(M, C, info, address):
    offset = _local_view(M, C, info, address)
    if (offset & 3).any() or info.width < 4:
        rows = _local_bytes(M, C, info, offset, None)
        return rows.view(DTYPES[info.type])[:, 0] if info.count == 1 else _columns(rows, info)
    threads, words = _threads(C), info.width // 4
    at = offset >> 2
    lanes = C.gids if at.ndim else threads
    columns = []
    for k in range(info.count):
        parts = [M.local[at + k * words + w, lanes] for w in range(words)]
        if words == 1:
            columns.append(np.ascontiguousarray(parts[0]).view(DTYPES[info.type]) if at.ndim else parts[0].copy().view(DTYPES[info.type]))
        else:
            columns.append(np.stack(parts, axis=1).view(DTYPES[info.type])[:, 0])
    return columns[0] if info.count == 1 else tuple(columns)


def _local_bytes(M, C, info, offset, rows):
    """Bytes of local memory that do not lie in whole words: (n, nbytes), or written from `rows`."""
    places = np.broadcast_to(offset, C.n)[:, None] + np.arange(info.nbytes)
    bytes_of = M.local.view(np.uint8).reshape(*M.local.shape, 4)
    if rows is None:
        return np.ascontiguousarray(bytes_of[places >> 2, C.gids[:, None], places & 3])
    bytes_of[places >> 2, C.gids[:, None], places & 3] = rows
    return rows


def _store(instr, function) -> MachineOp:
    if "async" in instr.mods:
        return cluster_copies.st_async(instr)
    if "bulk" in instr.mods:
        raise no_sm_90a(instr, "st.bulk", "sm_100")
    access, _ = _decode(instr)
    address, value = instr.operands[0], instr.operands[1]
    items = value.items if type(value) is Vec else (value,)
    _count(instr, access, items)
    if access.space == "param":
        raise unsupported(instr, "calls of functions that are not inlined are not implemented; mark them __forceinline__")
    return MachineOp(store, access, ((address, None), *((v, access.type) for v in items)))


def store(M: Machine, C: Cohort, info: Access, address: Value, *values: Value) -> None:
    """st to shared, global, local or generic addresses."""
    M.progress += 1
    space = info.space
    if space == "generic":
        return _store_generic(M, C, info, address, values)
    return _STORES[space](M, C, info, address, values)


def _store_generic(M, C, info, address, values):
    address = M.lanes(C, address)
    tags = address >> np.uint64(40)
    if (tags == tags[0]).all():
        space = {SHARED_TAG: "shared", LOCAL_TAG: "local"}.get(int(tags[0]), "global")
        return _STORES[space](M, C, info, address, values)
    for tag in np.unique(tags):
        index = np.flatnonzero(tags == tag)
        sub = type(C)(C.gids[index], None, C.pc)
        _store_generic(M, sub, info, address[index], tuple(v if not v.ndim else v[index] for v in values))


def _rows(values, info: Access, n: int) -> np.ndarray:
    """Register values -> (n, count) unsigned words."""
    rows = np.empty((n, info.count), UNSIGNED[info.width])
    for k, value in enumerate(values):
        rows[:, k] = value.view(rows.dtype)
    return rows


def _bytes(values, info: Access, n: int, where=slice(None)):
    """value(lanes) for listeners: the bytes that lanes (positions among `where`) store."""
    return lambda lanes: _rows(values, info, n)[where][lanes].view(np.uint8)


def _store_shared(M, C, info, address, values):
    flat = flat_shared(M, C, address, info.nbytes, info.index, info.cluster)
    if M.altered.moves:
        values = M.altered.written(C.gids >> 5, M.warps, values)
    M.tell.shared_written(C, flat, info, _bytes(values, info, C.n))
    if info.count == 1:
        view = M.smem_views[info.width] if info.width < 16 else M.smem_wide
        view[flat >> (info.width.bit_length() - 1)] = values[0].view(view.dtype)
    else:
        M.smem_views[info.width].reshape(-1, info.count)[flat // info.nbytes] = _rows(values, info, C.n)


def _store_global(M, C, info, address, values):
    address = M.lanes(C, address)
    parts = find_writable(M, C, address, info.nbytes, info.index)
    M.tell.global_written(C, address, parts, info, lambda where: _bytes(values, info, C.n, where))
    for allocation, where, offset in parts:
        view = allocation.view(info.width)
        if info.count == 1:
            value = values[0] if where is None or not values[0].ndim else values[0][where]
            view[offset >> (info.width.bit_length() - 1)] = value.view(view.dtype)
        else:
            rows = _rows(values, info, C.n)
            view[(offset // info.width)[:, None] + np.arange(info.count)] = rows if where is None else rows[where]


def _store_local(M, C, info, address, values):
    offset = _local_view(M, C, info, address)
    if (offset & 3).any() or info.width < 4:
        _local_bytes(M, C, info, offset, _rows(values, info, C.n).view(np.uint8).reshape(C.n, -1))
        return
    at, words = offset >> 2, info.width // 4
    lanes = C.gids if at.ndim else _threads(C)
    for k, value in enumerate(values):
        if words == 1:
            M.local[at + k, lanes] = value.view(np.uint32)
            continue
        pieces = (value if value.ndim else np.full(1, value)).view(np.uint32).reshape(-1, words)
        for w in range(words):
            M.local[at + k * words + w, lanes] = pieces[:, w] if len(pieces) > 1 else pieces[0, w]


_STORES = {"shared": _store_shared, "global": _store_global, "local": _store_local}


def no_effect(M: Machine, C: Cohort, info: Any) -> None:
    """An instruction that changes only speed."""


RESOLVERS = {"ld": _load, "ldu": _load, "st": _store}
