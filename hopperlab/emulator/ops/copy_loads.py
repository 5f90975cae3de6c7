"""Bulk and tensor copies into shared memory (PTX ISA 9.7.9.25.4.1, 9.7.9.27.1.2)."""
from __future__ import annotations

import numpy as np

from ..landing import BarrierOp, read_rows
from .common import find_global
from .copy_common import Info, Tile, check_size, note_rows, rows_of, shared_offset, smem_bytes, tensor_map


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
        for r in ranks:
            M.cluster_barrier.reach(int(C.gids[lane]), first + r, info.index)
        out.append([(first + r, (first + r) * capacity + int(ids[lane]) % capacity) for r in ranks])
    return out


def tensor_load(M, C, info: Info, target, barrier, mask, map_address, *coords):
    """cp.async.bulk.tensor to shared memory: each lane starts one copy of its map's box. coords: also im2col offsets."""
    ids = M.barriers.ids(C, barrier, info)
    target, maps = M.lanes(C, target), M.lanes(C, map_address)
    coords = [M.lanes(C, c) for c in coords]
    coords, offsets = coords[:info.rank], coords[info.rank:]
    where_to = destinations(M, C, info, target, ids, M.lanes(C, mask))
    for lane in range(C.n):
        fields = tensor_map(M, C, info, lane, int(maps[lane]))
        gid = int(C.gids[lane])
        offset = shared_offset(M, C, info, lane, int(target[lane]), smem_bytes(fields), 128)
        rows = rows_of(M, C, info, lane, fields, tuple(int(c[lane]) for c in coords), tuple(int(o[lane]) for o in offsets))
        fetch = _fetcher(M, C, info, lane, fields, rows)
        if M.global_shadow is not None:
            note_rows(M, gid, fields, rows, info.index, None)
        M.counting.add("tma_loads", 1, info.index)
        for slot, target_barrier in where_to[lane]:
            place = Tile(M, fields, slot, offset)
            M.marks.written(fields, place)
            M.counting.add("tma_load_bytes", place.nbytes, info.index)
            issue_load(M, info, gid, slot, target_barrier, place.nbytes, place.spans, _tensor_mover(M, place, fetch))


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
        M.barriers.checks.issued(barrier, gid, info.index)
    M.landing.issue_copy(BarrierOp(barrier, nbytes, move, gid, info.index, slot))


def bulk_load(M, C, info: Info, target, barrier, mask, source, size):
    """cp.async.bulk to shared memory: `size` consecutive bytes."""
    ids = M.barriers.ids(C, barrier, info)
    target, source, size = M.lanes(C, target), M.lanes(C, source), M.lanes(C, size)
    where_to = destinations(M, C, info, target, ids, M.lanes(C, mask))
    for lane in range(C.n):
        nbytes, address, gid = int(size[lane]), int(source[lane]), int(C.gids[lane])
        check_size(M, C, info, lane, nbytes, address)
        start = shared_offset(M, C, info, lane, int(target[lane]), nbytes, 16)
        sub = type(C)(C.gids[lane:lane + 1], None, C.pc)
        allocation = find_global(M, sub, np.array([address + nbytes - 1], np.uint64), 1, info.index)[0][0]
        first = address - allocation.address
        if M.global_shadow is not None:
            M.global_shadow.async_read(gid, allocation, first, first + nbytes, info.index)
        for slot, target_barrier in where_to[lane]:
            M.counting.operation("bulk_load", nbytes, info.index)
            place = start + slot * M.stride

            def move(view=allocation, first=first, place=place, nbytes=nbytes):
                M.smem[place:place + nbytes] = view.view(1)[first:first + nbytes]
            issue_load(M, info, gid, slot, target_barrier, nbytes, [(place, nbytes)], move)
