# SPDX-License-Identifier: Apache-2.0
"""A race: contestants on the same operands, checked first, then timed round by round, cold, clean or sustained, and weighed in joules.

race_gemm.py and race_copy.py build a `Race` for each shape; `run` makes records of it. Nothing here knows what is multiplied or
copied, and the instruments that need a GPU are handed in, so that the arithmetic is tested without one.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from . import fields
from ..machine import timing
from ..machine.peers import Peer
from ..launches.launch import Launch
from ..recordings import Record
from ..machine.timing import Sample

COLD, CLEAN = "cold L2", "clean L2"
USUAL = (COLD, "sustained")
MODES = (COLD, CLEAN, "sustained")
METHOD = ("contestants interleaved round by round in one process, random normal inputs, every result compared with fp32 before "
          "anything is timed; cold L2: single launches between two events, each after a 512 MiB write; clean L2: each after that "
          "memory has been read, too, so that nothing waits to be written back; sustained: bursts of back-to-back launches; "
          "medians, with the least and greatest ratio of a round; power and energy of a launch by the board's counter while running alone, back to back")


class WrongResult(AssertionError):
    """A contestant's result is not the reference's; nothing was timed."""


@dataclass(frozen=True)
class Contestant:
    """One launch that fills the race's output. family: of a peer ('cuBLAS'); empty for the course's own kernels."""

    kernel: str
    run: Callable[[], None]
    options: tuple[str, ...] = ()
    launch: Launch | None = None
    family: str = ""


@dataclass(frozen=True)
class Race:
    """Contestants by name at one shape. work: FLOP or bytes of a launch; unit: the Record field of the rate, 'tflops' or 'gb_s'.

    wrong(contestant): runs it on a poisoned output and returns the fraction of wrong elements.
    """

    suite: str
    shape: tuple[int, ...]
    dtype: str
    work: int
    unit: str
    contestants: Mapping[str, Contestant]
    wrong: Callable[[Contestant], float]

    def rate(self, sample: Sample) -> float:
        """10^12 operations, or 10^9 bytes, a second."""
        return round(self.work / sample.ms / (1e9 if self.unit == "tflops" else 1e6), 1)


@dataclass(frozen=True)
class Races:
    """A suite of races: `run` of a row of the table. shape(text) parses one --shapes word and raises ValueError that names the rule it breaks."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    shape: Callable[[str], tuple[int, ...]]
    kernels: Mapping[str, object]
    default_kernels: tuple[str, ...]
    peers: Mapping[str, Peer]
    race: Callable[[tuple[int, ...], tuple[str, ...], tuple[str, ...]], Race]
    """race(shape, kernels, peers) builds the contestants; it needs a GPU."""
    random: Callable[[int, int], list[tuple[int, ...]]] | None = None
    """random(count, seed): shapes that nobody chose, for --random."""
    ahead: Callable[[Sequence[tuple[int, ...]], Sequence[str]], object] = lambda shapes, kernels: None
    """ahead(shapes, kernels): compile what they need, before many shapes."""
    title: Callable[[tuple[int, ...]], str] = lambda shape: "x".join(map(str, shape))
    """title(shape): how progress names it."""

    def contestants(self, kernels: tuple[str, ...], chosen: tuple[str, ...]) -> int:
        """How many contestants a race has."""
        return len(kernels) + sum(len(self.peers[name].entries) for name in chosen)


@dataclass(frozen=True)
class Plan:
    """How to measure. rounds: launches (or bursts) that count; modes: of MODES; power_seconds: alone on the board, 0 for none."""

    rounds: int = 9
    modes: tuple[str, ...] = USUAL
    power_seconds: float = 0.5


@dataclass(frozen=True)
class Instruments:
    """What measures: each can be replaced where there is no GPU."""

    timers: Mapping[str, Callable[..., dict[str, Sample]]] = field(
        default_factory=lambda: {COLD: timing.interleaved, CLEAN: partial(timing.interleaved, clean=True), "sustained": timing.sustained})
    load: Callable[[Callable[[], None], float], dict] = fields.load


def steps(race_sizes: Sequence[int], plan: Plan) -> int:
    """How many times `run` reports progress over races of these numbers of contestants."""
    return sum(count * (2 if plan.power_seconds else 1) + len(plan.modes) for count in race_sizes)


