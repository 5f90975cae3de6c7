# SPDX-License-Identifier: Apache-2.0
"""What one mechanism delivers, altered: proof that a result went through it.

A launch runs a second time with one thing changed, everything else equal: loads by other ways see noise (`truth`), products are negated, what is
delivered is enciphered. If the result follows, the data went this way, whatever else the code does (checking/carried.py asks for it).

A cipher is drawn from a key that the launch cannot know, so that nobody can tell how the rest is altered from a few words that he looks at.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from .memory import Allocation, GlobalMemory

LOADS = ("tma", "bulk", "cp.async")
"""Engines that read global memory: tensor copies, bulk copies, and cp.async. While one of them is altered, it alone sees arrays as they are."""

PRODUCTS = ("wgmma", "mma")
"""Their products A*B are negated; what they add to is not."""

STORES = ("store", "ldmatrix", "stmatrix")
"""Words of 16 bits that bulk and tensor stores write, that ldmatrix returns, that stmatrix writes are enciphered."""

SINKS = ("wgmma", "mma")
"""Units that can decipher what an engine of LOADS has brought: A and B of wgmma in shared memory, A and B of mma.sync."""

MOVES = ("ld.shared", "st.shared")
"""Numbers of 32 bits that ld returns from shared memory, or that st writes there, are doubled."""

LATE = "late stores"
"""Nothing is altered but the order: who would write to global memory runs when nobody else can, and nothing is left to land."""

SLOW = "slow warps"
"""Nothing is altered but the order: these warps go on when nobody else can, and nothing is left to land."""

WAYS = (*LOADS, *PRODUCTS, *STORES, *MOVES, "reduce", LATE, SLOW)
"""reduce: bulk and tensor reductions .add take away what they would add."""

FLAGS = "late flags"
TURNS = "late flags in turns"
COUNTS = "late counts"
"""Nothing is altered but the order: who would raise a flag at which a loop may look does so when nobody else can go on; in TURNS one warp after another is the
last of all to do so, and in COUNTS, where atomics alone wait, from the first one on (second_look.py)."""


def _everywhere(_block: tuple[int, int, int]) -> bool:
    return True


class Cipher:
    """A bijection of words of 16 bits in which 0 stays 0, so that what is filled with zeros is right either way."""

    def __init__(self, rng: np.random.Generator):
        self.table = np.concatenate([[0], 1 + rng.permutation(0xFFFF)]).astype(np.uint16)
        self.back = np.argsort(self.table).astype(np.uint16)

    def hide(self, data: np.ndarray) -> np.ndarray:
        """The same shape and type, enciphered word by word; the last dimension holds whole words."""
        return _each_word(self.table, data)

    def show(self, data: np.ndarray) -> np.ndarray:
        """The inverse of `hide`."""
        return _each_word(self.back, data)


def _each_word(table: np.ndarray, data: np.ndarray) -> np.ndarray:
    return table[np.ascontiguousarray(data).view(np.uint16)].view(data.dtype)


@dataclass
class Altered:
    """Nothing altered, or one of WAYS, or FLAGS, TURNS or COUNTS.

    blocks: of which CTAs (their blockIdx), for reductions and slow warps only
    to:     of LOADS: what the engine brings is enciphered, and this unit of SINKS alone deciphers it
    key:    draws the cipher
    warps:  of each CTA, by number: whose products, or whose loads and stores of MOVES, are altered (None: everybody's), or who is slow
    beside: of MOVES: only while the warp holds what it has loaded from global memory and has not yet put into shared memory
    """

    way: str = ""
    blocks: Callable[[tuple[int, int, int]], bool] = _everywhere
    truth: dict[int, Allocation] = field(default_factory=dict)
    to: str = ""
    key: int = 0
    warps: Collection[int] | None = None
    beside: bool = False
    holding: set[int] = field(default_factory=set)
    memory: GlobalMemory = field(init=False, repr=False)
    enciphered: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.moves = self.way in MOVES
        if self.way and self.way not in (*WAYS, FLAGS, TURNS, COUNTS):
            raise ValueError(f"way {self.way!r}: choose one of {', '.join(WAYS)}")
        if self.to and (self.to not in SINKS or self.way not in LOADS):
            raise ValueError(f"from {self.way!r} to {self.to!r}: from one of {', '.join(LOADS)} to one of {', '.join(SINKS)}")

    @cached_property
    def cipher(self) -> Cipher:
        """That of this run."""
        return Cipher(np.random.default_rng(self.key))

    def source(self, engine: str, allocation: Allocation) -> Allocation:
        """The memory that an engine of LOADS reads for an allocation. What kernels write meanwhile is enciphered on its way."""
        if engine != self.way or allocation.address in self.truth:
            return self.truth[allocation.address] if engine == self.way else allocation
        if not self.to:
            return allocation
        bytes_of = allocation.view(1).copy()
        whole = len(bytes_of) // 2 * 2
        bytes_of[:whole] = self.cipher.hide(bytes_of[:whole])
        self.enciphered = bytes_of                      # an Allocation does not keep its array
        return Allocation(self.memory, allocation.address, bytes_of, allocation.name)

    def negates(self, unit: str) -> bool:
        """Whether the products of a unit of PRODUCTS are negated, whosever they are."""
        return unit == self.way and self.warps is None

    def product(self, unit: str, out: np.ndarray, warps: np.ndarray) -> np.ndarray:
        """What a unit of PRODUCTS makes. out: (warps, ...); warps: their numbers in their CTAs."""
        if unit != self.way:
            return out
        return -out if self.warps is None else np.where(np.isin(warps, list(self.warps)).reshape(-1, *(1,) * (out.ndim - 1)), -out, out)

    # --- what warps move themselves -----------------------------------------------------------------------------------
    def fetched(self, warps: np.ndarray) -> None:
        """These warps (of the launch) have loaded from global memory."""
        self.holding.update(np.unique(warps).tolist())

    def read(self, warps: np.ndarray, of_cta: int, value: np.ndarray) -> np.ndarray:
        """What ld.shared returns. warps: of each lane, in the launch; of_cta: warps of a CTA."""
        return self._doubled(warps, of_cta, value) if self.way == "ld.shared" else value

    def written(self, warps: np.ndarray, of_cta: int, values: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """What st.shared writes. What its warps held is put down."""
        if self.way == "st.shared":
            values = tuple(self._doubled(warps, of_cta, value) for value in values)
        self.holding.difference_update(np.unique(warps).tolist())
        return values

    def _doubled(self, warps: np.ndarray, of_cta: int, value: np.ndarray) -> np.ndarray:
        """Words of 32 bits, doubled as float32, where the lane's warp is one of those that are asked for."""
        if value.dtype.itemsize % 4:
            return value
        meant = np.ones(len(warps), bool) if self.warps is None else np.isin(warps % of_cta, list(self.warps))
        if self.beside:
            meant &= np.isin(warps, list(self.holding))
        words = np.ascontiguousarray(np.broadcast_to(value, len(warps))).view(np.float32).reshape(len(warps), -1)
        return np.where(meant[:, None], words * np.float32(2), words).view(value.dtype)[:, 0]

    def delivered(self, unit: str, data: np.ndarray) -> np.ndarray:
        """What a unit of STORES delivers."""
        return self.cipher.hide(data) if unit == self.way else data

    def taken(self, unit: str, data: np.ndarray) -> np.ndarray:
        """What a unit of SINKS makes of an operand."""
        return self.cipher.show(data) if unit == self.to else data

    def takes_away(self, block: tuple[int, int, int]) -> bool:
        """Whether the reductions of a CTA take away what they would add."""
        return self.way == "reduce" and self.blocks(block)

    @contextmanager
    def only_seen_by_the_engine(self, memory: GlobalMemory, arrays: Sequence[np.ndarray], rng: np.random.Generator) -> Iterator[None]:
        """While the block runs, everybody but the altered engine finds noise in the memory of these arrays."""
        kept, self.memory = [], memory
        for allocation in {id(found): found for found in map(memory.register, arrays)}.values():
            bytes_of = allocation.view(1)
            were, twin, whole = bytes_of.copy(), bytes_of.copy(), len(bytes_of) // 2 * 2
            if self.to:
                twin[:whole] = self.cipher.hide(twin[:whole])
            self.truth[allocation.address] = Allocation(memory, allocation.address, twin, allocation.name)
            kept.append((bytes_of, were, twin))          # an Allocation does not keep its array
            bytes_of[:] = np.frombuffer(rng.bytes(len(twin)), np.uint8)
        try:
            yield
        finally:
            self.truth.clear()
            for bytes_of, were, _ in kept:
                bytes_of[:] = were
