# SPDX-License-Identifier: Apache-2.0
"""Fit what picks fp8 products and short attention, to the H200's `search_fp8` and both boards' `search_attention`: `python -m benchmarks.drawn_models [FOLDER]`.

Prints the constants for hopperlab/measure/launches/fp8_choice.py and attention.py, and what counts: what the picks lose, the time of the configuration that is
estimated to be fastest over the fastest one measured at that shape; for constants fitted on all shapes, and on the other half of them.
"""
from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from hopperlab.measure import recordings
from hopperlab.measure.launches import attention, fp8_choice
from hopperlab.measure.recordings import Record

Estimate = Callable[[Record, np.ndarray], float]
FIRST_STEP, LAST_STEP, PULL = 0.25, 0.005, 0.002            # factors of a constant that are tried, and what holds it near where it began
NEAR = 0.012


def lost(estimates: np.ndarray, times: np.ndarray) -> float:
    """What a pick loses of the least time at a shape, on average, where estimates that differ by NEAR are as good as each other."""
    shares = np.exp(-(estimates / estimates.min() - 1) / NEAR)
    return float((shares * times).sum() / shares.sum() / times.min() - 1)


@dataclass(frozen=True)
class Problem:
    """Records by shape, constants to begin with, and an estimate of a record in us by constants."""

    races: Sequence[Sequence[Record]]
    begin: np.ndarray
    estimate: Estimate
    picks: float = 0.0                                       # how much what picks lose counts beside how far estimates are off

    def error(self, constants: np.ndarray) -> float:
        """Mean square of the logarithms of estimate over time, wild ones cut off, and what picks lose; the constants that nothing depends on stay."""
        found = [np.array([[self.estimate(record, constants), 1e3 * (record.ms or 0)] for record in race]).T for race in self.races]
        off = np.concatenate([np.log(estimates / times) for estimates, times in found])
        error = float(np.minimum(np.square(off), 0.1).mean() + PULL * np.square(np.log(constants / self.begin)).mean())
        return error + (self.picks * float(np.mean([lost(*one) for one in found])) if self.picks else 0.0)

    def fitted(self) -> np.ndarray:
        """By trying a step up and down of one constant after the other, smaller when none helps."""
        constants, least, step = self.begin.copy(), self.error(self.begin), FIRST_STEP
        while step > LAST_STEP:
            before = least
            for i in range(len(constants)):
                for factor in (1 + step, 1 / (1 + step)):
                    tried = constants.copy()
                    tried[i] *= factor
                    if (error := self.error(tried)) < least:
                        constants, least = tried, error
            step = step if least < before else step / 2
        return constants

    def losses(self, constants: np.ndarray) -> list[float]:
        """Of each shape: time of the configuration estimated to be fastest over the fastest one's."""
        return [(min(race, key=lambda record: self.estimate(record, constants)).ms or 0) / min(record.ms or 0 for record in race) for race in self.races]

    def of(self, places: slice) -> Problem:
        """Some of the shapes."""
        return replace(self, races=self.races[places])


def _races(records: Sequence[Record]) -> list[list[Record]]:
    found: dict[tuple[object, ...], list[Record]] = {}
    for record in records:
        found.setdefault((record.shape, *(option for option in record.options if option in ("full", "causal") or "KV_HEADS" in option)), []).append(record)
    return list(found.values())


# --- fp8 ------------------------------------------------------------------------------------------------------------------
RATES = tuple(field.name for field in fields(fp8_choice.CostModel) if field.name != "kinds")


def cost_model(constants: np.ndarray) -> fp8_choice.CostModel:
    """fp8's constants in one row as its model."""
    pairs = constants[len(RATES):].reshape(-1, 2)
    kinds = {kind: fp8_choice.Cost(float(k_block), float(tile)) for kind, (k_block, tile) in zip(fp8_choice.KINDS, pairs, strict=True)}
    return replace(fp8_choice.MODEL, kinds=kinds, **dict(zip(RATES, map(float, constants), strict=False)))


