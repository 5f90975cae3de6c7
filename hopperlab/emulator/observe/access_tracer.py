# SPDX-License-Identifier: Apache-2.0
"""The timeline with what warps do themselves, too: ordinary loads and stores, products, and barriers they pass. For checks that ask what overlaps."""
from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.in_flight import BarrierOp
from .tracer import Tracer

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ..compile.translated import Block
    from ..machine.cohort import Cohort
    from ..machine.in_flight import Operation

PIECE = 16
EXPONENTIAL = "ex2"


class AccessTracer(Tracer):
    """Records one event of kind 'access' for each warp that runs such an instruction, in the order of the program. brought: bytes of shared memory that
    a bulk or tensor copy wrote last; copies: by 16 bytes of it, the number of the last load; used: those that a wgmma has read; flying: of operations that
    have not landed; begun: of the load that starts now, or 0. apart: warps of which some lanes alone have waited on an mbarrier since the lanes last met by
    their masks. awaited: by warp, (group, instruction) of products that no wait_group has covered; here a product lands when one does, and no sooner."""

    def __init__(self, machine: Any):
        super().__init__(machine)
        self.brought = np.zeros(len(machine.smem), bool)
        self.copies, self.used, self.flying = np.zeros(-(-len(machine.smem) // PIECE), np.int64), {0}, dict[int, int]()
        self.issues = self.begun = 0
        self.apart = np.zeros(machine.slots * machine.warps, bool)
        self.awaited: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def _by(self, what: str, C: Cohort, index: int, detail: str = "") -> None:
        self._record("access", what, C.warp_counts()[0], index, detail)

    # --- what copies brought, and who reads it ----------------------------------------------------------------------
    def admitted(self, domains: NDArray[Any], reused: NDArray[Any]) -> None:
        """CTAs start in clean shared memory."""
        if len(reused) and self.M.stride:
            self.brought.reshape(self.M.slots, self.M.stride)[reused] = False
            self.copies.reshape(self.M.slots, self.M.stride // PIECE)[reused] = 0

    def load_issued(self, gid: int, barrier: int, spans: list, nbytes: int, index: int, slot: int, tile: tuple[Any, Any] | None) -> None:
        """A copy will bring these bytes; the detail of its place is where they begin, in bytes from the beginning of the dynamic shared memory."""
        self.issues += 1
        self.begun = self.issues
        for first, count in spans:
            self.brought[first:first + count] = True
            self.copies[first // PIECE:-(-(first + count) // PIECE)] = self.issues
        self._placed("place cp", gid, spans, index)

    def issued(self, op: Operation) -> None:
        """An operation starts; a load has the number that load_issued gave it, and what comes from another CTA has none (0)."""
        if type(op) is not BarrierOp:
            super().issued(op)
            return
        self.flying[id(op)], self.begun = self.begun, 0
        self._thread("issue", "issue cp", op.gid, op.index, f"{op.nbytes} bytes, copy {self.flying[id(op)]}")

    def landed(self, op: Operation, pick: Any) -> None:
        """Its effect is there."""
        if type(op) is not BarrierOp:
            super().landed(op, pick)
            return
        self._thread("land", "land cp", op.gid, op.index, f"{op.nbytes} bytes, copy {self.flying.pop(id(op), 0)}")

    def store_issued(self, gid: int, spans: list, nbytes: int, index: int, reduction: bool, tile: tuple[Any, Any] | None) -> None:
        """A copy will take these bytes; its place likewise."""
        self._placed("place store cp", gid, spans, index)

    def _placed(self, what: str, gid: int, spans: list, index: int) -> None:
        first, layout = min(first for first, _count in spans) % self.M.stride, self.M.layout
        self._record("access", what, np.array([gid >> 5]), index, f"{first - layout.shared_bytes + layout.dynamic_bytes}")

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

    def global_atomic(self, C: Cohort, parts: list, info: Any) -> None:
        """atom or red on global memory."""
        self._by("atomic global", C, info.index)

    def global_read(self, C: Cohort, address: NDArray[Any], parts: list, info: Any) -> None:
        """ld of global memory; the detail names the arrays."""
        self._by("load global", C, info.index, _names(parts))

    def global_written(self, C: Cohort, address: NDArray[Any], parts: list, info: Any, value: Callable[..., Any]) -> None:
        """st to global memory; the detail likewise."""
        self._by("store global", C, info.index, _names(parts))

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
        warps, first = np.unique(C.gids >> 5, return_index=True)
        self._record("access", "meet bar", warps, info.index, [f"bar {key % 16}" for key in keys[first].tolist()])

    def cluster_left(self, C: Cohort, domain: NDArray[Any], acquire: bool) -> None:
        """barrier.cluster.wait, which is a barrier of a block's own threads too."""
        self._by("meet bar", C, self.M.blocks[C.pc].gate_instr.index, "the cluster's barrier")

    def phase_seen(self, C: Cohort, ids: NDArray[Any], info: Any) -> None:
        """Some lanes of a warp may have waited longer than the others."""
        if not self.M.whole(C):
            self.apart[np.unique(C.gids[C.incomplete_lanes(self.M.alive)] >> 5)] = True

    def named_lanes_met(self, C: Cohort, index: int, mask: Any) -> None:
        """__syncwarp() and its kin."""
        self.apart[C.warp_counts()[0]] = False

    def gathering(self, C: Cohort, block: Block) -> None:
        """Lanes come to a collective without the rest of their warps."""
        if block.first is not None:
            self._by("gather lanes", C, block.first.index)

    # --- products and registers -------------------------------------------------------------------------------------
    def wgmma_issued(self, C: Cohort, issue: Any) -> None:
        """A wgmma that does not read its accumulator begins from zero. It wants whole warps, and waits for nobody to make them whole."""
        for warp, group in zip(issue.gw.tolist(), issue.number.tolist()):
            self.awaited[warp].append((group, issue.info.index))
        late = issue.gw[self.apart[issue.gw]]
        if len(late):
            self._record("access", "gather lanes", late, issue.info.index, "")
        self._record("access", "begin from zero", issue.gw[~np.asarray(issue.keep, bool)], issue.info.index, "")
        self._exponentials(C, issue.info.index)
        for number in np.unique(np.concatenate([self.copies[granules].reshape(-1) for granules in issue.granules if granules is not None])).tolist():
            if number not in self.used:
                self.used.add(number)
                self._record("access", "multiply cp", issue.gw[:1], issue.info.index, f"copy {number}")

    def product_landed(self, warps: NDArray[Any], index: int) -> None:
        """The machine may compute a product before it must: that says nothing about the program."""

    def products_waited(self, C: Cohort, done: NDArray[Any]) -> None:
        """wgmma.wait_group: its groups are over."""
        for warp, number in zip(self.M.units(C).gw.tolist(), done.tolist()):
            waiting = self.awaited[warp]
            while waiting and waiting[0][0] <= number:
                self._record("land", "land wgmma", np.array([warp]), waiting.pop(0)[1], "")

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


def _names(parts: list) -> str:
    """The arrays of an access."""
    return ", ".join(dict.fromkeys(allocation.name for allocation, _lanes, _offsets in parts))


def _exponentials(translation: Any) -> dict[int, tuple[int, int]]:
    """Where ex2 stand: behind the wgmma of an index, or from the beginning of a block (-1 - its id): (first of them, how many; a pair is two)."""
    found: dict[int, tuple[int, int]] = {}
    body = translation.function.body
    for number, (start, end) in enumerate(translation.spans):
        place = -1 - number
        for index in range(start, end):
            if body[index].op == "wgmma" and body[index].mods[0] == "mma_async":
                place = index
            elif body[index].op == EXPONENTIAL:
                first, count = found.get(place, (index, 0))
                found[place] = (first, count + (2 if body[index].mods[-1].endswith("x2") else 1))
    return found
