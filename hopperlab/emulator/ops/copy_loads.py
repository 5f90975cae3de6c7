# SPDX-License-Identifier: Apache-2.0
"""Bulk and tensor copies into shared memory (PTX ISA 9.7.9.25.4.1, 9.7.9.25.5.2)."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..machine.in_flight import BarrierOp, read_rows
from .copy_common import Info, Tile, check_size, rows_of, shared_offset, smem_bytes, tensor_map

if TYPE_CHECKING:
    from ..isa.value import Value
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine


def destinations(M: Machine, C: Cohort, info: Info, target: np.ndarray, ids: np.ndarray, mask: np.ndarray) -> list[list[tuple[int, int]]]:
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
            M.tell.multicast_reached(int(C.gids[lane]), first + r, info.index)
        out.append([(first + r, (first + r) * capacity + int(ids[lane]) % capacity) for r in ranks])
    return out


def tensor_load(M: Machine, C: Cohort, info: Info, target: Value, barrier: Value, mask: Value, map_address: Value, *coords: Value) -> None:
    """cp.async.bulk.tensor to shared memory: each lane starts one copy of its map's box. coords: also im2col offsets."""
    if not M.landing.lands:
        _tell_boxes(M, C, info, map_address, [M.lanes(C, c) for c in coords])
        return
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
        M.tell.box_read(gid, fields, rows, info.index, [barrier for _, barrier in where_to[lane]])
        fetch = _fetcher(M, C, info, lane, fields, rows)
        for slot, target_barrier in where_to[lane]:
            place = Tile(M, fields, slot, offset)
            M.tell.load_issued(gid, target_barrier, place.spans, place.nbytes, info.index, slot, (fields, place))
            M.landing.issue_copy(BarrierOp(target_barrier, place.nbytes, _tensor_mover(M, place, fetch), gid, info.index, slot))


def _tell_boxes(M: Machine, C: Cohort, info: Info, map_address: Value, coords: list[np.ndarray]) -> None:
    """What tensor loads read, where nothing lands (machine.landing.lands): those of all lanes at once, where they are tiled ones of one map."""
    first = int(map_address[0] if map_address.ndim else map_address)
    fields = tensor_map(M, C, info, 0, first)
    if info.mode == "tile" and fields.interleave == "none" and (not map_address.ndim or (map_address == first).all()):
        M.tell.boxes_read(C.gids, fields, coords)
        return
    for lane, address in enumerate(np.broadcast_to(map_address, C.n).tolist()):
        fields, at = tensor_map(M, C, info, lane, address), tuple(int(c[lane]) for c in coords)
        M.tell.box_read(int(C.gids[lane]), fields, rows_of(M, C, info, lane, fields, at[:info.rank], at[info.rank:]), info.index, [])


def _fetcher(M, C, info, lane, fields, rows):
    """A function that reads the box from global memory (once: a multicast shares the read)."""
    def fault(address):
        return M.fault(C, info.index, lane, f"the box reads global address {address:#x}: {M.memory.nearest(address)}",
                       "out-of-bounds", address)
    cache: list = []

    def fetch():
        if not cache:
            cache.append(read_rows(M.memory, M.altered, fields, rows, fault).view(np.complex128))
        return cache[0]
    return fetch


def _tensor_mover(M, place, fetch):
    def move() -> None:
        M.smem_wide[(place.granules + place.base) >> 4] = fetch()
    return move


def bulk_load(M: Machine, C: Cohort, info: Info, target: Value, barrier: Value, mask: Value, source: Value, size: Value) -> None:
    """cp.async.bulk to shared memory: `size` consecutive bytes."""
    target, source, size = M.lanes(C, target), M.lanes(C, source), M.lanes(C, size)
    lands = M.landing.lands
    where_to = destinations(M, C, info, target, M.barriers.ids(C, barrier, info), M.lanes(C, mask)) if lands else [[]] * C.n
    for lane in range(C.n):
        nbytes, address, gid = int(size[lane]), int(source[lane]), int(C.gids[lane])
        check_size(M, C, info, lane, nbytes, address)
        start = shared_offset(M, C, info, lane, int(target[lane]), nbytes, 16) if lands else 0
        if not nbytes:                                  # legal: nothing is read or written, and nothing signalled
            continue
        allocation = M.memory.find(address)
        if allocation is None or address + nbytes > allocation.end:
            where = M.memory.nearest(address if allocation is None else address + nbytes - 1)
            raise M.fault(C, info.index, lane, f"{nbytes} bytes at global address {address:#x}: {where}", "out-of-bounds", address)
        first = address - allocation.address
        M.tell.span_read(gid, allocation, first, nbytes, info.index, [barrier for _, barrier in where_to[lane]])
        for slot, target_barrier in where_to[lane]:
            place = start + slot * M.stride

            def move(allocation=allocation, first=first, place=place, nbytes=nbytes):
                M.smem[place:place + nbytes] = M.altered.source("bulk", allocation).view(1)[first:first + nbytes]
            M.tell.load_issued(gid, target_barrier, [(place, nbytes)], nbytes, info.index, slot, None)
            M.landing.issue_copy(BarrierOp(target_barrier, nbytes, move, gid, info.index, slot))