def fp8_problem(recording: recordings.Recording) -> Problem:
    """Of the recording `search_fp8`."""
    model = fp8_choice.MODEL
    begin = np.array([*(getattr(model, rate) for rate in RATES), *(us for kind in fp8_choice.KINDS for us in (model.kinds[kind].k_block, model.kinds[kind].tile))])

    def estimate(record: Record, constants: np.ndarray) -> float:
        m, n, k = record.shape
        return fp8_choice.estimated(record.note.partition(",")[0], fp8_choice.parsed(record.options), m, n, k, cost_model(constants))
    return Problem(_races(recording.where(kernel="tried")), begin, estimate)


# --- attention ------------------------------------------------------------------------------------------------------------
SHORT = {(d, name): short for d, choices in attention.SHORT.items() for name, short in choices.items()}


def place(record: Record) -> int | None:
    """Which of SHORT a record is of; None for others."""
    options = record.options[4:]
    return next((i for i, ((d, _), short) in enumerate(SHORT.items()) if options and d == record.shape[3] and attention.parsed(options) == short.choice), None)


SHARED = tuple(field.name for field in fields(attention.ShortModel))


def work_of(record: Record) -> attention.Equal:
    """What a record was timed at."""
    sequences, length, heads, d = record.shape
    kv_heads = next(int(option.removeprefix("KV_HEADS=")) for option in record.options if option.startswith("KV_HEADS="))
    return attention.Equal(d, "causal" in record.options, length, sequences * heads, sequences * kv_heads)


def attention_problem(*found_on: recordings.Recording) -> Problem:
    """Of the recordings `search_attention` of some boards: what all share, then tile and block of each configuration in turn."""
    known = list(SHORT.values())
    places = {record: found for recording in found_on for record in recording if (found := place(record)) is not None and known[found].suits("causal" in record.options)}

    def estimate(record: Record, constants: np.ndarray) -> float:
        tile, block = constants[len(SHARED) + 2 * places[record]:][:2]
        return replace(known[places[record]], tile=tile, block=block).estimated(work_of(record), attention.ShortModel(*constants[:len(SHARED)]))
    begin = [*(getattr(attention.MODEL, name) for name in SHARED), *(us for short in known for us in (short.tile, short.block))]
    races = [race for recording in found_on for race in _races([record for record in recording if record in places])]
    return Problem(races, np.array(begin), estimate, picks=1.0)


def told(problem: Problem) -> np.ndarray:
    """Prints the losses; returns the constants fitted on all shapes."""
    constants = problem.fitted()
    halves = [half for first in (0, 1) for half in problem.of(slice(first, None, 2)).losses(problem.of(slice(1 - first, None, 2)).fitted())]
    for what, losses in (("as they stand", problem.losses(problem.begin)), ("fitted on all", problem.losses(constants)), ("fitted on the other half", halves)):
        print(f"  {what}: picks lose {np.mean(losses) - 1:.3f}, at most {max(losses) - 1:.3f}, over {len(losses)} shapes; error {problem.error(constants) ** 0.5:.3f}")
    return constants


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drawn_models")
    parser.add_argument("folder", nargs="?", type=Path, help="of the recordings (default: those of the package)")
    folder = parser.parse_args(arguments).folder
    print("fp8")
    print(cost_model(told(fp8_problem(recordings.load("search_fp8", folder)))))
    print("attention")
    constants = told(attention_problem(*(recordings.load("search_attention", folder, board=board) for board in ("h200", "h100"))))
    print(attention.ShortModel(*map(float, constants[:len(SHARED)])))
    for (d, name), (tile, block) in zip(SHORT, constants[len(SHARED):].reshape(-1, 2), strict=True):
        print(f"  {d} {name}: {tile:.2f}, {block:.2f}")


if __name__ == "__main__":
    main()
