"""Counts while a launch runs: wavefronts and sectors of every warp access, warp instructions, traffic by engine.

An access pattern is worked out once (hopper/banks.py) and remembered: patterns that differ by whole words, or by whole
sectors, need the same wavefronts or sectors. counters.py says what every name means.
"""
from __future__ import annotations

from collections import Counter

import numpy as np

from ..hopper import banks

SECTOR = 32
_WEIGHTS = np.random.default_rng(32).integers(1, 1 << 62, 32) | 1      # tells rows of 32 offsets apart by one 64-bit sum
_ABSENT = -(1 << 40)
MOST_PATTERNS = 1 << 16
CHUNK = 512            # warps worked on at a time

CONTROL = {"bra", "brx", "ret", "exit", "call", "trap", "nanosleep", "griddepcontrol", "setmaxnreg"}
BARRIER = {"bar", "barrier", "fence", "membar"}
WARP = {"shfl", "vote", "match", "redux", "elect", "activemask"}
MEMORY = {"ld", "ldu", "st", "atom", "red", "prefetch", "prefetchu", "ldmatrix", "stmatrix", "discard", "multimem"}
MOVE = {"mov", "mapa", "cvta", "isspacep", "getctarank", "selp", "movmatrix", "createpolicy"}


def instruction_class(instr) -> str:
    """The class (counters.CLASSES) that a PTX instruction counts in."""
    op = instr.op
    if op in ("wgmma", "mma", "wmma"):
        return "tensor"
    for name, ops in (("control", CONTROL), ("barrier", BARRIER), ("warp", WARP), ("memory", MEMORY), ("move", MOVE)):
        if op in ops:
            return name
    if op in ("cp", "mbarrier", "cvt"):
        return {"cp": "async_copy", "mbarrier": "mbarrier", "cvt": "convert"}[op]
    kind = instr.mods[-1] if instr.mods else ""
    return "float" if kind[:1] == "f" or kind[:2] == "bf" else "integer" if kind[1:].isdigit() or kind == "pred" else "other"


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


class Counting:
    """The counts of one launch. `M` is its Machine; `runs[block]` counts the warps that ran a block."""

    def __init__(self, machine):
        self.M = machine
        self.runs = [0] * len(machine.blocks)
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
            rows = layout.expand(values)
            first = rows[np.arange(len(rows)), layout.active.argmax(axis=1)]
            return self._sum(kind, nbytes, np.where(layout.active, rows - (first & -grain)[:, None], _ABSENT), index)
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
        if last is not None and last[0].shape == rows.shape and np.array_equal(last[0], rows):
            return last[1]
        if len(rows) == 1 or (rows == rows[0]).all():
            total = tuple(len(rows) * part for part in self._pattern(kind, nbytes, rows[0]))
        else:
            _, first, counts = np.unique(rows @ _WEIGHTS, return_index=True, return_counts=True)
            parts = [self._pattern(kind, nbytes, rows[k]) for k in first.tolist()]
            total = tuple(int((np.array(column) * counts).sum()) for column in zip(*parts))
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

    def shared(self, C, flat: np.ndarray, nbytes: int, write: bool, index: int) -> None:
        """ld.shared or st.shared of `nbytes` a lane at positions `flat` in M.smem."""
        M, kind = self.M, "store" if write else "load"
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
            self.remote_sectors(C, kind, np.where(away, flat, -1), index)
        return remote == len(flat)

    def remote_sectors(self, C, kind: str, flat: np.ndarray, index: int) -> None:
        """32-byte sectors that each warp touches in another CTA (-1: a lane that does not)."""
        on = flat >= 0
        places = (C.gids[on] >> 5) << 40 | flat[on] // SECTOR      # an access is aligned, so it lies in one sector
        self.add(f"dsmem_{kind}_sectors", len(np.unique(places)), index)

    def shared_atomic(self, C, flat: np.ndarray, nbytes: int, index: int) -> None:
        """atom.shared or red.shared at positions `flat` in M.smem, where the machine has an instruction for it: 32-bit integers,
        and 64 bits exchanged. The rest are loops of the compiler's. Adding 1 where nobody reads the old value, or anything to
        one word for the whole warp, combines lanes."""
        instr = self.M.body[index]
        known = nbytes == 4 and instr.mods[-1] in ("s32", "u32", "b32") or nbytes == 8 and "exch" in instr.mods
        if not known or self.M.cluster > 1 and (flat // self.M.stride != C.gids // self.M.T).any():
            return
        wanted = any(reg.name in registers_read(self.M.translation) for reg in instr.dsts())
        one = not wanted and "add" in instr.mods and getattr(instr.operands[-1], "value", None) == 1
        combined = one or not wanted and (flat == flat[0]).all()
        wavefronts, conflicts = self._total(C, "combined" if combined else "atomic", nbytes, flat, 4, index)
        self.add("shared_atomic_wavefronts", wavefronts * (2 if "cas" in instr.mods else 1), index)
        self.add("shared_atomic_conflicts", conflicts, index)

    def matrix(self, flat: np.ndarray, num: int, write: bool, index: int) -> None:
        """ldmatrix or stmatrix: positions in M.smem of the 8 * num rows of every warp."""
        kind = "store" if write else "load"
        given = flat.reshape(-1, 8 * num)
        rows = np.full((len(given), 32), _ABSENT)
        rows[:, :8 * num] = given - (given[:, :1] & -4)
        wavefronts, conflicts = self._sum("matrix", num, rows, index)
        self.add(f"matrix_{kind}_requests", len(rows), index)
        self._access(f"shared_{kind}", index, (("bytes", 128 * num * len(rows)), ("wavefronts", wavefronts), ("conflicts", conflicts)))

    def in_global(self, C, address: np.ndarray, nbytes: int, what: str, index: int) -> None:
        """ld.global, st.global or cp.async (`what`: global_load, global_store, cp_async) at per-lane (or one) addresses."""
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

    # --- the end ----------------------------------------------------------------------------------------------------
    def finish(self, kernel: str) -> None:
        """Add everything to the session's counters, by instruction and by launch."""
        M, into = self.M, self.M.session.counters
        for counts in self.detail.values():
            for name, amount in counts.items():
                into.add(name, amount)
        for classes, runs in zip(_classes(M.translation), self.runs):
            if runs:
                for name, amount in classes.items():
                    into.add(name, amount * runs)
        into.add_instructions(kernel, M.body, self.detail, M.translation.spans, self.runs)
        launch = {name: amount - self.before.get(name, 0) for name, amount in into.items()}
        launch["peak_registers"] = self.peak_registers
        into.raise_to("peak_registers", self.peak_registers)
        into.add_launch(kernel, {name: amount for name, amount in launch.items() if amount})


def registers_read(translation) -> set[str]:
    """Names of all registers that some instruction reads (worked out once a kernel)."""
    if translation.read is None:
        translation.read = {reg.name for instr in translation.function.body for reg in instr.srcs()}
    return translation.read


def _classes(translation) -> list[dict[str, int]]:
    """By block: how many of its instructions count as warp_instructions, in all and by class (worked out once a kernel)."""
    if translation.classes is None:
        translation.classes = []
        for start, end in translation.spans:
            counts = Counter(f"warp_instructions_{instruction_class(i)}" for i in translation.function.body[start:end])
            translation.classes.append({"warp_instructions": end - start, **counts})
    return translation.classes
