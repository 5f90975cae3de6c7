# SPDX-License-Identifier: Apache-2.0
"""What is said of a wrong value of exercise 04.1: after which event, and which events led there."""
from __future__ import annotations

from ...checking.value_words import Told, Wrong

LATEST = 4                 # events that are repeated


def phases(wrong: Wrong) -> Told:
    """04.1: phases(events)."""
    if not wrong.path:
        return Told()
    (events,), (last,) = wrong.arguments, wrong.path
    first = max(0, last + 1 - LATEST)
    led = ", ".join(f"{kind} {number}" for kind, number in events[first:last + 1])
    before = f"events {first} to {last}: " if first else ""
    return Told(f"the phase that runs after event {last} ({before}{led})")


WORDS = {"04.1": phases}
