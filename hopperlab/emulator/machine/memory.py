# SPDX-License-Identifier: Apache-2.0
"""Global memory: the caller's NumPy arrays at synthetic device addresses, with red zones between them.

An allocation is the whole base buffer of an array, so that views of one base share one address range. Accesses outside
every allocation are faults that name the nearest array.
"""
from __future__ import annotations

import bisect
import ctypes
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np


FIRST_ADDRESS = 0x7_0000_0000
RED_ZONE = 4096
ALIGNMENT = 512
LAST_ADDRESS = 1 << 46
MOST_REMEMBERED = 1 << 28
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}      # 16: moved, never computed with


class Allocation:
    """One base buffer: `address` .. `address + nbytes`, and typed views of its bytes."""

    __slots__ = ("address", "nbytes", "name", "writable", "stamps", "_memory", "_owner", "_views", "pointer")

    def __init__(self, memory: "GlobalMemory", address: int, owner: np.ndarray, name: str):
        self._memory = memory
        self.address, self.nbytes, self.name = address, _extent(owner)[1], name
        self.pointer = _extent(owner)[0]
        self.writable = owner.flags.writeable
        self._owner = weakref.ref(owner)
        self._views: dict[int, np.ndarray] = {}
        self.stamps: Any = None     # a place for what listeners remember of its words; `stamp` fills it

    @property
    def end(self) -> int:
        """First address past the allocation."""
        return self.address + self.nbytes

    def view(self, width: int) -> np.ndarray:
        """The buffer as a 1-D array of unsigned `width`-byte words (a tail shorter than a word is cut off)."""
        views = self._views
        if width not in views:
            if 1 not in views:
                views[1] = _bytes_of(self._owner())
                self._memory.viewed.append(self)
                self._memory.first_viewed(views[1])
            words = self.nbytes // width
            views[width] = views[1][:words * width].view(UNSIGNED[width])
        return views[width]

    def release_views(self) -> None:
        """Drop cached views after a launch, so that the caller's array can be freed."""
        self._views.clear()

    def stamp(self, stamps: Any) -> Any:
        """Remember something of its words until the memory forgets it; returns it."""
        self.stamps = stamps
        self._memory.stamped.append(self)
        return stamps

    def remembered(self) -> int:
        """Bytes that the stamps take, at most."""
        return 0 if self.stamps is None else 12 * self.nbytes + 24 * self.stamps.logged


def _extent(array: np.ndarray) -> tuple[int, int]:
    low, high = np.lib.array_utils.byte_bounds(array)
    return low, high - low


def _bytes_of(owner: np.ndarray) -> np.ndarray:
    """The memory of `owner` as a flat uint8 array that shares it."""
    low, nbytes = _extent(owner)
    if owner.flags.forc:
        flat = owner.reshape(-1, order="A")
        if np.shares_memory(flat, owner):
            return flat.view(np.ndarray).view(np.uint8)
    low, nbytes = _extent(owner)                # an array with gaps or overlaps, over memory that is no array
    whole = np.frombuffer((ctypes.c_uint8 * nbytes).from_address(low), np.uint8)
    whole.flags.writeable = owner.flags.writeable
    return whole


def owner_of(array: np.ndarray) -> np.ndarray:
    """The ndarray that owns (or wraps) the memory `array` looks at."""
    while array.base is not None:
        base = array.base if isinstance(array.base, np.ndarray) else getattr(array.base, "base", None)      # as_strided puts an object between
        if not isinstance(base, np.ndarray):
            break
        array = base
    return array


class Heap:
    """What device code has from malloc: `used` bytes, and the blocks by address."""

    def __init__(self) -> None:
        self.used = 0
        self._blocks: dict[int, np.ndarray] = {}

    def take(self, memory: "GlobalMemory", nbytes: int) -> int:
        """The address of a new block."""
        block = np.zeros(nbytes, np.uint8)
        address = memory.register(block, "memory from malloc").address
        self._blocks[address] = block
        self.used += nbytes
        return address

    def give(self, address: int) -> bool:
        """Give a block back; False when there is none at `address`."""
        block = self._blocks.pop(address, None)
        self.used -= 0 if block is None else len(block)
        return block is not None


class Kept:
    """What the arrays that launches of this thread touch held before: `held`, by array; None once that is more than `most` bytes."""

    def __init__(self, most: int) -> None:
        self.thread, self.left = threading.get_ident(), most
        self.held: list[tuple[np.ndarray, np.ndarray]] | None = []

    def keep(self, array: np.ndarray) -> None:
        """The bytes of an array, as they are now."""
        self.left -= array.nbytes if array.flags.writeable else 0
        if self.held is not None and array.flags.writeable:
            self.held = [*self.held, (array, array.copy())] if self.left >= 0 else None

    def as_now(self) -> Kept:
        """The same arrays, as they are now."""
        now = Kept(1 << 62)
        now.held = [(array, array.copy()) for array, _ in self.held or ()]
        return now

    def restore(self) -> None:
        """They hold it again."""
        for array, held in self.held or ():
            if not np.array_equal(array, held):
                array[:] = held


