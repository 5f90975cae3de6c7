# SPDX-License-Identifier: Apache-2.0
"""mbarriers: 64-bit words in shared memory, their phases, arrivals and bytes.

The word in shared memory is the state (hopper/mbarrier.py has the arithmetic for one word); the arrays here mirror it for
all CTAs at once, with the full phase count that the word's one parity bit cannot hold. PTX ISA 9.7.13.15.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import MemoryFault
from ..ptx import places
from .doubts import Doubts
from .machine_constants import FIRST_BARRIERS
from .questions import Questions
from .shared_names import address_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..isa.value import Value
    from .cohort import Cohort

PENDING_SHIFT, EXPECTED_SHIFT, TX_SHIFT, PHASE_SHIFT = 0, 20, 40, 61
FIELD = (1 << 20) - 1
TX_FIELD = (1 << 21) - 1
LIVE = 1 << 62


class Barriers:
    """All mbarriers of all resident CTAs; a barrier id is slot * capacity + its number in the CTA."""

    def __init__(self, machine):
        self.M = machine
        self.capacity = FIRST_BARRIERS
        size = machine.slots * self.capacity
        self.number_at = np.full(max(1, machine.stride // 8), -1, np.int64)    # word in shared memory -> number
        self.offsets: list[int] = []
        self.live = np.zeros(size, bool)
        self.phase, self.pending, self.expected, self.tx = (np.zeros(size, np.int64) for _ in range(4))
        self.arrived_bytes = np.zeros(size, np.int64)          # bytes completed in the current phase, for reports
        self.ended = np.zeros(size, bool)                      # by mbarrier.inval
        self.lived = np.zeros(size, np.int64)                  # phases completed in lives that mbarrier.inval has ended
        self.flipped = False
        self.doubts = Doubts(machine.slots * machine.warps)
        self.questions = Questions(machine.slots * machine.T)

    def reset_slots(self, slots: np.ndarray) -> None:
        """New CTAs have no barriers."""
        for table in (self.live, self.ended, self.phase, self.lived):
            table.reshape(-1, self.capacity)[slots] = 0

    def ids(self, C: Cohort, address: Value, info: Any) -> np.ndarray:
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
            M.tell.mbarrier_missing(int(C.gids[lane]), int(slot[lane]), int(offset[lane]), info.index)
            raise self._no_barrier(info.index, int(C.gids[lane]), int(slot[lane]), int(offset[lane]))
        M.tell.mbarrier_used(C, ids, info.index)
        return ids

    def age(self, ids: Any) -> Any:
        """Phases that these mbarriers have completed in all their lives: what is known of a phase in one life says nothing of the next one's."""
        return self.phase[ids] + self.lived[ids]

    def text(self, offset: int) -> str:
        """A shared address as messages call it."""
        return address_text(self.M.layout.variables, offset)

    def absent(self, slot: int, offset: int) -> tuple[str, str]:
        """What is known of a word that is no live mbarrier: (why it is none now, which ones its CTA has)."""
        number, first = int(self.number_at[offset >> 3]), slot * self.capacity
        if number >= 0 and self.ended[first + number]:
            why = "mbarrier.inval has ended the one"
        else:
            why = "no mbarrier was initialised" if number < 0 else "this block has not initialised the mbarrier (others have theirs)"
        return why, ", ".join(self.text(o) for k, o in enumerate(self.offsets) if self.live[first + k]) or "none"

    def _no_barrier(self, index: int, gid: int, slot: int, offset: int) -> MemoryFault:
        """An operation on a word that is no live mbarrier."""
        M, instr = self.M, self.M.body[index]
        why, known = self.absent(slot, offset)
        text = (f"barrier-misuse: {places.name(instr)} at {places.place(instr)}: {why} at shared address {self.text(offset)} "
                f"(initialised here: {known}). Run mbarrier.init in one thread, then __syncthreads(), before the first use.")
        return MemoryFault(text, "barrier-misuse", offset, instr.site, index, M.block_index(gid), gid % M.T)

    def init(self, C: Cohort, address: Value, count: Value, info: Any) -> None:
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
        M.tell.mbarrier_born(C, ids, M.shared_base(C) + offset, self.live[ids], count, info.index)
        self.live[ids], self.ended[ids] = True, False
        self.lived[ids] += self.phase[ids]
        self.phase[ids] = self.tx[ids] = self.arrived_bytes[ids] = 0
        self.pending[ids] = self.expected[ids] = count
        self._mirror(ids)
        M.progress += 1

    def invalidate(self, C: Cohort, address: Value, info: Any) -> None:
        """mbarrier.inval."""
        M = self.M
        ids = self.ids(C, address, info)
        M.tell.mbarrier_gone(C, ids, M.shared_base(C) + (M.lanes(C, address).astype(np.int64) & 0xFFFFFF), info.index)
        self.live[ids], self.ended[ids] = False, True

    def _grow(self) -> None:
        old, slots = self.capacity, self.M.slots
        self.capacity = 2 * old

        def wider(table):
            out = np.zeros((slots, self.capacity), table.dtype)
            out[:, :old] = table.reshape(slots, old)
            return out.reshape(-1)
        names = ("live", "phase", "pending", "expected", "tx", "arrived_bytes", "ended", "lived")
        for name in names:
            setattr(self, name, wider(getattr(self, name)))
        self.M.tell.mbarriers_grew(old, self.capacity)

    def _mirror(self, ids) -> None:
        """Write the words to shared memory."""
        M = self.M
        word = (self.pending[ids] | self.expected[ids] << EXPECTED_SHIFT | (self.tx[ids] & TX_FIELD) << TX_SHIFT
                | (self.phase[ids] & 1) << PHASE_SHIFT | LIVE)
        offsets = np.asarray(self.offsets)[ids % self.capacity]
        M.smem_views[8][(ids // self.capacity * M.stride + offsets) >> 3] = word.astype(np.uint64)

    def _mirror_one(self, barrier: int) -> None:
        """The same of one barrier, which is what every copy asks for."""
        slot, number = divmod(barrier, self.capacity)
        word = (int(self.pending[barrier]) | int(self.expected[barrier]) << EXPECTED_SHIFT | (int(self.tx[barrier]) & TX_FIELD) << TX_SHIFT
                | (int(self.phase[barrier]) & 1) << PHASE_SHIFT | LIVE)
        self.M.smem_views[8][(slot * self.M.stride + self.offsets[number]) >> 3] = word

    def words(self, ids: NDArray[Any]) -> np.ndarray:
        """Opaque state words (uint64), as mbarrier.arrive returns them."""
        return ((self.phase[ids] & 1) << PHASE_SHIFT | self.pending[ids] | LIVE).astype(np.uint64)

    def arrive(self, C: Cohort, ids: np.ndarray, count: Value, info: Any, expect: NDArray[Any] | None = None) -> np.ndarray:
        """arrive (after expect_tx of `expect` bytes, if given) by every lane; returns the state before."""
        M = self.M
        state = self.words(ids)
        count = np.broadcast_to(count, ids.shape)
        if len(ids) == 1:
            unique, total = ids, count.astype(np.int64)
        else:
            unique, inverse = np.unique(ids, return_inverse=True)
            total = np.bincount(inverse, weights=count).astype(np.int64)
        if (total > self.pending[unique]).any():
            starts = M.units(C).starts
            for start, end in zip(starts, np.append(starts[1:], C.n)):      # some phase ends among them: warp by warp
                some = type(C)(C.gids[start:end], None, C.pc)
                state[start:end] = self._arrive_warp(some, ids[start:end], count[start:end], info, None if expect is None else expect[start:end])
        else:
            M.tell.arrived(C, ids, count, expect, info)
            if expect is not None:
                self._expect(ids, expect, info)
            self.pending[unique] -= total
            self._complete(unique, info.index, int(C.gids[0]))
        self._mirror(unique)
        M.progress += 1
        return state

    def _arrive_warp(self, C: Cohort, ids: NDArray[Any], count: NDArray[Any], info: Any, expect: NDArray[Any] | None) -> NDArray[Any]:
        """The lanes of one warp arrive; returns the states before."""
        self.M.tell.arrived(C, ids, count, expect, info)
        if expect is not None:
            self._expect(ids, expect, info)
        self._past_the_phase(C, ids, count, info)
        state = self.words(ids)
        for k in range(C.n):
            state[k] = self.words(ids[k])
            self._arrive_one(ids[k], int(count[k]), C, k, info)
        return state

    def _past_the_phase(self, C: Cohort, ids, count, info) -> None:
        """One instruction of a warp arrives for all its lanes at once: more than are pending fails the launch on an H200."""
        for barrier in np.unique(ids).tolist():
            together = int(count[ids == barrier].sum())
            if together > self.pending[barrier]:
                self.M.tell.too_many_arrivals(C.gids[ids == barrier], barrier, together, info.index)

    def _arrive_one(self, barrier, count: int, C, lane: int, info) -> None:
        count = min(count, int(self.pending[barrier]))          # reported by _past_the_phase
        self.pending[barrier] -= count
        self._complete(np.array([barrier]), info.index, int(C.gids[lane]))

    def raise_pending(self, ids: np.ndarray) -> None:
        """One more arrival pending for every lane (cp.async.mbarrier.arrive without .noinc)."""
        np.add.at(self.pending, ids, 1)
        self._mirror(np.unique(ids))

    def arrive_later(self, barrier: int, count: int, gid: int, index: int) -> None:
        """`count` arrivals by asynchronous operations of thread `gid` and its neighbours."""
        for _ in range(count):
            self.pending[barrier] -= 1
            self._complete(np.array([barrier]), index, gid)
        self._mirror_one(barrier)
        self.M.progress += 1

    def _expect(self, ids: np.ndarray, nbytes, info) -> None:
        nbytes = np.broadcast_to(nbytes, ids.shape).astype(np.int64)
        np.add.at(self.tx, ids, nbytes)
        self.M.tell.announced(ids, nbytes, info.index)

    def expect_tx(self, ids: np.ndarray, nbytes: Value, info: Any) -> None:
        """expect_tx by every lane (no arrival)."""
        self._expect(ids, nbytes, info)
        self._mirror(np.unique(ids))
        self.M.progress += 1

    def complete_tx(self, barrier: int, nbytes: int, site: int | None = None, gid: int = 0) -> None:
        """An asynchronous operation (instruction `site` of thread `gid`) signals `nbytes` to a barrier.

        The copy engine signals in pieces: where fewer bytes were announced, the phase ends when the running count meets
        the announced one, and the rest counts in the next phase (seen on an H200; when exactly, timing decides).
        """
        first, pending = int(self.tx[barrier]), int(self.pending[barrier])
        self.M.tell.bytes_arrived(barrier, nbytes, site)
        if site is not None and pending == 0 and 0 < first < nbytes:
            self.M.tell.bytes_unannounced(barrier, nbytes - first)
            self.tx[barrier] = 0
            self._complete(np.array([barrier]), site, gid)
            nbytes, first, pending = nbytes - first, int(self.tx[barrier]), int(self.pending[barrier])
        self.tx[barrier] = first - nbytes
        self.arrived_bytes[barrier] += nbytes
        if pending == 0 and first <= nbytes:
            self._complete(np.array([barrier]), site, gid)
        self._mirror_one(barrier)
        self.M.progress += 1

    def _complete(self, ids: np.ndarray, site: int | None = None, gid: int = 0) -> None:
        """Flip the phases that have no pending arrivals and no bytes outstanding; `site` brought the last of them."""
        ids = ids[(self.pending[ids] == 0) & self.live[ids]]
        if not len(ids):
            return
        tx = self.tx[ids]
        for b in ids[tx < 0].tolist():
            self.M.tell.bytes_unannounced(b, -int(self.tx[b]))
        done = ids[tx == 0]
        if not len(done):
            return
        self.phase[done] += 1
        self.pending[done] = self.expected[done]
        self.arrived_bytes[done] = 0
        self.flipped = True
        self.M.tell.phases_completed(done, site, gid)

    def describe(self, barrier: int) -> str:
        """State of a barrier for a learner."""
        pending, tx = int(self.pending[barrier]), int(self.tx[barrier])
        parts = [f"mbarrier at shared address {self.text(self.offsets[barrier % self.capacity])}",
                 f"phase {int(self.phase[barrier])} (parity {int(self.phase[barrier]) & 1})",
                 f"{pending} of {int(self.expected[barrier])} arrivals pending"]
        if tx > 0:
            parts.append(f"{tx} bytes expected and not yet arrived")
        elif tx < 0:
            parts.append(f"{-tx} bytes arrived that no expect_tx announced")
        return ", ".join(parts)
