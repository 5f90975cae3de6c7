"""Bulk and tensor copies by the copy engine: loads, stores, groups (PTX ISA 9.7.9.25.4, 9.7.9.27)."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...hopper import tensormap, tile
from ...hopper.tensormap import TensorMapError
from ..errors import LaunchError
from ..landing import BarrierOp, GroupOp, read_rows
from ..machine_constants import PARAM_WINDOW
from ..translate import MachineOp
from . import loadstore
from .common import find_global, unsupported


@dataclass
class Info:
    """index: of the instruction; rank: dimensions of a tensor copy (0: plain bulk copy)."""

    index: int
    rank: int = 0


def resolve(instr, function) -> MachineOp:
    """MachineOp of cp.async.bulk.* and cp.reduce.async.bulk.*"""
    mods, ops = instr.mods, instr.operands
    if mods[:3] == ("async", "bulk", "commit_group"):
        return MachineOp(commit, None)
    if mods[:3] == ("async", "bulk", "wait_group"):
        return MachineOp(wait, (ops[0].value, "read" in mods))
    if "prefetch" in mods:
        return MachineOp(loadstore.no_effect, None)
    if mods[0] == "reduce":
        raise unsupported(instr, "bulk reductions are not implemented")
    if any(m.startswith(("multicast", "im2col")) for m in mods):
        raise unsupported(instr)
    if any(m in ("tile::gather4", "tile::scatter4") for m in mods):
        raise unsupported(instr, "gather4 and scatter4 need sm_100 or newer; Hopper (sm_90a) does not have them")
    spaces = [m for m in mods if m.split("::")[0] in ("shared", "global")]
    rank = next((int(m[0]) for m in mods if len(m) == 2 and m[1] == "d"), 0)
    info = Info(instr.index, rank)
    if spaces[0] == "global":
        return _store(instr, info)
    if spaces[1] != "global":
        raise unsupported(instr, "copies between CTAs are not implemented")
    return _load(instr, info)


def _tensor_sources(operand) -> tuple:
    base = operand.map
    return ((base, "u64"), *((c, "s32") for c in operand.coords))


def _load(instr, info: Info) -> MachineOp:
    ops = instr.operands
    if info.rank:
        if ops[1].offset:
            raise unsupported(instr, "an offset on the tensor map's address is not implemented")
        return MachineOp(tensor_load, info, ((ops[0], None), (ops[2], None), *_tensor_sources(ops[1])))
    return MachineOp(bulk_load, info, ((ops[0], None), (ops[3], None), (ops[1], None), (ops[2], "u32")))


def _store(instr, info: Info) -> MachineOp:
    ops = instr.operands
    if info.rank:
        return MachineOp(tensor_store, info, ((ops[1], None), *_tensor_sources(ops[0])))
    return MachineOp(bulk_store, info, ((ops[1], None), (ops[0], None), (ops[2], "u32")))


# --- shared by all copies ---------------------------------------------------------------------------------------------
def tensor_map(M, C, info: Info, lane: int, address: int):
    """The fields of the tensor map at a generic address; an unusable one is an error that says why."""
    start = address - PARAM_WINDOW
    if 0 <= start < len(M.params):
        image = M.params[start:start + 128]
    else:
        allocation = M.memory.find(address)
        if allocation is None or address + 128 > allocation.end:
            raise M.fault(C, info.index, lane, f"no tensor map at {address:#x}: {M.memory.nearest(address)}", "out-of-bounds", address)
        offset = address - allocation.address
        image = allocation.view(1)[offset:offset + 128].tobytes()
    try:
        return tensormap.load(image)
    except TensorMapError as error:
        raise M.fault(C, info.index, lane, f"the tensor map: {error}", "out-of-bounds", address) from None


def _shared_offset(M, C, info: Info, lane: int, address: int, nbytes: int, align: int) -> int:
    offset = address & 0xFFFFFF
    if offset % align:
        raise M.fault(C, info.index, lane, f"shared address {offset:#x} is not a multiple of {align}, which this copy needs",
                      "misaligned", offset)
    if offset < 0x400 or offset + nbytes > M.shared_limit:
        raise M.fault(C, info.index, lane, f"{nbytes} bytes at shared address {offset:#x}, but this CTA's shared memory is "
                      f"0x400 to {M.shared_limit:#x}", "out-of-bounds", offset)
    return offset


class Tile:
    """Where one tensor copy touches shared memory: byte positions of its 16-byte granules in M.smem."""

    __slots__ = ("granules", "spans", "nbytes", "dense", "base")

    def __init__(self, M, fields, slot: int, offset: int):
        base = slot * M.stride
        self.granules, width = geometry(fields, offset)
        self.base = base
        self.nbytes = tile.tile_bytes(fields)
        self.dense = width == fields.inner_bytes
        if self.dense:
            self.spans = [(base + offset, tile.smem_bytes(fields))]
        else:
            places = np.unique(self.granules) + base
            self.spans = [(int(p), 16) for p in places]


_GEOMETRY: dict = {}


def geometry(fields, offset: int):
    """(granule addresses (rows, granules), row pitch), remembered by map layout and address."""
    key = (fields.dtype, fields.box_dim, fields.element_strides, fields.swizzle, fields.interleave, offset)
    known = _GEOMETRY.get(key)
    if known is None:
        if len(_GEOMETRY) > 4096:
            _GEOMETRY.clear()
        known = _GEOMETRY[key] = (tile.granule_addresses(fields, offset), tile.row_pitch(fields))
    return known


# --- loads ------------------------------------------------------------------------------------------------------------
def tensor_load(M, C, info: Info, target, barrier, map_address, *coords):
    """cp.async.bulk.tensor to shared memory: each lane starts one copy of its map's box."""
    ids = M.barriers.ids(C, barrier, info)
    target, maps = M.lanes(C, target), M.lanes(C, map_address)
    coords = [M.lanes(C, c) for c in coords]
    for lane in range(C.n):
        fields = tensor_map(M, C, info, lane, int(maps[lane]))
        if fields.rank != info.rank:
            raise M.fault(C, info.index, lane, f"a {info.rank}-D copy with a tensor map of rank {fields.rank}", "out-of-bounds", 0)
        gid = int(C.gids[lane])
        slot = gid // M.T
        offset = _shared_offset(M, C, info, lane, int(target[lane]), tile.smem_bytes(fields), 128)
        where = tuple(int(c[lane]) for c in coords)
        place = Tile(M, fields, slot, offset)
        M.session.count("tma_load_bytes", place.nbytes)
        M.session.count("tma_loads", 1)
        _issue_load(M, info, gid, slot, int(ids[lane]), place.nbytes, place.spans, _tensor_mover(M, C, info, lane, fields, where, place))


