# SPDX-License-Identifier: Apache-2.0
"""Unit tests of the vector clocks: what a release hands on, to whom, and what stays one lane's own business."""
import numpy as np
from hopperlab.emulator.hazards.clocks import Clocks, Units, V, X
from hopperlab.emulator.machine.cohort import Cohort

WARPS = 4


class World:
    """One CTA of four warps with clocks; a hand-over goes through a vector, as through a barrier."""

    def __init__(self, cp_async=False, bulk=False):
        self.c = Clocks(1, 1, WARPS, cp_async, bulk)
        self.alive = np.full(WARPS, 32)

    def cohort(self, *gids):
        C = Cohort(np.array(sorted(gids), np.int64), None, 0)
        return C, Units(C, self.alive)

    def warp(self, w):
        return self.cohort(*range(32 * w, 32 * w + 32))

    def now(self, w):
        """Stamp of an access by warp `w` at this moment: (column, epoch)."""
        return w, int(self.c.epoch[w])

    def release(self, cohort):
        return self.c.publish(*cohort)

    def acquire(self, cohort, vec):
        self.c.learn(*cohort, vec)

    def knows(self, gid, stamp, lane=0, fenced=False):
        row = self.c.row_of[np.array([gid])]
        return bool(self.c.ordered(self.c.K, row, np.array([stamp[0]]), np.array([lane]), np.array([stamp[1]]), fenced)[0])


def test_an_access_is_known_after_release_and_acquire():
    w = World()
    before = w.now(0)
    vec = w.release(w.warp(0))
    after = w.now(0)
    assert not w.knows(32, before)
    w.acquire(w.warp(1), vec)
    assert w.knows(32, before) and w.knows(63, before, lane=9) and not w.knows(32, after) and not w.knows(64, before)


def test_knowledge_is_handed_on():
    """0 releases to 1, 1 releases to 2: 2 knows what 0 did."""
    w = World()
    first = w.now(0)
    w.acquire(w.warp(1), w.release(w.warp(0)))
    second = w.now(1)
    w.acquire(w.warp(2), w.release(w.warp(1)))
    assert w.knows(64, first) and w.knows(64, second) and not w.knows(96, first)


def test_releasing_before_acquiring_hands_nothing_on():
    w = World()
    early = w.release(w.warp(1))
    first = w.now(0)
    w.acquire(w.warp(1), w.release(w.warp(0)))
    w.acquire(w.warp(2), early)
    assert not w.knows(64, first)


def test_one_lane_publishes_its_own_accesses_only():
    w = World()
    stamp = w.now(0)
    vec = w.release(w.cohort(5))
    w.acquire(w.warp(1), vec)
    assert w.knows(32, stamp, lane=5) and not w.knows(32, stamp, lane=6)
    assert vec[0, V, 0] == 0 and vec[0, X, 0] == stamp[1] << 5 | 5


def test_after_a_warp_sync_one_lane_speaks_for_all():
    w = World()
    stamp = w.now(0)
    w.c.warp_sync(*w.warp(0))
    later = w.now(0)
    w.acquire(w.warp(1), w.release(w.cohort(5)))
    assert w.knows(32, stamp, lane=6) and not w.knows(32, later, lane=6) and w.knows(32, later, lane=5)


def test_what_one_lane_learned_the_others_learn_by_warp_sync():
    w = World()
    stamp = w.now(0)
    w.acquire(w.cohort(32 + 7), w.release(w.warp(0)))
    assert w.knows(39, stamp) and not w.knows(32, stamp)
    w.c.warp_sync(*w.warp(1))
    assert w.knows(32, stamp) and not w.c.rows.any_apart


def test_two_lanes_that_publish_one_by_one_are_both_kept():
    w = World()
    stamp5 = w.now(0)
    a = w.release(w.cohort(5))
    stamp9 = w.now(0)
    b = w.release(w.cohort(9))
    both = w.c.join(a, b)
    w.acquire(w.warp(1), both)
    assert w.knows(32, stamp5, lane=5) and w.knows(32, stamp9, lane=9) and not w.knows(32, stamp9, lane=5)


def test_a_fence_covers_what_was_known_before_it():
    w = World()
    stamp = w.now(0)
    vec = w.release(w.warp(0))
    w.c.proxy_fence(*w.warp(1))                     # too early: nothing of warp 0 known yet
    w.acquire(w.warp(1), vec)
    assert w.knows(32, stamp) and not w.knows(32, stamp, fenced=True)
    w.c.proxy_fence(*w.warp(1))
    assert w.knows(32, stamp, fenced=True)


def test_a_writers_fence_travels_with_its_release():
    w = World()
    stamp = w.now(0)
    w.c.proxy_fence(*w.warp(0))
    after = w.now(0)
    w.acquire(w.warp(1), w.release(w.warp(0)))
    assert w.knows(32, stamp, fenced=True) and w.knows(32, after) and not w.knows(32, after, fenced=True)


def test_groups_of_lanes_that_never_started_one_hold_nobody_back():
    w = World(cp_async=True, bulk=True)
    c = w.c
    c.bulk_issued[3], c.bulk_done[3] = 2, 2         # lane 3 finished two groups, the others have none
    vec = w.release(w.warp(0))
    assert vec[0, V, c.bulk0] == 2 and (c.bulk_done[:32] == 2).all()
    c.bulk_issued[4] = 3                            # started after that: newer than what was published
    assert w.release(w.warp(0))[0, V, c.bulk0] == 2
    c.cp_issued[:32], c.cp_done[:32] = 4, 4
    c.cp_done[9] = 1                                # lane 9 still has three groups in flight
    assert w.release(w.warp(0))[0, V, c.cp0] == 1


def test_reuse_of_a_slot_forgets_everything():
    w = World(bulk=True)
    stamp = w.now(0)
    w.acquire(w.warp(1), w.release(w.warp(0)))
    w.acquire(w.cohort(70), w.release(w.warp(0)))
    w.c.bulk_issued[:], w.c.bulk_done[:] = 5, 5
    w.c.reset_domains(np.array([0]))
    assert not w.knows(32, stamp) and not w.c.K.any() and (w.c.epoch == 1).all() and not w.c.bulk_issued.any()
    assert (w.c.row_of == np.repeat(np.arange(WARPS), 32)).all()


def test_more_barriers_keep_what_is_known():
    w = World()
    stamp = w.now(0)
    w.acquire(w.warp(1), w.release(w.warp(0)))
    w.c.barrier_now[3, V, 0] = 7
    columns = w.c.columns
    w.c.grow_barriers()
    assert w.c.columns > columns and w.knows(32, stamp) and w.c.barrier_now[3, V, 0] == 7
    assert w.c.barrier_number(w.c.barrier_column(3)) == 3
