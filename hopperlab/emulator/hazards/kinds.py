# SPDX-License-Identifier: Apache-2.0
"""The kinds of hazards: the one list that docs/hazards, the tests and the renderer share."""
from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What sort of error a hazard is. A kind is its own name, as a string; `says` explains it in one sentence."""

    says: str

    def __new__(cls, value: str, says: str) -> "Kind":
        kind = str.__new__(cls, value)
        kind._value_, kind.says = value, says
        return kind

    def __repr__(self) -> str:
        return repr(self.value)

    READ_BEFORE_ARRIVAL = "read-before-arrival", "Data is read before the operation that brings it is known to have arrived"
    OVERWRITE_IN_FLIGHT = "overwrite-in-flight", "A buffer is rewritten, or handed over, while an operation may still read or write it"
    MISSING_PROXY_FENCE = "missing-proxy-fence", "Data written by ordinary stores is read by TMA or wgmma without `fence.proxy.async`"
    UNFENCED_OVERWRITE = "unfenced-overwrite", "TMA overwrites shared memory that ordinary loads have read, without `fence.proxy.async` after them: formally required"
    UNFENCED_FLAG = "unfenced-flag", "A flag is polled by volatile or relaxed loads, and what it announces is read with no fence after the poll: formally required"
    REGISTER_IN_FLIGHT = "register-in-flight", "A register is used while a wgmma still owns it"
    RACE = "race", "Two threads or blocks touch the same bytes, one of them writes, and nothing orders them"
    PHASE_OVERRUN = "phase-overrun", "A barrier's next phase does not wait for those who still wait for this one"
    BARRIER_MISUSE = "barrier-misuse", "A barrier is used in a way that its rules exclude"
    DEADLOCK = "deadlock", "Nothing can run, nothing is in flight, and threads still wait"
    LAYOUT_MISMATCH = "layout-mismatch", "A tile is read in another layout than the one it was written in"
    ILLEGAL_DESCRIPTOR = "illegal-descriptor", "A wgmma descriptor or a tensor map breaks a rule"
    DIVERGENT_COLLECTIVE = "divergent-collective", "An instruction for a whole warp or warpgroup is reached by some of its threads only"
    CLUSTER_LIFETIME = "cluster-lifetime", "Shared memory or a barrier of a CTA that may have ended, or of one outside the cluster"
    EXIT_IN_FLIGHT = "exit-in-flight", "A CTA ends while an operation still lands in, or reads, its shared memory"
    REGISTER_BUDGET = "register-budget", "`setmaxnreg` that is ignored, illegal or can never be satisfied"
    OUT_OF_BOUNDS = "out-of-bounds", "An access outside every array, or outside the CTA's shared memory"
    MISALIGNED = "misaligned", "An address that is not a multiple of what the instruction needs"
    UNINITIALISED_READ = "uninitialised-read", "Shared memory is read that nobody has written, or a product adds to registers that nothing has set"
