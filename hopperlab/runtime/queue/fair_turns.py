# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is: waiting launches by user, and the time each user has had. Knows nothing of sockets or processes.

The next launch is the oldest one of the user who has had the least time. Who comes back after a pause starts level with those who
wait, so that a pause earns no credit; who let a launch hang has paid for its whole time limit.
"""
from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

MOST_WAITING = 16        # launches one user may have waiting
LEAST = 0.05             # seconds that the shortest launch is charged: starting a process is not free


class QueueFull(Exception):
    """A user has too many launches waiting."""


@dataclass
class Turns:
    """Waiting launches by user (oldest first), and seconds charged so far."""

    waiting: dict[str, deque[Any]] = field(default_factory=dict)
    charged: dict[str, float] = field(default_factory=dict)
    running: dict[str, int] = field(default_factory=dict)

    def add(self, user: str, launch: Any) -> int:
        """Let a launch wait; returns how many wait before it at most. Raises QueueFull."""
        mine = self.waiting.setdefault(user, deque())
        if len(mine) >= MOST_WAITING:
            raise QueueFull(f"{user} has {len(mine)} launches waiting already")
        if not mine and not self.running.get(user):
            level = [self.charged.get(other, 0.0) for other, theirs in self.waiting.items() if theirs] + [self.charged[u] for u in self.running]
            self.charged[user] = max(self.charged.get(user, 0.0), min(level, default=0.0))
        mine.append(launch)
        return sum(map(len, self.waiting.values())) - 1

    def take(self) -> tuple[str, Any] | None:
        """The next (user, launch), or None when nobody waits."""
        users = [user for user, theirs in self.waiting.items() if theirs]
        if not users:
            return None
        user = min(users, key=lambda name: (self.charged[name] + LEAST * self.running.get(name, 0), users.index(name)))
        launch = self.waiting[user].popleft()
        self.waiting[user] = self.waiting.pop(user)          # behind the others among equals
        self.running[user] = self.running.get(user, 0) + 1
        return user, launch

    def done(self, user: str, seconds: float) -> None:
        """A launch of `user` has ended after `seconds`."""
        self.charged[user] = self.charged.get(user, 0.0) + max(seconds, LEAST)
        self.running[user] -= 1
        if not self.running[user]:
            del self.running[user]

    def drop(self, user: str, launch: Any) -> None:
        """Forget a waiting launch (its client is gone)."""
        if launch in self.waiting.get(user, ()):
            self.waiting[user].remove(launch)

    def as_dict(self) -> dict[str, Any]:
        """Waiting, running and charged seconds by user."""
        users = {*self.running, *(user for user, theirs in self.waiting.items() if theirs), *self.charged}
        return {user: {"waiting": len(self.waiting.get(user, ())), "running": self.running.get(user, 0), "seconds": round(self.charged.get(user, 0.0), 3)}
                for user in sorted(users)}
