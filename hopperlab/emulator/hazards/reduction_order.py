# SPDX-License-Identifier: Apache-2.0
"""Who updated a word before the thread that did last: reductions (red, or atom whose old value nobody wants) say nothing of each other's order.

The tables of stamps have room for one writer a word. A reduction that comes second takes that place without having learned of the first, so a later plain access
by its own thread would look ordered. Here the other one is kept until the word is written plainly or its old value is wanted:
who reads a word by a synchronising access has seen the updates before it (PTX ISA 8.9.5, observation order), and such words are flags.
shared_order.py and global_order.py ask; what a stamp means is theirs.
"""
from __future__ import annotations

import numpy as np


class Earlier:
    """One table a plane of the stamps, made at the first use. The first plane tells threads apart: `thread` and `warp` are the positions of their
    bits in it, `width` how many bits from `thread` on."""

    def __init__(self, words: int, thread: int, warp: int, width: int) -> None:
        self.words, self.thread, self.warp = words, thread, warp
        self.same_thread = (1 << width) - 1
        self.same_warp = self.same_thread >> warp - thread
        self.planes: tuple[np.ndarray, ...] = ()

    def forget(self, at: np.ndarray | slice) -> None:
        """Words `at` are somebody's own, or have been observed."""
        for plane in self.planes:
            plane[at] = 0

    def at(self, at: np.ndarray | slice) -> tuple[np.ndarray, ...] | None:
        """Stamps of the earlier updates of words, or None where there are none."""
        if not self.planes:
            return None
        found = tuple(plane[at] for plane in self.planes)
        return found if found[0].any() else None

    def updated(self, at: np.ndarray, old: tuple[np.ndarray, ...], new: tuple[np.ndarray, ...], final: np.ndarray, was_atomic: np.ndarray) -> None:
        """Reductions (stamps `new`) came to words `at`, which held `old`; `final`: first plane of what they hold now. Updates by other
        warps are kept rather than by other lanes, which a __syncwarp orders soon."""
        at, final, *stamps = (np.ravel(a) for a in (at, final, *old, *new))
        before, after = tuple(stamps[:len(old)]), tuple(stamps[len(old):])
        for stamp, possible in ((after, after[0] != final), (before, was_atomic.ravel() & (before[0] != 0))):
            apart = self._apart(stamp[0], final, self.thread, self.same_thread)
            pick = possible & apart
            if not pick.any():
                continue
            if not self.planes:
                self.planes = tuple(np.zeros(self.words, np.int64) for _ in stamp)
            far = self._apart(stamp[0], final, self.warp, self.same_warp)
            kept = self.planes[0][at]
            pick &= far | (kept == 0) | ~self._apart(kept, final, self.warp, self.same_warp)
            self._put(at, stamp, pick & ~far)
            self._put(at, stamp, pick & far)

    @staticmethod
    def _apart(one: np.ndarray, other: np.ndarray, position: int, mask: int) -> np.ndarray:
        apart: np.ndarray = ((one ^ other) >> position & mask) != 0
        return apart

    def _put(self, at: np.ndarray, stamp: tuple[np.ndarray, ...], pick: np.ndarray) -> None:
        if pick.any():
            for plane, values in zip(self.planes, stamp):
                plane[at[pick]] = values[pick]
