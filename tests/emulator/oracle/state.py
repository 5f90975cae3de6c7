# SPDX-License-Identifier: Apache-2.0
"""What the model says of a program, and one moment of an execution."""
from __future__ import annotations

from dataclasses import dataclass


class TooManyStates(Exception):
    """The program has more states than the exploration may visit."""


@dataclass(frozen=True, order=True)
class Finding:
    """One broken rule. kind: 'unordered' (two accesses, no order), 'unfenced' (order without a proxy fence), 'deadlock', 'overrun' (a phase passes a
    waiter by), 'early' (a wait passes before its phase is complete), 'exit' (in flight at the end), 'lifetime' (into a CTA that may be gone or not
    there yet), 'uninitialised' (mbarrier not known to be initialised), 'bytes' (expected and delivered bytes differ), 'arrivals' (more than pending, or
    twice at a cluster barrier)."""

    kind: str
    line: int = 0
    other: int = 0


@dataclass(frozen=True)
class Verdict:
    """`may`: what some execution shows; `must`: what all show; `clean`: some execution shows nothing (all do if `may` is empty)."""

    may: frozenset
    must: frozenset
    clean: bool
    states: int = 0

    @property
    def correct(self) -> bool:
        return not self.may


class State:
    """One moment: where each agent is, what each thread knows, the barriers, and what is in flight."""

    __slots__ = ("at", "knows", "fenced", "begun", "mbar", "named", "cluster", "flags", "flying")

    def copy(self) -> State:
        twin = State()
        twin.at, twin.knows, twin.fenced, twin.begun = self.at[:], self.knows[:], self.fenced[:], self.begun
        twin.mbar, twin.named, twin.flags = dict(self.mbar), dict(self.named), dict(self.flags)
        twin.cluster, twin.flying = self.cluster, self.flying
        return twin

    def key(self) -> tuple:
        return (tuple(self.at), tuple(self.knows), tuple(self.fenced), self.begun, tuple(sorted(self.mbar.items())), tuple(sorted(self.named.items())),
                self.cluster, tuple(sorted(self.flags.items())), self.flying)
