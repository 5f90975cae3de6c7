# SPDX-License-Identifier: Apache-2.0
"""Findings about barriers, and about CTAs that end or have not begun while something still needs them."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..machine.shared_names import name_of
from ..ptx.places import Place
from .kinds import Kind

if TYPE_CHECKING:
    from .findings import Watched


@dataclass
class Surplus:
    """The first arrival that nothing orders after the phase before: its instruction and thread, the phase, how many arrivals a pass has had at most, and whether its
    thread (or another one) had arrived in that pass before; together: how many lanes of a warp arrive at once where fewer are pending (0: none do);
    seen: an arrival came while the phase had all of its own and still waited for bytes."""

    index: int
    gid: int
    phase: int
    expected: int
    received: int
    again: bool
    together: int = 0
    seen: bool = False


def _at_barrier(M: Watched, barrier: int) -> dict[str, Any]:
    return _at(M, M.barriers.offsets[barrier % M.barriers.capacity])


def _at(M: Watched, offset: int) -> dict[str, Any]:
    """A barrier's place, and what the source calls it."""
    return {"space": "shared", "address": offset, "named": name_of(M.layout.variables, offset)}


# --- mbarriers --------------------------------------------------------------------------------------------------------
def no_barrier(M: Watched, index: int, gid: int, slot: int, offset: int) -> None:
    """An mbarrier operation on a word that is no live mbarrier of the CTA in `slot`."""
    why, known = M.barriers.absent(slot, offset)
    M.findings.add("no-barrier", index, None, gid, **_at(M, offset), why=why, known=known)


def past_the_phase(M: Watched, index: int, gid: int, barrier: int, together: int) -> None:
    """A warp's instruction arrives more often than the phase has pending."""
    M.findings.add("past-the-phase", index, None, gid, **_at_barrier(M, barrier), together=together, pending=int(M.barriers.pending[barrier]),
                   expected=int(M.barriers.expected[barrier]))


def completes(M: Watched, index: int, gid: int, barrier: int) -> None:
    """An arrive.noComplete that ends its phase."""
    M.findings.add("completes", index, None, gid, **_at_barrier(M, barrier), pending=int(M.barriers.pending[barrier]))


def unannounced(M: Watched, barrier: int, nbytes: int, gid: int, index: int, expected_at: int | None) -> None:
    """A phase can end before all bytes of its copies are there, because expect_tx (instruction `expected_at`) announced fewer."""
    M.findings.add("unannounced", index, expected_at, gid, **_at_barrier(M, barrier), nbytes=nbytes)


def init_too_few(M: Watched, barrier: int, one: Surplus, init_site: int, count: int) -> None:
    """An mbarrier that receives more arrivals a pass than its init counts (count), less those that have dropped out."""
    M.findings.add("init-too-few", one.index, init_site, one.gid, **_at_barrier(M, barrier), phase=one.phase, last=one.phase - 1, expected=one.expected,
                   received=one.received, together=one.together, asynchronous=M.body[one.index].op == "cp",
                   dropped=count - one.expected if count > one.expected else "", count=count)


def after_drop(M: Watched, barrier: int, one: Surplus, init_site: int, count: int, index: int, gid: int) -> None:
    """The same, where a thread that had dropped out arrives (instruction `index`)."""
    M.findings.add("after-drop", index, init_site, gid, **_at_barrier(M, barrier), count=count, dropped=count - int(M.barriers.expected[barrier]))


def arrives_again(M: Watched, barrier: int, one: Surplus) -> None:
    """An arrival for the next phase that does not come after the end of the one before."""
    M.findings.add("arrives-again", one.index, None, one.gid, **_at_barrier(M, barrier), phase=one.phase, last=one.phase - 1)


def wait_unread(M: Watched, index: int, gid: int, barrier: int) -> None:
    """A test_wait or try_wait at whose result the program never looks."""
    M.findings.add("wait-unread", index, None, gid, **_at_barrier(M, barrier))


def init_twice(M: Watched, site: int, other: int, gid: int, before: int, barrier: int) -> None:
    """mbarrier.init of a live barrier; before: the thread that initialised it then (-1: another one of the same instruction)."""
    same_line = Place.of(M.body[site]).text() == Place.of(M.body[other]).text()
    case = "init-again" if not same_line else "init-in-loop" if before == gid else "init-by-several"
    M.findings.add(case, site, other, gid, **_at_barrier(M, barrier))


def expect_range(M: Watched, site: int, gid: int, barrier: int, nbytes: int, total: int) -> None:
    """expect_tx of more than an mbarrier's count of bytes can hold, or of a negative number; total: what is announced with it."""
    said = f"{nbytes - (1 << 32)} (as .u32: {nbytes})" if nbytes >> 31 else str(nbytes)
    M.findings.add("expect-range", site, None, gid, **_at_barrier(M, barrier), nbytes=said, total=total if nbytes <= 0xFFFFF else "")


def async_apart(M: Watched, index: int, gid: int, rank: int, counts: int) -> None:
    """st.async or red.async into one CTA, counted by an mbarrier of another."""
    M.findings.add("async-apart", index, None, gid, rank=rank, counts=counts)


