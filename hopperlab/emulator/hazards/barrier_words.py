# SPDX-License-Identifier: Apache-2.0
"""What is said of barriers of which an instruction asks what its own rules exclude (kinds.py: the others)."""
from __future__ import annotations

from .case import Case, Kind

MISUSED = {
    "red-beside-sync": Case(
        Kind.BARRIER_MISUSE, "{here} meets {there} at barrier {barrier}: bar.red and bar.sync or bar.arrive are not to be mixed at one active barrier "
                             "(PTX ISA 9.7.13.1), and what that does is unpredictable. ",
        "Let all threads that meet run bar.red (__syncthreads_or, _and, _count), those too that have nothing to add; or give the others a barrier of their own."),
    "async-apart": Case(
        Kind.BARRIER_MISUSE, "{here} writes into the CTA of rank {rank}, and its bytes are counted by an mbarrier of the CTA of rank {counts}: both have "
                             "to be of one CTA, else what it does is undefined. ",
        "Take both addresses from mapa with the same rank: the receiver waits on an mbarrier of its own."),
    "async-own": Case(
        Kind.BARRIER_MISUSE, "{here} updates shared memory of its own CTA (rank {rank}): red.async is for another CTA of the cluster, else what it does is undefined. ",
        "Use atom or red on shared memory here, and an ordinary arrival on the mbarrier."),
    "after-drop": Case(
        Kind.BARRIER_MISUSE, "{here} arrives on the mbarrier at {where} in a thread that has dropped out there before (mbarrier.arrive_drop): of the {count} arrivals "
                             "for which it was initialised ({there}) {dropped} have dropped out, and more than the others come in a phase, so phases end before "
                             "all have arrived. ",
        "A thread that has run mbarrier.arrive_drop arrives there no more, and drops out once."),
    "expect-range": Case(
        Kind.BARRIER_MISUSE, "{here} announces {nbytes} bytes to the mbarrier at {where}, whose count of bytes goes to 1048575 (2^20 - 1). ",
        "Give the bytes of this phase's copies as they are, and never a negative number: several copies may share one expect_tx, or have one each.",
        (("total", " With this one {total} bytes are announced in its phase and have not arrived."),)),
}
"""Red beside sync, asynchronous stores between CTAs, and what expect_tx takes."""