def _tensor_mover(M, C, info, lane, fields, where, place):
    def fault(address):
        return M.fault(C, info.index, lane, f"the box at {where} reads global address {address:#x}: {M.memory.nearest(address)}",
                       "out-of-bounds", address)

    def move() -> None:
        rows = read_rows(M.memory, fields, tile.global_rows(fields, where), fault)
        M.smem_wide[(place.granules + place.base) >> 4] = rows.view(np.complex128)
    return move


def _issue_load(M, info, gid: int, slot: int, barrier: int, nbytes: int, spans, move) -> None:
    if M.shadow is not None:
        barriers, clocks = M.barriers, M.clocks
        column = clocks.bar0 + barrier % barriers.capacity
        phase = int(barriers.phase[barrier]) + 1
        M.shadow.async_write(gid, spans, column, phase, info.index)
        M.landing.last_copy[barrier] = (column, phase, gid, info.index, slot)
    M.landing.issue_copy(BarrierOp(barrier, nbytes, move, gid, info.index, slot))


def bulk_load(M, C, info: Info, target, barrier, source, size):
    """cp.async.bulk to shared memory: `size` consecutive bytes."""
    ids = M.barriers.ids(C, barrier, info)
    target, source, size = M.lanes(C, target), M.lanes(C, source), M.lanes(C, size)
    for lane in range(C.n):
        nbytes, address, gid = int(size[lane]), int(source[lane]), int(C.gids[lane])
        _check_size(M, C, info, lane, nbytes, address)
        slot = gid // M.T
        offset = _shared_offset(M, C, info, lane, int(target[lane]), nbytes, 16) + slot * M.stride
        sub = type(C)(C.gids[lane:lane + 1], None, C.pc)
        allocation, _, start = find_global(M, sub, np.array([address + nbytes - 1], np.uint64), 1, info.index)[0]
        start = address - allocation.address
        M.session.count("bulk_load_bytes", nbytes)

        def move(view=allocation, start=start, offset=offset, nbytes=nbytes):
            M.smem[offset:offset + nbytes] = view.view(1)[start:start + nbytes]
        _issue_load(M, info, gid, slot, int(ids[lane]), nbytes, [(offset, nbytes)], move)