def async_own(M: Watched, index: int, gid: int, rank: int) -> None:
    """red.async into the CTA that runs it."""
    M.findings.add("async-own", index, None, gid, rank=rank)


def inval_in_use(M: Watched, site: int, other: int, gid: int, barrier: int) -> None:
    """mbarrier.inval while another thread (or a copy) may still use the barrier."""
    M.findings.add("inval-in-use", site, other, gid, **_at_barrier(M, barrier))


def bad_count(M: Watched, site: int, gid: int, count: int) -> None:
    """mbarrier.init with an impossible count."""
    M.findings.add("bad-count", site, None, gid, count=count)


def init_unseen(M: Watched, site: int, other: int, gid: int) -> None:
    """A barrier is used by a thread that has not synchronised with the one that initialised it."""
    M.findings.add("init-unseen", site, other, gid)


def phase_overrun(M: Watched, site: int, other: int | None, gid: int, barrier: int, copy: int | None, lanes: bool = False) -> None:
    """A phase may complete before a waiter of the phase before it has looked. Silent when the newest copy on the barrier (instruction `copy`)
    was already reported for overwriting what is still read: one missing release, one report. lanes: other lanes of the waiter's warp are not passed by."""
    if copy is not None:
        before = (Kind.OVERWRITE_IN_FLIGHT, Place.of(M.body[copy]).text())
        if any(key[:2] == before for key in M.findings.told):
            return
    M.findings.add("lanes-overrun" if lanes else "phase-overrun", site, other, gid, **_at_barrier(M, barrier))


# --- named barriers ---------------------------------------------------------------------------------------------------
def thread_counts(M: Watched, site: int, other: int, gid: int, key: int, now: int, before: int) -> None:
    """Threads name different counts for one generation of a named barrier."""
    whole = "the whole block"
    M.findings.add("thread-counts", site, other, gid, barrier=key % 16, count=now or whole, before=before or whole)


def red_beside_sync(M: Watched, site: int, other: int, gid: int, key: int) -> None:
    """bar.red and bar.sync or bar.arrive in one generation of a named barrier."""
    M.findings.add("red-beside-sync", site, other, gid, barrier=key % 16)


def odd_count(M: Watched, site: int, gid: int, count: int) -> None:
    """A named barrier's thread count that is no multiple of 32."""
    M.findings.add("odd-count", site, None, gid, count=count)


def released_by_exit(M: Watched, site: int, gid: int, missing: int) -> None:
    """bar.sync of the whole CTA completed because threads had ended: legal since sm_70, which waits for threads that have not
    exited (CUDA: Volta tuning guide), and a warning because the program reads as if they came."""
    M.findings.add("released-by-exit", site, None, gid, missing=missing)


def arrival_not_taken(M: Watched, site: int, gid: int, barrier: int, arrived: int, needed: int) -> None:
    """bar.arrive on a named barrier that does not complete before the block ends."""
    M.findings.add("arrival-not-taken", site, None, gid, barrier=barrier, arrived=arrived, needed=needed)


def barrier_shared(M: Watched, site: int, other: int, gid: int, key: int, warp: int) -> None:
    """An arrival at a named barrier that may take the place of another warp's in the generation before."""
    M.findings.add("barrier-shared", site, other, gid, barrier=key % 16, warp=gid % M.T // 32, other_warp=warp)


def cluster_out_of_turn(M: Watched, index: int, gid: int, again: bool) -> None:
    """A second arrival at the cluster barrier without a wait between, or a wait without an arrival."""
    M.findings.add("cluster-again" if again else "cluster-unarrived", index, None, gid)


# --- lifetimes --------------------------------------------------------------------------------------------------------
def exit_in_flight(M: Watched, index: int, gid: int, what: str) -> None:
    """A CTA ended while an operation was under way in its shared memory; what: 'store' (from it), 'copy-out' (to another CTA) or 'wgmma'."""
    M.findings.add(f"exit-under-{what}", index, None, gid)


def copy_not_waited_for(M: Watched, index: int, gid: int, barrier: int, phase: int, seen: int) -> None:
    """A CTA ended, and no thread of it saw the end of the phase (counted from 0) in which this copy's bytes arrive; seen: how many phases of the
    barrier somebody saw end."""
    M.findings.add("exit-under-copy", index, None, gid, **_at_barrier(M, barrier), phase=phase, parity=phase & 1,
                   seen=f"the last phase that somebody waited for is {seen - 1}" if seen else "nobody has waited for any phase of it")


def exited_peer(M: Watched, index: int, gid: int, rank: int) -> None:
    """Shared memory or a barrier of a CTA that is no longer (or not yet) there."""
    M.findings.add("exited-peer", index, None, gid, rank=rank)


def unbegun_peer(M: Watched, index: int, gid: int, rank: int) -> None:
    """Shared memory or a barrier of a CTA that may not have begun."""
    M.findings.add("unbegun-peer", index, None, gid, rank=rank)
