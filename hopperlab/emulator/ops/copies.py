"""Bulk and tensor copies by the copy engine: loads, stores, groups (PTX ISA 9.7.9.25.4, 9.7.9.27)."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...hopper import tensormap, tile
from ...hopper.tensormap import TensorMapError
from ..errors import LaunchError
from ..landing import BarrierOp, GroupOp, read_rows
from ..machine_constants import PARAM_WINDOW
from ..ptx.ir import Imm
from ..translate import MachineOp
from . import cluster_copies, loadstore
from .common import find_global, unsupported


@dataclass
class Info:
    """index: of the instruction; rank: dimensions of a tensor copy (0: plain bulk copy); cluster: the destination is named
    by a shared::cluster address; multicast: a mask operand names the CTAs that get the data."""

    index: int
    rank: int = 0
    cluster: bool = False
    multicast: bool = False


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
    if any(m.startswith("im2col") for m in mods):
        raise unsupported(instr)
    if any(m in ("tile::gather4", "tile::scatter4") for m in mods):
        raise unsupported(instr, "gather4 and scatter4 need sm_100 or newer; Hopper (sm_90a) does not have them")
    spaces = [m for m in mods if m.split("::")[0] in ("shared", "global")]
    rank = next((int(m[0]) for m in mods if len(m) == 2 and m[1] == "d"), 0)
    info = Info(instr.index, rank, spaces[0] == "shared::cluster", "multicast::cluster" in mods)
    if spaces[0] == "global":
        return _store(instr, info)
    if spaces[1] != "global":
        return cluster_copies.between_ctas(instr, info)
    return _load(instr, info)


def _tensor_sources(operand) -> tuple:
    base = operand.map
    return ((base, "u64"), *((c, "s32") for c in operand.coords))


def _load(instr, info: Info) -> MachineOp:
    ops = instr.operands
    if info.rank:
        if ops[1].offset:
            raise unsupported(instr, "an offset on the tensor map's address is not implemented")
        mask = ops[3] if info.multicast else Imm(0, "int", 0)
        return MachineOp(tensor_load, info, ((ops[0], None), (ops[2], None), (mask, "u32"), *_tensor_sources(ops[1])))
    mask = ops[4] if info.multicast else Imm(0, "int", 0)
    return MachineOp(bulk_load, info, ((ops[0], None), (ops[3], None), (mask, "u32"), (ops[1], None), (ops[2], "u32")))


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
def destinations(M, C, info: Info, target: np.ndarray, ids: np.ndarray, mask: np.ndarray) -> list[list[tuple[int, int]]]:
    """Per lane: the (slot, barrier id) pairs that its copy goes to: one CTA, or those of the multicast mask."""
    slots = M.target_slot(C, target, info.cluster, info.index)
    if not info.multicast:
        return [[(int(slot), int(barrier))] for slot, barrier in zip(slots, ids)]
    out, capacity = [], M.barriers.capacity
    for lane, own in enumerate(M.slot_of(C).tolist()):
        first, bits = own - own % M.cluster, int(mask[lane]) & 0xFFFF
        if bits >> M.cluster:
            raise M.fault(C, info.index, lane, f"multicast mask {bits:#06x} names ranks outside the cluster of {M.cluster} CTAs",
                          "cluster-lifetime", bits)
        ranks = [r for r in range(M.cluster) if bits >> r & 1]
        out.append([(first + r, (first + r) * capacity + int(ids[lane]) % capacity) for r in ranks])
    return out


def tensor_load(M, C, info: Info, target, barrier, mask, map_address, *coords):
    """cp.async.bulk.tensor to shared memory: each lane starts one copy of its map's box."""
    ids = M.barriers.ids(C, barrier, info)
    target, maps = M.lanes(C, target), M.lanes(C, map_address)
    coords = [M.lanes(C, c) for c in coords]
    where_to = destinations(M, C, info, target, ids, M.lanes(C, mask))
    for lane in range(C.n):
        fields = tensor_map(M, C, info, lane, int(maps[lane]))
        if fields.rank != info.rank:
            raise M.fault(C, info.index, lane, f"a {info.rank}-D copy with a tensor map of rank {fields.rank}", "out-of-bounds", 0)
        gid = int(C.gids[lane])
        offset = _shared_offset(M, C, info, lane, int(target[lane]), tile.smem_bytes(fields), 128)
        rows = _rows(M, C, info, lane, tile.global_rows, fields, tuple(int(c[lane]) for c in coords))
        fetch = _fetcher(M, C, info, lane, fields, rows)
        if M.global_shadow is not None:
            _note_rows(M, gid, fields, rows, info.index, None)
        M.session.count("tma_loads", 1)
        for slot, target_barrier in where_to[lane]:
            place = Tile(M, fields, slot, offset)
            M.session.count("tma_load_bytes", place.nbytes)
            issue_load(M, info, gid, slot, target_barrier, place.nbytes, place.spans, _tensor_mover(M, place, fetch))


def _rows(M, C, info, lane, find, fields, where):
    """Where the box at `where` lies; coordinates that the copy engine rejects are a fault with block, thread and line."""
    try:
        return find(fields, where)
    except TensorMapError as error:
        raise M.fault(C, info.index, lane, str(error), "misaligned", 0) from None


