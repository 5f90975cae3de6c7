# SPDX-License-Identifier: Apache-2.0
"""Bulk and tensor copies and reductions from shared to global memory, and their groups (PTX ISA 9.7.9.25.4 to 9.7.9.25.6)."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine import pointers
from ..machine.in_flight import GroupOp
from ..compile.translated import DTYPES
from . import updates
from .common import VALUE
from .copy_common import Info, Tile, check_size, rows_of, shared_offset, smem_bytes, tensor_map

if TYPE_CHECKING:
    from ..isa.value import Value
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine


MAP_KIND = {"uint32": "u32", "int32": "s32", "uint64": "u64", "int64": "s64", "float16": "f16", "bfloat16": "bf16", "float32": "f32",
            "float32_ftz": "f32"}
REDUCTIONS = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16"), "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"), "inc": ("u32",), "dec": ("u32",),
    **dict.fromkeys(("and", "or", "xor"), ("b32", "b64", "u32", "s32", "u64", "s64")),
}
"""Operations and types of reductions in global memory (PTX ISA 9.7.9.25.4.2, 9.7.9.25.5.3)."""


def _tensor_update(M, C, info: Info, lane: int, fields):
    """What a tensor reduction does to the elements of this map's type; None for a store."""
    if not info.op:
        return None
    kind = MAP_KIND.get(fields.dtype)
    if kind not in REDUCTIONS[info.op]:
        raise M.fault(C, info.index, lane, f"a reduction .{info.op} on a tensor map of {fields.dtype}: .{info.op} works on "
                      f"{', '.join(k for k in REDUCTIONS[info.op] if k != 'f64')}", "illegal-descriptor", 0)
    return updates.update(info.op, kind, True)


def _issuing(M: Machine, C: Cohort, info: Info, *operands: np.ndarray) -> list[int]:
    """The lanes (positions) whose copy is started. A reduction happens once a lane; a store once for each different set of operands in a warp, by
    the first lane that has it: ptxas puts a loop over such sets around UTMASTG and UBLKCP.G.S, and a loop over lanes around everything else (docs/emulator.md)."""
    if info.op or C.n == 1:
        return list(range(C.n))
    rows = np.stack([C.gids >> 5, *(operand.astype(np.int64) for operand in operands)], axis=1)
    sets, first, lanes = np.unique(rows, axis=0, return_index=True, return_counts=True)
    if len(sets) < C.n:
        M.tell.stored_together(sets[lanes > 1, 0])
    return sorted(first.tolist())


def tensor_store(M: Machine, C: Cohort, info: Info, source: Value, map_address: Value, *coords: Value) -> None:
    """cp.async.bulk.tensor and cp.reduce.async.bulk.tensor to global memory; nothing is written out of bounds."""
    source, maps = M.lanes(C, source), M.lanes(C, map_address)
    coords = [M.lanes(C, c) for c in coords]
    for lane in _issuing(M, C, info, source, maps, *coords):
        fields = tensor_map(M, C, info, lane, int(maps[lane]))
        where = tuple(int(c[lane]) for c in coords)
        if min(where) < 0:
            raise M.fault(C, info.index, lane, f"a tensor store at {where}: the corner of a store may not be negative", "out-of-bounds", 0)
        rows = rows_of(M, C, info, lane, fields, where, store=True)
        gid = int(C.gids[lane])
        fn = _as_altered(M, gid, info, _tensor_update(M, C, info, lane, fields))
        slot = gid // M.T
        offset = shared_offset(M, C, info, lane, int(source[lane]), smem_bytes(fields), 128)
        place = Tile(M, fields, slot, offset)

        def read(place=place):
            return _delivered(M, info, M.smem_wide[(place.granules + place.base) >> 4].view(np.uint8).reshape(len(place.granules), -1))

        def write(data, fields=fields, rows=rows, lane=lane, fn=fn):
            _write_rows(M, C, info, lane, fields, rows, data, fn)
        M.tell.store_issued(gid, place.spans, place.nbytes, info.index, bool(info.op), (fields, place))
        _issue_store(M, info, gid, slot, read, write)
        M.tell.box_written(gid, fields, rows, info.index, bool(info.op))


def _delivered(M, info: Info, data: np.ndarray) -> np.ndarray:
    """The bytes of a store (machine/altered.py); those of a reduction stay as they are."""
    return data if info.op else M.altered.delivered("store", data)


