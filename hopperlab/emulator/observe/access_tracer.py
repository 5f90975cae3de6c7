# SPDX-License-Identifier: Apache-2.0
"""The timeline with what warps do themselves, too: ordinary loads and stores, products, and barriers they pass. For checks that ask what overlaps."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .tracer import Tracer

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ..compile.translated import Block
    from ..machine.cohort import Cohort

EXPONENTIAL = "ex2"


class AccessTracer(Tracer):
    """Records one event of kind 'access' for each warp that runs such an instruction, in the order of the program. brought: bytes of shared memory that
    a bulk or tensor copy wrote last."""

    def __init__(self, machine: Any):
        super().__init__(machine)
        self.brought = np.zeros(len(machine.smem), bool)

    def _by(self, what: str, C: Cohort, index: int, detail: str = "") -> None:
        self._record("access", what, np.unique(C.gids >> 5), index, detail)

    # --- what copies brought, and who reads it ----------------------------------------------------------------------
    def admitted(self, domains: NDArray[Any], reused: NDArray[Any]) -> None:
        """CTAs start in clean shared memory."""
        if len(reused) and self.M.stride:
            self.brought.reshape(self.M.slots, self.M.stride)[reused] = False

    def load_issued(self, gid: int, barrier: int, spans: list, nbytes: int, index: int, slot: int, tile: tuple[Any, Any] | None) -> None:
        """A copy will bring these bytes."""
        for first, count in spans:
            self.brought[first:first + count] = True

    def _read(self, C: Cohort, flat: NDArray[Any], nbytes: int, index: int) -> None:
        if len(flat) and self.brought[(flat[:, None] + np.arange(nbytes)).reshape(-1)].any():
            self._by("read brought", C, index)

    def _wrote(self, flat: NDArray[Any], nbytes: int) -> None:
        self.brought[(flat[:, None] + np.arange(nbytes)).reshape(-1)] = False

    def shared_atomic(self, C: Cohort, flat: NDArray[Any], info: Any) -> None:
        """atom or red on shared memory."""
        self._by("atomic shared", C, info.index)
        self._read(C, flat, 1, info.index)

    def rows_read(self, C: Cohort, gids: NDArray[Any], flat: NDArray[Any], count: int, index: int) -> None:
        """ldmatrix."""
        self._by("load matrix", C, index)
        self._read(C, flat, 16, index)

    def rows_written(self, C: Cohort, gids: NDArray[Any], flat: NDArray[Any], count: int, index: int) -> None:
        """stmatrix."""
        self._wrote(flat, 16)

    def global_read(self, C: Cohort, address: NDArray[Any], parts: list, info: Any) -> None:
        """ld of global memory."""
        self._by("load global", C, info.index)

    def global_written(self, C: Cohort, address: NDArray[Any], parts: list, info: Any, value: Callable[..., Any]) -> None:
        """st to global memory."""
        self._by("store global", C, info.index)

    def shared_read(self, C: Cohort, flat: NDArray[Any], info: Any) -> None:
        """ld of shared memory."""
        self._by("load shared", C, info.index)
        self._read(C, flat, info.nbytes, info.index)

    def shared_written(self, C: Cohort, flat: NDArray[Any], info: Any, value: Callable[..., Any]) -> None:
        """st to shared memory."""
        self._by("store shared", C, info.index)
        self._wrote(flat, info.nbytes)

    def multiplied(self, C: Cohort, index: int, what: str, warps: int) -> None:
        """mma.sync or wmma."""
        self._by("multiply", C, index)

    # --- meeting ----------------------------------------------------------------------------------------------------
    def named_arrived(self, C: Cohort, keys: NDArray[Any], threads: NDArray[Any], info: Any) -> None:
        """bar.sync and its kin; the detail names the barrier."""
        self._by("meet bar", C, info.index, f"bar {int(keys[0]) % 16}")

    def gathering(self, C: Cohort, block: Block) -> None:
        """Lanes come to a collective without the rest of their warps."""
        if block.first is not None:
            self._by("gather lanes", C, block.first.index)

    # --- products and registers -------------------------------------------------------------------------------------
    def wgmma_issued(self, C: Cohort, issue: Any) -> None:
        """A wgmma that does not read its accumulator begins from zero."""
        self._record("access", "begin from zero", issue.gw[~np.asarray(issue.keep, bool)], issue.info.index, "")
        self._exponentials(C, issue.info.index)

    def registers_set(self, warps: NDArray[Any], index: int, direction: str, count: int) -> None:
        """setmaxnreg."""
        self._record("access", "set registers", warps, index, f"{direction} {count}")

    def running(self, C: Cohort, block: Block) -> None:
        """The exponentials of a block, up to its first wgmma."""
        self._exponentials(C, -1 - block.id)

    def _exponentials(self, C: Cohort, place: int) -> None:
        count = self.M.translation.once("exponentials", _exponentials).get(place)
        if count:
            self._by("exponential", C, count[0], f"{count[1]}")


def _exponentials(translation: Any) -> dict[int, tuple[int, int]]:
    """Where ex2 stand: behind the wgmma of an index, or from the beginning of a block (-1 - its id): (first of them, how many)."""
    found: dict[int, tuple[int, int]] = {}
    body = translation.function.body
    for number, (start, end) in enumerate(translation.spans):
        place = -1 - number
        for index in range(start, end):
            if body[index].op == "wgmma" and body[index].mods[0] == "mma_async":
                place = index
            elif body[index].op == EXPONENTIAL:
                first, count = found.get(place, (index, 0))
                found[place] = (first, count + 1)
    return found
