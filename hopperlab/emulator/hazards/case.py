# SPDX-License-Identifier: Apache-2.0
"""What kinds of hazards there are, and what the words of one situation are made of; kinds.py has the words."""
from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What sort of error a hazard is. A kind is its own name, as a string; docs/hazards/KIND.md explains it, its first sentence in bold."""

    def __repr__(self) -> str:
        return repr(self.value)

    READ_BEFORE_ARRIVAL = "read-before-arrival"
    OVERWRITE_IN_FLIGHT = "overwrite-in-flight"
    MISSING_PROXY_FENCE = "missing-proxy-fence"
    UNFENCED_OVERWRITE = "unfenced-overwrite"
    UNFENCED_FLAG = "unfenced-flag"
    REGISTER_IN_FLIGHT = "register-in-flight"
    RACE = "race"
    PHASE_OVERRUN = "phase-overrun"
    BARRIER_MISUSE = "barrier-misuse"
    DEADLOCK = "deadlock"
    LAYOUT_MISMATCH = "layout-mismatch"
    ILLEGAL_DESCRIPTOR = "illegal-descriptor"
    DIVERGENT_COLLECTIVE = "divergent-collective"
    CLUSTER_LIFETIME = "cluster-lifetime"
    EXIT_IN_FLIGHT = "exit-in-flight"
    REGISTER_BUDGET = "register-budget"
    OUT_OF_BOUNDS = "out-of-bounds"
    MISALIGNED = "misaligned"
    UNINITIALISED_READ = "uninitialised-read"


@dataclass(frozen=True)
class Case:
    """The words of one situation. extras: (fact, sentence) pairs, said after the step where the fact is there; seen: say who showed it."""

    kind: Kind
    what: str
    step: str = ""
    extras: tuple[tuple[str, str], ...] = ()
    severity: str = "error"
    seen: bool = True
