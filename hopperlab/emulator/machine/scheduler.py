# SPDX-License-Identifier: Apache-2.0
"""Which cohort runs next: runnable ones at the lowest block first, so that laggards catch up and merge; parked, polling
and yielding ones in their turn. When nothing can run, operations land as the schedule says; when none is left, deadlock."""
from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from ..compile import masks
from ..compile.translated import EXIT
from . import gates, late_flags, late_stores, slow_warps, warp_meetings, whereabouts
from .cohort import NOBODY, Cohort, merge
from .recurrence import Recurrence
from .waits import ConvergeWait, SpuriousFalse

if TYPE_CHECKING:
    from ..isa.value import Value
    from .waits import Wait

MAX_BACK_EDGES = 5000                 # a cohort that loops this long gives way to the others
LOOK_UP = 251                         # after so many rounds of a loop those that wait look again; odd, as phases come round in powers of two
IDLE_BACK_EDGES = 1024               # a cohort that loops this long while nothing changes gives way to the others, and is asked whether it comes round for ever
IDLE_WAITS = 32                      # the same, where its loop passes an mbarrier's wait each time


class Scheduler:
    """Queues of cohorts of one launch. `M` is the Machine, `blocks` the translated blocks."""

    def __init__(self, machine):
        self.M, self.blocks = machine, machine.blocks
        self.rounds = self.turns = 0         # turns: cohorts that ran
        self.ready: dict[int, list[Cohort]] = {}
        self.heap: list[int] = []
        self.parked: list[tuple[Cohort, object]] = []
        self.polling: list[Cohort] = []
        self.later: list[Cohort] = []
        self.polled_at = self.spurious_at = -1
        self.recurrence = Recurrence(machine.session.budget)
        self.events = 0            # what has happened that no loop repeats: CTAs begin, threads end, operations land
        self.polls = False         # some cohort in `polling` has polled, and not only looped for long
        self.converging: dict[int, list[Cohort]] = {}
        self.held: list[Cohort] = []         # they come last, at the blocks `late` (machine/altered.py)
        self.late = late_stores.blocks(machine)
        self.slow: list[Cohort] = []         # they come last everywhere
        self.stepping = False                # one of them runs its next block
        self.passing: set[int] = set()
        self.storing: dict[int, int] = {}
        self.raised = np.zeros(machine.slots * machine.warps, bool)      # which warps have raised a flag
        self.flags = late_flags.blocks(machine)
        self.about_to_raise: list[Cohort] = []          # they come last, at the blocks `flags`
        self.raising: int | None = None      # the block of those that do now
        self.looked: tuple[int, frozenset[bytes], int] = -1, frozenset(), 0      # when loops were last left where they stand, where, and how often
        self.told, self.last = np.zeros(machine.slots * machine.warps, bool), -1     # which warps have raised one so; the one that does so last for now
        self.raisers, self.raised_again = np.zeros_like(self.raised), False         # the same whether or not anybody polled; whether one has done so again
        self.flagged = False                 # one has again, in this turn beside other launches

    def threads_left(self) -> None:
        """Threads exited: lanes that wait for the rest of their warp may be whole now."""
        for pc in list(self.converging):
            for waiting in self.converging.pop(pc):
                self.enqueue(waiting)

    # --- queues -----------------------------------------------------------------------------------------------------
    def enqueue(self, C: Cohort) -> None:
        """Make a cohort runnable."""
        waiting = self.ready.get(C.pc)
        if waiting is None:
            self.ready[C.pc] = [C]
            heapq.heappush(self.heap, C.pc)
        else:
            waiting.append(C)

    def pick(self) -> Cohort:
        """The runnable cohort at the lowest block, merged with all others there."""
        pc = heapq.heappop(self.heap)
        cohorts = self.ready.pop(pc)
        if len(cohorts) == 1:
            return cohorts[0]
        fresh = [c for c in cohorts if c.resume is None]
        for c in cohorts:
            if c.resume is not None:
                self.enqueue(c)
        if not fresh:
            waiting = self.ready[pc]
            first = waiting.pop()
            if not waiting:
                del self.ready[pc]
                self.heap.remove(pc)
                heapq.heapify(self.heap)
            return first
        return merge(fresh, self.blocks[pc].live_in)

    def park(self, C: Cohort, wait: Wait) -> None:
        """Set a cohort aside until its wait may be over."""
        C.resume = None if wait.retries else wait
        self.M.tell.parked(C, wait, self.blocks[C.pc].gate_instr.index)
        self.parked.append((C, wait))

    def wake(self) -> bool:
        """Make runnable every parked cohort of which some lane may now go on."""
        woken, still = False, []
        for C, wait in self.parked:
            if wait.may_pass(self.M):
                self.enqueue(C)
                woken = True
            else:
                still.append((C, wait))
        self.parked = still
        return woken

    # --- the loop ---------------------------------------------------------------------------------------------------
    def run(self) -> None:
        """Execute the launch to its end, or to a deadlock."""
        self.M.admit()
        try:
            with np.errstate(all="ignore"):
                self._loop()
            self.M.tell.finished()
        finally:
            self.M.tell.closed()

    def _loop(self) -> None:
        while True:
            if self.heap:
                self.run_next()
            elif not (late_flags.release(self) or self.unblock()):
                break

    def run_next(self) -> None:
        """Run the cohort whose turn it is, and wake those that it let go on."""
        M = self.M
        self.turns += 1
        C = slow_warps.set_aside(self, self.pick())
        if C is None:
            return
        self.execute(C)
        self.stepping = False
        if M.barriers.flipped or M.named.flipped or M.cluster_barrier.flipped:
            M.barriers.flipped = M.named.flipped = M.cluster_barrier.flipped = False
            self.wake()
        if M.meetings.complete:
            M.meetings.flush()
            self.wake()

    def unblock(self) -> bool:
        """Nothing can run: admit CTAs, poll again, let operations land, release partial warps; False at the end."""
        if self.later:
            self.rounds += 1
            for C in self.later:
                self.enqueue(C)
            self.later = []
            return True
        self.M.step += 1
        if self.M.admit():
            self.events += 1
            return True
        if self.polling and self.polled_at != self.M.progress:
            if not self.endless():
                self.poll_again()
            elif not (late_stores.release(self) or slow_warps.release(self)):
                self.give_up()
            return True
        if self.M.landing.advance():
            self.M.progress += 1
            self.events += 1
            self.wake()
            if self.heap or self.polling or self.M.landing.pending():
                return True
        if self.wake():
            return True
        if late_stores.release(self) or slow_warps.release(self) or self.release_partial():
            return True
        if self.polling:
            if self.endless():
                self.give_up()
            else:
                self.poll_again()
                return True
        if self.spurious():
            return True
        if self.parked:
            self.give_up()
        return False

    def endless(self) -> bool:
        """Whether the loops that are left never end; asked once per round."""
        polls, self.polls = self.polls, False
        return self.recurrence.endless(self.M, self.events, polls)

    def poll_again(self) -> None:
        """Loops that poll look again."""
        self.polled_at = self.M.progress
        for C in self.polling:
            C.asked = NOBODY
            self.enqueue(C)
        self.polling = []

    def release_partial(self) -> bool:
        """Lanes that wait at a masked collective for lanes that have ended go on without them. Where none does, those at the
        lowest block go on anyway: their handler reports who is missing. Lanes whose missing ones wait for something are left: a deadlock."""
        waiting = whereabouts.waiting(self.M)
        others = np.concatenate([c.gids for c in waiting]) if waiting else np.zeros(0, np.int64)
        if warp_meetings.meet(self, others):
            return True
        places = sorted(pc for pc in self.converging if self.blocks[pc].masked)
        for pc in places:
            block, cohorts = self.blocks[pc], self.converging[pc]
            C = merge(cohorts, block.live_in)
            go = masks.ready(C, block, masks.exited(C, others))
            if go.any():
                self._let_go(C, block, go)
                return True
        places = [pc for pc in places if not any(whereabouts.rest_may_come(self.M, C) for C in self.converging[pc])]
        if places:
            block = self.blocks[places[0]]
            C = merge(self.converging[places[0]], block.live_in)
            self._let_go(C, block, np.ones(C.n, bool))
        return bool(places)

    def _let_go(self, C: Cohort, block, go: np.ndarray) -> None:
        """Lanes `go` of the cohort that waits at a block run; the rest waits on."""
        del self.converging[block.id]
        if not go.all():
            C, rest = C.split(go, block.id, block.id, block.live_in, block.live_in)
            self.converging[block.id] = [rest]
        C.resume = SpuriousFalse()
        self.enqueue(C)

    def spurious(self) -> bool:
        """try_wait may return false after a time limit: give its waiters that answer once while nothing changes."""
        if self.spurious_at == self.M.progress:
            return False
        self.spurious_at, self.polled_at = self.M.progress, -1
        waiting = [(C, wait) for C, wait in self.parked if wait.can_time_out]
        self.parked = [(C, wait) for C, wait in self.parked if not wait.can_time_out]
        for C, _ in waiting:
            C.resume = SpuriousFalse()
            self.enqueue(C)
        return bool(waiting)

    def give_up(self) -> None:
        """Say who waits, for ever, and end them."""
        stuck = self.parked + [(C, ConvergeWait()) for cs in self.converging.values() for C in cs]
        stuck += [(C, self.M.barriers.questions.of(C)) for C in self.polling]
        self.M.tell.stuck(stuck, self.recurrence.why if self.polling else "")
        self.parked, self.polling, self.converging = [], [], {}

    def execute(self, C: Cohort) -> None:
        """Run a cohort until it parks, exits, or another cohort should go first."""
        blocks, ready, heap, runs, runs_on, running, C.digest = self.blocks, self.ready, self.heap, self.M.runs, self.M.tell.runs_on, self.M.tell.running, None
        runs_on()
        while True:
            block = blocks[C.pc]
            if block.releases and heap and C.gave_way != self.rounds and self._others_wait(C):
                C.gave_way = self.rounds + 1
                self.later.append(C)
                return
            held = block.id in self.late and late_stores.held_back(self, C) or block.id in self.flags and late_flags.held_back(self, C)
            C = None if held else gates.enter(self, C, block)
            if C is None:
                return
            frame, R = C.frame, C.frame.R
            for slot in block.uses:
                if R[slot] is None:
                    frame.need(block.uses, self.M.translation.zeros)
                    break
            runs[block.id] += C.count_warps()
            running(C, block)
            following = block.fn(self.M, C, R)
            if frame.base is not None:
                frame.dirty |= block.defs
            if following.__class__ is not int:
                C = self.branch(C, following)
                if C is None:
                    return
                following = C.pc
            if following == EXIT:
                self.events += 1
                self.M.exit(C)
                return
            if block.publishes and self._ran_ahead(C, following) or following <= block.id and self._gives_way(C, following):
                return
            C.pc = following
            if self.stepping or heap and (heap[0] <= following or following in ready):
                self.enqueue(C)
                return

    def _gives_way(self, C: Cohort, pc: int) -> bool:
        """A cohort jumps back to block `pc`: one that polls, or has looped for long while nothing changed, waits until the others have run, and any
        does once per round."""
        self.M.tell.runs_on()
        progress = self.M.progress
        if C.changed_at != progress:
            C.changed_at, C.idle, C.waited = progress, 0, False
        C.backs += 1
        C.idle += 1
        if C.polled or C.idle >= (IDLE_WAITS if C.waited else IDLE_BACK_EDGES) or C.backs % MAX_BACK_EDGES == 0:
            self.polls |= C.polled
            C.pc, C.polled, C.idle = pc, False, 0
            self.polling.append(C)
            return True
        if self.heap and self._others_wait(C):
            C.pc = pc
            self.later.append(C)
            return True
        if C.backs % LOOK_UP == 0 and (self.polling or self.parked):
            self.poll_again()
            C.pc = pc
            self.enqueue(C)
            return True
        return False

    def _ran_ahead(self, C: Cohort, pc: int) -> bool:
        """A cohort has raised a flag before block `pc`. Where it has raised one before, they look now: a producer that waits for nobody would else
        overwrite what the flag before told of, or be through, before the first of them does, and that would never be told."""
        warps = C.warp_counts()[0]
        self.raised_again |= bool(self.raisers[warps].any())
        self.raisers[warps] = True
        if not (self.polling or self.M.grid):
            return False
        again = bool(self.raised[warps].any())
        self.raised[warps] = True
        if again:
            C.pc = pc
            self.later.append(C)
            self.poll_again()
            self.flagged = True
        return again

    def _others_wait(self, C: Cohort) -> bool:
        """True when warps that are not in this cohort could run. Loops give way to them once an iteration, and so does a
        block that arrives at a barrier, so that no role runs far ahead before the others have started."""
        mine = np.zeros(len(self.M.alive), bool)
        mine[C.warp_counts()[0]] = True
        return any(not np.count_nonzero(mine[c.warp_counts()[0]]) for cs in self.ready.values() for c in cs)

    def branch(self, C: Cohort, outcome: tuple[Value, int, int]) -> Cohort | None:
        """Follow a conditional branch; a divergent cohort splits and both halves queue."""
        taken, yes, no = outcome
        if not taken.ndim:
            C.pc = yes if taken else no
            return C
        hits = int(np.count_nonzero(taken))
        if hits == C.n or hits == 0:
            C.pc = yes if hits else no
            return C
        live = self._live
        first, second = C.split(taken, yes, no, live(yes), live(no))
        for child in (first, second):
            if child.pc == EXIT:
                self.events += 1
                self.M.exit(child)
            else:
                if child.pc <= C.pc and child.polled:
                    child.polled, self.polls = False, True
                    self.polling.append(child)
                else:
                    self.enqueue(child)
        return None

    def _live(self, pc: int):
        return self.blocks[pc].live_in if pc >= 0 else ()
