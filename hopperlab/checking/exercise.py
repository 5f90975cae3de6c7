# SPDX-License-Identifier: Apache-2.0
"""What an exercise is: its answer's form, the constants a class's edition may change, and the cases an answer is tried on.

The exercises themselves stand in lessons/lNN_topic/exercises.py, their texts and solutions in solutions/NN_topic.ipynb.
"""
from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .carried import Carried
from .requires import Requirement
from .speed import Speed
from .value_words import Words

CUDA, PYTHON = "cuda", "python"
PUBLIC = "public"
"""The key of the course's own edition."""

Launch = Callable[..., None]
"""launch(kernel name, grid, block, args, shared_mem=0, dependent=False): runs a kernel of the answer wherever the check wants it to run; on a stream of the emulator's a
dependent one may begin before the one in front has ended (on a GPU it is launched after it)."""


class ExerciseError(ValueError):
    """An exercise that does not exist, or a constant that it does not have."""


@dataclass(frozen=True)
class Case:
    """One trial of an answer, made anew for every schedule.

    CUDA answers: `run(launch)` launches their kernels; afterwards each array of `outputs` must equal that of `expected`.
    Python answers: `arguments` are given to the function; it must return `expected` (any nesting of numbers, strings, lists, None).
    outputs:   arrays by name; the check fills those that hold numbers with poison (NaN, or the largest integer) before each run,
               except those named in `kept` (arrays the kernel adds to)
    tolerance: largest allowed |value - expected| relative to max(1, |expected|); 0 asks for equality
    requires:  what the emulator's counters and timeline must show, under the lazy schedule
    carried:   the mechanisms that the data must have gone by
    also:      requirements that are asked last, when what was delivered has been followed; they are not counted
    written:   rules about the program as it is written: complaint(text, PTX) is what is missing, or ''
    mistaken:  what the outputs hold after a mistake that is often made, by the sentence that is then said of it (CUDA answers)
    """

    expected: Any
    run: Callable[[Launch], None] | None = None
    outputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    arguments: tuple[Any, ...] = ()
    tolerance: float = 0.0
    requires: Sequence[Requirement] = ()
    carried: Sequence[Carried] = ()
    kept: frozenset[str] = frozenset()
    also: Sequence[Requirement] = ()
    written: Sequence[Callable[[str, str], str]] = ()
    mistaken: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    id:        lesson and number, '04.1'
    title:     a few words
    kind:      'cuda' (the answer is a %%cuda cell) or 'python' (a cell of imports, constants and functions)
    name:      the module that the %%cuda cell names, or the function of the Python cell
    shapes:    what the visible check tries: each is given to `case`
    draw:      draw(rng) gives another legal shape; the hidden checks use several
    case:      case(rng, shape, **constants) gives a Case; the same rng state gives the same case
    constants: by name, the values that an edition may choose among; the first is the course's own
    seeds:     random schedules beside the four fixed ones
    long:      long(rng) gives a legal shape of many more rounds than `draw` does, one of the hidden ones: what an answer does only at first is found out there
    """

    id: str
    title: str
    kind: str
    name: str
    shapes: tuple[Any, ...]
    draw: Callable[[np.random.Generator], Any]
    case: Callable[..., Case]
    constants: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    seeds: int = 4
    long: Callable[[np.random.Generator], Any] | None = None
    says: Callable[[Any], str] = str
    """How a message names a shape, such as 'm, n, k = 64, 128, 32'."""
    words: Words | None = None
    """How a message names a place of what a Python answer returns, and the likely cause of a wrong value there."""
    speed: Callable[..., Speed] | None = None
    """speed(**constants) gives what a further check with points of its own asks of a right answer; None: there is none."""

    @property
    def lesson(self) -> str:
        """'04'."""
        return self.id.split(".")[0]

    def setting(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All constants, those not given at the course's own value. Raises ExerciseError for one that it does not have."""
        unknown = sorted(set(given) - set(self.constants))
        if unknown:
            raise ExerciseError(f"exercise {self.id} has no constant {unknown[0]}; it has: {', '.join(self.constants) or 'none'}")
        return {name: given.get(name, values[0]) for name, values in self.constants.items()}

    def speed_of(self, setting: Mapping[str, Any]) -> Speed:
        """What is asked of its speed under all its constants. Raises ExerciseError where nothing is."""
        if self.speed is None:
            raise ExerciseError(f"exercise {self.id} asks for no speed: leave fast=True out")
        return self.speed(**setting)

    def edition(self, key: str) -> dict[str, Any]:
        """The constants of the edition of `key`: the course's own for 'public', else drawn by the key, with at least one that differs."""
        if key == PUBLIC or not self.constants:
            return self.setting({})
        rng = random(key, self.id, "edition")
        chosen = {name: values[int(rng.integers(len(values)))] for name, values in self.constants.items()}
        if all(chosen[name] == values[0] for name, values in self.constants.items()):
            name = sorted(self.constants)[int(rng.integers(len(self.constants)))]
            chosen[name] = self.constants[name][1 + int(rng.integers(len(self.constants[name]) - 1))]
        return chosen


def random(*words: object) -> np.random.Generator:
    """A generator seeded by words and numbers (never by the clock): the same ones give the same numbers on every machine.

    The first word is the key. Without it what is drawn cannot be told (HMAC-SHA256, RFC 2104); 'public' is known to everybody.
    """
    key, text = str(words[0]), list(map(str, words))
    if key == PUBLIC:
        digest = hashlib.sha256("\n".join(text).encode()).digest()
    else:
        digest = hmac.digest(key.encode(), json.dumps(text[1:]).encode(), "sha256")
    return np.random.default_rng(np.frombuffer(digest, np.uint32))
