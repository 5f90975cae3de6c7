"""Shadow of shared memory: who wrote each 4-byte word last, and who read each 16-byte granule since.

A write stamp packs epoch | column | lane | instruction; a read stamp (one a granule and reader column) epoch | lane | byte
mask | instruction. Columns are the agents of clocks.py. Every access asks whether what it touches is ordered before it,
and reports the pair of source lines when it is not; landing order plays no part. Verdicts are byte-exact: a word that
1- or 2-byte stores have written holds MIXED, and its four bytes have stamps of their own in `parts`.
"""
from __future__ import annotations

import numpy as np

from . import reports_memory
from .clocks import Clocks
from .lane_order import LaneOrder, collided
from .outgoing import Outgoing
from .reductions import Earlier

W_EPOCH, W_COLUMN, W_LANE = 34, 23, 18
W_COLUMN_MASK, LANE_MASK, W_SITE_MASK = 0x7FF, 31, 0x3FFFF
R_EPOCH, R_LANE, R_MASK = 39, 34, 18
R_SITE_MASK = 0x3FFFF
WHOLE = 0xFFFF                     # byte mask of a granule
MIXED = np.int64(-1)
NEVER = (1 << 29) - 1              # an epoch nothing is ever ordered after: the word is an mbarrier


def pack_write(epoch, column, lane, site: int):
    """Write stamp (int64)."""
    return (np.int64(1) * epoch << W_EPOCH) | (np.int64(1) * column << W_COLUMN) | (np.int64(1) * lane << W_LANE) | site


def pack_read(epoch, lane, mask, site: int):
    """Read stamp (int64)."""
    return (np.int64(1) * epoch << R_EPOCH) | (np.int64(1) * lane << R_LANE) | (np.int64(1) * mask << R_MASK) | site


