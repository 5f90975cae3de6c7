"""Shadow of global memory: who wrote and read each 4-byte word last, in this launch, and what is ordered before what.

Inside a cluster order comes from clocks.py. Across clusters it comes from fences and synchronising accesses (volatile,
relaxed, release, acquire, atomic): a release publishes what its thread knew at its last fence, and a thread that reads the
word learns it, and with it whoever is ordered after that read (far_knowledge.py).
reference: PTX ISA 8.7 to 8.10 (memory consistency model).
"""
from __future__ import annotations

import numpy as np

from . import reports, reports_memory
from .clocks import PX, P, V, W, X
from .far_knowledge import WHOLE_WARP, FarKnowledge, merge_known
from .lane_fences import LaneFences
from .lane_order import collided
from .map_fences import MapFences
from .reductions import Earlier

SERIAL, COLUMN, LANE, SYNC = 32, 16, 8, 4          # bit positions in `who`; bits 0 to 3 are the bytes of the word
LOG_LIMIT = 1 << 21                                # lane reads remembered of an array before its first write


class Words:
    """Stamps of one allocation: writer and last reader of every word (and the reader before, when it was another thread), updates before
    the last one, and reads that came before the first write."""

    __slots__ = ("who", "when", "reader", "read_when", "prior", "prior_when", "earlier", "log", "logged")

    def __init__(self):
        self.who = self.when = self.reader = self.read_when = self.prior = self.prior_when = None
        self.log: list[tuple] = []
        self.logged = 0

    def open(self, words: int) -> None:
        """First write: from now on every access is stamped; earlier reads are entered."""
        self.who, self.when, self.reader, self.read_when, self.prior, self.prior_when = (np.zeros(words, np.int64) for _ in range(6))
        self.earlier = Earlier(words, LANE, COLUMN, 63 - LANE)
        for at, who, when in self.log:
            self.mark(at, who, when)
        self.log = []

    def mark(self, at, who, when) -> None:
        """Threads read words `at`."""
        old = self.reader[at]
        moved = ((old ^ who) >> LANE != 0) & (old != 0)
        if moved.any():
            self.prior[at[moved]], self.prior_when[at[moved]] = old[moved], self.read_when[at][moved]
        self.reader[at], self.read_when[at] = who, when
        lost = self.reader[at] != who
        if lost.any():
            self.prior[at[lost]], self.prior_when[at[lost]] = np.broadcast_to(who, at.shape)[lost], np.broadcast_to(when, at.shape)[lost]