def _check_size(M, C, info, lane, nbytes: int, address: int) -> None:
    if nbytes % 16 or address % 16:
        raise M.fault(C, info.index, lane, f"a bulk copy of {nbytes} bytes at global address {address:#x}: size and both "
                      "addresses are multiples of 16", "misaligned", address)


# --- stores -----------------------------------------------------------------------------------------------------------
def tensor_store(M, C, info: Info, source, map_address, *coords):
    """cp.async.bulk.tensor to global memory: each lane starts one copy; out-of-bounds elements are not written."""
    source, maps = M.lanes(C, source), M.lanes(C, map_address)
    coords = [M.lanes(C, c) for c in coords]
    for lane in range(C.n):
        fields = tensor_map(M, C, info, lane, int(maps[lane]))
        where = tuple(int(c[lane]) for c in coords)
        if min(where) < 0:
            raise M.fault(C, info.index, lane, f"a tensor store at {where}: the corner of a store may not be negative", "out-of-bounds", 0)
        gid = int(C.gids[lane])
        slot = gid // M.T
        offset = _shared_offset(M, C, info, lane, int(source[lane]), tile.smem_bytes(fields), 128)
        place = Tile(M, fields, slot, offset)
        M.session.count("tma_store_bytes", place.nbytes)

        def read(place=place):
            return M.smem_wide[(place.granules + place.base) >> 4].view(np.uint8).reshape(len(place.granules), -1)

        def write(data, fields=fields, where=where, lane=lane):
            _write_rows(M, C, info, lane, fields, tile.global_rows(fields, where), data)
        _issue_store(M, info, gid, slot, place.spans, read, write)


def _issue_store(M, info, gid: int, slot: int, spans, read, write) -> None:
    group = int(M.landing.open_group(np.array([gid]), bulk=True)[0])
    M.progress += 1
    if M.shadow is not None:
        M.shadow.async_read(gid, spans, M.clocks.bulk0 + (gid >> 5) % M.clocks.warps, group, info.index)
    M.landing.issue_store(GroupOp(gid, group, read, write, info.index, slot))


def _write_rows(M, C, info, lane, fields, rows, data) -> None:
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
    view[index] = np.ascontiguousarray(data[rows.inside, low:high]).view(view.dtype)


def bulk_store(M, C, info: Info, source, target, size):
    """cp.async.bulk to global memory."""
    source, target, size = M.lanes(C, source), M.lanes(C, target), M.lanes(C, size)
    for lane in range(C.n):
        nbytes, address, gid = int(size[lane]), int(target[lane]), int(C.gids[lane])
        _check_size(M, C, info, lane, nbytes, address)
        slot = gid // M.T
        offset = _shared_offset(M, C, info, lane, int(source[lane]), nbytes, 16) + slot * M.stride
        allocation = M.memory.find(address)
        if allocation is None or address + nbytes > allocation.end:
            raise M.fault(C, info.index, lane, f"{nbytes} bytes at global address {address:#x}: {M.memory.nearest(address + nbytes - 1)}",
                          "out-of-bounds", address)
        M.session.count("bulk_store_bytes", nbytes)
        start = address - allocation.address

        def read(offset=offset, nbytes=nbytes):
            return M.smem[offset:offset + nbytes].copy()

        def write(data, view=allocation, start=start, nbytes=nbytes):
            view.view(1)[start:start + nbytes] = data
        _issue_store(M, info, gid, slot, [(offset, nbytes)], read, write)


def commit(M, C, info):
    """cp.async.bulk.commit_group."""
    M.landing.commit(C.gids, bulk=True)


def wait(M, C, info):
    """cp.async.bulk.wait_group[.read] N of this thread."""
    pending, read_only = info
    done = np.maximum(M.landing.committed(C.gids, bulk=True) - pending, 0).astype(np.int32)
    M.landing.finish_stores(C.gids, done, read_only)
    C.unsynced = True


__all__ = ["LaunchError", "resolve"]
