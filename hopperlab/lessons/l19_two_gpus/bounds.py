# SPDX-License-Identifier: Apache-2.0
"""Lesson 19: what follows by arithmetic from two recorded times, the product alone and the bytes over the link at its recorded rate.

What follows is a bound: nothing that copies and products take from each other is in it.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

CTAS = 32                               # that copy, at which the link's rate is read: more bring nothing
BYTES = 2                               # of a number of bf16
PIECES = 2                              # of a shard, each told of by a flag


@dataclass(frozen=True)
class Bound:
    """Microseconds: the product alone, the link, and the product with the link under it at best."""

    product: float
    link: float
    under: float

    @property
    def in_line(self) -> float:
        """Share of the product alone that is left where one stands behind the other."""
        return self.product / (self.product + self.link)

    @property
    def at_once(self) -> float:
        """Share of the product alone that overlap can reach at most."""
        return self.product / self.under


def link_rate(recording: Any, way: str) -> float:
    """GB/s over the link, way: 'pull' or 'push'."""
    return float(recording.one(suite="link", options=(f"{way}, {CTAS} CTAs",)).gb_s)


def alone(recording: Any, suite: str, shape: tuple[int, ...]) -> Any:
    """The record of the product alone: the faster of cuBLAS and lesson 14's."""
    return min((r for r in recording.where(suite=suite, shape=shape) if r.kernel.startswith("alone")), key=lambda r: r.ms)


def bound(recording: Any, suite: str, shape: tuple[int, ...]) -> Bound:
    """Of m x n x k on each of two devices. gather: half of A comes over the link first, then the tiles of its last piece are multiplied; scatter: half of the
    sums leave."""
    m, n, k = shape
    product = 1e3 * alone(recording, suite, shape).ms
    size, way = (m // 2 * k * BYTES, "pull") if suite == "gather" else (m // 2 * n * BYTES, "push")
    link = size / (link_rate(recording, way) * 1e3)
    return Bound(product, link, max(product, link + (product / 2 / PIECES if suite == "gather" else 0.0)))
