"""Bulk and tensor copies and reductions from shared to global memory, and their groups (PTX ISA 9.7.9.25.4, 9.7.9.27.1)."""
from __future__ import annotations

import numpy as np

from ..landing import GroupOp
from ..translate import DTYPES
from . import updates
from .common import VALUE
from .copy_common import Info, Tile, check_size, note_rows, rows_of, shared_offset, smem_bytes, tensor_map


MAP_KIND = {"uint32": "u32", "int32": "s32", "uint64": "u64", "int64": "s64", "float16": "f16", "bfloat16": "bf16", "float32": "f32",
            "float32_ftz": "f32"}
REDUCTIONS = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16"), "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"), "inc": ("u32",), "dec": ("u32",),
    **dict.fromkeys(("and", "or", "xor"), ("b32", "b64", "u32", "s32", "u64", "s64")),
}
"""Operations and types of reductions in global memory (PTX ISA 9.7.9.25.4.2, 9.7.9.27.1.3)."""


def _tensor_update(M, C, info: Info, lane: int, fields):
    """What a tensor reduction does to the elements of this map's type; None for a store."""
    if not info.op:
        return None
    kind = MAP_KIND.get(fields.dtype)
    if kind not in REDUCTIONS[info.op]:
        raise M.fault(C, info.index, lane, f"a reduction .{info.op} on a tensor map of {fields.dtype}: .{info.op} works on "
                      f"{', '.join(k for k in REDUCTIONS[info.op] if k != 'f64')}", "illegal-descriptor", 0)
    return updates.update(info.op, kind, True)


def tensor_store(M, C, info: Info, source, map_address, *coords):
    """cp.async.bulk.tensor and cp.reduce.async.bulk.tensor to global memory: one copy a lane; nothing is written out of bounds."""
    source, maps = M.lanes(C, source), M.lanes(C, map_address)
    coords = [M.lanes(C, c) for c in coords]
    for lane in range(C.n):
        fields = tensor_map(M, C, info, lane, int(maps[lane]))
        where = tuple(int(c[lane]) for c in coords)
        if min(where) < 0:
            raise M.fault(C, info.index, lane, f"a tensor store at {where}: the corner of a store may not be negative", "out-of-bounds", 0)
        rows = rows_of(M, C, info, lane, fields, where, store=True)
        fn = _tensor_update(M, C, info, lane, fields)
        gid = int(C.gids[lane])
        slot = gid // M.T
        offset = shared_offset(M, C, info, lane, int(source[lane]), smem_bytes(fields), 128)
        place = Tile(M, fields, slot, offset)
        M.marks.stored(gid, info.index, fields, place)
        M.counting.operation("tma_reduce" if info.op else "tma_store", place.nbytes, info.index)

        def read(place=place):
            return M.smem_wide[(place.granules + place.base) >> 4].view(np.uint8).reshape(len(place.granules), -1)

        def write(data, fields=fields, rows=rows, lane=lane, fn=fn):
            _write_rows(M, C, info, lane, fields, rows, data, fn)
        group = _issue_store(M, info, gid, slot, place.spans, read, write)
        if M.global_shadow is not None:
            note_rows(M, gid, fields, rows, info.index, group, bool(info.op))


def _issue_store(M, info, gid: int, slot: int, spans, read, write) -> int:
    group = int(M.landing.open_group(np.array([gid]), bulk=True)[0])
    M.progress += 1
    if M.shadow is not None:
        M.shadow.async_read(gid, spans, M.clocks.bulk0 + (gid >> 5) % M.clocks.warps, group, info.index)
    M.landing.issue_store(GroupOp(gid, group, read, write, info.index, slot))
    return group


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
    view = allocation.view(es)
    index = ((address - allocation.address) // es)[:, None] + np.arange((high - low) // es)
    if fn is None:
        view[index] = np.ascontiguousarray(data[rows.inside, low:high]).view(view.dtype)
        return
    dtype = DTYPES[VALUE.get(kind := MAP_KIND[fields.dtype], kind)]
    typed = view.view(dtype)
    typed[index] = fn(typed[index], np.ascontiguousarray(data[rows.inside, low:high]).view(dtype))


def bulk_store(M, C, info: Info, source, target, size):
    """cp.async.bulk and cp.reduce.async.bulk to global memory."""
    source, target, size = M.lanes(C, source), M.lanes(C, target), M.lanes(C, size)
    for lane in range(C.n):
        nbytes, address, gid = int(size[lane]), int(target[lane]), int(C.gids[lane])
        check_size(M, C, info, lane, nbytes, address)
        slot = gid // M.T
        offset = shared_offset(M, C, info, lane, int(source[lane]), nbytes, 16) + slot * M.stride
        allocation = M.memory.find(address)
        if allocation is None or address + nbytes > allocation.end:
            raise M.fault(C, info.index, lane, f"{nbytes} bytes at global address {address:#x}: {M.memory.nearest(address + nbytes - 1)}",
                          "out-of-bounds", address)
        M.counting.operation("bulk_reduce" if info.op else "bulk_store", nbytes, info.index)
        start = address - allocation.address

        def read(offset=offset, nbytes=nbytes):
            return M.smem[offset:offset + nbytes].copy()

        def write(data, view=allocation, start=start, nbytes=nbytes):
            place = view.view(1)[start:start + nbytes]
            if info.op:
                dtype = DTYPES[VALUE.get(info.kind, info.kind)]
                data = updates.update(info.op, info.kind, True)(place.view(dtype), data.view(dtype)).view(np.uint8)
            place[:] = data
        group = _issue_store(M, info, gid, slot, [(offset, nbytes)], read, write)
        if M.global_shadow is not None:
            M.global_shadow.async_write(gid, allocation, np.arange(start >> 2, (start + nbytes) >> 2), group, info.index, bool(info.op))


def commit(M, C, info):
    """cp.async.bulk.commit_group."""
    M.landing.commit(C.gids, bulk=True)


def wait(M, C, info):
    """cp.async.bulk.wait_group[.read] N of this thread."""
    pending, read_only = info
    done = np.maximum(M.landing.committed(C.gids, bulk=True) - pending, 0).astype(np.int32)
    M.landing.finish_stores(C.gids, done, read_only)
    if not read_only:
        M.clocks.bulk_written[C.gids] = np.maximum(M.clocks.bulk_written[C.gids], done)
    C.unsynced = True