class GlobalMemory:
    """All arrays that any launch has seen, by address, and the device heap. `viewed` and `stamped`: those of which views or stamps are kept now; what ends
    with a launch is looked for there, since a process may hold thousands of arrays."""

    def __init__(self) -> None:
        self.heap = Heap()
        self.viewed: list[Allocation] = []
        self.stamped: list[Allocation] = []
        self._lock = threading.RLock()
        self._next = FIRST_ADDRESS
        self._starts: list[int] = []
        self._allocations: list[Allocation] = []
        self._by_owner: dict[int, Allocation] = {}
        self._anonymous = 0
        self.kept: Kept | None = None
        self.left: Any = None          # the latest launch, whose stamps are still there: a dependent launch may follow (emulator/grids.py)

    def register(self, array: np.ndarray, name: str | None = None) -> Allocation:
        """The allocation of `array`'s base buffer, made at first sight."""
        owner = owner_of(array)
        with self._lock:
            known = self._by_owner.get(id(owner))
            if known is not None and known._owner() is owner:
                if name:
                    known.name = name
                return known
            self._anonymous += 1
            label = name or f"array {self._anonymous} ({owner.dtype}, shape {owner.shape})"
            allocation = Allocation(self, self._next, owner, label)
            step = allocation.nbytes + RED_ZONE
            self._next += -(-step // ALIGNMENT) * ALIGNMENT
            self._starts.append(allocation.address)
            self._allocations.append(allocation)
            self._by_owner[id(owner)] = allocation
            weakref.finalize(owner, self._forget, id(owner), allocation.address).atexit = False        # launches may run at the very end
            return allocation

    def address_of(self, array: np.ndarray, name: str | None = None) -> int:
        """Synthetic device address of element 0 of `array`."""
        allocation = self.register(array, name)
        return allocation.address + array.__array_interface__["data"][0] - allocation.pointer

    def _forget(self, key: int, address: int) -> None:
        with self._lock:
            place = bisect.bisect_left(self._starts, address)
            if place < len(self._starts) and self._starts[place] == address:
                gone = self._allocations[place]
                del self._starts[place], self._allocations[place]
                self.stamped = [allocation for allocation in self.stamped if allocation is not gone]
            known = self._by_owner.get(key)
            if known is not None and known.address == address:
                del self._by_owner[key]

    def find(self, address: int) -> Allocation | None:
        """The allocation that holds `address`, or None."""
        place = bisect.bisect_right(self._starts, address) - 1
        if place < 0:
            return None
        allocation = self._allocations[place]
        return allocation if address < allocation.end else None

    def nearest(self, address: int, among: Sequence[Allocation] = ()) -> str:
        """A learner's description of where a bad address lies. among: the arrays that it was computed from, where they are known."""
        if address == 0:
            return "it is a null pointer"
        if among:
            nearest = min(among, key=lambda a: max(a.address - address, address - a.end))
            if address < nearest.address:
                return f"it lies {nearest.address - address} bytes before {nearest.name} ({nearest.nbytes} bytes at {nearest.address:#x})"
            return f"it lies {address - nearest.end} bytes past the end of {nearest.name} ({nearest.nbytes} bytes at {nearest.address:#x})"
        place = bisect.bisect_right(self._starts, address) - 1
        if place < 0:
            return "it lies below every array"
        before = self._allocations[place]
        beyond = address - before.end
        if beyond < (1 << 32):
            return (f"it lies {beyond} bytes past the end of {before.name} "
                    f"({before.nbytes} bytes at {before.address:#x})")
        return "it lies far from every array"

    def arrays(self) -> list[tuple[np.ndarray, str]]:
        """(array, name) of all that are alive and that kernels may write, except variables of modules and memory from malloc."""
        with self._lock:
            found = [(a._owner(), a.name) for a in self._allocations if a.writable]
        return [(owner, name) for owner, name in found if owner is not None and not name.startswith(("variable ", "memory from malloc"))]

    def first_viewed(self, array: np.ndarray) -> None:
        """A launch is about to touch an array for the first time; other threads' launches are not asked after."""
        kept = self.kept
        if kept is not None and kept.thread == threading.get_ident():
            kept.keep(array)

    @contextmanager
    def keeping(self, kept: Kept) -> Iterator[None]:
        """Inside the block what the launches of this thread touch is kept."""
        outer, self.kept = self.kept, kept
        try:
            yield
        finally:
            self.kept = outer

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Inside the block nothing is remembered of earlier launches, and afterwards what was."""
        kept, left = [(allocation, allocation.stamps) for allocation in self.stamped], self.left
        self.clear_stamps()
        try:
            yield
        finally:
            self.clear_stamps()
            for allocation, stamps in kept:
                allocation.stamp(stamps)
            self.left = left

    def release_views(self) -> None:
        """Forget cached views of all arrays (called when a launch ends)."""
        viewed, self.viewed = self.viewed, []
        for allocation in viewed:
            allocation.release_views()

    def retire(self, left: object) -> None:
        """A launch has ended; its stamps stay until the next one, unless they are too large."""
        self.left = left
        if sum(allocation.remembered() for allocation in self.stamped) > MOST_REMEMBERED:
            self.forget()

    def forget(self) -> None:
        """No stamps are left of any launch."""
        if self.left is not None:
            self.clear_stamps()

    def clear_stamps(self) -> None:
        """Forget who was where, whoever wanted to know it."""
        self.left = None
        stamped, self.stamped = self.stamped, []
        for allocation in stamped:
            allocation.stamps = None


_DEFAULT = GlobalMemory()


def default() -> GlobalMemory:
    """The process's one global memory."""
    return _DEFAULT
