# SPDX-License-Identifier: Apache-2.0
"""Asynchronous operations between issue and landing, and the schedule that decides when they land.

'eager' lands at issue; 'lazy' when the program forces it (a wait for its group, or nothing else can run); 'random' draws
each landing from the session's seed. Landing moves data and signals barriers; hazards were decided at issue.
"""
from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ...hopper import interleave, tile
from .groups import Groups
from .waits import MbarrierWait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...hopper.tensormap_fields import TensorMapFields
    from ...hopper.tile import GlobalRows
    from .accumulator import Accumulator
    from .altered import Altered
    from .memory import Allocation, GlobalMemory

EARLY = 0.3        # random: chance to land at issue
DRAW = 0.5         # random: chance to land in a round
PAIRINGS = {"late-wgmma": ("eager", "lazy"), "late-copies": ("lazy", "eager")}      # schedule: copies, products


class BarrierOp:
    """A bulk or tensor copy that signals an mbarrier: `copy()` moves the data, then `nbytes` complete on `barrier`.
    phase: that its bytes belong to, counted from 1, where it is known."""

    __slots__ = ("barrier", "nbytes", "copy", "gid", "index", "slot", "phase")

    def __init__(self, barrier: int, nbytes: int, copy, gid: int, index: int, slot: int, phase: int | None = None):
        self.barrier, self.nbytes, self.copy, self.phase = barrier, nbytes, copy, phase
        self.gid, self.index, self.slot = gid, index, slot


class GroupOp:
    """A bulk or tensor store of one thread: `read()` captures shared memory, `write(data)` changes global memory."""

    __slots__ = ("gid", "group", "read", "write", "data", "index", "slot")

    def __init__(self, gid: int, group: int, read, write, index: int, slot: int):
        self.gid, self.group, self.read, self.write, self.index, self.slot = gid, group, read, write, index, slot
        self.data = None


class CpAsyncOp:
    """One cp.async instruction of many lanes. `group`: (n,) number of the group each lane's copy belongs to."""

    __slots__ = ("gids", "group", "copy", "index")

    def __init__(self, gids, group, copy, index: int):
        self.gids, self.group, self.copy, self.index = gids, group, copy, index


class ArrivalOp:
    """cp.async.mbarrier.arrive of lanes `gids` on one barrier: arrives when their copies up to group `number` have landed."""

    __slots__ = ("barrier", "gids", "number", "index", "slot")

    def __init__(self, barrier: int, gids, number, index: int, slot: int):
        self.barrier, self.gids, self.number, self.index, self.slot = barrier, gids, number, index, slot


Operation: TypeAlias = BarrierOp | GroupOp | CpAsyncOp | ArrivalOp


