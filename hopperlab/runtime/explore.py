# SPDX-License-Identifier: Apache-2.0
"""`hl.explore(launch)`: one launch under many schedules. Says which is the first whose values differ or that shows hazards."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from . import session as sessions
from .arrays import Array, asnumpy, base_of, is_cuda_array
from .errors import HopperlabError
from .tensor_map import TensorMap

if TYPE_CHECKING:
    from ..emulator import Hazard, Program

FIXED = ("lazy", "eager", "late-wgmma", "late-copies")
"""Schedules without a seed. lazy comes first: the others are compared with it."""


@dataclass(frozen=True)
class Difference:
    """One array whose values under a schedule are not those of lazy: first index, both values there, how many differ."""

    array: str
    index: tuple[int, ...]
    value: object
    expected: object
    count: int
    size: int

    def __str__(self) -> str:
        return (f"{self.array} differs in {self.count} of {self.size} elements, first at {list(self.index)}: {self.value} here, "
                f"{self.expected} under lazy")


@dataclass(frozen=True)
class Trial:
    """What one schedule showed. `error` is a fault that ended it, such as MemoryFault; None otherwise."""

    schedule: str
    seed: int
    hazards: tuple[Hazard, ...] = ()
    differences: tuple[Difference, ...] = ()
    warnings: tuple[Hazard, ...] = ()
    error: Exception | None = None

    @property
    def name(self) -> str:
        """'lazy', 'random(3)': how to ask `hl.emulate` for the same schedule."""
        return f"random({self.seed})" if self.schedule == "random" else self.schedule

    @property
    def clean(self) -> bool:
        """No hazard, no fault, the values of lazy. Warnings do not count."""
        return not (self.hazards or self.differences or self.error)

    def __str__(self) -> str:
        lines = [f"{self.name}:"] + [f"    {d}" for d in self.differences] + [f"    {h}" for h in self.hazards]
        if self.error is not None:
            lines.append(f"    {type(self.error).__name__}: {self.error}")
        return "\n".join(lines)


@dataclass
class Exploration:
    """The trials of `explore`, in order. `first` is the first with a hazard, a fault or other values (None when all are clean)."""

    trials: list[Trial] = field(default_factory=list)
    asked: int = 0
    arrays: int = 0
    exempt: int = 0

    @property
    def clean(self) -> bool:
        """True when every schedule gave the same values, without hazards."""
        return self.first is None

    @property
    def first(self) -> Trial | None:
        """The first trial that is not clean."""
        return next((trial for trial in self.trials if not trial.clean), None)

    @property
    def hazards(self) -> list[Hazard]:
        """The hazards of the first trial that is not clean."""
        return list(self.first.hazards) if self.first else []

    @property
    def warnings(self) -> list[Hazard]:
        """What is legal and suspicious, each once."""
        return list(dict.fromkeys(w for trial in self.trials for w in trial.warnings))

    def __bool__(self) -> bool:
        return self.clean

    def __repr__(self) -> str:
        left_out = f" ({self.exempt} exempt)" if self.exempt else ""
        if self.clean:
            return f"clean: {len(self.trials)} schedules gave the same values in {self.arrays} arrays{left_out}, without hazards" + "".join(
                f"\n    {w}" for w in self.warnings)
        return f"schedule {len(self.trials)} of {self.asked} is the first that is not clean. {self.first}"


def explore(launch: Callable[[], object], seeds: int = 20, *, exempt: Sequence[Array] | str = (), stop: bool = True,
            levels: Mapping[str, str] | None = None) -> Exploration:
    """Run `launch()` under eager, lazy, both pairings of late and early operations, and `seeds` random schedules.

    launch: launches kernels, and may do anything else that is repeatable. Arrays that the kernels get as arguments (also
            through tensor maps), their modules' global variables, and all other arrays whose address was taken before (pointer tables) are
            restored before every run, and compared byte for byte after it with those of lazy.
    exempt: arrays whose values may differ (floating-point atomics, dynamic tile orders), or "all"; hazards count nevertheless.
    stop:   end with the first schedule that is not clean; False runs all of them.
    levels: how loud kinds of hazard are that can be switched, as `hl.emulate` takes them.
    The same call gives the same result. Afterwards the arrays hold what the lazy schedule wrote. Raises HopperlabError when no
    kernel was launched; an exception of `launch` that is no EmulatorError comes through, with the arrays restored.
    """
    if seeds < 0:
        raise ValueError(f"seeds = {seeds}: the number of random schedules cannot be negative")
    plan = [(name, 0) for name in FIXED] + [("random", seed) for seed in range(seeds)]
    result, watched = Exploration(asked=len(plan)), _Watched(exempt, levels or {})
    try:
        for schedule, seed in plan:
            trial = watched.run(launch, schedule, seed)
            result.trials.append(trial)
            if stop and not trial.clean:
                break
    finally:
        watched.finish()
    result.arrays, result.exempt = len(watched.before) + watched.reached, len(watched.left_out())
    return result


class _Watched:
    """The arrays of the launches, in the order in which they were first seen: before any run, and after the first."""

    def __init__(self, exempt: Sequence[Array] | str, levels: Mapping[str, str]):
        self.levels = levels
        self.all_exempt = isinstance(exempt, str)
        if self.all_exempt and exempt != "all":
            raise ValueError(f'exempt={exempt!r}: give arrays, or "all"')
        self.exempt = [] if self.all_exempt else [base_of(a) for a in exempt]
        self.before: list[np.ndarray] = []
        self.expected: list[np.ndarray] | None = None
        self.names: list[str] = []
        self.now: list[Array] = []
        self.known: list[tuple[Array, np.ndarray]] = []
        self.elsewhere = [(owner, name, owner.copy()) for owner, name in _registered()]     # a pointer table may lead there
        self.expected_elsewhere: list[np.ndarray] = []
        self.reached = 0

    def run(self, launch: Callable[[], object], schedule: str, seed: int) -> Trial:
        """One trial, from the values that the arrays had at first."""
        self.restore()
        self.now = []
        how, error = sessions.Forced(schedule, seed, self._see, levels=self.levels), None
        from ..emulator import EmulatorError
        with sessions.force(how):
            try:
                launch()
            except EmulatorError as fault:
                error = fault
        if not any(session.launches for session in how.sessions) and error is None:
            raise HopperlabError("explore: the callable launched no kernel in the emulator")
        after = [_values(a) for a in self.now]
        if self.expected is None:
            self.expected = after
            self.expected_elsewhere = [owner.copy() for owner, _, _ in self.elsewhere]
            self.reached = sum(not self._is_argument(owner) and owner.tobytes() != before.tobytes() for owner, _, before in self.elsewhere)
        return Trial(schedule, seed, tuple(how.hazards()), self._differences(after, self.expected), tuple(how.warnings()), error)

    def _is_argument(self, owner: Array) -> bool:
        return any(owner is seen for seen in self.now)

    def _see(self, args: Sequence[Any], program: Program) -> None:
        """Arrays of one launch, and the global variables of its module; called before it runs."""
        from ..emulator.machine import memory
        named = [(f"argument {number} (", value.array if isinstance(value, TensorMap) else value) for number, value in enumerate(args, 1)]
        named += [(f"variable {name} (", array) for name, array in program.variables(memory.default()).writable.items()]
        for name, array in named:
            if not (isinstance(array, np.ndarray) and array.ndim or is_cuda_array(array)) or isinstance(array, np.void):
                continue
            owner = base_of(array)
            if any(owner is seen for seen in self.now):
                continue
            if len(self.now) == len(self.before):
                self.before.append(_values(owner))
                self.names.append(f"{name}{owner.dtype}, shape {owner.shape})")
            self.now.append(owner)
            if self.expected is None:                    # later runs restore these; an array that is new in each run needs no restoring
                self.known.append((owner, _values(owner)))

    def _differences(self, after: list[np.ndarray], expected: list[np.ndarray]) -> tuple[Difference, ...]:
        if self.all_exempt:
            return ()
        found = []
        others = [(name, owner, owner, old) for (owner, name, _), old in zip(self.elsewhere, self.expected_elsewhere) if not self._is_argument(owner)]
        for name, array, new, old in (*zip(self.names, self.now, after, expected), *others):
            if any(array is e for e in self.exempt) or new.shape != old.shape:
                continue
            item = new.dtype.itemsize
            rows = [np.ascontiguousarray(a).reshape(-1).view(np.uint8).reshape(-1, item) for a in (new, old)]
            wrong = np.flatnonzero((rows[0] != rows[1]).any(axis=1))
            if len(wrong):
                index = tuple(int(i) for i in np.unravel_index(int(wrong[0]), new.shape))
                found.append(Difference(name, index, new[index], old[index], len(wrong), new.size))
        return tuple(found)

    def left_out(self) -> list[Array]:
        """Arrays that are exempt from the comparison."""
        return list(self.before) if self.all_exempt else self.exempt

    def restore(self) -> None:
        """Give every array the values that it had when it was first seen."""
        for owner, values in self.known:
            _put(owner, values)
        for owner, _, values in self.elsewhere:
            _put(owner, values)

    def finish(self) -> None:
        """The arrays of the last run get the values of lazy, where there are any; else those from before."""
        self.restore()
        if self.expected is not None:
            for (owner, _, _), values in zip(self.elsewhere, self.expected_elsewhere):
                _put(owner, values)
            for owner, values in zip(self.now, self.expected):
                if owner.shape == values.shape:
                    _put(owner, values)


def _registered() -> list[tuple[Array, str]]:
    """(array, name) of all arrays that have an address in the emulator and can be written."""
    from ..emulator.machine import memory
    return memory.default().arrays()


def _values(array: Array) -> np.ndarray:
    """A copy of what an array holds now. It is not the program that looks, so no launch is waited for."""
    return asnumpy(array).copy() if is_cuda_array(array) else np.array(np.asarray(array).view(np.ndarray))


def _put(array: Array, values: np.ndarray) -> None:
    if is_cuda_array(array):
        array.set(values)
    elif array.flags.writeable:
        np.asarray(array)[...] = values
