# SPDX-License-Identifier: Apache-2.0
"""The units of an SM that actors share (sm.py): each serves one request after the other, or those of several warps in turn."""
from __future__ import annotations

from dataclasses import dataclass

NEVER = float("inf")


@dataclass(slots=True)
class Unit:
    """Serves one request after the other; busy: cycles served."""

    free: float = 0.0
    busy: float = 0.0

    def serve(self, at: float, cycles: float) -> float:
        """When a request that comes at `at` is through."""
        self.free = free = (at if at > self.free else self.free) + cycles
        self.busy += cycles
        return free

    def share(self, at: float, cycles: float, others: float) -> float:
        """The same where requests of so many others come in turn with it: a short one is not behind all of a long one."""
        before, most = self.free - at, others * cycles
        self.free = (self.free if before > 0.0 else at) + cycles
        self.busy += cycles
        return at + cycles + (0.0 if before <= 0.0 else before if before < most else most)


class Multiprocessor:
    """The units of an SM."""

    def __init__(self) -> None:
        self.schedulers, self.mma, self.special, self.alu = ([Unit() for _ in range(4)] for _ in range(4))
        self.tensor, self.port, self.engine, self.l2, self.dram, self.stores, self.lanes = (Unit() for _ in range(7))
        self.loaded = self.pushed = self.arrived = 0.0
        self.ahead = 0.0                 # cycles between k-blocks' loads and the end of the first wait for them, in all
        self.ready = NEVER               # from when on tensor loads go out: the first one fetches what describes the tensor, and finds no address translated

    def took(self, asked: float, at: float, part: float = 1.0) -> None:
        """What was asked for at `asked` is used from `at` on: a k-block, or a part of one."""
        if asked < NEVER:
            self.ahead += part * (at - asked)
