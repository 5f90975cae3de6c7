# SPDX-License-Identifier: Apache-2.0
"""Order of accesses to shared memory: who wrote each 4-byte word last, and who read each 16-byte granule since.

What is remembered are stamps (stamps.py), of readers one a granule and column. Every access asks whether what it touches is ordered
before it, and reports the pair of source lines when it is not; landing order plays no part. Verdicts are byte-exact: a word that
1- or 2-byte stores have written holds MIXED, and its four bytes have stamps of their own in `parts`.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import findings_memory
from .findings import shared
from .clocks import Clocks, V
from .lane_order import LaneOrder, collided
from .outgoing import Outgoing
from .reduction_order import Earlier
from .region_order import read_before, read_of_nothing, written_before
from .strong_stores import StrongStores
from .shared_updates import Updates
from .stamps import (
    LANE_MASK, MIXED, NEVER, R_EPOCH, R_LANE, R_MASK, R_SITE_MASK, W_COLUMN, W_COLUMN_MASK, W_EPOCH, W_LANE, W_SITE_MASK, WHOLE, pack_read, pack_write)
from .kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from .findings import Watched


def words_of(flat: np.ndarray, nbytes: int) -> np.ndarray:
    """The words that accesses of `nbytes` at byte positions `flat` touch: (n,) or (n, words)."""
    first = flat >> 2
    return first if nbytes <= 4 else first[:, None] + np.arange(nbytes >> 2)


class SharedOrder:
    """Stamps of the shared memory of all resident CTAs (`stride` bytes per slot)."""

    def __init__(self, machine: Watched, clocks: Clocks, slots: int, stride: int) -> None:
        self.machine, self.clocks = machine, clocks
        self.stride, self.words, self.granules = stride, stride // 4, stride // 16
        self.writes = np.zeros(slots * self.words, np.int64)
        self.reads = np.zeros((clocks.readers, slots * self.granules), np.int64)
        self.readers0 = clocks.wgmma0                  # first column of readers that there have been: lanes come before wgmma and copies
        self.plain_writes = np.zeros(slots, bool)      # a CTA whose shared memory plain stores or cp.async have touched
        self.parts: np.ndarray | None = None           # stamps of single bytes, where `writes` says MIXED
        self.lanes = LaneOrder(machine, clocks, len(self.writes))
        self.outgoing = Outgoing(machine, clocks, stride)
        self.atomics: set[int] = set()                 # atomic instructions seen
        self.earlier = Earlier(len(self.writes), W_LANE, W_COLUMN, W_EPOCH - W_LANE)
        self.updates = Updates(clocks, len(self.writes))
        self.fed: set[Any] = set()                     # instructions that read something that had been written
        self.unfed: dict[Any, tuple[int, int]] = {}    # the others: (thread, byte position)
        self.unfenced = machine.session.levels[Kind.UNFENCED_OVERWRITE] != "off"
        self.strong_stores = StrongStores(self)
        self.strong: np.ndarray | None = None          # read stamps, a granule and warp, of volatile, relaxed and acquire reads

    def reset_slots(self, slots: np.ndarray) -> None:
        """Shared memory of new CTAs has no history."""
        if not self.words:
            return
        self.writes.reshape(-1, self.words)[slots] = 0
        for readers in (self.reads,) if self.strong is None else (self.reads, self.strong):
            readers.reshape(len(readers), -1, self.granules)[:, slots] = 0
        for table in (*self.earlier.planes, *self.lanes.tables):
            table.reshape(-1, self.words)[slots] = 0
        self.updates.reset_slots(slots, self.words)
        self.strong_stores.reset(slots)
        if self.outgoing.copies:
            for slot in slots.tolist():
                self.outgoing.reset(slot)
        self.plain_writes[slots] = False

    # --- generic proxy, lane by lane --------------------------------------------------------------------------------
    def load(self, gids: np.ndarray, flat: np.ndarray, nbytes: int, site: int) -> None:
        """Lanes read `nbytes` at byte positions `flat` (slot * stride + address)."""
        at, stamps = self._stamps(flat, nbytes)
        if stamps.any():
            self.fed.add(site)
            if self.parts is not None:
                stamps = self._check_parts(gids, flat, nbytes, stamps, site, "read")
            self._check_writer(gids, at, stamps, site, "read")
            self._check_earlier(gids, flat, nbytes, site, "read")
            if self.clocks.scoped:
                self._check_scope(gids, at, stamps, site)
        else:
            self.strong_stores.fed(site, at, int(gids[0]), int(flat[0]))
        self._mark_read(self.reads, gids, flat, nbytes, site)
        if nbytes >= 4 and self.lanes.on and self.lanes.own[site]:
            warp = gids >> 5
            self.lanes.read(words_of(flat, nbytes), pack_write(self.clocks.epoch[warp], warp % self.clocks.warps, gids & 31, site))

    def load_strong(self, gids: np.ndarray, flat: np.ndarray, nbytes: int, site: int) -> None:
        """A volatile, relaxed or acquire read. It races with no thread's access; but what a copy brings must have been waited for as before any
        read, and a copy may overwrite what is read only afterwards."""
        clocks = self.clocks
        at, stamps = self._stamps(flat, nbytes)
        self.strong_stores.fed(site, at, int(gids[0]), int(flat[0]), bool(stamps.any()))
        copied = (stamps != MIXED) & ((stamps >> W_COLUMN) & W_COLUMN_MASK >= clocks.wgmma0) & (stamps >> W_EPOCH < NEVER)
        if copied.any():
            self._check_writer(gids, at, np.where(copied, stamps, 0), site, "read")
        if self.strong is None:
            self.strong = np.zeros((clocks.warps, self.reads.shape[1]), np.int64)
        self._mark_read(self.strong, gids, flat, nbytes, site)
        self._forget(flat >> 2)

    def _stamps(self, flat: np.ndarray, nbytes: int, every: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """(words, their write stamps) of accesses of `nbytes` at multiples of it: (n,), or (n, words); (n, 1) where the first may speak for all of each, and not
        `every` one is wanted."""
        if nbytes <= 4:
            at = flat >> 2
            return at, self.writes[at]
        words = nbytes >> 2
        stamps = self.writes.reshape(-1, words)[flat // nbytes]
        if not every and (stamps == stamps[:, :1]).all():
            return (flat >> 2)[:, None], stamps[:, :1]
        return words_of(flat, nbytes), stamps

    def _mark_read(self, table: np.ndarray, gids: np.ndarray, flat: np.ndarray, nbytes: int, site: int) -> None:
        clocks, self.readers0 = self.clocks, 0
        granule, warp = flat >> 4, gids >> 5
        mask = WHOLE if nbytes == 16 else ((1 << nbytes) - 1) << (flat & 15)
        stamp = pack_read(clocks.epoch[warp], gids & 31, 0, site)
        index = warp % clocks.warps * table.shape[1] + granule
        flat_reads = table.reshape(-1)
        if nbytes == 16:
            flat_reads[index] = stamp | (WHOLE << R_MASK)
        else:
            flat_reads[index] = stamp
            np.bitwise_or.at(flat_reads, index, mask << R_MASK)

    def store(self, gids: np.ndarray, flat: np.ndarray, nbytes: int, site: int, column: np.ndarray | None = None,
              epoch: np.ndarray | None = None, atomic: bool = False, value: Callable[[Any], np.ndarray] | None = None, blind: bool = False) -> None:
        """Lanes write `nbytes` at `flat`. `column`, `epoch`: given for cp.async, whose writes belong to its groups. Atomics
        do not race with each other, only with plain accesses (blind: nobody wants the old value). value(lanes): the bytes that
        lanes (positions) store, (k, nbytes)."""
        clocks, verb = self.clocks, "write" if column is None else "async write"
        at, old = self._stamps(flat, nbytes, blind)
        was_atomic = self._check_stored(gids, flat, nbytes, at, old, site, verb, atomic, value)
        mask = WHOLE if nbytes >= 16 else ((1 << nbytes) - 1) << (flat & 15)
        self._check_readers(self.reads, gids, flat >> 4, mask, site, verb)
        if column is not None and self.strong is not None:
            self._check_readers(self.strong, gids, flat >> 4, mask, site, verb)
        if self.lanes.on:
            self.lanes.write(gids, words_of(flat, nbytes), site, verb)
        if self.outgoing.copies:
            self.outgoing.written(gids, flat, nbytes, site, verb)
        warp = gids >> 5
        stamp = pack_write(clocks.epoch[warp] if epoch is None else epoch,
                           warp % clocks.warps if column is None else column, gids & 31, site)
        if nbytes < 4:
            self._write_parts(flat, nbytes, stamp)
        elif nbytes == 4:
            self.writes[at] = stamp
        else:
            self.writes.reshape(-1, nbytes >> 2)[flat // nbytes] = stamp[:, None]
        if blind and nbytes >= 4:
            new = np.broadcast_to(stamp if at.ndim == 1 else stamp[:, None], at.shape)
            self.earlier.updated(at, (old,), (new,), self.writes[at], np.zeros(at.shape, bool) if was_atomic is None else was_atomic)
            self.updates.by_lanes(at, new)
        elif self.updates.any:
            self._forget(words_of(flat, nbytes))
        if value is not None:
            lost = (self.writes[flat >> 2] if nbytes >= 4 else self.parts[flat]) != stamp  # type: ignore[index]  # _write_parts has made them
            if lost.any():
                collided(self.machine, gids, flat, np.flatnonzero(lost), value, site, lambda k: shared(self.machine, int(flat[k])))
        self.plain_writes[flat // self.stride] = True

    def _check_stored(self, gids: np.ndarray, flat: np.ndarray, nbytes: int, at: np.ndarray, stamps: np.ndarray, site: int, verb: str,
                      atomic: bool, value: Callable[[Any], np.ndarray] | None) -> np.ndarray | None:
        """Check lanes that write against the writers before them (`stamps` of words `at`); returns which of those were atomics (None: none)."""
        was_atomic = None
        if stamps.any():
            if self.parts is not None:
                stamps = self._check_parts(gids, flat, nbytes, stamps, site, verb)
            if atomic:
                self.atomics.add(site)
                was_atomic = self._atomic(stamps)
                stamps = np.where(was_atomic, 0, stamps)
            self._check_writer(gids, at, stamps, site, verb, None if value is None else self._same(flat, nbytes, value))
        if not atomic:
            self._check_earlier(gids, flat, nbytes, site, verb)
        return was_atomic

    def _same(self, flat: np.ndarray, nbytes: int, value: Callable[[Any], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
        """same(lanes): True where lanes store the bytes that are there already."""
        def same(lanes: np.ndarray) -> np.ndarray:
            equal: np.ndarray = (value(lanes) == self.machine.smem[flat[lanes][:, None] + np.arange(nbytes)]).all(axis=1)
            return equal
        return same

    # --- parts of words ---------------------------------------------------------------------------------------------
    def _write_parts(self, flat: np.ndarray, nbytes: int, stamp: np.ndarray) -> None:
        """1- or 2-byte stores: their words become MIXED, and what was known of the words goes to their bytes."""
        if self.parts is None:
            self.parts = np.zeros(len(self.writes) * 4, np.int64)
        words = np.unique(flat >> 2)
        words = words[self.writes[words] != MIXED]
        self.parts.reshape(-1, 4)[words] = self.writes[words][:, None]
        self.writes[words] = MIXED
        for k in range(nbytes):
            self.parts[flat + k] = stamp

    def _check_parts(self, gids: np.ndarray, flat: np.ndarray, nbytes: int, stamps: np.ndarray, site: int, verb: str) -> np.ndarray:
        """Check the bytes of MIXED words that lanes touch; returns `stamps` without those words."""
        mixed = stamps < 0
        if not mixed.any():
            return stamps
        touched = flat[:, None] + np.arange(nbytes)
        own = np.where(self.writes[touched >> 2] < 0, self.parts[touched], 0)  # type: ignore[index]  # MIXED words have them
        if own.any():
            self._check_writer(gids, touched >> 2, own, site, verb)
        return np.where(mixed, 0, stamps)

    def _region_stamps(self, w0: int, w1: int) -> tuple[np.ndarray, np.ndarray]:
        """(different write stamps of words w0..w1-1, first word of each), with the updates before the last one."""
        stamps, earlier = self.writes[w0:w1], self.earlier.at(slice(w0, w1))
        if earlier is not None:
            stamps = np.concatenate([stamps, np.where(earlier[0] == 0, stamps, earlier[0])])
        if self.updates.any:
            rows = self.updates.at(slice(w0, w1))
            stamps = np.concatenate([stamps, np.where(rows == 0, self.writes[w0:w1], rows).reshape(-1)]) if len(rows) else stamps
        if stamps[0] == stamps[-1] and stamps[0] >= 0 and (stamps == stamps[0]).all():
            return stamps[:1], np.zeros(1, np.int64)
        unique, first = np.unique(stamps, return_index=True)
        if unique[0] < 0:
            words = np.flatnonzero(stamps < 0) % (w1 - w0)
            own = self.parts.reshape(-1, 4)[w0 + words]  # type: ignore[union-attr]  # MIXED words have them
            more, where = np.unique(own, return_index=True)
            unique = np.concatenate([unique[1:], more])
            first = np.concatenate([first[1:], words[where // 4]])
        return unique, first % (w1 - w0)

    # --- mbarriers --------------------------------------------------------------------------------------------------
    def barrier_born(self, gids: np.ndarray, flat: np.ndarray, site: int) -> None:
        """mbarrier.init wrote the 8 bytes at `flat`: a plain write, and from now on nobody else's memory."""
        plain = self.plain_writes.copy()                # a barrier is no operand of a wgmma: not what this flag is about
        self.store(gids, flat, 8, site)
        self.plain_writes[:] = plain
        stamp = pack_write(NEVER, self.clocks.bar0, 0, site)
        self.writes[(flat >> 2)[:, None] + np.arange(2)] = stamp

    def barrier_gone(self, gids: np.ndarray, flat: np.ndarray, site: int) -> None:
        """mbarrier.inval: the bytes are plain memory again, and who uses them comes after it as after a store."""
        self.writes[(flat >> 2)[:, None] + np.arange(2)] = 0
        plain = self.plain_writes.copy()
        self.store(gids, flat, 8, site)
        self.plain_writes[:] = plain

    def _check_writer(self, gids: np.ndarray, at: np.ndarray, stamps: np.ndarray, site: int, verb: str,
                      same: Callable[[np.ndarray], np.ndarray] | None = None) -> None:
        column, epoch = (stamps >> W_COLUMN) & W_COLUMN_MASK, stamps >> W_EPOCH
        lane = (stamps >> W_LANE) & LANE_MASK
        clocks = self.clocks
        rows, who = clocks.row_of[gids], gids
        if at.ndim == 2:
            rows, who = rows[:, None], who[:, None]
        ok = clocks.ordered(clocks.K, rows, column, lane, epoch)
        if ok.all():
            return
        ok |= clocks.own_access(who, column, lane, epoch)
        bad = ~ok & (stamps != 0)
        if same is not None and bad.any():          # one instruction that stores equal values again and again is no matter
            again = np.nonzero(bad & (stamps & W_SITE_MASK == site))
            if len(again[0]):
                equal = same(again[0])
                bad[tuple(axis[equal] for axis in again)] = False
        if bad.any():
            self._report_writers(gids, at, stamps, bad, site, verb)

    def _check_earlier(self, gids: np.ndarray, flat: np.ndarray, nbytes: int, site: int, verb: str) -> None:
        """The updates before the last one (reduction_order.py)."""
        if self.earlier.planes:
            at = words_of(flat, nbytes)
            self._check_writer(gids, at, self.earlier.planes[0][at], site, verb)
        if self.updates.any:
            at = words_of(flat, nbytes)
            for stamps in self.updates.at(at):
                self._check_writer(gids, at, stamps, site, verb)

    def _forget(self, at: np.ndarray | slice) -> None:
        """Words `at` are somebody's own, or have been observed: no reductions before."""
        self.earlier.forget(at)
        self.updates.forget(at)

    def _check_scope(self, gids: np.ndarray, at: np.ndarray, stamps: np.ndarray, site: int) -> None:
        """What other CTAs wrote is known by synchronisation of cluster scope, or it is a warning."""
        who = gids if at.ndim == 1 else np.broadcast_to(gids[:, None], at.shape)
        doubtful = self.clocks.narrow(who, (stamps >> W_COLUMN) & W_COLUMN_MASK, stamps >> W_EPOCH) & (stamps >> W_EPOCH < NEVER)
        doubtful &= self.clocks.ordered(self.clocks.K, self.clocks.row_of[who], (stamps >> W_COLUMN) & W_COLUMN_MASK,
                                        (stamps >> W_LANE) & LANE_MASK, stamps >> W_EPOCH)
        if doubtful.any():
            k = tuple(int(v[0]) for v in np.nonzero(doubtful))
            findings_memory.scope(self.machine, site, int(stamps[k] & W_SITE_MASK), int(who[k]), shared(self.machine, int(at[k]) * 4))

    def _report_writers(self, gids: np.ndarray, at: np.ndarray, stamps: np.ndarray, bad: np.ndarray, site: int, verb: str) -> None:
        """One report for each pair of instructions."""
        sites = stamps[bad] & W_SITE_MASK
        lanes = (np.nonzero(bad))[0]
        places = at[bad]
        for other in np.unique(sites):
            here = np.flatnonzero(sites == other)
            column = (stamps[bad][here] >> W_COLUMN) & W_COLUMN_MASK
            pick = int(np.argmax(column != (gids[lanes[here]] >> 5) % self.clocks.warps))           # of another warp, if there is one
            k = int(here[pick])
            stamp = int(stamps[bad][k])
            findings_memory.unordered(self.machine, verb, site, "write", int(other), int(column[pick]), int(gids[lanes[k]]), int(places[k]) * 4,
                                      stamp >> W_LANE & LANE_MASK, stamp >> W_EPOCH)

    def _check_readers(self, table: np.ndarray, gids: np.ndarray, granule: np.ndarray, mask: Any, site: int, verb: str, first: int = 0) -> None:
        stamps = table.take(granule, axis=1)                             # (readers, n)
        stamps[:first] = 0
        if not stamps.any():
            return
        clocks, column, rows, epoch = self.clocks, np.arange(len(stamps))[:, None], self.clocks.row_of[gids], stamps >> R_EPOCH
        if (clocks.times(clocks.K, rows, V, column) >= epoch).all():
            return
        touched, lane = (stamps >> R_MASK) & mask & WHOLE, (stamps >> R_LANE) & LANE_MASK
        ok = clocks.ordered(clocks.K, rows, column, lane, epoch) | (touched == 0)
        if not ok.all():
            ok |= clocks.own_access(gids, column, lane, epoch)
            ok |= column == (gids >> 5) % clocks.warps               # lanes of one warp share a stamp: order unknown
            if not ok.all():
                self._report_readers(gids, granule, stamps.T, ~ok.T, site, verb)

    def _report_readers(self, gids: np.ndarray, granule: np.ndarray, stamps: np.ndarray, bad: np.ndarray, site: int, verb: str) -> None:
        where, column = np.nonzero(bad)
        sites = stamps[bad] & R_SITE_MASK
        for other in np.unique(sites):
            k = int(np.flatnonzero(sites == other)[0])
            stamp = int(stamps[bad][k])
            findings_memory.unordered(self.machine, verb, site, "read", int(other), int(column[k]), int(gids[where[k]]),
                                     int(granule[where[k]]) * 16, stamp >> R_LANE & LANE_MASK, stamp >> R_EPOCH)

    # --- async proxy: regions ---------------------------------------------------------------------------------------
    def async_write(self, gid: int, spans: list[tuple[int, int]], column: int, epoch: int, site: int, fenced: bool = True, reduction: bool = False) -> None:
        """A copy into shared memory, issued by thread `gid`; `spans`: (first byte, bytes) pieces. fenced: it is of the async proxy, and what ordinary loads and stores
        did there needs a proxy fence first. reduction: it commutes with others and with atomics, and with nothing else."""
        stamp = int(pack_write(epoch, column, 0, site))
        row = int(self.clocks.row_of[gid])
        if reduction:
            self.atomics.add(site)
        for start, nbytes in spans:
            w0, w1 = start >> 2, (start + nbytes + 3) >> 2
            stamps, first = self._region_stamps(w0, w1)
            apart = ~self._atomic(stamps) if reduction else slice(None)
            stamps, first = stamps[apart], first[apart]
            written = np.count_nonzero(stamps)
            if written:
                written_before(self, gid, row, w0, stamps, first, site, "async write", fenced)
            if read_before(self, gid, row, start, nbytes, site, fenced) and written < len(stamps):
                read_of_nothing(self, gid, start, nbytes, site)
            if self.outgoing.copies:
                self.outgoing.written(np.array([gid]), np.array([start]), nbytes, site, "async write")
            if reduction:
                old, new = self.writes[w0:w1], np.full(w1 - w0, stamp)
                self.earlier.updated(np.arange(w0, w1), (old,), (new,), new, self._atomic(old))
                self.updates.by_copy(w0, w1, stamp)
            else:
                self._forget(slice(w0, w1))
            self.writes[w0:w1] = stamp

    def _atomic(self, stamps: np.ndarray) -> np.ndarray:
        """Which write stamps are of atomics, or of reductions by a copy."""
        return np.isin(stamps & W_SITE_MASK, list(self.atomics)) & (stamps > 0)

    def async_read(self, gid: int, spans: list[tuple[int, int]], column: int, epoch: int, site: int) -> None:
        """A bulk or tensor store (or copy) that reads shared memory, issued by thread `gid`."""
        stamp = int(pack_read(epoch, gid & 31, WHOLE, site))
        row = int(self.clocks.row_of[gid])
        written = False
        for start, nbytes in spans:
            if not nbytes:
                continue
            w0, w1 = start >> 2, (start + nbytes + 3) >> 2
            stamps, first = self._region_stamps(w0, w1)
            if stamps.any():
                written = True
                written_before(self, gid, row, w0, stamps, first, site, "async read", fenced=True)
            self.strong_stores.read(self.clocks.K, row, w0, w1, gid, site)
            self.outgoing.read_over(self.reads[column, start >> 4:(start + nbytes + 15) >> 4], column, gid, start)
            self.reads[column, start >> 4:(start + nbytes + 15) >> 4] = stamp
        if written:
            self.fed.add(site)
        else:
            self.strong_stores.fed(site, np.concatenate([np.arange(start >> 2, start + nbytes + 3 >> 2) for start, nbytes in spans]), gid, spans[0][0])

    def async_read_of_copy(self, gid: int, spans: list[tuple[int, int]], site: int, barrier: int) -> None:
        """A copy between CTAs reads shared memory, until it completes on `barrier`: what it reads must be written and visible to the
        async proxy."""
        row = int(self.clocks.row_of[gid])
        for start, nbytes in spans:
            self.outgoing.sends(gid, start, nbytes, barrier, site)
            stamps, first = self._region_stamps(start >> 2, (start + nbytes + 3) >> 2)
            if stamps.any():
                written_before(self, gid, row, start >> 2, stamps, first, site, "async read", fenced=True)
            self.strong_stores.read(self.clocks.K, row, start >> 2, (start + nbytes + 3) >> 2, gid, site)
