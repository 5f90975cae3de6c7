# SPDX-License-Identifier: Apache-2.0
"""Counts while a launch runs: wavefronts and sectors of every warp access, warp instructions, traffic by engine.

An access pattern is worked out once (hopper/banks.py) and remembered: patterns that differ by whole words, or by whole
sectors, need the same wavefronts or sectors. counters.py says what every name means.
"""
from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ...hopper import banks
from ..machine.events import Listener
from ..machine.in_flight import ArrivalOp
from .classes import instruction_class

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ...hopper.tensormap_fields import TensorMapFields
    from ...hopper.tile import GlobalRows
    from ..machine.cohort import Cohort
    from ..machine.in_flight import Operation

SECTOR = 32
_WEIGHTS = np.random.default_rng(32).integers(1, 1 << 62, 32) | 1      # tells rows of 32 offsets apart by one 64-bit sum
_ABSENT = -(1 << 40)
MOST_PATTERNS = 1 << 16
IRREGULAR: Any = object()      # an instruction whose patterns are not worth comparing
FEW = 8                # different patterns of one access that are looked up one by one
CHUNK = 512            # warps worked on at a time

_patterns: dict[tuple, tuple[int, ...]] = {}


def _measured(kind: str, nbytes: int, offsets: np.ndarray) -> tuple[int, ...]:
    """(wavefronts, conflicts) or (sectors,) of one warp whose lanes touch `nbytes` at these offsets (_ABSENT: no access)."""
    on = offsets != _ABSENT
    at = np.where(on, offsets - int(offsets[on].min()) // SECTOR * SECTOR, 0)
    if kind == "sectors":
        return (len(np.unique(at[on] // SECTOR)),)
    if kind == "matrix":
        return banks.matrix_wavefronts(at, nbytes), banks.matrix_conflicts(at, nbytes)
    if kind in ("atomic", "combined"):
        count = banks.atomic_wavefronts(at, nbytes, on, kind == "combined")
        return count, max(0, count - nbytes // 4)
    store = kind == "store"
    return banks.wavefronts(at, nbytes, on, store), banks.conflicts(at, nbytes, on, store)


def _sectors_of_many(nbytes: int, rows: np.ndarray) -> tuple[np.ndarray, ...]:
    """`_measured` of many warps: (sectors,)."""
    sectors = np.sort(rows // SECTOR, axis=1)
    different = (sectors[:, 1:] != sectors[:, :-1]).sum(axis=1) + 1
    return (different - (sectors[:, 0] == _ABSENT // SECTOR),)


def _accesses_of_many(store: bool) -> Callable[[int, np.ndarray], tuple[np.ndarray, ...]]:
    """`_measured` of many warps that load or store: (wavefronts, conflicts)."""
    def measured(nbytes: int, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        on = rows != _ABSENT
        first = np.where(on, rows, np.iinfo(np.int64).max).min(axis=1, keepdims=True) // SECTOR * SECTOR
        return banks.wavefronts_of_many(np.where(on, rows - first, 0), nbytes, on, store)
    return measured


_MANY = {"sectors": _sectors_of_many, "load": _accesses_of_many(False), "store": _accesses_of_many(True)}


class Counting(Listener):
    """The counts of one launch. `M` is its Machine."""

    def __init__(self, machine):
        self.M = machine
        self.detail: dict[int, dict[str, int]] = {}
        self.peak_registers = int(getattr(machine.info, "registers", 0) or 0)
        self.before = dict(machine.session.counters)
        self._last: dict[tuple, tuple] = {}

    def add(self, name: str, amount: int, index: int | None = None) -> None:
        """Add to a counter; `index` is the instruction that caused it."""
        counts = self.detail.get(index)
        if counts is None:
            counts = self.detail[index] = {}
        counts[name] = counts.get(name, 0) + int(amount)

    def operation(self, name: str, nbytes: int, index: int) -> None:
        """One operation of a copy engine and its bytes."""
        self.add(f"{name}s", 1, index)
        self.add(f"{name}_bytes", nbytes, index)

    # --- warp accesses ----------------------------------------------------------------------------------------------
    def _total(self, C, kind: str, nbytes: int, values: np.ndarray, grain: int, index: int) -> tuple[int, ...]:
        """What `_measured` gives, added over the cohort's warps, whose lanes touch `nbytes` at `values`. Offsets count from
        each warp's first lane, down to a multiple of `grain`."""
        if not C.full32():
            layout = C.layout()
            starts = C.cached("warp starts", lambda: np.flatnonzero(np.diff(layout.rows, prepend=-1)))
            rows = np.full(layout.active.shape, _ABSENT)
            rows[layout.rows, layout.cols] = values - (values[starts] & -grain)[layout.rows]
            return self._sum(kind, nbytes, rows, index)
        rows = values.reshape(-1, 32)
        first = rows[:, :1] & -grain
        if len(rows) <= CHUNK:
            return self._sum(kind, nbytes, rows - first, index)
        total, buffer = 0, np.empty((CHUNK, 32), np.int64)          # large batches in pieces that stay in the cache
        for start in range(0, len(rows), CHUNK):
            part = rows[start:start + CHUNK]
            offsets = np.subtract(part, first[start:start + CHUNK], out=buffer[:len(part)])
            total += np.array(self._sum(kind, nbytes, offsets, None))
        return tuple(total.tolist())

    def _sum(self, kind: str, nbytes: int, rows: np.ndarray, index: int | None) -> tuple[int, ...]:
        """`_measured` added over rows of offsets. The pattern that instruction `index` had the last time is tried first."""
        last = self._last.get((kind, index)) if index is not None else None
        if last is IRREGULAR and len(rows) > FEW:
            return tuple(int(column.sum()) for column in _MANY[kind](nbytes, rows))
        if last is not None and last is not IRREGULAR and last[0].shape == rows.shape and np.array_equal(last[0], rows):
            return last[1]
        if len(rows) == 1 or (rows == rows[0]).all():
            total = tuple(len(rows) * part for part in self._pattern(kind, nbytes, rows[0]))
        else:
            _, first, counts = np.unique(rows @ _WEIGHTS, return_index=True, return_counts=True)
            if len(first) > FEW and kind in _MANY:             # no regular pattern: all rows at once, and nothing to remember
                columns = _MANY[kind](nbytes, rows[first])
                if index is not None and 2 * len(first) > len(rows):
                    self._last[(kind, index)] = IRREGULAR
                    index = None
            else:
                columns = zip(*[self._pattern(kind, nbytes, rows[k]) for k in first.tolist()])
            total = tuple(int((np.asarray(column) * counts).sum()) for column in columns)
        if index is not None:
            self._last[(kind, index)] = (rows, total)
        return total

    @staticmethod
    def _pattern(kind: str, nbytes: int, row: np.ndarray) -> tuple[int, ...]:
        key = (kind, nbytes, row.tobytes())
        known = _patterns.get(key)
        if known is None:
            if len(_patterns) >= MOST_PATTERNS:
                _patterns.clear()
            known = _patterns[key] = _measured(kind, nbytes, row)
        return known

    def shared_read(self, C: Cohort, flat: np.ndarray, info: Any) -> None:
        """ld.shared."""
        self._shared(C, flat, info.nbytes, "load", info.index)

    def shared_written(self, C: Cohort, flat: np.ndarray, info: Any, value: Callable[..., Any]) -> None:
        """st.shared."""
        self._shared(C, flat, info.nbytes, "store", info.index)

    def _shared(self, C, flat: np.ndarray, nbytes: int, kind: str, index: int) -> None:
        """`nbytes` a lane at positions `flat` in M.smem."""
        M = self.M
        if M.cluster > 1 and self._elsewhere(C, kind, flat, nbytes, index):
            return
        wavefronts, conflicts = self._total(C, kind, nbytes, flat, 4, index)
        self._access(f"shared_{kind}", index, (("requests", C.count_warps()), ("bytes", nbytes * len(flat)), ("wavefronts", wavefronts),
                                               ("conflicts", conflicts)))

    def _elsewhere(self, C, kind: str, flat: np.ndarray, nbytes: int, index: int) -> bool:
        """Count lanes that access another CTA of the cluster; True when all of them do, and no bank of this CTA is touched."""
        away = flat // self.M.stride != C.gids // self.M.T
        remote = int(np.count_nonzero(away))
        if remote:
            self.add(f"dsmem_{kind}_bytes", nbytes * remote, index)
            self._remote_sectors(C, kind, np.where(away, flat, -1), index)
        return remote == len(flat)

    def async_stored(self, C: Cohort, flat: np.ndarray, nbytes: int, ids: np.ndarray, index: int, reduction: bool) -> None:
        """st.async or red.async."""
        self.add("dsmem_async_bytes", nbytes * C.n, index)
        if not reduction:
            self._remote_sectors(C, "store", flat, index)

    def _remote_sectors(self, C, kind: str, flat: np.ndarray, index: int) -> None:
        """32-byte sectors that each warp touches in another CTA (-1: a lane that does not)."""
        on = flat >= 0
        places = (C.gids[on] >> 5) << 40 | flat[on] // SECTOR      # an access is aligned, so it lies in one sector
        self.add(f"dsmem_{kind}_sectors", len(np.unique(places)), index)

    def shared_atomic(self, C: Cohort, flat: np.ndarray, info: Any) -> None:
        """atom.shared or red.shared at positions `flat` in M.smem, where the machine has an instruction for it: 32-bit integers,
        and 64 bits exchanged. The rest are loops of the compiler's. Adding 1 where nobody reads the old value, or anything to
        one word for the whole warp, combines lanes."""
        nbytes, index = info.nbytes, info.index
        self.add("shared_atomic_requests", C.count_warps(), index)
        instr = self.M.body[index]
        known = nbytes == 4 and instr.mods[-1] in ("s32", "u32", "b32") or nbytes == 8 and "exch" in instr.mods
        if not known or self.M.cluster > 1 and (flat // self.M.stride != C.gids // self.M.T).any():
            return
        wanted = self.M.translation.wants_result(index)
        one = not wanted and "add" in instr.mods and getattr(instr.operands[-1], "value", None) == 1
        combined = one or not wanted and (flat == flat[0]).all()
        wavefronts, conflicts = self._total(C, "combined" if combined else "atomic", nbytes, flat, 4, index)
        self.add("shared_atomic_wavefronts", wavefronts * (2 if "cas" in instr.mods else 1), index)
        self.add("shared_atomic_conflicts", conflicts, index)

    def rows_read(self, C: Cohort, gids: NDArray[Any], flat: np.ndarray, count: int, index: int) -> None:
        """ldmatrix."""
        self._matrix(flat, count, "load", index)

    def rows_written(self, C: Cohort, gids: NDArray[Any], flat: np.ndarray, count: int, index: int) -> None:
        """stmatrix."""
        self._matrix(flat, count, "store", index)

    def _matrix(self, flat: np.ndarray, num: int, kind: str, index: int) -> None:
        """Positions in M.smem of the 8 * num rows of every warp."""
        given = flat.reshape(-1, 8 * num)
        rows = np.full((len(given), 32), _ABSENT)
        rows[:, :8 * num] = given - (given[:, :1] & -4)
        wavefronts, conflicts = self._sum("matrix", num, rows, index)
        self.add(f"matrix_{kind}_requests", len(rows), index)
        self._access(f"shared_{kind}", index, (("bytes", 128 * num * len(rows)), ("wavefronts", wavefronts), ("conflicts", conflicts)))

    def global_read(self, C: Cohort, address: np.ndarray, parts: list, info: Any) -> None:
        """ld.global."""
        self._in_global(C, address, info.nbytes, "global_load", info.index)

    def map_words_read(self, C: Cohort, nbytes: int, index: int) -> None:
        """ld.param of a tensor map."""
        self._access("tensor_map_load", index, (("bytes", nbytes * C.n),))

    def global_written(self, C: Cohort, address: np.ndarray, parts: list, info: Any, value: Callable[..., Any]) -> None:
        """st.global."""
        self._in_global(C, address, info.nbytes, "global_store", info.index)

    def global_atomic(self, C: Cohort, parts: list, info: Any) -> None:
        """atom.global or red.global."""
        self.add("global_atomic_requests", C.count_warps(), info.index)

    def cp_async(self, C: Cohort, live: Cohort, address: np.ndarray, parts: list, flat: NDArray[Any], size: int, index: int) -> None:
        """cp.async; lanes that only zero-fill are left out."""
        if parts:
            self._in_global(live, address, size, "cp_async", index)

    def _in_global(self, C, address: np.ndarray, nbytes: int, what: str, index: int) -> None:
        """`what`: global_load, global_store or cp_async, at per-lane (or one) addresses."""
        if len(address) == 1:
            warps = C.count_warps()
            self._access(what, index, (("requests", warps), ("bytes", nbytes * C.n), ("sectors", warps)))
            return
        sectors, = self._total(C, "sectors", nbytes, address.view(np.int64), SECTOR, index)
        self._access(what, index, (("requests", C.count_warps()), ("bytes", nbytes * len(address)), ("sectors", sectors)))

    def _access(self, prefix: str, index: int, amounts: tuple) -> None:
        counts = self.detail.setdefault(index, {})
        for suffix, amount in amounts:
            name = f"{prefix}_{suffix}"
            counts[name] = counts.get(name, 0) + amount

    # --- copies, barriers, products ---------------------------------------------------------------------------------
    def box_read(self, gid: int, fields: TensorMapFields, rows: GlobalRows, index: int, barriers: list[int]) -> None:
        """A tensor load."""
        self.add("tma_loads", 1, index)

    def load_issued(self, gid: int, barrier: int, spans: list, nbytes: int, index: int, slot: int, tile: tuple[Any, Any] | None) -> None:
        """Bytes that arrive in one CTA."""
        if tile is None:
            self.operation("bulk_load", nbytes, index)
        else:
            self.add("tma_load_bytes", nbytes, index)

    def store_issued(self, gid: int, spans: list, nbytes: int, index: int, reduction: bool, tile: tuple[Any, Any] | None) -> None:
        """Bytes that leave a CTA for global memory."""
        self.operation(f"{'bulk' if tile is None else 'tma'}_{'reduce' if reduction else 'store'}", nbytes, index)

    def copy_out(self, gid: int, first: int, nbytes: int, barrier: int, index: int, reduction: bool) -> None:
        """Bytes to another CTA."""
        self.add("dsmem_reduce_bytes" if reduction else "dsmem_copy_bytes", nbytes, index)

    def arrived(self, C: Cohort, ids: NDArray[Any], count: np.ndarray, expect: NDArray[Any] | None, info: Any) -> None:
        """mbarrier.arrive."""
        self.add("mbarrier_arrivals", count.sum(), info.index)

    def landed(self, op: Operation, pick: Any) -> None:
        """Asynchronous arrivals."""
        if type(op) is ArrivalOp:
            self.add("mbarrier_arrivals", len(op.gids), op.index)

    def announced(self, ids: NDArray[Any], nbytes: np.ndarray, index: int) -> None:
        """expect_tx."""
        self.add("mbarrier_expected_bytes", nbytes.sum(), index)

    def bytes_arrived(self, barrier: int, nbytes: int, index: int | None) -> None:
        """complete_tx."""
        self.add("mbarrier_completed_bytes", nbytes, index)

    def phases_completed(self, ids: np.ndarray, index: int | None, gid: int) -> None:
        """Phases."""
        self.add("mbarrier_phases", len(ids))

    def phase_seen(self, C: Cohort, ids: NDArray[Any], info: Any) -> None:
        """Waits that warps passed."""
        self.add("mbarrier_waits", C.count_warps(), info.index)

    def multiplied(self, C: Cohort, index: int, what: str, warps: int) -> None:
        """mma.sync or wmma."""
        self.add(what, warps, index)

    def wgmma_issued(self, C: Cohort, issue: Any) -> None:
        """By warpgroups; operands in shared memory cost wavefronts."""
        info = issue.info
        self.add("wgmma", int((issue.gw % self.M.warps % 4 == 0).sum()), info.index)
        self.add("wgmma_wavefronts", len(issue.group_ids) * (info.n + 64 * (not info.rs)) * 32 // 128, info.index)

    def registers_set(self, warps: NDArray[Any], index: int, direction: str, count: int) -> None:
        """setmaxnreg."""
        self.add(f"setmaxnreg_{direction}", len(warps), index)
        if direction == "inc" and self.M.registers.counts:
            self.peak_registers = max(self.peak_registers, int(count))

    # --- the end ----------------------------------------------------------------------------------------------------
    def finish(self, kernel: str) -> None:
        """Add everything to the session's counters, by instruction and by launch."""
        M, into = self.M, self.M.session.counters
        for counts in self.detail.values():
            for name, amount in counts.items():
                into.add(name, amount)
        for classes, runs in zip(M.translation.once("instruction classes", _classes), M.runs):
            if runs:
                for name, amount in classes.items():
                    into.add(name, amount * runs)
        into.add_instructions(kernel, M.body, self.detail, M.translation.spans, M.runs)
        launch = {name: amount - self.before.get(name, 0) for name, amount in into.items()}
        launch["peak_registers"] = self.peak_registers
        into.raise_to("peak_registers", self.peak_registers)
        into.add_launch(kernel, {name: amount for name, amount in launch.items() if amount})


def _classes(translation) -> list[dict[str, int]]:
    """By block: how many of its instructions count as warp_instructions, in all and by class."""
    found = []
    for start, end in translation.spans:
        counts = Counter(f"warp_instructions_{instruction_class(i)}" for i in translation.function.body[start:end])
        found.append({"warp_instructions": end - start, **counts})
    return found
