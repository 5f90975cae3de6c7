# SPDX-License-Identifier: Apache-2.0
"""Asynchronous copies: what cp.async, bulk and tensor copies read and write, and on what their end is known. Decided at issue, whenever they land."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.events import Listener
from ..machine.in_flight import BarrierOp
from . import findings_barriers
from .async_reads import Box
from .global_words import COLUMN, LANE, SERIAL

if TYPE_CHECKING:
    from ..machine.cohort import Cohort
    from .async_reads import Ends
    from .checks_wgmma import TileMarks
    from .clocks import Clocks
    from .findings import Watched
    from .global_order import GlobalOrder
    from .global_words import Part
    from .mbarrier_order import MbarrierOrder
    from .shared_order import SharedOrder


class CopyOrder(Listener):
    """Hears copies and their groups. marks: TileMarks; barriers: MbarrierOrder; last_store: thread -> instruction of its newest bulk store;
    together: warps that have run a store which was one for several of their lanes. Allocations are Stamped ones, of which the events know no more
    than the machine does."""

    def __init__(self, machine: Watched, clocks: Clocks, shared: SharedOrder, everywhere: GlobalOrder, barriers: MbarrierOrder, marks: TileMarks) -> None:
        self.M, self.clocks, self.shared, self.everywhere, self.barriers, self.marks = machine, clocks, shared, everywhere, barriers, marks
        self.last_store: dict[int, int] = {}
        self.together: set[int] = set()
        self.map: tuple[int, int, Any, int] = (-1, -1, None, 0)      # thread, instruction, allocation and offset of the latest map in global memory

    # --- groups -----------------------------------------------------------------------------------------------------
    def cp_async(self, C: Cohort, live: Cohort, address: np.ndarray, parts: list[Part], flat: np.ndarray, size: int, index: int) -> None:
        """Reads of global memory by its lanes, and a write that belongs to their groups."""
        clocks = self.clocks
        groups = clocks.cp.open(C.gids)
        for allocation, lanes, offset in parts:
            self.everywhere.read(C.gids[lanes], allocation, offset, size, index, groups=groups[lanes])
        clocks.touched = C.unsynced = True
        self.shared.store(C.gids, flat, size, index, clocks.cp0 + (C.gids >> 5) % clocks.warps, groups)

    def committed(self, C: Cohort, bulk: bool) -> None:
        """commit_group."""
        (self.clocks.bulk if bulk else self.clocks.cp).commit(C.gids)

    def groups_waited(self, C: Cohort, bulk: bool, pending: int, read_only: bool) -> None:
        """What these threads' copies have done by now is known to them."""
        C.unsynced = True
        if not bulk:
            self.clocks.cp.finish(C.gids, pending)
            return
        groups, written = self.clocks.bulk, self.clocks.bulk_written
        if not read_only:
            written[C.gids] = np.maximum(written[C.gids], groups.committed(C.gids) - np.int32(pending))
        groups.finish(C.gids, pending)
        if self.together:
            self.clocks.bulk_waited(C, self.M.units(C), self.together)

    # --- towards shared memory --------------------------------------------------------------------------------------
    def map_used(self, gid: int, allocation: Any, offset: int, index: int) -> None:
        """A tensor map in global memory may have been changed by the kernel."""
        self.everywhere.maps.used(gid, allocation, offset, index)
        self.map = (gid, index, allocation, offset)

    def _map_read(self, gid: int, index: int, ends: Ends) -> None:
        """The copy reads its map until one of `ends` (PTX ISA 9.7.9.25.6.2: what `.read` waits for includes reading the tensor map)."""
        if self.map[:2] == (gid, index):
            self.everywhere.loads.note(ends, self.map[2], Box.span(self.map[3], 128))
            self.map = (-1, -1, None, 0)

    def box_read(self, gid: int, fields: Any, rows: Any, index: int, barriers: list[int]) -> None:
        """A read that these barriers end: of the words of a tensor load's box, which are worked out where this launch has written anything, or others may have."""
        ends, everywhere = self._ends(gid, barriers, index), self.everywhere
        found: Any = Box.of(self.M.memory, fields, rows) if self.M.grid is not None or everywhere.written else None
        if found is not None and (self.M.grid is not None or found[0].stamps is not None and found[0].stamps.who is not None):
            allocation, box = found
            everywhere.async_read(gid, allocation, box, index, ends)
        everywhere.loads.note_box(ends, fields, rows)
        self._map_read(gid, index, ends)

    def span_read(self, gid: int, allocation: Any, first: int, nbytes: int, index: int, barriers: list[int]) -> None:
        """The bytes of a bulk load."""
        ends, box = self._ends(gid, barriers, index), Box.span(first, nbytes)
        self.everywhere.async_read(gid, allocation, box, index, ends)
        self.everywhere.loads.note(ends, allocation, box)

    def _ends(self, gid: int, barriers: list[int], index: int) -> Ends:
        """The phases of barriers that say that a load is over, as stamps of global memory."""
        who, age = int(self.everywhere.serial[(gid >> 5) // self.clocks.warps]) << SERIAL | 15, self.M.barriers.age
        return tuple((who | self.clocks.barrier_column(barrier) << COLUMN, int(age(barrier)) + 1 << 20 | index) for barrier in barriers)

    def load_issued(self, gid: int, barrier: int, spans: list[tuple[int, int]], nbytes: int, index: int, slot: int, tile: tuple[Any, Any] | None) -> None:
        """A write that is known by the phase it completes."""
        if tile is not None:
            self.marks.written(*tile)
        self._written(gid, barrier, spans, nbytes, index, slot)

    def _written(self, gid: int, barrier: int, spans: list[tuple[int, int]], nbytes: int, index: int, slot: int, reduction: bool = False) -> None:
        column, phase, age = self.clocks.barrier_column(barrier), int(self.M.barriers.phase[barrier]) + 1, int(self.M.barriers.age(barrier)) + 1
        self.shared.async_write(gid, spans, column, age, index, fenced=self.M.body[index].op == "cp", reduction=reduction)     # st.async and red.async are generic
        self.barriers.copy_issued(barrier, phase, gid, nbytes, index, slot)

    # --- from shared memory -----------------------------------------------------------------------------------------
    def store_issued(self, gid: int, spans: list[tuple[int, int]], nbytes: int, index: int, reduction: bool, tile: tuple[Any, Any] | None) -> None:
        """A read that is over with the bulk group of its thread."""
        clocks = self.clocks
        clocks.touched = True
        self.last_store[gid] = index
        if tile is not None:
            self.marks.stored(gid, index, *tile)
        group = int(clocks.bulk.open(np.array([gid]))[0])
        self.shared.async_read(gid, spans, clocks.bulk0 + (gid >> 5) % clocks.warps, group, index)

    def stored_together(self, warps: np.ndarray) -> None:
        """A store of several lanes is over for each of them when they have waited for it together."""
        self.together.update(warps.tolist())

    def box_written(self, gid: int, fields: Any, rows: Any, index: int, reduction: bool) -> None:
        """The words of a tensor store's box."""
        if self.map[:2] == (gid, index):
            clocks, warp = self.clocks, gid >> 5
            who = int(self.everywhere.serial[warp // clocks.warps]) << SERIAL | (clocks.bulk0 + warp % clocks.warps) << COLUMN | (gid & 31) << LANE | 15
            self._map_read(gid, index, ((who, int(clocks.bulk_issued[gid]) << 20 | index),))
        found: Any = Box.of(self.M.memory, fields, rows)
        if found is not None:
            allocation, box = found
            self.everywhere.async_write(gid, allocation, box.words(allocation.nbytes), int(self.clocks.bulk_issued[gid]), index, reduction)

    def span_written(self, gid: int, allocation: Any, first: int, nbytes: int, index: int, reduction: bool) -> None:
        """The bytes of a bulk store."""
        self.everywhere.async_write(gid, allocation, np.arange(first >> 2, (first + nbytes) >> 2), int(self.clocks.bulk_issued[gid]), index, reduction)

    # --- between CTAs -----------------------------------------------------------------------------------------------
    def copy_out(self, gid: int, first: int, nbytes: int, barrier: int, index: int, reduction: bool) -> None:
        """A read that the destination's barrier ends."""
        self.shared.async_read_of_copy(gid, [(first, nbytes)], index, barrier)

    def remote_issued(self, gid: int, barrier: int, first: int, nbytes: int, index: int, reduction: bool) -> None:
        """A write into another CTA."""
        self._written(gid, barrier, [(first, nbytes)], nbytes, index, first // self.M.stride, reduction)
        self.barriers.sent(barrier, gid)

    def landed(self, op: Any, pick: Any) -> None:
        """A transfer whose phase was over before its bytes were there."""
        if type(op) is BarrierOp and op.phase is not None and self.M.barriers.phase[op.barrier] >= op.phase:
            self.barriers.bytes_unannounced(op.barrier, op.nbytes)

    # --- the end ----------------------------------------------------------------------------------------------------
    def ctas_end(self, slots: np.ndarray) -> None:
        """Copies whose phase no thread of the CTA saw complete, and stores whose reads no wait_group ended."""
        M, clocks, gone = self.M, self.clocks, set(slots.tolist())
        self.barriers.copies_left(gone)
        for gid, index in list(self.last_store.items()):
            if gid // M.T in gone:
                del self.last_store[gid]
                if clocks.bulk_issued[gid] > clocks.bulk_done[gid]:
                    findings_barriers.exit_in_flight(M, index, gid, "store")
        if self.shared.outgoing.copies:
            self.shared.outgoing.cta_ends(slots)