class SharedShadow:
    """Stamps of the shared memory of all resident CTAs (`stride` bytes a slot)."""

    def __init__(self, machine, clocks: Clocks, slots: int, stride: int):
        self.machine, self.clocks = machine, clocks
        self.stride, self.words, self.granules = stride, stride // 4, stride // 16
        self.writes = np.zeros(slots * self.words, np.int64)
        self.reads = np.zeros((slots * self.granules, clocks.readers), np.int64)
        self.plain_writes = np.zeros(slots, bool)      # a CTA whose shared memory plain stores or cp.async have touched
        self.parts: np.ndarray | None = None           # stamps of single bytes, where `writes` says MIXED
        self.lanes = LaneOrder(machine, clocks, len(self.writes))
        self.outgoing = Outgoing(machine, stride)
        self.atomics: set = set()                      # atomic instructions seen
        self.earlier = Earlier(len(self.writes), W_LANE, W_COLUMN, W_EPOCH - W_LANE)
        self.fed: set = set()                          # instructions that read something that had been written
        self.unfed: dict = {}                          # the others: (thread, byte position)
        self.strong: np.ndarray | None = None          # read stamps, a granule and warp, of volatile, relaxed and acquire reads

    def reset_slots(self, slots: np.ndarray) -> None:
        """Shared memory of new CTAs has no history."""
        for s in slots:
            self.writes[s * self.words:(s + 1) * self.words] = 0
            self.reads[s * self.granules:(s + 1) * self.granules] = 0
            self.earlier.forget(slice(s * self.words, (s + 1) * self.words))
            if self.lanes.on:
                self.lanes.reset(s * self.words, (s + 1) * self.words)
            self.outgoing.reset(int(s))
            if self.strong is not None:
                self.strong[s * self.granules:(s + 1) * self.granules] = 0
        self.plain_writes[slots] = False

    # --- generic proxy, lane by lane --------------------------------------------------------------------------------
    def load(self, gids: np.ndarray, flat: np.ndarray, nbytes: int, site: int) -> None:
        """Lanes read `nbytes` at byte positions `flat` (slot * stride + address)."""
        words = max(1, nbytes >> 2)
        first = flat >> 2
        at = first if words == 1 else first[:, None] + np.arange(words)
        stamps = self.writes[at]
        if stamps.any():
            self.fed.add(site)
            if self.parts is not None:
                stamps = self._check_parts(gids, flat, nbytes, stamps, site, "read")
            self._check_writer(gids, at, stamps, site, "read")
            self._check_earlier(gids, at, site, "read")
            if self.clocks.scoped:
                self._check_scope(gids, at, stamps, site)
        elif site not in self.fed:
            self.unfed.setdefault(site, (int(gids[0]), int(flat[0])))
        self._mark_read(self.reads, gids, flat, nbytes, site)
        if nbytes >= 4 and self.lanes.on and self.lanes.own[site]:
            warp = gids >> 5
            self.lanes.read(at, pack_write(self.clocks.epoch[warp], warp % self.clocks.warps, gids & 31, site))

    def load_strong(self, gids: np.ndarray, flat: np.ndarray, nbytes: int, site: int) -> None:
        """A volatile, relaxed or acquire read. It races with no thread's access; but what a copy brings must have been waited for as before any
        read, and a copy may overwrite what is read only afterwards."""
        clocks, words = self.clocks, max(1, nbytes >> 2)
        at = (flat >> 2) if words == 1 else (flat >> 2)[:, None] + np.arange(words)
        stamps = self.writes[at]
        copied = (stamps != MIXED) & ((stamps >> W_COLUMN) & W_COLUMN_MASK >= clocks.wgmma0) & (stamps >> W_EPOCH < NEVER)
        if copied.any():
            self._check_writer(gids, at, np.where(copied, stamps, 0), site, "read")
        if self.strong is None:
            self.strong = np.zeros((len(self.reads), clocks.warps), np.int64)
        self._mark_read(self.strong, gids, flat, nbytes, site)
        self.earlier.forget(flat >> 2)

    def _mark_read(self, table: np.ndarray, gids: np.ndarray, flat: np.ndarray, nbytes: int, site: int) -> None:
        clocks = self.clocks
        granule, warp = flat >> 4, gids >> 5
        mask = WHOLE if nbytes == 16 else ((1 << nbytes) - 1) << (flat & 15)
        stamp = pack_read(clocks.epoch[warp], gids & 31, 0, site)
        index = granule * table.shape[1] + warp % clocks.warps
        flat_reads = table.reshape(-1)
        if nbytes == 16:
            flat_reads[index] = stamp | (WHOLE << R_MASK)
        else:
            flat_reads[index] = stamp
            np.bitwise_or.at(flat_reads, index, mask << R_MASK)

    def store(self, gids: np.ndarray, flat: np.ndarray, nbytes: int, site: int, column=None, epoch=None, atomic: bool = False,
              value=None, blind: bool = False) -> None:
        """Lanes write `nbytes` at `flat`. `column`, `epoch`: given for cp.async, whose writes belong to its groups. Atomics
        do not race with each other, only with plain accesses (blind: nobody wants the old value). value(lanes): the bytes that
        lanes (positions) store, (k, nbytes)."""
        clocks = self.clocks
        words = max(1, nbytes >> 2)
        first, verb = flat >> 2, "write" if column is None else "async write"
        at = first if words == 1 else first[:, None] + np.arange(words)
        stamps = old = self.writes[at]
        was_atomic = None
        if stamps.any():
            if self.parts is not None:
                stamps = self._check_parts(gids, flat, nbytes, stamps, site, verb)
            if atomic:
                self.atomics.add(site)
                was_atomic = np.isin(stamps & W_SITE_MASK, list(self.atomics))
                stamps = np.where(was_atomic, 0, stamps)
            self._check_writer(gids, at, stamps, site, verb, None if value is None else self._same(flat, nbytes, value))
        if not atomic:
            self._check_earlier(gids, at, site, verb)
        mask = WHOLE if nbytes >= 16 else ((1 << nbytes) - 1) << (flat & 15)
        self._check_readers(self.reads, gids, flat >> 4, mask, site, verb)
        if column is not None and self.strong is not None:
            self._check_readers(self.strong, gids, flat >> 4, mask, site, verb)
        if self.lanes.on:
            self.lanes.write(gids, at, site, verb)
        if self.outgoing.copies:
            self.outgoing.written(gids, flat, nbytes, site, verb)
        warp = gids >> 5
        stamp = pack_write(clocks.epoch[warp] if epoch is None else epoch,
                           warp % clocks.warps if column is None else column, gids & 31, site)
        if nbytes < 4:
            self._write_parts(flat, nbytes, stamp)
        else:
            self.writes[at] = stamp if words == 1 else stamp[:, None]
        if blind and nbytes >= 4:
            new = np.broadcast_to(stamp if words == 1 else stamp[:, None], at.shape)
            self.earlier.updated(at, (old,), (new,), self.writes[at], np.zeros(at.shape, bool) if was_atomic is None else was_atomic)
        else:
            self.earlier.forget(at)
        if value is not None:
            kept = self.writes[first] if nbytes >= 4 else self.parts[flat]
            if (kept != stamp).any():
                collided(self.machine, gids, flat, np.flatnonzero(kept != stamp), value, site, lambda k: f"shared address {int(flat[k]) % self.stride:#x}")
        self.plain_writes[np.unique(flat // self.stride)] = True

    def _same(self, flat: np.ndarray, nbytes: int, value):
        """same(lanes): True where lanes store the bytes that are there already."""
        def same(lanes):
            return (value(lanes) == self.machine.smem[flat[lanes][:, None] + np.arange(nbytes)]).all(axis=1)
        return same

    # --- parts of words ---------------------------------------------------------------------------------------------
    def _write_parts(self, flat: np.ndarray, nbytes: int, stamp) -> None:
        """1- or 2-byte stores: their words become MIXED, and what was known of the words goes to their bytes."""
        if self.parts is None:
            self.parts = np.zeros(len(self.writes) * 4, np.int64)
        words = np.unique(flat >> 2)
        words = words[self.writes[words] != MIXED]
        self.parts.reshape(-1, 4)[words] = self.writes[words][:, None]
        self.writes[words] = MIXED
        for k in range(nbytes):
            self.parts[flat + k] = stamp

    def _check_parts(self, gids, flat: np.ndarray, nbytes: int, stamps: np.ndarray, site: int, verb: str) -> np.ndarray:
        """Check the bytes of MIXED words that lanes touch; returns `stamps` without those words."""
        mixed = stamps < 0
        if not mixed.any():
            return stamps
        touched = flat[:, None] + np.arange(nbytes)
        own = np.where(self.writes[touched >> 2] < 0, self.parts[touched], 0)
        if own.any():
            self._check_writer(gids, touched >> 2, own, site, verb)
        return np.where(mixed, 0, stamps)

    def _region_stamps(self, w0: int, w1: int) -> tuple[np.ndarray, np.ndarray]:
        """(different write stamps of words w0..w1-1, first word of each)."""
        stamps = self.writes[w0:w1]
        if stamps[0] == stamps[-1] and stamps[0] >= 0 and (stamps == stamps[0]).all():
            return stamps[:1], np.zeros(1, np.int64)
        unique, first = np.unique(stamps, return_index=True)
        if unique[0] < 0:
            words = np.flatnonzero(stamps < 0)
            own = self.parts.reshape(-1, 4)[w0 + words]
            more, where = np.unique(own, return_index=True)
            unique = np.concatenate([unique[1:], more])
            first = np.concatenate([first[1:], words[where // 4]])
        return unique, first

    # --- mbarriers --------------------------------------------------------------------------------------------------
    def barrier_born(self, gids: np.ndarray, flat: np.ndarray, site: int) -> None:
        """mbarrier.init wrote the 8 bytes at `flat`: a plain write, and from now on nobody else's memory."""
        plain = self.plain_writes.copy()                # a barrier is no operand of a wgmma: not what this flag is about
        self.store(gids, flat, 8, site)
        self.plain_writes[:] = plain
        stamp = pack_write(NEVER, self.clocks.bar0, 0, site)
        self.writes[(flat >> 2)[:, None] + np.arange(2)] = stamp

    def barrier_gone(self, flat: np.ndarray) -> None:
        """mbarrier.inval: the bytes are plain memory again."""
        self.writes[(flat >> 2)[:, None] + np.arange(2)] = 0

    def _check_writer(self, gids, at, stamps, site: int, verb: str, same=None) -> None:
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

    def _check_earlier(self, gids, at, site: int, verb: str) -> None:
        """The updates before the last one (reductions.py)."""
        found = self.earlier.at(at)
        if found is not None:
            self._check_writer(gids, at, found[0], site, verb)

    def _check_scope(self, gids, at, stamps, site: int) -> None:
        """What other CTAs wrote is known by synchronisation of cluster scope, or it is a warning."""
        who = gids if at.ndim == 1 else np.broadcast_to(gids[:, None], at.shape)
        doubtful = self.clocks.narrow(who, (stamps >> W_COLUMN) & W_COLUMN_MASK, stamps >> W_EPOCH) & (stamps >> W_EPOCH < NEVER)
        doubtful &= self.clocks.ordered(self.clocks.K, self.clocks.row_of[who], (stamps >> W_COLUMN) & W_COLUMN_MASK,
                                        (stamps >> W_LANE) & LANE_MASK, stamps >> W_EPOCH)
        if doubtful.any():
            k = tuple(int(v[0]) for v in np.nonzero(doubtful))
            reports_memory.scope(self.machine, site, int(stamps[k] & W_SITE_MASK), int(who[k]), f"shared address {int(at[k]) * 4 % self.stride:#x}")

    def _report_writers(self, gids, at, stamps, bad, site: int, verb: str) -> None:
        """One report for each pair of instructions."""
        sites = stamps[bad] & W_SITE_MASK
        lanes = (np.nonzero(bad))[0]
        places = at[bad]
        for other in np.unique(sites):
            k = int(np.flatnonzero(sites == other)[0])
            column = int((stamps[bad][k] >> W_COLUMN) & W_COLUMN_MASK)
            self.machine.report_pair(verb, site, "write", int(other), column, int(gids[lanes[k]]), int(places[k]) * 4)

    def _check_readers(self, table, gids, granule, mask, site: int, verb: str) -> None:
        stamps = table[granule]                                          # (n, readers)
        if not stamps.any():
            return
        clocks = self.clocks
        touched = (stamps >> R_MASK) & (mask if np.ndim(mask) == 0 else mask[:, None]) & WHOLE
        epoch, lane = stamps >> R_EPOCH, (stamps >> R_LANE) & LANE_MASK
        column = np.arange(stamps.shape[1])
        rows = clocks.row_of[gids][:, None]
        ok = clocks.ordered(clocks.K, rows, column, lane, epoch) | (touched == 0)
        if not ok.all():
            ok |= clocks.own_access(gids[:, None], column, lane, epoch)
            ok |= column == (gids[:, None] >> 5) % clocks.warps      # lanes of one warp share a stamp: order unknown
            if not ok.all():
                self._report_readers(gids, granule, stamps, ~ok, site, verb)

    def _report_readers(self, gids, granule, stamps, bad, site: int, verb: str) -> None:
        where, column = np.nonzero(bad)
        sites = stamps[bad] & R_SITE_MASK
        for other in np.unique(sites):
            k = int(np.flatnonzero(sites == other)[0])
            self.machine.report_pair(verb, site, "read", int(other), int(column[k]), int(gids[where[k]]),
                                     int(granule[where[k]]) * 16)

    # --- async proxy: regions ---------------------------------------------------------------------------------------
    def async_write(self, gid: int, spans, column: int, epoch: int, site: int) -> None:
        """A bulk or tensor copy into shared memory, issued by thread `gid`; `spans`: (first byte, bytes) pieces."""
        stamp = int(pack_write(epoch, column, 0, site))
        row = int(self.clocks.row_of[gid])
        for start, nbytes in spans:
            w0, w1 = start >> 2, (start + nbytes + 3) >> 2
            stamps, first = self._region_stamps(w0, w1)
            if stamps.any():
                self._check_region_writers(gid, row, w0, stamps, first, site, "async write", fenced=True)
            self._check_region_readers(gid, row, start >> 4, (start + nbytes + 15) >> 4, site)
            if not stamps.all():
                self._read_of_nothing(gid, w0, w1, site)
            if self.outgoing.copies:
                self.outgoing.written(np.array([gid]), np.array([start]), nbytes, site, "async write")
            self.writes[w0:w1] = stamp
            self.earlier.forget(slice(w0, w1))

    def _read_of_nothing(self, gid: int, w0: int, w1: int, site: int) -> None:
        """A first write into words that somebody has read already: that read came before its data."""
        granules = np.arange(w0 >> 2, (w1 + 3) >> 2)
        fresh = (self.writes[w0:w1].reshape(-1, 4) == 0).any(axis=1) if (w1 - w0) % 4 == 0 else np.ones(len(granules), bool)
        newest = self.reads[granules[fresh]]
        sites = np.unique(newest[newest != 0] & R_SITE_MASK)
        for other in sites.tolist():
            where = np.nonzero(((newest & R_SITE_MASK) == other) & (newest != 0))[0][0]
            self.machine.report_early(site, other, gid, int(granules[fresh][where]) * 16)

    def async_read(self, gid: int, spans, column: int, epoch: int, site: int) -> None:
        """A bulk or tensor store (or copy) that reads shared memory, issued by thread `gid`."""
        stamp = int(pack_read(epoch, gid & 31, WHOLE, site))
        row = int(self.clocks.row_of[gid])
        written = False
        for start, nbytes in spans:
            w0, w1 = start >> 2, (start + nbytes + 3) >> 2
            stamps, first = self._region_stamps(w0, w1)
            if stamps.any():
                written = True
                self._check_region_writers(gid, row, w0, stamps, first, site, "async read", fenced=True)
            self.reads[start >> 4:(start + nbytes + 15) >> 4, column] = stamp
        if written:
            self.fed.add(site)
        else:
            self.unfed.setdefault(site, (gid, spans[0][0]))

    def async_read_of_copy(self, gid: int, spans, site: int, barrier: int) -> None:
        """A copy between CTAs reads shared memory, until it completes on `barrier`: what it reads must be written and visible to the
        async proxy."""
        row = int(self.clocks.row_of[gid])
        for start, nbytes in spans:
            self.outgoing.sends(gid, start, nbytes, barrier, site)
            stamps, first = self._region_stamps(start >> 2, (start + nbytes + 3) >> 2)
            if stamps.any():
                self._check_region_writers(gid, row, start >> 2, stamps, first, site, "async read", fenced=True)

    def _check_region_writers(self, gid: int, row: int, w0: int, unique, first, site: int, verb: str, fenced: bool) -> None:
        keep = unique != 0
        unique, first = unique[keep], first[keep]
        column, lane, epoch = (unique >> W_COLUMN) & W_COLUMN_MASK, (unique >> W_LANE) & LANE_MASK, unique >> W_EPOCH
        clocks = self.clocks
        rows = np.full(len(unique), row)
        ok = clocks.ordered(clocks.K, rows, column, lane, epoch)
        ok |= clocks.own_access(np.full(len(unique), gid), column, lane, epoch)
        if clocks.relaxed and verb == "async write":            # one copy after another: that the first is over is enough
            ok |= (column >= clocks.bar0) & (clocks.K[rows, clocks.R, column] >= epoch)
        for k in np.flatnonzero(~ok):
            self.machine.report_pair(verb, site, "write", int(unique[k] & W_SITE_MASK), int(column[k]), gid,
                                     int(w0 + first[k]) * 4)
        if fenced:
            generic = (column < clocks.wgmma0) | ((column >= clocks.cp0) & (column < clocks.written0))
            seen = clocks.ordered(clocks.K, rows, column, lane, epoch, fenced=True)
            for k in np.flatnonzero(ok & generic & ~seen):
                self.machine.report_fence(site, int(unique[k] & W_SITE_MASK), gid, int(w0 + first[k]) * 4)

    def _check_region_readers(self, gid: int, row: int, g0: int, g1: int, site: int) -> None:
        newest = self.reads[g0:g1].max(axis=0)
        if self.strong is not None:
            newest[:self.clocks.warps] = np.maximum(newest[:self.clocks.warps], self.strong[g0:g1].max(axis=0))
        columns = np.flatnonzero(newest)
        if not len(columns):
            return
        stamps = newest[columns]
        epoch, lane = stamps >> R_EPOCH, (stamps >> R_LANE) & LANE_MASK
        clocks = self.clocks
        ok = clocks.ordered(clocks.K, np.full(len(columns), row), columns, lane, epoch)
        if ok.all():
            return
        ok |= clocks.own_access(np.full(len(columns), gid), columns, lane, epoch)
        for k in np.flatnonzero(~ok):
            self.machine.report_pair("async write", site, "read", int(stamps[k] & R_SITE_MASK), int(columns[k]), gid,
                                     g0 * 16)

    # --- wgmma operands ---------------------------------------------------------------------------------------------
    def wgmma_read(self, table: np.ndarray, rows: np.ndarray, granule: np.ndarray, gids: np.ndarray, column: np.ndarray,
                   epoch: np.ndarray, site: int, split: int = 0) -> None:
        """Warpgroups read granules: `granule` (groups, k) flat ids, B's from `split` on; `rows` index `table`, what each
        warpgroup knows."""
        slots = granule[:, 0] // self.granules
        words = granule[:, :, None] * 4
        at = words + np.arange(4) if self.plain_writes[slots].any() else words
        stamps = self.writes[at]
        starts = [0, split] if split else [0]
        if all((stamps[:, a:b] == stamps[:, a:a + 1, :1]).all() for a, b in zip(starts, [*starts[1:], None])):
            stamps, at = stamps[:, starts, :1], at[:, starts, :1]         # the usual case: one copy wrote each whole tile
        if self.parts is not None and (stamps < 0).any():
            own = np.where((stamps < 0)[..., None], self.parts[(at << 2)[..., None] + np.arange(4)], stamps[..., None])
            stamps, at = own.reshape(*stamps.shape[:2], -1), np.repeat(at, 4, axis=2)
        row = rows[:, None, None]
        writer, stamp_epoch = (stamps >> W_COLUMN) & W_COLUMN_MASK, stamps >> W_EPOCH
        lane = (stamps >> W_LANE) & LANE_MASK
        ok = self.clocks.ordered(table, row, writer, lane, stamp_epoch) | (stamps == 0)
        self._report_groups(ok, at, stamps, gids, site, False)
        clocks = self.clocks
        generic = (writer < clocks.wgmma0) | ((writer >= clocks.cp0) & (writer < clocks.written0))
        if (generic & (stamps != 0)).any():
            seen = clocks.ordered(table, row, writer, lane, stamp_epoch, fenced=True) | ~generic | (stamps == 0) | ~ok
            self._report_groups(seen, at, stamps, gids, site, True)
        self.reads.reshape(-1)[granule * clocks.readers + column[:, None]] = pack_read(epoch, 0, WHOLE, site)[:, None]

    def _report_groups(self, ok, at, stamps, gids, site: int, fence: bool) -> None:
        if ok.all():
            return
        group = np.nonzero(~ok)[0]
        bad, places = stamps[~ok], at[~ok]
        sites = bad & W_SITE_MASK
        for other in np.unique(sites):
            k = int(np.flatnonzero(sites == other)[0])
            gid, place = int(gids[group[k]]), int(places[k]) * 4
            if fence:
                self.machine.report_fence(site, int(other), gid, place)
            else:
                column = int((bad[k] >> W_COLUMN) & W_COLUMN_MASK)
                self.machine.report_pair("async read", site, "write", int(other), column, gid, place)