def _as_altered(M, gid: int, info: Info, fn):
    """A reduction's update (machine/altered.py)."""
    if info.op == "add" and M.altered.takes_away(M.block_index(gid)):
        return lambda old, new: fn(old, -new)
    return fn


def _issue_store(M, info, gid: int, slot: int, read, write) -> None:
    group = int(M.landing.bulk_groups.open(np.array([gid]))[0])
    M.progress += 1
    M.landing.issue_store(GroupOp(gid, group, read, write, info.index, slot))


def _check_writable(M, C, info, lane, allocation, address) -> None:
    if not allocation.writable:
        raise M.fault(C, info.index, lane, f"{allocation.name} is read-only", "out-of-bounds", address)


def _write_rows(M, C, info, lane, fields, rows, data, fn) -> None:
    es = fields.elem_bytes
    low, high = rows.first * es, rows.last * es
    if high <= low or not rows.inside.any():
        return
    address = rows.address[rows.inside] + low
    allocation = M.memory.find(int(address.min()))
    if allocation is None or int(address.max()) + high - low > allocation.end:
        bad = int(address.max()) + high - low - 1
        raise M.fault(C, info.index, lane, f"a tensor store writes global address {bad:#x}: {M.memory.nearest(bad)}", "out-of-bounds", bad)
    _check_writable(M, C, info, lane, allocation, int(address.min()))
    view = allocation.view(es)
    index = ((address - allocation.address) // es)[:, None] + np.arange((high - low) // es)
    if fn is None:
        view[index] = np.ascontiguousarray(data[rows.inside, low:high]).view(view.dtype)
        return
    dtype = DTYPES[VALUE.get(kind := MAP_KIND[fields.dtype], kind)]
    typed = view.view(dtype)
    typed[index] = fn(typed[index], np.ascontiguousarray(data[rows.inside, low:high]).view(dtype))


def bulk_store(M: Machine, C: Cohort, info: Info, source: Value, target: Value, size: Value) -> None:
    """cp.async.bulk and cp.reduce.async.bulk to global memory."""
    source, target, size = M.lanes(C, source), M.lanes(C, target), M.lanes(C, size)
    for lane in _issuing(M, C, info, source, target, size):
        nbytes, address, gid = int(size[lane]), int(target[lane]), int(C.gids[lane])
        check_size(M, C, info, lane, nbytes, address)
        slot = gid // M.T
        offset = shared_offset(M, C, info, lane, int(source[lane]), nbytes, 16) + slot * M.stride
        if not nbytes:                                  # legal: nothing is read or written
            continue
        allocation = M.memory.find(address)
        if allocation is None or address + nbytes > allocation.end:
            where = pointers.nearest(M, info.index, address if allocation is None else address + nbytes - 1)
            raise M.fault(C, info.index, lane, f"{nbytes} bytes at global address {address:#x}: {where}", "out-of-bounds", address)
        _check_writable(M, C, info, lane, allocation, address)
        start = address - allocation.address

        def read(offset=offset, nbytes=nbytes):
            return _delivered(M, info, M.smem[offset:offset + nbytes].copy())

        fn = _as_altered(M, gid, info, updates.update(info.op, info.kind, True) if info.op else None)

        def write(data, view=allocation, start=start, nbytes=nbytes, fn=fn):
            place = view.view(1)[start:start + nbytes]
            if fn is not None:
                dtype = DTYPES[VALUE.get(info.kind, info.kind)]
                data = fn(place.view(dtype), data.view(dtype)).view(np.uint8)
            place[:] = data
        M.tell.store_issued(gid, [(offset, nbytes)], nbytes, info.index, bool(info.op), None)
        _issue_store(M, info, gid, slot, read, write)
        M.tell.span_written(gid, allocation, start, nbytes, info.index, bool(info.op))


def commit(M: Machine, C: Cohort, info: Any) -> None:
    """cp.async.bulk.commit_group."""
    M.landing.bulk_groups.commit(C.gids)
    M.tell.committed(C, True)


def wait(M: Machine, C: Cohort, info: Any) -> None:
    """cp.async.bulk.wait_group[.read] N of this thread."""
    pending, read_only = info
    M.landing.finish_stores(C.gids, pending, read_only)
    M.tell.groups_waited(C, True, pending, read_only)
