# SPDX-License-Identifier: Apache-2.0
"""Accesses by lanes, to shared and global memory: what ld, st, atom, ldmatrix and the like mean for the order of accesses."""
from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.events import Listener
from . import narrow_atomics

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..machine.cohort import Cohort
    from .findings import Watched
    from .global_order import GlobalOrder
    from .global_words import Part
    from .shared_order import SharedOrder

SHARED: Any = SimpleNamespace(address=-1)      # where synchronising accesses to shared memory publish (global_order.py)
PIECES = np.arange(0, 128, 16)            # a tensor map in shared memory, in pieces of 16 bytes


class AccessOrder(Listener):
    """Hears accesses by lanes. shared: SharedOrder; everywhere: GlobalOrder."""

    def __init__(self, machine: Watched, shared: SharedOrder, everywhere: GlobalOrder) -> None:
        self.M, self.shared, self.everywhere = machine, shared, everywhere
        self.blind: dict[int, bool] = {}           # atomics: does nobody read the old value?
        loops = {index for loop in machine.translation.loops for index in loop.watched}
        self.unread = _unread(machine)
        self.narrow = narrow_atomics.sites(machine)
        self.locks = {i.index for i in machine.body if i.op == "atom" and i.index in loops and {"cas", "exch"} & set(i.mods) and not {"acquire", "acq_rel"} & set(i.mods)}

    # --- shared memory ----------------------------------------------------------------------------------------------
    def shared_read(self, C: Cohort, flat: np.ndarray, info: Any) -> None:
        """ld."""
        C.unsynced = True
        if info.volatile:
            self.everywhere.acquire(C, SHARED, flat, narrow=info.narrow)
            self.shared.load_strong(C.gids, flat, info.nbytes, info.index)
        else:
            self.shared.load(C.gids, flat, info.nbytes, info.index)

    def shared_written(self, C: Cohort, flat: np.ndarray, info: Any, value: Callable[[Any], np.ndarray]) -> None:
        """st."""
        C.unsynced = True
        if info.volatile:
            self.everywhere.release(C, SHARED, flat, info.release, info.narrow)
            self.shared.strong_stores.store(C.gids, flat, info.nbytes, info.index)
        else:
            self.shared.store(C.gids, flat, info.nbytes, info.index, value=value)

    def shared_atomic(self, C: Cohort, flat: np.ndarray, info: Any) -> None:
        """atom and red race with plain accesses only, and carry what fences published."""
        C.unsynced = True
        self.shared.store(C.gids, flat, info.nbytes, info.index, atomic=True, blind=self._blind(info))
        self._synchronise(C, SHARED, flat, info)

    def rows_read(self, C: Cohort, gids: np.ndarray, flat: np.ndarray, count: int, index: int) -> None:
        """ldmatrix."""
        C.unsynced = True
        self.shared.load(gids, flat, 16, index)

    def rows_written(self, C: Cohort, gids: np.ndarray, flat: np.ndarray, count: int, index: int) -> None:
        """stmatrix."""
        C.unsynced = True
        self.shared.store(gids, flat, 16, index)

    def image_read(self, C: Cohort, gids: np.ndarray, flat: np.ndarray, index: int) -> None:
        """Tensor maps in shared memory."""
        C.unsynced = True
        self.shared.load(np.repeat(gids, len(PIECES)), (flat[:, None] + PIECES).reshape(-1), 16, index)

    def image_written(self, C: Cohort, gids: np.ndarray, flat: np.ndarray, index: int) -> None:
        """tensormap.replace: the rest of the map must be there."""
        self.image_read(C, gids, flat, index)
        self.shared.store(np.repeat(gids, len(PIECES)), (flat[:, None] + PIECES).reshape(-1), 16, index)

    # --- global memory ----------------------------------------------------------------------------------------------
    def global_read(self, C: Cohort, address: np.ndarray, parts: list[Part], info: Any) -> None:
        """ld."""
        C.unsynced = True
        for allocation, where, offset in parts:
            gids = C.gids if where is None else C.gids[where]
            offset = np.broadcast_to(offset, gids.shape)
            self.everywhere.read(gids, allocation, offset, info.nbytes, info.index, info.volatile, info.constant)
            if info.volatile and info.index not in self.unread:
                self.everywhere.acquire(_part(C, where), allocation, offset, None if info.acquire else info.index, info.narrow)

    def global_written(self, C: Cohort, address: np.ndarray, parts: list[Part], info: Any, value: Callable[[Any], Callable[[Any], np.ndarray]]) -> None:
        """st."""
        C.unsynced = True
        for allocation, where, offset in parts:
            gids = C.gids if where is None else C.gids[where]
            stored = None if info.volatile else value(slice(None) if where is None else where)
            self.everywhere.write(gids, allocation, offset, info.nbytes, info.index, info.volatile, stored)
            if info.volatile:
                self.everywhere.release(_part(C, where), allocation, offset, info.release, info.narrow)

    def global_atomic(self, C: Cohort, parts: list[Part], info: Any) -> None:
        """atom and red."""
        C.unsynced = True
        for allocation, where, offset in parts:
            part = _part(C, where)
            if self.narrow:
                narrow_atomics.check(self.everywhere, part.gids, allocation, offset, info, self.narrow)
            self.everywhere.write(part.gids, allocation, offset, info.nbytes, info.index, sync=True, blind=self._blind(info))
            self._synchronise(part, allocation, offset, info)

    def region_written(self, C: Cohort, parts: list[Part], nbytes: int, index: int) -> None:
        """discard, tensormap.replace."""
        C.unsynced = True
        for allocation, where, offset in parts:
            self.everywhere.write(C.gids if where is None else C.gids[where], allocation, offset, nbytes, index)

    # --- atomics ----------------------------------------------------------------------------------------------------
    def _blind(self, info: Any) -> bool:
        known = self.blind.get(info.index)
        if known is None:
            known = self.blind[info.index] = not (info.returns and self.M.translation.wants_result(info.index))
        return known

    def _locks(self, info: Any) -> int | None:
        """The instruction, if it takes a lock (or polls by compare and swap) and acquires nothing by itself."""
        return info.index if info.index in self.locks else None

    def _synchronise(self, C: Cohort, allocation: Any, offset: np.ndarray, info: Any) -> None:
        """Learn what was published at the words, and publish there."""
        order = self.everywhere
        if not (info.release or order.published or order.fences.of):
            return
        warps, first = np.unique(C.gids >> 5, return_index=True)
        if len(warps) == 1 or len(np.unique(offset >> 2)) == len(offset):
            order.acquire(C, allocation, offset, self._locks(info), info.narrow)
            order.release(C, allocation, offset, info.release, info.narrow)
            return
        for start, end in zip(first, np.append(first[1:], C.n)):       # warps that meet at a word: one after the other
            one = type(C)(C.gids[start:end], None, C.pc)  # type: ignore[arg-type]  # reads no registers
            order.acquire(one, allocation, offset[start:end], self._locks(info), info.narrow)
            order.release(one, allocation, offset[start:end], info.release, info.narrow)


def _part(C: Cohort, where: slice | np.ndarray | None) -> Cohort:
    return C if where is None else type(C)(C.gids[where], None, C.pc)  # type: ignore[arg-type]  # reads no registers


def _unread(machine: Watched) -> frozenset[int]:
    """Strong loads whose value the program never looks at, in kernels where nobody else looks at a flag: they may have come before it was raised."""
    t = machine.translation
    looks = [i for i in machine.body if i.op == "atom" or i.op == "ld" and {"volatile", "relaxed", "acquire"} & set(i.mods)]
    unread = frozenset(i.index for i in looks if i.op == "ld" and not t.wants_result(i.index))
    return unread if len(unread) == len(looks) else frozenset()
