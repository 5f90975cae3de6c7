# SPDX-License-Identifier: Apache-2.0
"""What one line of a deadlock's report knows, as data, and what is said of it."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Situation:
    """One line about threads that wait: who ('' for a hint), the key of its words in SITUATIONS, the instruction, and numbers."""

    who: str
    case: str
    end: Any               # a hazard.End, whose module needs this one; or None
    facts: Mapping[str, object]


MORE = "mbarrier {barrier}: {pending} more {arrivals} in this phase; whoever should arrive has ended, waits itself, or never arrives"
SITUATIONS = {
    "mbarrier": "waits in {here} for parity {parity} of the {state}",
    "mbarrier-unnamed": "waits in {here} for parity {parity} of the {state} (initialised at {init})",
    "state": "waits in {here}: {state}",
    "meeting": "waits in {here} for the other warps of its warpgroup: all four run a wgmma together",
    "wgmma": "waits in {here}: not all four warps of the warpgroup issued this wgmma group", "stands": "stands at {here}: spinning, or waiting for the rest of its warp",
    "more": "… and {count} more like these",
    "named-hint": "barrier {barrier}: the missing threads have ended, or wait somewhere else; all that its count includes must come to bar.sync "
                  "or bar.arrive with this number and count (those in this kernel: {lines}{others})",
    "bytes-without-arrival": "mbarrier {barrier}: {seen} bytes arrived but nobody announced them, and the phase lacks {pending} {arrivals}: a thread must run "
                             "mbarrier.arrive.expect_tx with the copy's bytes",
    "arrivals-missing": MORE + " (arrivals on it: {lines}{others}){counted}",
    "arrivals-unreached": MORE + " (arrivals on it: {lines}{others}; nobody has come to {unreached}){counted}",
    "arrivals-elsewhere": MORE + " (nothing arrives on it; arrivals on other mbarriers: {lines}{others}){counted}",
    "passed-by": "mbarrier {barrier}: phase {phase} is running while {who} for phase {wanted}. It was initialised for {expected} at {init}{received}",
    "bytes-missing": "mbarrier {barrier}: {missing} more bytes; {seen} arrived of {expected} expected, so either a copy was never issued or "
                     "expect_tx announced too many bytes",
    "bytes-unannounced": "mbarrier {barrier}: expect_tx announced {missing} bytes too few",
    "wrong-parity": "mbarrier {barrier}: nothing is missing in this phase; the waiter asks for a parity that has not come round (wrong parity?)",
}
"""Who waits in a deadlock, and what would release them."""
