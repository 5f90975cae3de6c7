"""mbarriers: 64-bit words in shared memory, their phases, and what completing a phase publishes.

The word in shared memory is the state (hopper/mbarrier.py has the arithmetic for one word); the arrays here mirror it for
all CTAs at once, with the full phase count that the word's one parity bit cannot hold. PTX ISA 9.7.13.15.
"""
from __future__ import annotations

import numpy as np

from . import reports
from .checks_barrier import BarrierChecks
from .clocks import V, W

PENDING_SHIFT, EXPECTED_SHIFT, TX_SHIFT, PHASE_SHIFT = 0, 20, 40, 61
FIELD = (1 << 20) - 1
TX_FIELD = (1 << 21) - 1
LIVE = 1 << 62


class Barriers:
    """All mbarriers of all resident CTAs; a barrier id is slot * capacity + its number in the CTA."""

    def __init__(self, machine):
        self.M = machine
        self.capacity = machine.clocks.bars
        size = machine.slots * self.capacity
        self.number_at = np.full(max(1, machine.stride // 8), -1, np.int64)    # word in shared memory -> number
        self.offsets: list[int] = []
        self.live = np.zeros(size, bool)
        self.phase, self.pending, self.expected, self.tx = (np.zeros(size, np.int64) for _ in range(4))
        self.waited = np.zeros(size, np.int64)                 # newest phase that some thread has seen complete
        self.arrived_bytes = np.zeros(size, np.int64)          # bytes completed in the current phase, for reports
        self.from_afar: set[int] = set()                       # barriers that other CTAs have arrived on
        self.flipped = False
        self.checks = BarrierChecks(machine, size) if machine.shadow is not None else None

    def reset_slots(self, slots: np.ndarray) -> None:
        """New CTAs have no barriers."""
        if self.checks is not None:
            self.checks.reset_slots(slots)
        self.live.reshape(-1, self.capacity)[slots] = False

    def ids(self, C, address, info) -> np.ndarray:
        """Barrier id of every lane's shared address; raises for addresses where no barrier was initialised."""
        M = self.M
        address = M.lanes(C, address)
        offset = address.astype(np.int64) & 0xFFFFFF
        slot = M.target_slot(C, address, getattr(info, "cluster", False), info.index)
        if (offset & 7).any() or (offset >= M.stride).any():
            lane = int(np.flatnonzero((offset & 7 != 0) | (offset >= M.stride))[0])
            raise M.fault(C, info.index, lane, f"mbarrier address {int(offset[lane]):#x}: an mbarrier is 8-byte aligned "
                          f"in shared memory ({M.shared_limit} bytes)", "misaligned", int(offset[lane]))
        number = self.number_at[offset >> 3]
        ids = slot * self.capacity + number
        bad = (number < 0) | ~self.live[ids]
        if bad.any():
            lane = int(np.flatnonzero(bad)[0])
            reports.no_barrier(M, info.index, int(C.gids[lane]), int(offset[lane]))
        if self.checks is not None:
            self.checks.used(C, ids, info)
        return ids

    def init(self, C, address, count, info) -> None:
        """mbarrier.init: phase 0, `count` arrivals a phase."""
        M = self.M
        offset = M.lanes(C, address).astype(np.int64) & 0xFFFFFF
        bad = (offset & 7 != 0) | (offset < 0x400) | (offset + 8 > M.shared_limit)
        if bad.any():
            lane = int(np.flatnonzero(bad)[0])
            raise M.fault(C, info.index, lane, f"mbarrier address {int(offset[lane]):#x}: an mbarrier is 8 bytes, 8-byte aligned, in this CTA's "
                          f"{M.shared_limit - 0x400} bytes of shared memory (0x400 to {M.shared_limit:#x})",
                          "misaligned" if offset[lane] & 7 else "out-of-bounds", int(offset[lane]))
        number = self.number_at[offset >> 3]
        for new in np.unique(offset[number < 0]):
            if len(self.offsets) == self.capacity:
                self._grow()
            self.number_at[new >> 3] = len(self.offsets)
            self.offsets.append(int(new))
        ids = M.slot_of(C) * self.capacity + self.number_at[offset >> 3]
        count = M.lanes(C, count).astype(np.int64)
        if self.checks is not None:
            self.checks.initialised(C, ids, M.shared_base(C) + offset, self.live[ids], count, info)
        for barrier in ids.tolist():                # what was waited for in an earlier life is done with
            last = M.landing.last_copy.get(barrier)
            if last is not None and self.waited[barrier] >= last[1]:
                del M.landing.last_copy[barrier]
        self.live[ids] = True
        self.phase[ids] = self.tx[ids] = self.arrived_bytes[ids] = self.waited[ids] = 0
        self.pending[ids] = self.expected[ids] = count
        self._mirror(ids)
        M.progress += 1

    def invalidate(self, C, address, info) -> None:
        """mbarrier.inval."""
        M = self.M
        self.live[self.ids(C, address, info)] = False
        if M.shadow is not None:
            M.shadow.barrier_gone(M.shared_base(C) + (M.lanes(C, address).astype(np.int64) & 0xFFFFFF))

    def _grow(self) -> None:
        old, slots = self.capacity, self.M.slots
        self.M.clocks.grow_barriers()
        self.capacity = self.M.clocks.bars

        def wider(table):
            out = np.zeros((slots, self.capacity), table.dtype)
            out[:, :old] = table.reshape(slots, old)
            return out.reshape(-1)
        names = ("live", "phase", "pending", "expected", "tx", "arrived_bytes", "waited")
        for name in names:
            setattr(self, name, wider(getattr(self, name)))
        if self.checks is not None:
            self.checks.grow(slots, old, self.capacity)

    def _mirror(self, ids) -> None:
        """Write the words to shared memory."""
        M = self.M
        word = (self.pending[ids] | self.expected[ids] << EXPECTED_SHIFT | (self.tx[ids] & TX_FIELD) << TX_SHIFT
                | (self.phase[ids] & 1) << PHASE_SHIFT | LIVE)
        offsets = np.asarray(self.offsets)[ids % self.capacity]
        M.smem_views[8][(ids // self.capacity * M.stride + offsets) >> 3] = word.astype(np.uint64)

    def words(self, ids) -> np.ndarray:
        """Opaque state words (uint64), as mbarrier.arrive returns them."""
        return ((self.phase[ids] & 1) << PHASE_SHIFT | self.pending[ids] | LIVE).astype(np.uint64)

    def arrive(self, C, ids: np.ndarray, count, info, expect=None, release: bool = True) -> np.ndarray:
        """arrive (after expect_tx of `expect` bytes, if given) by every lane; returns the state before."""
        M = self.M
        state = self.words(ids)
        units = M.units(C)
        if M.trace is not None:
            M.trace.arrive(C, ids, info.index, expect)
        vec = M.clocks.publish(C, units)
        told = vec if release else M.clocks.finished(vec)
        if M.clocks.scoped:
            told = self._of_scope(ids[units.starts], units, told, info.wide)
        self._join(ids, units, told, C)
        if self.checks is not None:
            self.checks.contribute(C, ids, units, vec)
        if expect is not None:
            self._expect(ids, expect, info)
        count = np.broadcast_to(count, ids.shape)
        M.counting.add("mbarrier_arrivals", count.sum(), info.index)
        unique, inverse = np.unique(ids, return_inverse=True)
        total = np.bincount(inverse, weights=count).astype(np.int64)
        if (total > self.pending[unique]).any():
            for start, end in zip(units.starts, np.append(units.starts[1:], C.n)):      # some phase ends here: warp by warp
                self._past_the_phase(ids[start:end], count[start:end], info, int(C.gids[start]))
                for k in range(start, end):
                    state[k] = self.words(ids[k])
                    self._arrive_one(ids[k], int(count[k]), C, k, info)
        else:
            self.pending[unique] -= total
            self._complete(unique, info.index, int(C.gids[0]))
        self._mirror(unique)
        M.progress += 1
        return state

    def _of_scope(self, ids, units, vec, wide: bool) -> np.ndarray:
        """What arrivals on barriers of other CTAs publish in the scope of the cluster: nothing, when they are of CTA scope."""
        away = ids // self.capacity != units.gw // self.M.warps
        self.from_afar.update(ids[away].tolist())
        if not wide and away.any():
            vec = vec.copy()
            vec[away, W] = 0
        return vec

    def _past_the_phase(self, ids, count, info, gid: int) -> None:
        """One instruction of a warp arrives for all its lanes at once: more than are pending fails the launch on an H200."""
        for barrier in np.unique(ids).tolist():
            together = int(count[ids == barrier].sum())
            if together > self.pending[barrier]:
                reports.past_the_phase(self.M, info.index, gid, barrier, together)

    def _arrive_one(self, barrier, count: int, C, lane: int, info) -> None:
        count = min(count, int(self.pending[barrier]))          # reported by _past_the_phase
        self.pending[barrier] -= count
        self._complete(np.array([barrier]), info.index, int(C.gids[lane]))

    def raise_pending(self, ids: np.ndarray) -> None:
        """One more arrival pending for every lane (cp.async.mbarrier.arrive without .noinc)."""
        np.add.at(self.pending, ids, 1)
        self._mirror(np.unique(ids))

    def arrive_later(self, barrier: int, count: int, known: np.ndarray, gid: int, index: int) -> None:
        """`count` arrivals by asynchronous operations of thread `gid` and its neighbours; `known` (4, columns) goes with them."""
        clocks = self.M.clocks
        self.M.counting.add("mbarrier_arrivals", count, index)
        for _ in range(count):
            if known.shape[-1] < clocks.columns:        # barriers were added meanwhile
                known = np.pad(known, [(0, 0), (0, clocks.columns - known.shape[-1])])
            clocks.barrier_now[barrier] = clocks.join(clocks.barrier_now[barrier], known)
            self.pending[barrier] -= 1
            self._complete(np.array([barrier]), index, gid)
        self._mirror(np.array([barrier]))
        self.M.progress += 1

    def _expect(self, ids: np.ndarray, nbytes, info) -> None:
        nbytes = np.broadcast_to(nbytes, ids.shape).astype(np.int64)
        np.add.at(self.tx, ids, nbytes)
        self.M.counting.add("mbarrier_expected_bytes", nbytes.sum(), info.index)
        if self.checks is not None:
            self.checks.announced(ids, info.index)

    def expect_tx(self, ids: np.ndarray, nbytes, info) -> None:
        """expect_tx by every lane (no arrival)."""
        self._expect(ids, nbytes, info)
        self._mirror(np.unique(ids))
        self.M.progress += 1

    def complete_tx(self, barrier: int, nbytes: int, site: int | None = None, gid: int = 0) -> None:
        """An asynchronous operation (instruction `site` of thread `gid`) signals `nbytes` to a barrier.

        The copy engine signals in pieces: where fewer bytes were announced, the phase ends when the running count meets
        the announced one, and the rest counts in the next phase (seen on an H200; when exactly, timing decides).
        """
        ids, first = np.array([barrier]), int(self.tx[barrier])
        self.M.counting.add("mbarrier_completed_bytes", nbytes, site)
        if site is not None and self.checks is not None and self.pending[barrier] == 0 and 0 < first < nbytes:
            reports.unannounced(self.M, barrier, nbytes - first)
            self.tx[barrier] = 0
            self._complete(ids, site, gid)
            nbytes -= first
        self.tx[barrier] -= nbytes
        self.arrived_bytes[barrier] += nbytes
        self._complete(ids, site, gid)
        self._mirror(ids)
        self.M.progress += 1

    def _complete(self, ids: np.ndarray, site: int | None = None, gid: int = 0) -> None:
        """Flip the phases that have no pending arrivals and no bytes outstanding; `site` brought the last of them."""
        for b in ids[(self.pending[ids] == 0) & (self.tx[ids] < 0) & self.live[ids]].tolist():
            reports.unannounced(self.M, b, -int(self.tx[b]))
        done = ids[(self.pending[ids] == 0) & (self.tx[ids] == 0) & self.live[ids]]
        if not len(done):
            return
        for op in self.M.landing.in_flight(done):
            reports.unannounced(self.M, op.barrier, op.nbytes)
        if self.checks is not None:
            self.checks.completing(done, site, gid)
        clocks = self.M.clocks
        self.phase[done] += 1
        self.pending[done] = self.expected[done]
        self.arrived_bytes[done] = 0
        now = clocks.barrier_now[done]
        for plane in (V, clocks.R) if clocks.relaxed else (V,):
            now[np.arange(len(done)), plane, clocks.barrier_column(done)] = self.phase[done]
        clocks.barrier_done[done] = clocks.join(clocks.barrier_done[done], now)
        clocks.barrier_now[done] = 0
        self.flipped = True
        self.M.counting.add("mbarrier_phases", len(done))
        if self.M.trace is not None:
            self.M.trace.barriers("phase flips", done)

    def _join(self, ids, units, vec, C) -> None:
        """Add what lanes publish to their barriers' clocks."""
        clocks = self.M.clocks
        mine = ids[units.starts]
        if self._mixed(ids, units, C):
            for k, (start, end) in enumerate(zip(units.starts, np.append(units.starts[1:], C.n))):
                for b in np.unique(ids[start:end]):
                    clocks.barrier_now[b] = clocks.join(clocks.barrier_now[b], vec[k])
        elif len(np.unique(mine)) == len(mine):
            clocks.barrier_now[mine] = clocks.join(clocks.barrier_now[mine], vec)
        else:
            np.maximum.at(clocks.barrier_now, mine, vec)

    @staticmethod
    def _mixed(ids, units, C) -> bool:
        """True when lanes of one warp name different barriers."""
        mine = ids[units.starts]
        return C.n > len(mine) and bool((ids != np.repeat(mine, np.diff(np.append(units.starts, C.n)))).any())

    def acquire(self, C, ids: np.ndarray, site: int) -> None:
        """Lanes observed, in instruction `site`, that a phase of their barrier completed. A .relaxed wait learns only which
        asynchronous operations are over."""
        M = self.M
        self.waited[ids] = self.phase[ids]
        if self.checks is not None:
            self.checks.observed(C, ids, site)
        units = M.units(C)
        if self._mixed(ids, units, C):
            vec = np.maximum.reduceat(M.clocks.barrier_done[ids], units.starts)
        else:
            vec = M.clocks.barrier_done[ids[units.starts]]
        if not M.translation.ops[site].info.release:
            vec = M.clocks.finished(vec)
        if M.clocks.scoped and not M.translation.ops[site].info.wide and self.from_afar.intersection(ids[units.starts].tolist()):
            vec = vec.copy()
            vec[:, W] = np.where(M.clocks.foreign(units.gw), 0, vec[:, W])
        M.clocks.learn(C, units, vec)

    def describe(self, barrier: int) -> str:
        """State of a barrier for a learner."""
        pending, tx = int(self.pending[barrier]), int(self.tx[barrier])
        parts = [f"mbarrier at shared address {self.offsets[barrier % self.capacity]:#x}",
                 f"phase {int(self.phase[barrier])} (parity {int(self.phase[barrier]) & 1})",
                 f"{pending} of {int(self.expected[barrier])} arrivals pending"]
        if tx > 0:
            parts.append(f"{tx} bytes expected and not yet arrived")
        elif tx < 0:
            parts.append(f"{-tx} bytes arrived that no expect_tx announced")
        return ", ".join(parts)