class Landing:
    """All operations in flight of one launch. lands: False where loads are only listened to, and nothing is copied; multiplies: False where wgmma is only listened to,
    and leaves its sums as they were."""

    lands = True
    multiplies = True

    def __init__(self, machine):
        self.M = machine
        chosen = machine.session.schedule
        self.schedule, self.products = PAIRINGS.get(chosen, (chosen, chosen))
        self.rng = machine.rng
        self.copies: list[BarrierOp] = []
        self.due: deque[BarrierOp | ArrivalOp] = deque()            # copies that are about to land, one after the other
        self.stores: list[GroupOp] = []
        self.cp: list[CpAsyncOp] = []
        self.accumulators: weakref.WeakSet = weakref.WeakSet()
        self.flipped = False
        threads = machine.slots * machine.T
        self.cp_groups, self.bulk_groups = Groups(threads), Groups(threads)

    # --- issue ------------------------------------------------------------------------------------------------------
    def issue_copy(self, op: BarrierOp) -> None:
        """A copy towards shared memory starts."""
        self.M.tell.issued(op)
        if self.schedule == "eager" or (self.schedule == "random" and self.rng.random() < EARLY):
            self._land_copy(op)
        else:
            self.copies.append(op)

    def issue_store(self, op: GroupOp) -> None:
        """A copy from shared to global memory starts."""
        self.M.tell.issued(op)
        if self.schedule == "eager" or (self.schedule == "random" and self.rng.random() < EARLY):
            self._write(op)
        else:
            self.stores.append(op)

    def issue_cp(self, op: CpAsyncOp) -> None:
        """A cp.async of many lanes starts."""
        self.M.tell.issued(op)
        if self.schedule == "eager":
            self._copy(op, slice(None))
        elif self.schedule == "random":
            early = self.rng.random(len(op.gids)) < EARLY
            self._copy(op, early)
            self._keep_cp(op, ~early)
        else:
            self.cp.append(op)

    def _keep_cp(self, op: CpAsyncOp, left) -> None:
        if left.all():
            self.cp.append(op)
        elif left.any():
            where = np.flatnonzero(left)
            copy = op.copy
            self.cp.append(CpAsyncOp(op.gids[where], op.group[where], lambda pick: copy(where[pick]), op.index))

    def issue_arrival(self, op: ArrivalOp) -> None:
        """A cp.async.mbarrier.arrive starts."""
        self.M.tell.issued(op)
        if self.schedule == "eager" or (self.schedule == "random" and self.rng.random() < EARLY):
            self._land_copy(op)
        else:
            self.copies.append(op)

    def _copy(self, op: CpAsyncOp, pick) -> None:
        """A cp.async lands for some of its lanes."""
        op.copy(pick)
        self.M.tell.landed(op, pick)

    def _read(self, op: GroupOp) -> None:
        """A store reads its source, if it has not yet."""
        if op.data is None:
            op.data = op.read()
            self.M.tell.source_read(op)

    def _write(self, op: GroupOp) -> None:
        """A store lands in global memory."""
        self._read(op)
        op.write(op.data)
        self.M.tell.landed(op, None)

    def start_accumulator(self, acc: Accumulator, index: int) -> None:
        """A wgmma was issued on `acc` by instruction `index`."""
        self.M.tell.product_started(acc.warps, index)
        if self.products == "eager" or (self.products == "random" and self.rng.random() < EARLY):
            acc.land()
        else:
            self.accumulators.add(acc)

    # --- forced landings --------------------------------------------------------------------------------------------
    def finish_cp(self, gids: np.ndarray, pending: int) -> None:
        """cp.async.wait_group: all but the `pending` newest groups of each lane are complete."""
        self.cp_groups.finish(gids, pending)
        self._land_cp(self.cp_groups.done)

    def _land_cp(self, limit: np.ndarray) -> None:
        """Land every cp.async whose group is at most its thread's `limit`."""
        pending, self.cp = self.cp, []
        for op in pending:
            due = op.group <= limit[op.gids]
            if due.all():
                self._copy(op, slice(None))
            elif due.any():
                self._copy(op, due)
                self._keep_cp(op, ~due)
            else:
                self.cp.append(op)

    def finish_stores(self, gids: np.ndarray, pending: int, read_only: bool) -> None:
        """cp.async.bulk.wait_group[.read]: all but the `pending` newest groups of each lane have read (and written)."""
        self.bulk_groups.finish(gids, pending)
        table, left = self.bulk_groups.done, []
        for op in self.stores:
            if op.group > table[op.gid]:
                left.append(op)
                continue
            if read_only:
                self._read(op)
                left.append(op)
            else:
                self._write(op)
        self.stores = left

    def _land_copy(self, op: BarrierOp | ArrivalOp) -> None:
        if type(op) is ArrivalOp:
            limit = np.zeros(len(self.cp_groups.done), np.int32)
            limit[op.gids] = op.number
            self._land_cp(limit)
            arrivals, pending = len(op.gids), int(self.M.barriers.pending[op.barrier])
            if 0 < pending < arrivals:              # some lanes' arrivals end the phase, any of them: it stands for nobody's copies
                self.M.tell.too_many_landed(op, pending)
                self.M.barriers.arrive_later(op.barrier, pending, int(op.gids[0]), op.index)
                arrivals -= pending
            self.M.tell.landed(op, None)
            self.M.barriers.arrive_later(op.barrier, arrivals, int(op.gids[0]), op.index)
            return
        op.copy()
        self.M.tell.landed(op, None)
        self.M.barriers.complete_tx(op.barrier, op.nbytes, op.index, op.gid)

    # --- the schedule's choices -------------------------------------------------------------------------------------
    def pending(self) -> bool:
        """True while copies that signal barriers are in flight."""
        return bool(self.copies)

    def in_flight(self, barriers: np.ndarray) -> list[BarrierOp]:
        """Copies still on their way that signal one of these barriers."""
        if not self.copies and not self.due:
            return []
        wanted = set(barriers.tolist())
        return [op for op in [*self.due, *self.copies] if op.barrier in wanted and type(op) is BarrierOp]

    def _land_all(self, due: Iterable[BarrierOp | ArrivalOp]) -> None:
        self.due.extend(due)
        while self.due:
            self._land_copy(self.due.popleft())

    def advance(self) -> bool:
        """Nothing can run: let some operations land; True when any did."""
        if self.schedule == "random":
            return self._advance_random()
        wanted = self._wanted()
        due = [op for op in self.copies if op.barrier in wanted] or self.copies
        if not due:
            return self._advance_stores()
        chosen = set(map(id, due))
        self.copies = [op for op in self.copies if id(op) not in chosen]
        self._land_all(due)
        return True

    def _advance_random(self) -> bool:
        if not self.copies:
            return self._advance_stores()
        draw = self.rng.random(len(self.copies)) < DRAW
        if not draw.any():
            draw[self.rng.integers(len(draw))] = True
        due = [op for op, now in zip(self.copies, draw) if now]
        self.copies = [op for op, now in zip(self.copies, draw) if not now]
        self._land_all(due[k] for k in self.rng.permutation(len(due)))
        return True

    def _wanted(self) -> set[int]:
        """Barriers that parked threads wait for, and those that polling ones ask after."""
        keys = [wait.keys for _, wait in self.M.scheduler.parked if type(wait) is MbarrierWait] + [C.asked for C in self.M.scheduler.polling if C.asked.size]
        return set(np.unique(np.concatenate(keys)).tolist()) if keys else set()

    def _advance_stores(self) -> bool:
        if not self.stores:
            return False
        for op in self.stores:
            self._write(op)
        self.stores = []
        return True

    # --- the end ----------------------------------------------------------------------------------------------------
    def cta_ends(self, slots: np.ndarray) -> None:
        """CTAs end: what is still in flight towards their shared memory is dropped, what comes from it completes."""
        gone = set(slots.tolist())
        self.copies = [op for op in self.copies if op.slot not in gone]
        left = []
        for op in self.stores:
            if op.slot in gone:
                self._write(op)
            else:
                left.append(op)
        self.stores = left
        self.cp = [op for op in self.cp if int(op.gids[0]) // self.M.T not in gone]


def read_rows(memory: GlobalMemory, altered: Altered, fields: TensorMapFields, rows: GlobalRows, fault: Callable[[int], Exception]) -> np.ndarray:
    """The box of a tensor map from global memory: uint8 (n_rows, inner bytes), out-of-bounds elements filled."""
    es = fields.elem_bytes
    inner = interleave.row_bytes(fields)
    nan = fields.oob_fill == "nan"
    out = np.empty((len(rows.address), inner), np.uint8)
    partial = rows.first > 0 or rows.last * es < inner or not rows.inside.all()
    if partial:
        if nan:
            out.view(np.uint16)[:] = tile.NAN_FILL
        else:
            out[:] = 0
    low, high = rows.first * es, max(rows.first, rows.last) * es
    if high > low and rows.inside.any():
        address = rows.address[rows.inside] + low
        allocation = memory.find(int(address.min()))
        if allocation is None or int(address.max()) + high - low > allocation.end:
            raise fault(int(address.min() if allocation is None else address.max()))
        width = 16 if not ((address - allocation.address) | (high - low)).astype(np.int64).__and__(15).any() else (
            es if not ((address - allocation.address) & (es - 1)).any() else 1)
        source = wide_view(altered.source("tma", allocation), width)
        index = ((address - allocation.address) // width)[:, None] + np.arange((high - low) // width)
        data = _converted(np.ascontiguousarray(source[index]).view(np.uint8).reshape(len(address), -1), fields.dtype)
        if partial:
            out[rows.inside, low:high] = data
        else:
            out = data
    return out


def _converted(data: np.ndarray, dtype: str) -> np.ndarray:
    """What a load makes of in-bounds data: the tfloat32 types round to 10 bits of mantissa, the ftz types flush subnormals."""
    if not dtype.startswith("tfloat32") and not dtype.endswith("_ftz"):
        return data
    bits = data.view(np.uint32)
    exponent = bits & np.uint32(0x7F800000)
    if dtype.endswith("_ftz"):
        bits = np.where(exponent == 0, bits & np.uint32(0x80000000), bits)
    if dtype.startswith("tfloat32"):
        rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
        special = exponent == 0x7F800000
        bits = np.where(special, bits & np.uint32(0xFFFFE000), rounded)
    return bits.view(np.uint8)


def wide_view(allocation: Allocation, width: int) -> np.ndarray:
    """An allocation's memory as `width`-byte items (16: complex128, moved but never computed with)."""
    if width == 16:
        words = allocation.view(8)
        return words[:len(words) // 2 * 2].view(np.complex128)
    return allocation.view(width)
