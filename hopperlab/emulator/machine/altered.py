# SPDX-License-Identifier: Apache-2.0
"""What one mechanism delivers, altered: proof that a result went through it.

A launch runs a second time with one thing changed, everything else equal: loads by other ways see noise (`truth`), products are negated, bits of
what is stored are flipped. If the result follows, the data went this way, whatever else the code does (checking/carried.py asks for it).
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from .memory import Allocation, GlobalMemory

LOADS = ("tma", "bulk", "cp.async")
"""Engines that read global memory: tensor copies, bulk copies, and cp.async. While one of them is altered, it alone sees arrays as they are."""

PRODUCTS = ("wgmma", "mma")
"""Their products A*B are negated; what they add to is not."""

STORES = ("store", "ldmatrix", "stmatrix")
"""Bits of what bulk and tensor stores write, of what ldmatrix returns, of what stmatrix writes are flipped."""

WAYS = (*LOADS, *PRODUCTS, *STORES, "reduce")
"""reduce: bulk and tensor reductions .add take away what they would add."""


def _everywhere(_block: tuple[int, int, int]) -> bool:
    return True


@dataclass
class Altered:
    """Nothing altered, or one of WAYS. blocks: of which CTAs (their blockIdx), for reductions only."""

    way: str = ""
    blocks: Callable[[tuple[int, int, int]], bool] = _everywhere
    truth: dict[int, Allocation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.way and self.way not in WAYS:
            raise ValueError(f"way {self.way!r}: choose one of {', '.join(WAYS)}")

    def source(self, engine: str, allocation: Allocation) -> Allocation:
        """The memory that an engine of LOADS reads for an allocation."""
        return self.truth.get(allocation.address, allocation) if engine == self.way else allocation

    def negates(self, unit: str) -> bool:
        """Whether the products of a unit of PRODUCTS are negated."""
        return unit == self.way

    def flips(self, unit: str) -> bool:
        """Whether the bits that a unit of STORES delivers are flipped."""
        return unit == self.way

    def takes_away(self, block: tuple[int, int, int]) -> bool:
        """Whether the reductions of a CTA take away what they would add."""
        return self.way == "reduce" and self.blocks(block)

    @contextmanager
    def only_seen_by_the_engine(self, memory: GlobalMemory, arrays: Sequence[np.ndarray], rng: np.random.Generator) -> Iterator[None]:
        """While the block runs, everybody but the altered engine finds noise in the memory of these arrays."""
        kept = []
        for allocation in {id(found): found for found in map(memory.register, arrays)}.values():
            bytes_of = allocation.view(1)
            twin = bytes_of.copy()
            self.truth[allocation.address] = Allocation(allocation.address, twin, allocation.name)
            kept.append((bytes_of, twin))
            bytes_of[:] = np.frombuffer(rng.bytes(len(twin)), np.uint8)
        try:
            yield
        finally:
            self.truth.clear()
            for bytes_of, twin in kept:
                bytes_of[:] = twin