def _note_rows(M, gid: int, fields, rows, index: int, group: int | None) -> None:
    """Global-memory order of a tensor copy: the words its rows cover are read, or (group given) written."""
    low, high = rows.first * fields.elem_bytes, rows.last * fields.elem_bytes
    if high <= low or not rows.inside.any():
        return
    address = rows.address[rows.inside] + low
    allocation = M.memory.find(int(address.min()))
    if allocation is None or int(address.max()) + high - low > allocation.end:
        return                                              # the copy itself reports the fault
    if group is None and (allocation.stamps is None or allocation.stamps.who is None):
        return
    words = (((address - allocation.address) >> 2)[:, None] + np.arange((high - low + 3) >> 2)).reshape(-1)
    words = np.minimum(words, -(-allocation.nbytes // 4) - 1)
    if group is None:
        M.global_shadow.async_read(gid, allocation, 0, 0, index, words)
    else:
        M.global_shadow.async_write(gid, allocation, words, group, index)


def _fetcher(M, C, info, lane, fields, rows):
    """A function that reads the box from global memory (once: a multicast shares the read)."""
    def fault(address):
        return M.fault(C, info.index, lane, f"the box reads global address {address:#x}: {M.memory.nearest(address)}",
                       "out-of-bounds", address)
    cache: list = []

    def fetch():
        if not cache:
            cache.append(read_rows(M.memory, fields, rows, fault).view(np.complex128))
        return cache[0]
    return fetch


def _tensor_mover(M, place, fetch):
    def move() -> None:
        M.smem_wide[(place.granules + place.base) >> 4] = fetch()
    return move


def issue_load(M, info, gid: int, slot: int, barrier: int, nbytes: int, spans, move) -> None:
    """Start a copy into shared memory that signals `barrier`."""
    if M.shadow is not None:
        epoch = int(M.barriers.phase[barrier]) + 1
        M.shadow.async_write(gid, spans, M.clocks.barrier_column(barrier), epoch, info.index)
        M.landing.last_copy[barrier] = (M.clocks.barrier_column(barrier), epoch, gid, info.index, slot)
        M.barriers.checks.issued(barrier, gid)
    M.landing.issue_copy(BarrierOp(barrier, nbytes, move, gid, info.index, slot))


def bulk_load(M, C, info: Info, target, barrier, mask, source, size):
    """cp.async.bulk to shared memory: `size` consecutive bytes."""
    ids = M.barriers.ids(C, barrier, info)
    target, source, size = M.lanes(C, target), M.lanes(C, source), M.lanes(C, size)
    where_to = destinations(M, C, info, target, ids, M.lanes(C, mask))
    for lane in range(C.n):
        nbytes, address, gid = int(size[lane]), int(source[lane]), int(C.gids[lane])
        _check_size(M, C, info, lane, nbytes, address)
        start = _shared_offset(M, C, info, lane, int(target[lane]), nbytes, 16)
        sub = type(C)(C.gids[lane:lane + 1], None, C.pc)
        allocation = find_global(M, sub, np.array([address + nbytes - 1], np.uint64), 1, info.index)[0][0]
        first = address - allocation.address
        if M.global_shadow is not None:
            M.global_shadow.async_read(gid, allocation, first, first + nbytes, info.index)
        for slot, target_barrier in where_to[lane]:
            M.session.count("bulk_load_bytes", nbytes)
            place = start + slot * M.stride

            def move(view=allocation, first=first, place=place, nbytes=nbytes):
                M.smem[place:place + nbytes] = view.view(1)[first:first + nbytes]
            issue_load(M, info, gid, slot, target_barrier, nbytes, [(place, nbytes)], move)


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
        rows = _rows(M, C, info, lane, tile.store_rows, fields, where)
        gid = int(C.gids[lane])
        slot = gid // M.T
        offset = _shared_offset(M, C, info, lane, int(source[lane]), tile.smem_bytes(fields), 128)
        place = Tile(M, fields, slot, offset)
        M.session.count("tma_store_bytes", place.nbytes)

        def read(place=place):
            return M.smem_wide[(place.granules + place.base) >> 4].view(np.uint8).reshape(len(place.granules), -1)

        def write(data, fields=fields, rows=rows, lane=lane):
            _write_rows(M, C, info, lane, fields, rows, data)
        group = _issue_store(M, info, gid, slot, place.spans, read, write)
        if M.global_shadow is not None:
            _note_rows(M, gid, fields, rows, info.index, group)


def _issue_store(M, info, gid: int, slot: int, spans, read, write) -> int:
    group = int(M.landing.open_group(np.array([gid]), bulk=True)[0])
    M.progress += 1
    if M.shadow is not None:
        M.shadow.async_read(gid, spans, M.clocks.bulk0 + (gid >> 5) % M.clocks.warps, group, info.index)
    M.landing.issue_store(GroupOp(gid, group, read, write, info.index, slot))
    return group


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
        group = _issue_store(M, info, gid, slot, [(offset, nbytes)], read, write)
        if M.global_shadow is not None:
            M.global_shadow.async_write(gid, allocation, np.arange(start >> 2, (start + nbytes) >> 2), group, info.index)


def commit(M, C, info):
    """cp.async.bulk.commit_group."""
    M.landing.commit(C.gids, bulk=True)


def wait(M, C, info):
    """cp.async.bulk.wait_group[.read] N of this thread."""
    pending, read_only = info
    done = np.maximum(M.landing.committed(C.gids, bulk=True) - pending, 0).astype(np.int32)
    M.landing.finish_stores(C.gids, done, read_only)
    if M.global_shadow is not None and not read_only:
        M.global_shadow.written[C.gids] = np.maximum(M.global_shadow.written[C.gids], done)
    C.unsynced = True


__all__ = ["LaunchError", "resolve"]