def run(race: Race, plan: Plan, progress: Callable[[str], None] = lambda text: None,
        instruments: Instruments | None = None) -> list[Record]:
    """Check every contestant, time them in each mode, weigh each alone. Raises WrongResult before anything is timed."""
    tools = instruments or Instruments()
    where = "x".join(map(str, race.shape))
    for name, contestant in race.contestants.items():
        progress(f"{where}: checking {name}")
        share = race.wrong(contestant)
        if not share <= 0:
            raise WrongResult(f"{name} at {where}: {share:.2%} of the elements are wrong; nothing was timed")
    runs = {name: contestant.run for name, contestant in race.contestants.items()}
    samples = {}
    for mode in plan.modes:
        progress(f"{where}: {plan.rounds} rounds, {mode}")
        samples[mode] = tools.timers[mode](runs, plan.rounds)
    loads: dict[str, dict] = {}
    for name in race.contestants if plan.power_seconds else ():
        progress(f"{where}: power of {name}")
        loads[name] = tools.load(runs[name], plan.power_seconds)
    return [record for mode, found in samples.items() for record in _records(race, mode, found, loads)]


def _records(race: Race, mode: str, samples: Mapping[str, Sample], loads: Mapping[str, dict]) -> list[Record]:
    """One record for each contestant and family of peers; a peer's stands beside the fastest of the first family alone.
    The note is the contestant's name where several have one kernel."""
    best = fastest(race, samples)
    out = []
    for name, contestant in race.contestants.items():
        rivals = list(best.values()) if not contestant.family else list(best.values())[:1]
        common = {"suite": race.suite, "kernel": contestant.kernel, "options": contestant.options, "shape": race.shape,
                  "dtype": race.dtype, "mode": mode, race.unit: race.rate(samples[name]),
                  "note": "" if name == contestant.kernel else name.removeprefix(f"{contestant.kernel} "),
                  **fields.times(samples[name]), **loads.get(name, {}), **fields.facts(contestant.launch)}
        beside = [fields.beside(samples[name], _title(race, rival), samples[rival], race.rate(samples[rival]))
                  for rival in rivals]
        out += [Record(**common, **rival) for rival in beside or [{}]]
    return out


def fastest(race: Race, samples: Mapping[str, Sample]) -> dict[str, str]:
    """family of peers -> its fastest entry in these samples, families in the order of the race."""
    best: dict[str, str] = {}
    for name, contestant in race.contestants.items():
        if contestant.family and (contestant.family not in best or samples[name].ms < samples[best[contestant.family]].ms):
            best[contestant.family] = name
    return best


def _title(race: Race, name: str) -> str:
    """How a record names its peer: 'cuBLAS (torch TN)', or 'Triton' where the entry has the family's name."""
    family = race.contestants[name].family
    return family if name == family else f"{family} ({name})"


# --- what the makers of races share -----------------------------------------------------------------------------------
def check_size(text: str, total: int, most: int) -> None:
    """Raise ValueError where the arrays of one shape take more than `most` bytes."""
    if total > most:
        raise ValueError(f"{text!r}: the arrays take {total / 2**30:.0f} GiB, more than {most >> 30} GiB")


def taken(name: str, where: str, share: Callable[[], float], most: float = 0.0) -> bool:
    """Whether a peer takes a shape: share() launches it and gives the share of wrong elements, at most `most`. What it does not take is told."""
    try:
        found = share()
    except (RuntimeError, ValueError, TypeError, AttributeError) as problem:    # what PyTorch says of a shape that a library does not take, or lacks
        print(f"{name} does not take {where}: {str(problem).strip().partition(chr(10))[0][:200]}", file=sys.stderr)
        return False
    if not found <= most:
        print(f"{name} is left out at {where}: {found:.2%} of its elements are wrong", file=sys.stderr)
    return found <= most


def only_random(text: str) -> tuple[int, ...]:
    """`shape` of races that take no --shapes."""
    raise ValueError(f"{text!r}: this race draws its shapes: give --random N")


def options(launch: Launch) -> tuple[str, ...]:
    """The macros a launch's kernel was compiled with, as options of a record."""
    return tuple(option[2:] for option in launch.kernel.module.options if option.startswith("-D"))
