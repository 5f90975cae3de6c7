# SPDX-License-Identifier: Apache-2.0
"""Fit what picks fp8 products and short attention to the recordings `search_fp8` and `search_attention`: `python -m benchmarks.drawn_models [FOLDER]`.

Prints the constants for hopperlab/measure/launches/fp8_choice.py and attention.py, and what counts: what the picks lose, the time of the configuration that is
estimated to be fastest over the fastest one measured at that shape; for constants fitted on all shapes, and on the other half of them.
"""
from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hopperlab.measure import recordings
from hopperlab.measure.launches import attention, fp8_choice
from hopperlab.measure.recordings import Record

Estimate = Callable[[Record, np.ndarray], float]
FIRST_STEP, LAST_STEP, PULL = 0.25, 0.005, 0.002            # factors of a constant that are tried, and what holds it near where it began


@dataclass(frozen=True)
class Problem:
    """Records by shape, constants to begin with, and an estimate of a record in us by constants."""

    races: Sequence[Sequence[Record]]
    begin: np.ndarray
    estimate: Estimate

    def error(self, constants: np.ndarray) -> float:
        """Mean square of the logarithms of estimate over time, wild ones cut off; the constants that nothing depends on stay."""
        off = [np.log(self.estimate(record, constants) / (1e3 * (record.ms or 0))) for race in self.races for record in race]
        return float(np.minimum(np.square(off), 0.1).mean() + PULL * np.square(np.log(constants / self.begin)).mean())

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


def _races(recording: recordings.Recording) -> list[list[Record]]:
    found: dict[tuple[object, ...], list[Record]] = {}
    for record in recording.where(kernel="tried"):
        found.setdefault((record.shape, *(option for option in record.options if option in ("full", "causal") or "KV_HEADS" in option)), []).append(record)
    return list(found.values())


# --- fp8 ------------------------------------------------------------------------------------------------------------------
def cost_model(constants: np.ndarray) -> fp8_choice.CostModel:
    """fp8's constants in one row as its model."""
    kinds = {kind: fp8_choice.Cost(*map(float, constants[4 + 2 * i:6 + 2 * i])) for i, kind in enumerate(fp8_choice.KINDS)}
    start, exchange, part, bytes_a_us = map(float, constants[:4])
    return fp8_choice.CostModel(start, exchange, part, bytes_a_us, kinds)


def fp8_problem(recording: recordings.Recording) -> Problem:
    """Of the recording `search_fp8`."""
    model = fp8_choice.MODEL
    kinds = [max(0.02, us) for kind in fp8_choice.KINDS for us in (model.kinds[kind].k_block, model.kinds[kind].tile)]
    begin = np.array([model.start, model.exchange, model.part, model.bytes_a_us, *kinds])

    def estimate(record: Record, constants: np.ndarray) -> float:
        m, n, k = record.shape
        return fp8_choice.estimated(record.note.partition(",")[0], fp8_choice.parsed(record.options), m, n, k, cost_model(constants))
    return Problem(_races(recording), begin, estimate)


# --- attention ------------------------------------------------------------------------------------------------------------
def names() -> list[tuple[int, str]]:
    """Configurations in the order of their constants."""
    return [(d, name) for d, choices in attention.SHORT.items() for name in choices]


def costs(constants: np.ndarray) -> Mapping[tuple[int, str], attention.Cost]:
    """Attention's constants in one row, by head size and name."""
    return {name: attention.Cost(*map(float, constants[2 * i:2 * i + 2])) for i, name in enumerate(names())}


def attention_problem(recording: recordings.Recording) -> Problem:
    """Of the recording `search_attention`."""
    begin = np.array([x for d, name in names() for x in (attention.COSTS[d][name].tile, attention.COSTS[d][name].block)])
    places = {name: i for i, name in enumerate(names())}

    def estimate(record: Record, constants: np.ndarray) -> float:
        sequences, length, heads, d = record.shape
        i = places[d, record.note]
        cost = attention.Cost(*constants[2 * i:2 * i + 2])
        return attention.estimated(attention.SHORT[d][record.note], cost, "causal" in record.options, length, sequences * heads)
    return Problem(_races(recording), begin, estimate)


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
    for (d, name), cost in costs(told(attention_problem(recordings.load("search_attention", folder)))).items():
        print(f"  {d} {name}: Cost({cost.tile:.2f}, {cost.block:.2f})")


if __name__ == "__main__":
    main()