class GlobalShadow:
    """Order of accesses to global memory in one launch."""

    def __init__(self, machine):
        self.M, self.clocks = machine, machine.clocks
        domains = self.clocks.domains
        self.serial = np.zeros(domains, np.int64)          # which cluster lives in a domain: 1, 2, … in order of admission
        self.born = 0
        self.far = FarKnowledge(self.clocks)
        self.fenced: dict[int, tuple] = {}                 # warp -> its epoch at its last fence, and what it knew
        self.fenced_cta: dict[int, tuple] = {}             # the same, fences of CTA scope included
        self.published: dict[tuple, dict] = {}             # (allocation address, word, CTA or -1 for all) -> {serial: (2, columns)}
        self.fence_epoch = np.zeros(len(self.clocks.epoch), np.int64)     # epoch of each warp's last proxy fence on global memory
        self.fence_known: dict[int, np.ndarray] = {}       # warp -> V when it ran that fence
        self.lane_fences = LaneFences(len(self.clocks.epoch))
        self._last: tuple = (None, None, None)             # threads, and their part of `who`, of the latest access
        self.maps = MapFences(self)

    def admit(self, domains: np.ndarray) -> None:
        """New clusters move in."""
        self._last = (None, None, None)
        for d in domains.tolist():
            self.born += 1
            self.serial[d] = self.born
            self.far.forget(d)
            if self.fenced_cta or self.fence_known:
                for warp in range(d * self.clocks.warps, (d + 1) * self.clocks.warps):
                    self.fenced.pop(warp, None)
                    self.fenced_cta.pop(warp, None)
                    self.fence_known.pop(warp, None)
            self.fence_epoch[d * self.clocks.warps:(d + 1) * self.clocks.warps] = 0
            self.lane_fences.reset(slice(d * self.clocks.warps, (d + 1) * self.clocks.warps))

    # --- stamps -----------------------------------------------------------------------------------------------------
    def _stamps(self, gids: np.ndarray, site: int, mask, sync: bool) -> tuple[np.ndarray, np.ndarray]:
        if self._last[0] is not gids:
            warp = gids >> 5
            serial = self.serial[warp // self.clocks.warps]
            self._last = (gids, serial << SERIAL | (warp % self.clocks.warps) << COLUMN | (gids & 31) << LANE, warp)
        _, who, warp = self._last
        return who | (int(sync) << SYNC | mask), self.clocks.epoch.take(warp).astype(np.int64) << 20 | site

    @staticmethod
    def _places(offset: np.ndarray, nbytes: int):
        """Word indices (n,) or (n, words), and the byte mask inside the word."""
        first = offset >> 2
        if nbytes <= 4:
            return first, ((1 << nbytes) - 1) << (offset & 3) if nbytes < 4 else 15
        return first[:, None] + np.arange(nbytes >> 2), 15

    def _of(self, allocation) -> Words:
        if allocation.stamps is None:
            allocation.stamps = Words()
        return allocation.stamps

    # --- accesses by lanes ------------------------------------------------------------------------------------------
    def read(self, gids: np.ndarray, allocation, offset: np.ndarray, nbytes: int, site: int, sync: bool = False,
             constant: bool = False) -> None:
        """Lanes read. sync: volatile, relaxed, acquire or atomic. constant: ld.global.nc."""
        words = self._of(allocation)
        at, mask = self._places(offset, nbytes)
        who, when = self._stamps(gids, site, mask, sync)
        if words.who is None:
            if words.logged < LOG_LIMIT:
                words.logged += at.size
                words.log.append((at, who if at.ndim == 1 else who[:, None], when if at.ndim == 1 else when[:, None]))
            return
        self._check(gids, allocation, words.who[at], words.when[at], at, who, site, "read", "write")
        if sync:
            words.earlier.forget(at)
        else:
            self._check_earlier(gids, allocation, words, at, who, site, "read")
        if constant:
            self._stale(gids, allocation, words, at, site)
        if self.clocks.scoped:
            self._check_scope(gids, allocation, words, at, site)
        words.mark(at, *((who, when) if at.ndim == 1 else (who[:, None], when[:, None])))

    def _check_scope(self, gids, allocation, words: Words, at, site: int) -> None:
        """What another CTA of the cluster wrote is known by synchronisation of cluster scope, or it is a warning."""
        clocks, who, when = self.clocks, words.who[at], words.when[at]
        gids = np.broadcast_to(gids if at.ndim == 1 else gids[:, None], at.shape)
        here = (who != 0) & (who >> SERIAL == self.serial[(gids >> 5) // clocks.warps]) & (who >> SYNC & 1 == 0)
        column, lane, epoch = who >> COLUMN & 0xFFFF, who >> LANE & 31, when >> 20
        doubtful = here & clocks.narrow(gids, column, epoch)
        if doubtful.any():
            doubtful &= clocks.ordered(clocks.K, clocks.row_of[gids], np.minimum(column, clocks.columns - 1), lane, epoch)
        if doubtful.any():
            k = tuple(int(v[0]) for v in np.nonzero(doubtful))
            reports_memory.scope(self.M, site, int(when[k] & 0xFFFFF), int(gids[k]), reports.element(allocation, int(at[k]) * 4))

    def _stale(self, gids, allocation, words: Words, at, site: int) -> None:
        """ld.global.nc promises that nothing in this kernel writes what it reads."""
        bad = words.who[at] != 0
        if bad.any():
            k = int(np.flatnonzero(bad.reshape(-1))[0])
            other = int(words.when[at].reshape(-1)[k] & 0xFFFFF)
            gid = int(np.broadcast_to(gids if at.ndim == 1 else gids[:, None], bad.shape).reshape(-1)[k])
            reports.stale_constant(self.M, site, other, gid, allocation, int(at.reshape(-1)[k]) * 4)

    def write(self, gids: np.ndarray, allocation, offset: np.ndarray, nbytes: int, site: int, sync: bool = False,
              value=None, blind: bool = False) -> None:
        """Lanes write. value(lanes): the bytes that lanes (positions) store, (k, nbytes); None where nothing is said of them. blind: an
        atomic whose old value nobody wants."""
        words = self._of(allocation)
        if words.who is None:
            words.open(-(-allocation.nbytes // 4))
        at, mask = self._places(offset, nbytes)
        who, when = self._stamps(gids, site, mask, sync)
        same = None if value is None else self._same(allocation, offset, nbytes, value)
        self._check(gids, allocation, words.who[at], words.when[at], at, who, site, "write", "write", same)
        self._check(gids, allocation, words.reader[at], words.read_when[at], at, who, site, "write", "read")
        self._check(gids, allocation, words.prior[at], words.prior_when[at], at, who, site, "write", "read")
        if not sync:
            self._check_earlier(gids, allocation, words, at, who, site, "write")
        old = (words.who[at], words.when[at]) if blind else None
        new = (who, when) if at.ndim == 1 else (who[:, None], when[:, None])
        words.who[at], words.when[at] = new
        if blind:
            words.earlier.updated(at, old, tuple(np.broadcast_to(x, at.shape) for x in new), words.who[at], (old[0] >> SYNC & 1) == 1)
        else:
            words.earlier.forget(at)
        if value is not None:
            first = at if at.ndim == 1 else at[:, 0]
            lost = words.who[first] != who
            if lost.any() and nbytes < 4:                # neighbours inside a word are no collision
                _, which, times = np.unique(offset, return_inverse=True, return_counts=True)
                lost &= times[which] > 1
            if lost.any():
                collided(self.M, gids, offset, np.flatnonzero(lost), value, site, lambda k: reports.element(allocation, int(offset[k])))

    @staticmethod
    def _same(allocation, offset: np.ndarray, nbytes: int, value):
        """same(lanes): True where lanes store the bytes that are there already."""
        def same(lanes):
            return (value(lanes) == allocation.view(1)[offset[lanes][:, None] + np.arange(nbytes)]).all(axis=1)
        return same

    def _check_earlier(self, gids, allocation, words: Words, at, who, site: int, verb: str) -> None:
        """The updates before the last one (reductions.py)."""
        found = words.earlier.at(at)
        if found is not None:
            self._check(gids, allocation, *found, at, who, site, verb, "write")

    def _check(self, gids, allocation, who, when, at, mine, site: int, verb: str, other_verb: str, same=None) -> None:
        if not who.any():
            return
        if at.ndim == 2:
            gids, mine = gids[:, None], mine[:, None]
        overlap = (who & mine & 15) != 0
        both_sync = ((who >> SYNC) & (mine >> SYNC) & 1) == 1
        ok = ~overlap | both_sync | self._ordered(gids, who, when, P_needed=False)
        if same is not None and not ok.all():       # one instruction that stores equal values again and again is no matter
            again = np.nonzero(~ok & (when & 0xFFFFF == site))
            if len(again[0]):
                ok[tuple(axis[same(again[0])] for axis in again)] = True
        if not ok.all():
            self._report(np.broadcast_to(gids, ok.shape), allocation, who, when, at, ~ok, site, verb, other_verb)

    def _ordered(self, gids, who, when, P_needed: bool) -> np.ndarray:
        clocks = self.clocks
        gids = np.broadcast_to(gids, who.shape)
        serial, column, lane = who >> SERIAL, (who >> COLUMN) & 0xFFFF, (who >> LANE) & 31
        epoch = when >> 20
        domain = (gids >> 5) // clocks.warps
        here = serial == self.serial[domain]
        ok = who == 0
        near = here & ~ok
        if near.any():
            if P_needed:
                known = self._fenced_near(gids[near], column[near], lane[near], epoch[near])
            else:
                known = clocks.ordered(clocks.K, clocks.row_of[gids[near]], column[near], lane[near], epoch[near])
                own = (column[near] == (gids[near] >> 5) % clocks.warps) & (lane[near] == (gids[near] & 31))
                known = known | own | self._own_bulk(gids[near], column[near], lane[near], epoch[near])
            ok[near] = known
        far = ~here & ~ok
        if far.any():
            ok[far] = self._known_far(gids[far], domain[far], serial[far], column[far], epoch[far], 1 if P_needed else 0)
        return ok

    def _fenced_near(self, gids, column, lane, epoch):
        """Did the writer run the fence after its write (or its warp, synchronised since), or this warp after learning of it?"""
        clocks = self.clocks
        writer = (gids >> 5) // clocks.warps * clocks.warps + np.minimum(column, clocks.warps - 1)
        ok = np.zeros(len(gids), bool)
        known = self.fence_known.get(int(gids[0]) >> 5)
        for fenced in (self.fence_epoch[writer], None if known is None else known[np.minimum(column, len(known) - 1)]):
            if fenced is not None:
                ok |= (fenced >= epoch) & ~self.lane_fences.missed(writer, lane, epoch, fenced)
        return ok

    def _own_bulk(self, gids, column, lane, epoch):
        clocks = self.clocks
        if not clocks.has_bulk:
            return False
        return (column == clocks.written0 + (gids >> 5) % clocks.warps) & (lane == (gids & 31)) & (epoch <= clocks.bulk_written[gids])

    def _known_far(self, gids, domain, serial, column, epoch, plane: int) -> np.ndarray:
        ok = np.zeros(len(domain), bool)
        for pair in np.unique(np.stack([domain, serial], axis=1), axis=0):
            if int(pair[0]) in self.far.events:
                pick = (domain == pair[0]) & (serial == pair[1])
                ok[pick] = self.far.covers(gids[pick], int(pair[0]), int(pair[1]), column[pick], epoch[pick], plane)
        return ok

    def _report(self, gids, allocation, who, when, at, bad, site: int, verb: str, other_verb: str) -> None:
        sites = when[bad] & 0xFFFFF
        for other in np.unique(sites).tolist():
            k = int(np.flatnonzero(sites == other)[0])
            column = int((who[bad][k] >> COLUMN) & 0xFFFF)
            reports.global_race(self.M, verb, site, other_verb, other, column, int(gids[bad][k]), allocation, int(at[bad][k]) * 4)

    # --- the async proxy --------------------------------------------------------------------------------------------
    def async_read(self, gid: int, allocation, first: int, last: int, site: int, pieces=None) -> None:
        """A copy by the engine reads bytes first..last (or `pieces` word indices) of an allocation."""
        words = allocation.stamps
        if words is None or words.who is None:
            return
        at = np.arange(first >> 2, (last + 3) >> 2) if pieces is None else pieces
        who, when = words.who[at], words.when[at]
        hit = who != 0
        if not hit.any():
            return
        at, who, when = at[hit], who[hit], when[hit]
        gids = np.full(len(at), gid)
        ordered = self._ordered(gids, who, when, P_needed=False)
        if not ordered.all():
            self._report(gids, allocation, who, when, at, ~ordered, site, "async read", "write")
        generic = ((who >> COLUMN) & 0xFFFF) < self.clocks.wgmma0
        unseen = ordered & generic & ~self._ordered(gids, who, when, P_needed=True)
        for other in np.unique(when[unseen] & 0xFFFFF).tolist():
            k = int(np.flatnonzero(unseen & ((when & 0xFFFFF) == other))[0])
            reports.global_fence(self.M, site, other, gid, allocation, int(at[k]) * 4)

    def async_write(self, gid: int, allocation, at: np.ndarray, group: int, site: int, reduction: bool = False) -> None:
        """A bulk or tensor store writes words `at`; it belongs to bulk group `group` of its thread."""
        words = self._of(allocation)
        if words.who is None:
            words.open(-(-allocation.nbytes // 4))
        clocks = self.clocks
        who = int(self.serial[(gid >> 5) // clocks.warps]) << SERIAL | (clocks.written0 + (gid >> 5) % clocks.warps) << COLUMN
        who |= (gid & 31) << LANE | int(reduction) << SYNC | 15
        gids = np.full(len(at), gid)
        for old, old_when, kind in ((words.who[at], words.when[at], "write"), (words.reader[at], words.read_when[at], "read"),
                                    (words.prior[at], words.prior_when[at], "read")):
            if not old.any():
                continue
            ok = self._ordered(gids, old, old_when, P_needed=False)
            if reduction:
                ok |= (old >> SYNC) & 1 == 1
            if not ok.all():
                self._report(gids, allocation, old, old_when, at, ~ok, site, "async write", kind)
        words.who[at], words.when[at] = who, group << 20 | site
        if not reduction:
            words.earlier.forget(at)

    # --- synchronisation across clusters ----------------------------------------------------------------------------
    def _snapshot(self, gw: int, vec: np.ndarray) -> dict:
        """What a warp knows: its own cluster's columns (V and P), and what its cluster knows of others."""
        domain = gw // self.clocks.warps
        known = self.far.of_vector(domain, gw, vec)
        own = vec[[V, P]].astype(np.int64)
        for plane, single in ((0, X), (1, PX)):
            own[plane] = np.maximum(own[plane], vec[single] >> 5)
        known[int(self.serial[domain])] = own
        return known

    def fence(self, C, narrow: bool = False) -> None:
        """fence or membar: later synchronising writes publish what is known now (narrow: of CTA scope, to the own CTA only)."""
        units = self.M.units(C)
        vec = self.clocks.publish(C, units)
        for k, gw in enumerate(units.gw.tolist()):
            known = self._snapshot(gw, vec[k])
            self.fenced_cta[gw] = (int(self.clocks.epoch[gw]) - 1, known)
            if not narrow:
                self.fenced[gw] = self.fenced_cta[gw]

    def _covered(self, gw: int, gid: int, table: dict) -> dict | None:
        """What the last fence of warp `gw` covered, and those of its CTA's other warps that thread `gid` has met since: writers that fence,
        a __syncthreads(), and one thread that raises the flag."""
        own, clocks = table.get(gw), self.clocks
        first = gw // self.M.warps * self.M.warps
        row = clocks.K[clocks.row_of[gid], V]
        met = [table[w][1] for w in range(first, first + self.M.warps) if w != gw and w in table and row[w % clocks.warps] >= table[w][0]]
        if own is None and not met:
            return None
        found = {} if own is None else {s: v.copy() for s, v in own[1].items()}
        for known in met:
            merge_known(found, known)
        return found

    def release(self, C, allocation, offset: np.ndarray, now: bool, narrow: bool = False) -> None:
        """A synchronising write (now: with .release; narrow: of CTA scope, which tells other CTAs nothing): publish at its word what it
        releases, or what the last fence covered."""
        units = self.M.units(C)
        vec = self.clocks.publish(C, units) if now else None
        lanes = np.unique(C.gids >> 5, return_index=True)[1]
        for k, lane in enumerate(lanes.tolist()):
            gw = int(C.gids[lane]) >> 5
            gid = int(C.gids[lane])
            known = self._snapshot(gw, vec[k]) if now else None
            to_all = None if narrow else known if now else self._covered(gw, gid, self.fenced)
            to_cta = known if now and narrow else None if now else self._covered(gw, gid, self.fenced_cta)
            mine = np.flatnonzero(C.gids >> 5 == gw)
            for word in np.unique(offset[mine] >> 2).tolist():
                for who, told in ((-1, to_all), (gw // self.M.warps, to_cta)):
                    if told is not None:
                        merge_known(self.published.setdefault((allocation.address, word, who), {}), told)

    def acquire(self, C, allocation, offset: np.ndarray) -> None:
        """A synchronising read: its threads learn what was published at the word."""
        if not self.published:
            return
        for word in np.unique(offset >> 2).tolist():
            lanes = C.gids[offset >> 2 == word]
            for who in (-1, *np.unique(lanes // self.M.T).tolist()):
                known = self.published.get((allocation.address, word, who))
                if known:
                    self._learn(lanes if who < 0 else lanes[lanes // self.M.T == who], known)

    def _learn(self, lanes: np.ndarray, known: dict) -> None:
        clocks = self.clocks
        for domain in np.unique((lanes >> 5) // clocks.warps).tolist():
            here = lanes[(lanes >> 5) // clocks.warps == domain]
            own = known.get(int(self.serial[domain]))
            others = {s: v for s, v in known.items() if s != self.serial[domain]}
            if others:
                self._learn_far(domain, here, others)
            if own is not None:
                rows = np.unique(clocks.row_of[here])
                width = min(own.shape[1], clocks.columns)
                for plane in (V, W) if clocks.scoped else (V,):
                    clocks.K[rows, plane, :width] = np.maximum(clocks.K[rows, plane, :width], own[0, :width].astype(np.int32))

    def _learn_far(self, domain: int, gids: np.ndarray, known: dict) -> None:
        for warp in np.unique(gids >> 5).tolist():
            lanes = np.unique(gids[gids >> 5 == warp] & 31)
            for lane in [WHOLE_WARP] if len(lanes) >= self.M.alive[warp] else lanes.tolist():
                self.far.learn(domain, warp, lane, known)

    def proxy_fence(self, C) -> None:
        """fence.proxy.async on global memory: what these warps made and know becomes visible to the async proxy."""
        units = self.M.units(C)
        vec = self.clocks.publish(C, units)
        for k, gw in enumerate(units.gw.tolist()):
            own = np.maximum(vec[k, V], vec[k, X] >> 5)
            self.fence_epoch[gw] = own[gw % self.clocks.warps]
            self.fence_known[gw] = own
        for domain in np.unique((C.gids >> 5) // self.clocks.warps).tolist():
            self.far.fenced(domain)
