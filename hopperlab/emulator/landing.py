"""Asynchronous operations between issue and landing, and the schedule that decides when they land.

'eager' lands at issue; 'lazy' when the program forces it (a wait for its group, or nothing else can run); 'random' draws
each landing from the session's seed. Landing moves data and signals barriers; hazards were decided at issue.
"""
from __future__ import annotations

import weakref

import numpy as np

from ..hopper import interleave, tile
from . import reports

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
    """cp.async.mbarrier.arrive of lanes `gids` on one barrier: arrives when their copies up to group `number` have landed.
    `known` is what the arrival makes known: those copies, and nothing else of its threads."""

    __slots__ = ("barrier", "gids", "number", "known", "index", "slot")

    def __init__(self, barrier: int, gids, number, known, index: int, slot: int):
        self.barrier, self.gids, self.number, self.known, self.index, self.slot = barrier, gids, number, known, index, slot


class Landing:
    """All operations in flight of one launch."""

    def __init__(self, machine):
        self.M = machine
        chosen = machine.session.schedule
        self.schedule, self.products = PAIRINGS.get(chosen, (chosen, chosen))
        self.rng = machine.rng
        self.copies: list[BarrierOp] = []
        self.stores: list[GroupOp] = []
        self.cp: list[CpAsyncOp] = []
        self.accumulators: weakref.WeakSet = weakref.WeakSet()
        self.flipped = False
        threads = machine.slots * machine.T
        self.cp_commits = np.zeros(threads, np.int32)
        self.bulk_commits = np.zeros(threads, np.int32)
        self.trace = machine.trace
        self.last_copy: dict[int, tuple] = {}      # barrier -> (column, phase, thread, instruction, slot) of its newest copy
        self.last_store: dict[int, int] = {}       # thread -> instruction of its newest bulk store

    # --- groups of a thread -----------------------------------------------------------------------------------------
    def open_group(self, gids, bulk: bool) -> np.ndarray:
        """Number of the group that a copy started now by each of these threads belongs to."""
        self.M.clocks.touched = True
        clocks = self.M.clocks
        issued = clocks.bulk_issued if bulk else clocks.cp_issued
        issued[gids] = self.committed(gids, bulk) + 1
        return issued[gids]

    def committed(self, gids, bulk: bool) -> np.ndarray:
        """Groups each thread has committed (a thread with nothing in flight keeps up with its warp, see clocks.py)."""
        clocks = self.M.clocks
        commits, done = (self.bulk_commits, clocks.bulk_done) if bulk else (self.cp_commits, clocks.cp_done)
        commits[gids] = np.maximum(commits[gids], done[gids])
        return commits[gids]

    def close_groups(self, gids) -> np.ndarray:
        """Close the running group of each thread that has started cp.async, so that later copies are in newer ones; returns
        its number, the same for all these threads of a warp (0: no copies)."""
        started = self.M.clocks.cp_issued[gids]
        newest = np.zeros(len(self.cp_commits) >> 5, np.int32)
        np.maximum.at(newest, gids >> 5, started)
        number = np.where(started > 0, newest[gids >> 5], 0)
        self.cp_commits[gids] = np.maximum(self.committed(gids, bulk=False), number)
        return number

    def commit(self, gids, bulk: bool) -> None:
        """commit_group by these threads."""
        commits = self.bulk_commits if bulk else self.cp_commits
        commits[gids] = self.committed(gids, bulk) + 1

    # --- issue ------------------------------------------------------------------------------------------------------
    def issue_copy(self, op: BarrierOp) -> None:
        """A copy towards shared memory starts."""
        self._event("issue", "issue cp", op.gid, op.index, f"{op.nbytes} bytes")
        if self.schedule == "eager" or (self.schedule == "random" and self.rng.random() < EARLY):
            self._land_copy(op)
        else:
            self.copies.append(op)

    def issue_store(self, op: GroupOp) -> None:
        """A copy from shared to global memory starts."""
        self._event("issue", "issue store cp", op.gid, op.index)
        self.last_store[op.gid] = op.index
        if self.schedule == "eager" or (self.schedule == "random" and self.rng.random() < EARLY):
            self._write(op)
        else:
            self.stores.append(op)

    def issue_cp(self, op: CpAsyncOp) -> None:
        """A cp.async of many lanes starts."""
        if self.trace is not None:
            self.trace.threads("issue", "issue cp.async", op.gids, op.index)
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
        self._event("issue", "issue arrival cp", int(op.gids[0]), op.index, f"{len(op.gids)} threads")
        if self.schedule == "eager" or (self.schedule == "random" and self.rng.random() < EARLY):
            self._land_copy(op)
        else:
            self.copies.append(op)

    def _copy(self, op: CpAsyncOp, pick) -> None:
        """A cp.async lands for some of its lanes."""
        op.copy(pick)
        if self.trace is not None and len(op.gids[pick]):
            self.trace.threads("land", "land cp.async", op.gids[pick], op.index)

    def _read(self, op: GroupOp) -> None:
        """A store reads its source, if it has not yet."""
        if op.data is None:
            op.data = op.read()
            self._event("land", "read store cp", op.gid, op.index)

    def _write(self, op: GroupOp) -> None:
        """A store lands in global memory."""
        self._read(op)
        op.write(op.data)
        self._event("land", "land store cp", op.gid, op.index)

    def start_accumulator(self, acc, index: int) -> None:
        """A wgmma was issued on `acc` by instruction `index`."""
        if self.trace is not None:
            self.trace.warps("issue", "issue wgmma", acc.warps, index)
        if self.products == "eager" or (self.products == "random" and self.rng.random() < EARLY):
            acc.land()
        else:
            self.accumulators.add(acc)

    # --- forced landings --------------------------------------------------------------------------------------------
    def finish_cp(self, gids: np.ndarray, done: np.ndarray) -> None:
        """cp.async.wait_group: groups up to `done` of each lane are complete."""
        table = self.M.clocks.cp_done
        table[gids] = np.maximum(table[gids], done)
        self._land_cp(table)

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

    def finish_stores(self, gids: np.ndarray, done: np.ndarray, read_only: bool) -> None:
        """cp.async.bulk.wait_group[.read]: groups up to `done` of each lane have read (and written)."""
        table = self.M.clocks.bulk_done
        table[gids] = np.maximum(table[gids], done)
        left = []
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
            limit = np.zeros(len(self.cp_commits), np.int32)
            limit[op.gids] = op.number
            self._land_cp(limit)
            self._event("arrive", "arrive cp", int(op.gids[0]), op.index, f"{len(op.gids)} threads")
            self.M.barriers.arrive_later(op.barrier, len(op.gids), op.known, int(op.gids[0]), op.index)
            return
        op.copy()
        if op.phase is not None and self.M.session.check and self.M.barriers.phase[op.barrier] >= op.phase:
            reports.unannounced(self.M, op.barrier, op.nbytes)
        self._event("land", "land cp", op.gid, op.index, f"{op.nbytes} bytes")
        self.M.barriers.complete_tx(op.barrier, op.nbytes, op.index, op.gid)

    # --- the schedule's choices -------------------------------------------------------------------------------------
    def pending(self) -> bool:
        """True while copies that signal barriers are in flight."""
        return bool(self.copies)

    def in_flight(self, barriers: np.ndarray) -> list[BarrierOp]:
        """Copies still on their way that signal one of these barriers."""
        if not self.copies:
            return []
        wanted = set(barriers.tolist())
        return [op for op in self.copies if op.barrier in wanted and type(op) is BarrierOp]

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
        for op in due:
            self._land_copy(op)
        return True

    def _advance_random(self) -> bool:
        if not self.copies:
            return self._advance_stores()
        draw = self.rng.random(len(self.copies)) < DRAW
        if not draw.any():
            draw[self.rng.integers(len(draw))] = True
        due = [op for op, now in zip(self.copies, draw) if now]
        self.copies = [op for op, now in zip(self.copies, draw) if not now]
        for k in self.rng.permutation(len(due)):
            self._land_copy(due[k])
        return True

    def _wanted(self) -> set[int]:
        """Barriers that parked threads wait for."""
        from .waits import MbarrierWait
        keys = [wait.keys for _, wait in self.M.scheduler.parked if type(wait) is MbarrierWait]
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
        """CTAs end: what nobody waited for in their shared memory is a hazard; what is still in flight then completes."""
        gone = set(slots.tolist())
        self._unwaited(gone)
        if self.M.shadow is not None and self.M.shadow.outgoing.copies:
            self.M.shadow.outgoing.cta_ends(slots)
        self.copies = [op for op in self.copies if op.slot not in gone]
        left = []
        for op in self.stores:
            if op.slot in gone:
                self._write(op)
            else:
                left.append(op)
        self.stores = left
        self.cp = [op for op in self.cp if int(op.gids[0]) // self.M.T not in gone]

    def _unwaited(self, gone: set[int]) -> None:
        """Report copies whose phase no thread of the CTA saw complete, and stores whose reads no wait_group ended."""
        M, clocks = self.M, self.M.clocks
        for barrier, (_, phase, gid, index, slot) in list(self.last_copy.items()):
            if slot in gone:
                del self.last_copy[barrier]
                if M.barriers.waited[barrier] < phase:
                    reports.exit_in_flight(M, index, gid, "still writes its shared memory")
        for gid, index in list(self.last_store.items()):
            if gid // M.T in gone:
                del self.last_store[gid]
                if clocks.bulk_issued[gid] > clocks.bulk_done[gid]:
                    reports.exit_in_flight(M, index, gid, "still reads its shared memory")

    # --- timeline ---------------------------------------------------------------------------------------------------
    def _event(self, kind: str, what: str, gid: int, index: int, detail: str = "") -> None:
        if self.trace is not None:
            self.trace.thread(kind, what, gid, index, detail)


def read_rows(memory, fields, rows, fault) -> np.ndarray:
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
        source = wide_view(allocation, width)
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


def wide_view(allocation, width: int) -> np.ndarray:
    """An allocation's memory as `width`-byte items (16: complex128, moved but never computed with)."""
    if width == 16:
        words = allocation.view(8)
        return words[:len(words) // 2 * 2].view(np.complex128)
    return allocation.view(width)
