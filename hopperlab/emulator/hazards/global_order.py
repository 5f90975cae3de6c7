# SPDX-License-Identifier: Apache-2.0
"""Order of accesses to global memory: who wrote and read each 4-byte word last, in this launch, and what is ordered before what.

Inside a cluster order comes from clocks.py. Across clusters it comes from fences and synchronising accesses (volatile,
relaxed, release, acquire, atomic): a release publishes what its thread knew at its last fence, and a thread that reads the
word learns it, and with it whoever is ordered after that read (far_knowledge.py).
reference: PTX ISA 8.7 to 8.10 (memory consistency model).
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.cohort import Cohort
from ..machine.units import Units, lane_masks
from . import findings_memory
from .async_reads import AsyncReads
from .clocks import V, X
from .findings import in_array
from .far_knowledge import WHOLE_WARP, FarKnowledge, codes_of, merge_known
from .lane_order import collided
from .parts import parts
from .map_fences import MapFences
from .memory_fences import MemoryFences
from .observed_flags import Observed
from .global_words import COLUMN, LANE, SERIAL, SYNC, Words, same_bytes, words_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from .async_reads import Box, Ends
    from .clocks import Clocks
    from .far_knowledge import Known
    from .findings import Watched
    from .global_words import Stamped

LANES = np.arange(32)
LOG_LIMIT = 1 << 21                                # lane reads remembered of an array before its first write


class GlobalOrder:
    """Order of accesses to global memory in one launch."""

    def __init__(self, machine: Watched, clocks: Clocks) -> None:
        self.M, self.clocks = machine, clocks
        domains = self.clocks.domains
        self.serial = np.zeros(domains, np.int64)          # which cluster lives in a domain: 1, 2, … in order of admission
        self.born = 0
        self.far = FarKnowledge(self.clocks)
        self.fences = MemoryFences(self.clocks)
        self.published: dict[tuple[int, int, int], Known] = {}  # (allocation address, word, CTA or -1 for all) -> {serial: (planes, columns)}
        self.clocks.lanes.holders.append(lambda: codes_of(self.clocks, self.published.values()))
        self._last: tuple[Any, ...] = (None,)              # of the latest access: its threads, their part of `who`, their warps, and how many stand together
        self.maps = MapFences(self)
        self.observed = Observed(self)
        self.written = False                               # has anybody written global memory?
        self.loads = AsyncReads(self, machine.memory)
        self.near = any(i.op in ("ld", "atom") and "cta" in i.mods for i in machine.body)       # does anybody look at flags with CTA scope?

    def admit(self, domains: np.ndarray) -> None:
        """New clusters move in."""
        self._last = (None,)
        self.serial[domains] = self._enter(domains)
        self.born += len(domains)
        warps = self.clocks.warps
        for d in domains.tolist() if self.far.events else ():
            self.far.forget(d)
        self.fences.forget((domains[:, None] * warps + np.arange(warps)).reshape(-1).tolist())

    def _enter(self, domains: np.ndarray) -> np.ndarray:
        return self.born + 1 + np.arange(len(domains))

    def waited(self, C: Cohort) -> None:
        """griddepcontrol.wait: this launch has nobody in front of it (grid_order.py)."""

    def foreign(self, who: np.ndarray) -> np.ndarray:
        """True for stamps of other launches (grid_order.py)."""
        return np.zeros(who.shape, bool)

    # --- stamps -----------------------------------------------------------------------------------------------------
    def _stamps(self, gids: np.ndarray, site: int, mask: np.ndarray | int, sync: bool, groups: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        return self._stamping(gids, site, mask, sync, groups)()

    def _stamping(self, gids: np.ndarray, site: int, mask: np.ndarray | int, sync: bool, groups: np.ndarray | None) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
        """What gives the stamps of an access that is made now (groups: or is over with these cp.async groups of its threads), whenever they are asked for."""
        if self._last[0] is not gids:
            together = 32 if len(gids) % 32 == 0 and (gids.reshape(-1, 32) == (gids[::32, None] & -32) + LANES).all() else 1
            warp = gids[::together] >> 5
            who = (self.serial[warp // self.clocks.warps] << SERIAL | (warp % self.clocks.warps) << COLUMN).repeat(together) | (gids & 31) << LANE
            self._last = (gids, who, warp, together)
        _, who, warp, together = self._last
        if groups is not None:
            cp0, groups = self.clocks.cp0 << COLUMN, groups.astype(np.int64)
            return lambda: (who + cp0 | mask, groups << 20 | site)
        epoch = self.clocks.epoch[warp]
        return lambda: (who | (int(sync) << SYNC | mask), (epoch.astype(np.int64) << 20 | site).repeat(together))

    def _of(self, allocation: Stamped) -> Words:
        return allocation.stamp(Words()) if allocation.stamps is None else allocation.stamps

    # --- accesses by lanes ------------------------------------------------------------------------------------------
    def read(self, gids: np.ndarray, allocation: Stamped, offset: np.ndarray, nbytes: int, site: int, sync: bool = False,
             constant: bool = False, groups: np.ndarray | None = None) -> None:
        """Lanes read. sync: volatile, relaxed, acquire or atomic. constant: ld.global.nc. groups: cp.async groups that the reads belong to."""
        words = self._of(allocation)
        at, mask = words_at(offset, nbytes)
        if words.who is None:
            if words.logged < LOG_LIMIT:
                words.logged += at.size
                words.log.append((at, self._stamping(gids, site, mask, sync, groups)))
            return
        who, when = self._stamps(gids, site, mask, sync, groups)
        self._check(gids, allocation, (words.who, words.when), at, who, site, "read", "write")
        if sync:
            words.earlier.forget(at)
        else:
            self._check_earlier(gids, allocation, words, at, who, site, "read")
        if constant:
            self._stale(gids, allocation, words, at, site)
        if self.clocks.scoped:
            self._check_scope(gids, allocation, words, at, site)
        words.mark(at, who, when)

    def _check_scope(self, gids: np.ndarray, allocation: Stamped, words: Words, at: np.ndarray, site: int) -> None:
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
            findings_memory.scope(self.M, site, int(when[k] & 0xFFFFF), int(gids[k]), in_array(allocation, int(at[k]) * 4))

    def _stale(self, gids: np.ndarray, allocation: Stamped, words: Words, at: np.ndarray, site: int) -> None:
        """ld.global.nc promises that nothing in this kernel writes what it reads."""
        bad = (words.who[at] != 0) & ~self.foreign(words.who[at])
        if bad.any():
            k = int(np.flatnonzero(bad.reshape(-1))[0])
            gid = int(np.broadcast_to(gids if at.ndim == 1 else gids[:, None], bad.shape).reshape(-1)[k])
            findings_memory.stale_constant(self.M, site, int(words.when[at].reshape(-1)[k] & 0xFFFFF), gid, allocation, int(at.reshape(-1)[k]) * 4)

    def write(self, gids: np.ndarray, allocation: Stamped, offset: np.ndarray, nbytes: int, site: int, sync: bool = False,
              value: Callable[[Any], np.ndarray] | None = None, blind: bool = False) -> None:
        """Lanes write. value(lanes): the bytes that lanes (positions) store, (k, nbytes); None where nothing is said of them. blind: an
        atomic whose old value nobody wants."""
        words = self._of(allocation)
        if words.who is None:
            self.written = True
            words.open(-(-allocation.nbytes // 4))
        at, mask = words_at(offset, nbytes)
        who, when = self._stamps(gids, site, mask, sync)
        same = None if value is None else same_bytes(allocation, offset, nbytes, value)
        self._check(gids, allocation, (words.who, words.when), at, who, site, "write", "write", same)
        for readers in words.readers():
            self._check(gids, allocation, readers, at, who, site, "write", "read")
        if allocation.address in self.loads.of:
            self.loads.written(gids, allocation, at, site, "write", nbytes >= 4)
        if not sync:
            self._check_earlier(gids, allocation, words, at, who, site, "write")
        old: Any = (words.who[at], words.when[at]) if blind else None
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
                collided(self.M, gids, offset, np.flatnonzero(lost), value, site, lambda k: in_array(allocation, int(offset[k])))

    def _check_earlier(self, gids: np.ndarray, allocation: Stamped, words: Words, at: np.ndarray, who: np.ndarray, site: int, verb: str) -> None:
        """The updates before the last one (reduction_order.py), and all reductions by copies."""
        if words.earlier.planes:
            self._check(gids, allocation, words.earlier.planes, at, who, site, verb, "write")
        if words.reductions.places:
            self._check_reductions(np.broadcast_to(gids if at.ndim == 1 else gids[:, None], at.shape).reshape(-1), allocation, words, at.reshape(-1), site, verb)

    def _check_reductions(self, gids: np.ndarray, allocation: Stamped, words: Words, at: np.ndarray, site: int, verb: str) -> None:
        """A thread reads, or stores over, words to which copies of several threads may still add."""
        for here, who, when in words.reductions.touching(at):
            places, others = np.repeat(here, len(who)), (np.tile(who, len(here)), np.tile(when, len(here)))
            ok = self._ordered(gids[places], *others, P_needed=False)
            if not ok.all():
                self._report(gids[places], allocation, *others, at[places], ~ok, site, verb, "write")

    def _check(self, gids: np.ndarray, allocation: Stamped, stamps: tuple[np.ndarray, ...], at: np.ndarray, mine: np.ndarray, site: int, verb: str,
               other_verb: str, same: Callable[[np.ndarray], np.ndarray] | None = None) -> None:
        who = stamps[0][at]
        if not who.any():
            return
        when = stamps[1][at]
        if at.ndim == 2:
            gids, mine = gids[:, None], mine[:, None]
        overlap = (who & mine & 15) != 0
        both_sync = ((who >> SYNC) & (mine >> SYNC) & 1) == 1
        ok = ~overlap | both_sync | self._ordered(gids, who, when, P_needed=False)
        if other_verb == "write" and self.observed.seen and not ok.all():
            ok |= self.observed.before(np.broadcast_to(gids, ok.shape), allocation, at, who, ~ok)
        if same is not None and not ok.all():       # one instruction that stores equal values again and again is no matter
            again = np.nonzero(~ok & (when & 0xFFFFF == site) & ~self.foreign(who))
            if len(again[0]):
                ok[tuple(axis[same(again[0])] for axis in again)] = True
        if not ok.all():
            self._report(np.broadcast_to(gids, ok.shape), allocation, who, when, at, ~ok, site, verb, other_verb)

    def _ordered(self, gids: np.ndarray, who: np.ndarray, when: np.ndarray, P_needed: bool) -> np.ndarray:
        clocks = self.clocks
        gids = np.broadcast_to(gids, who.shape)
        serial, column, lane = who >> SERIAL, (who >> COLUMN) & 0xFFFF, (who >> LANE) & 31
        epoch = when >> 20
        domain = (gids >> 5) // clocks.warps
        here = serial == self.serial[domain]
        ok: np.ndarray = who == 0
        near = here & ~ok
        if near.any():
            if P_needed:
                known = self._fenced_near(gids[near], column[near], lane[near], epoch[near])
            else:
                known = clocks.ordered(clocks.K, clocks.row_of[gids[near]], column[near], lane[near], epoch[near])
                own = (column[near] == (gids[near] >> 5) % clocks.warps) & (lane[near] == (gids[near] & 31))
                known = known | own | clocks.own_groups(gids[near], column[near], lane[near], epoch[near])
            ok[near] = known
        far = ~here & ~ok
        if far.any():
            ok[far] = self._known_far(gids[far], domain[far], serial[far], column[far], lane[far], epoch[far], P_needed)
        return ok

    def _fenced_near(self, gids: np.ndarray, column: np.ndarray, lane: np.ndarray, epoch: np.ndarray) -> np.ndarray:
        """Does a proxy fence lie on the way from the write to these threads?"""
        clocks, planes = self.clocks, self.clocks.fenced_global
        return np.zeros(len(gids), bool) if planes is None else clocks.ordered(clocks.K, clocks.row_of[gids], column, lane, epoch, planes=planes)

    def _known_far(self, gids: np.ndarray, domain: np.ndarray, serial: np.ndarray, column: np.ndarray, lane: np.ndarray, epoch: np.ndarray,
                   P_needed: bool) -> np.ndarray:
        ok = np.zeros(len(domain), bool)
        planes = self.clocks.fenced_global if P_needed else (V, X)
        if planes is None:
            return ok
        for pair in np.unique(np.stack([domain, serial], axis=1), axis=0):
            if int(pair[0]) in self.far.events:
                pick = (domain == pair[0]) & (serial == pair[1])
                ok[pick] = self.far.covers(gids[pick], int(pair[0]), int(pair[1]), column[pick], lane[pick], epoch[pick], planes)
        return ok

    def _report(self, gids: np.ndarray, allocation: Stamped, who: np.ndarray, when: np.ndarray, at: np.ndarray, bad: np.ndarray, site: int, verb: str,
                other_verb: str) -> None:
        findings_memory.global_races(self.M, verb, site, other_verb, gids[bad], allocation, who[bad], when[bad], at[bad],
                                     who[bad] >> SERIAL == self.serial[(gids[bad] >> 5) // self.clocks.warps])

    # --- the async proxy --------------------------------------------------------------------------------------------
    def async_read(self, gid: int, allocation: Stamped, box: Box, site: int, ends: Ends) -> None:
        """A copy by the engine reads words of an allocation, and is over with one of `ends` (async_reads.py, which keeps it for later writes)."""
        words = allocation.stamps
        if words is None or words.who is None:
            return
        at = box.words(allocation.nbytes)
        who, when = words.who[at], words.when[at]
        hit = who != 0
        if not hit.any():
            return
        at, who, when = at[hit], who[hit], when[hit]
        gids = np.full(len(at), gid)
        ordered = self._ordered(gids, who, when, P_needed=False)
        if not ordered.all():
            self._report(gids, allocation, who, when, at, ~ordered, site, "async read", "write")
        if words.reductions.places:
            self._check_reductions(gids, allocation, words, at, site, "async read")
        generic = (((who >> COLUMN) & 0xFFFF) < self.clocks.wgmma0) & ~self.foreign(who)
        unseen = ordered & generic & ~self._ordered(gids, who, when, P_needed=True)
        for other in np.unique(when[unseen] & 0xFFFFF).tolist():
            k = int(np.flatnonzero(unseen & ((when & 0xFFFFF) == other))[0])
            findings_memory.global_fence(self.M, site, other, gid, allocation, int(at[k]) * 4)

    def async_write(self, gid: int, allocation: Stamped, at: np.ndarray, group: int, site: int, reduction: bool = False) -> None:
        """A bulk or tensor store writes words `at`; it belongs to bulk group `group` of its thread."""
        words = self._of(allocation)
        if words.who is None:
            self.written = True
            words.open(-(-allocation.nbytes // 4))
        clocks = self.clocks
        who = int(self.serial[(gid >> 5) // clocks.warps]) << SERIAL | (clocks.written0 + (gid >> 5) % clocks.warps) << COLUMN
        who |= (gid & 31) << LANE | int(reduction) << SYNC | 15
        gids = np.full(len(at), gid)
        for (whos, whens), kind in (((words.who, words.when), "write"), *((readers, "read") for readers in words.readers())):
            old = whos[at]
            if not old.any():
                continue
            old_when = whens[at]
            ok = self._ordered(gids, old, old_when, P_needed=False)
            if reduction:
                ok |= (old >> SYNC) & 1 == 1
            if not ok.all():
                self._report(gids, allocation, old, old_when, at, ~ok, site, "async write", kind)
        if allocation.address in self.loads.of:
            self.loads.written(gids, allocation, at, site, "async write", True)
        words.who[at], words.when[at] = who, group << 20 | site
        if reduction:
            words.reductions.add(at, who >> LANE, who, group << 20 | site)
            return
        if words.reductions.places:
            self._check_reductions(gids, allocation, words, at, site, "async write")
        words.earlier.forget(at)

    # --- synchronisation across clusters ----------------------------------------------------------------------------
    def _snapshot(self, gw: int, vec: np.ndarray) -> Known:
        """What lanes of a warp know that have published `vec`: of their own cluster, and what it knows of others."""
        domain = gw // self.clocks.warps
        known = self.far.of_vector(domain, gw, vec)
        known[int(self.serial[domain])] = vec[:self.clocks.paired].copy()
        return known

    def fence(self, C: Cohort, narrow: bool = False) -> None:
        """fence or membar: later synchronising writes publish what is known now (narrow: of CTA scope, to the own CTA only)."""
        units, clocks = self.M.units(C), self.clocks
        own = units.gw % clocks.warps
        before = clocks.K[clocks.row_of[C.gids[units.starts]], :2, own]
        vec = clocks.publish(C, units)
        known = [self._snapshot(gw, vec[k]) for k, gw in enumerate(units.gw.tolist())]
        if self.far.open and not narrow:
            for k, (gw, mask) in enumerate(zip(units.gw.tolist(), lane_masks(C, units).tolist())):
                self.far.fence(gw // clocks.warps, gw, mask, vec[k])
        self.fences.ran(C, units, self.serial[units.gw // clocks.warps].tolist(), known, before, narrow)

    def release(self, C: Cohort, allocation: Stamped, offset: np.ndarray, now: bool, narrow: bool = False) -> None:
        """A synchronising write (now: with .release; narrow: of CTA scope, which tells other CTAs nothing): its lanes publish at their words what they
        release, or what their last fences covered."""
        if not (now or self.fences.of):
            return
        M, clocks = self.M, self.clocks
        C, units, words = parts(M, C, offset >> 2)
        vec = clocks.publish(C, units) if now else clocks.known(C, units)
        masks = lane_masks(C, units)
        for k, (gw, word) in enumerate(zip(units.gw.tolist(), words.tolist())):
            cta = gw // M.warps
            self.observed.wrote(allocation, word, cta, narrow)
            if now:
                known = self._snapshot(gw, vec[k])
                told = {cta: known} if narrow else {-1: known, cta: known} if self.near else {-1: known}
            else:
                warps, lanes = range(cta * M.warps, (cta + 1) * M.warps), -1 if clocks.whole(units)[k] else int(masks[k])
                told = {who: found for who, near in ((-1, narrow), (cta, False)) if not near
                        if (found := self.fences.covered(gw, warps, lanes, vec[k], who >= 0))}
            for who, known in told.items():
                merge_known(clocks, self.published.setdefault((allocation.address, word, who), {}), known)

    def acquire(self, C: Cohort, allocation: Stamped, offset: np.ndarray, site: int | None = None, narrow: bool = False) -> None:
        """A synchronising read: its threads learn what was published at the word. site: of a load that wants a fence after it; narrow: of CTA scope."""
        if self.observed.seen:
            self.observed.read(C.gids, allocation, offset, narrow)
        if not self.published:
            return
        for word in np.unique(offset >> 2).tolist():
            lanes = C.gids[offset >> 2 == word]
            for who in (*(() if narrow else (-1,)), *np.unique(lanes // self.M.T).tolist()):
                known = self.published.get((allocation.address, word, who))
                if known:
                    self._learn(lanes if who < 0 else lanes[lanes // self.M.T == who], known, site)

    def _learn(self, lanes: np.ndarray, known: Known, site: int | None) -> None:
        clocks = self.clocks
        for domain in np.unique((lanes >> 5) // clocks.warps).tolist():
            here = np.sort(lanes[(lanes >> 5) // clocks.warps == domain])
            own = known.get(int(self.serial[domain]))
            others = {s: v for s, v in known.items() if s != self.serial[domain]}
            if others:
                self._learn_far(domain, here, others, site)
            if own is not None:
                readers = Cohort(here, None, 0)  # type: ignore[arg-type]  # reads no registers
                units = Units(readers, self.M.alive)
                vec = np.zeros((len(units.gw), clocks.planes, clocks.columns), np.int32)
                vec[:, :clocks.paired, :own.shape[1]] = own
                vec[:, clocks.paired:, :own.shape[1]] = own[V]
                clocks.learn(readers, units, vec)

    def _learn_far(self, domain: int, gids: np.ndarray, known: Known, site: int | None) -> None:
        for warp in np.unique(gids >> 5).tolist():
            for lane in self._who(warp, np.unique(gids[gids >> 5 == warp] & 31)):
                self.far.learn(domain, warp, lane, known, site)

    def _who(self, warp: int, lanes: np.ndarray) -> list[int]:
        return [WHOLE_WARP] if len(lanes) >= self.M.alive[warp] else lanes.tolist()

    def proxy_fence(self, C: Cohort) -> None:
        """fence.proxy.async on global memory: what these lanes know of other clusters becomes visible to the async proxy (clocks.py has the rest)."""
        if not self.far.events:
            return
        units = self.M.units(C)
        vec = self.clocks.publish(C, units)
        ends = np.append(units.starts[1:], C.n)
        for k, gw in enumerate(units.gw.tolist()):
            self.far.fenced(gw // self.clocks.warps, gw, self._who(gw, C.gids[units.starts[k]:ends[k]] & 31), vec[k])
