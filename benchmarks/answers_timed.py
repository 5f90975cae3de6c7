# SPDX-License-Identifier: Apache-2.0
"""Right answers to the exercises that ask for speed: their estimated times beside measured ones (docs/estimates.md, Errors).

    python -m benchmarks.answers_timed --time        estimate and time them on this machine's Hopper GPU, and store both: four minutes
    python -m benchmarks.answers_timed               judge what was stored: no GPU

The solutions (and answers that have a k-block in flight) with each choice of constants, and the right answers of others in tests/exercises/right_*.toml,
each at the size at which its speed is asked for. Random operands, the L2 cold, all of an exercise interleaved.
"""
from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import hopperlab as hl
from hopperlab.authoring.hashes import ROOT
from hopperlab.authoring.shipping.own_answers import own_cell, settings
from hopperlab.checking import answers, speed
from hopperlab.checking.exercise import Exercise
from hopperlab.estimates import boards
from hopperlab.grading import generate, regions
from hopperlab.lessons import catalogue
from hopperlab.runtime.tables import text_table

FOLDER, ROUNDS = Path(__file__).parent / "drawn" / "answers", 15
EVERYWHERE = "one-k-block-in-flight", "products-kept-in-flight"          # slower with few stages: with each choice of constants, too


def texts(exercise: Exercise) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """(name, constants, cell) of the right answers to an exercise."""
    for setting in settings(exercise):
        named = ", ".join(f"{name}={value}" for name, value in setting.items())
        yield f"solution, {named}", setting, regions.solution_without_stubs(generate.with_constants(exercise, own_cell(exercise), setting))
    for path in sorted((ROOT / "tests" / "exercises").glob("right_*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["right"]:
            if entry["exercise"] != exercise.id:
                continue
            cell = entry.get("answer") or regions.solution_without_stubs(own_cell(exercise))
            for old, new in entry.get("replace", ()):
                cell = cell.replace(old, new)
            for setting in settings(exercise) if entry["name"] in EVERYWHERE else [exercise.setting({})]:
                name = ", ".join((entry["name"], *(f"{key}={value}" for key, value in setting.items() if setting != exercise.setting({}))))
                yield name, setting, generate.with_constants(exercise, cell, setting)


class Recorded:
    """A `launch` of Speed.run that keeps what it was given, but for kernels that prepare, which run."""

    def __init__(self, module: hl.RawModule, prepares: Any):
        self.module, self.prepares = module, prepares
        self.launches: list[tuple[Any, ...]] = []

    def __call__(self, name: str, grid: Any, block: Any, args: Any = (), shared_mem: int = 0, dependent: bool = False) -> None:
        kernel = self.module.get_function(name)
        if name in self.prepares:
            with hl.emulate(trace=False):
                kernel(grid, block, args, shared_mem=shared_mem)
        else:
            self.launches.append((kernel, grid, block, args, shared_mem))


def launched(asked: speed.Speed, module: hl.RawModule) -> tuple[Any, ...]:
    """The one launch that is timed, with random bf16 numbers in its operands."""
    kept = Recorded(module, asked.prepares)
    asked.run(kept)
    (one,) = kept.launches
    rng = np.random.default_rng(1)
    for arg in one[3]:
        array = getattr(arg, "array", None)
        if array is not None and not array.view(np.uint16).any():
            array[...] = rng.standard_normal(array.shape, np.float32).astype(array.dtype)
    return one


def on_gpu(one: tuple[Any, ...]) -> Any:
    """The same launch on the GPU."""
    from hopperlab.runtime.arrays import base_of
    from hopperlab.runtime.gpu.relaunch import OnGpu
    from hopperlab.runtime.watching import Seen, passed_array
    kernel, grid, block, args, shared_mem = one
    bases = [base_of(array) for array in map(passed_array, args) if isinstance(array, np.ndarray)]
    grid, block = ((*sizes, 1, 1)[:3] for sizes in (grid, block))
    return OnGpu(Seen(kernel, grid, block, tuple(args), shared_mem, {id(base): base for base in bases}, "emulator", True))


def timed(exercise: Exercise) -> Iterator[dict[str, Any]]:
    """Rows: each answer with its estimated and its measured microseconds."""
    from hopperlab.estimates.estimating import estimate
    from hopperlab.measure.machine.timing import interleaved
    board, runs, rows = boards.board(None).name, {}, []
    for name, setting, cell in texts(exercise):
        module = hl.RawModule(code=answers.body(exercise, cell), name=f"{exercise.name}.cu", backend="emulator")
        one = launched(exercise.speed_of(setting), module)
        kernel, grid, block, args, shared_mem = one
        try:
            us = estimate(kernel, grid, block, args, shared_mem=shared_mem, board=board).us
        except hl.LaunchError as why:
            print(f"{exercise.id} {name}: {str(why).splitlines()[0]}", flush=True)
            continue
        runs[name] = on_gpu(one)
        rows.append({"exercise": exercise.id, "name": name, "estimated": round(us, 2)})
    samples = interleaved(runs, rounds=ROUNDS, warmups=3)
    for row in rows:
        yield {**row, "us": round(1e3 * samples[row["name"]].ms, 2)}


def judged(rows: list[dict[str, Any]]) -> list[str]:
    """Lines: each answer, and what estimates are off; pairs of an exercise that differ by more than 5 per cent and are ranked rightly."""
    lines = text_table("{:<*}  {:<*}  {:>9.1f}  {:>9.1f}  {:+6.0%}", [
        (row["exercise"], row["name"], row["us"], row["estimated"], row["estimated"] / row["us"] - 1) for row in rows], ("", "answer", "measured", "estimated", "off"))
    errors = sorted(abs(row["estimated"] / row["us"] - 1) for row in rows)
    pairs = [(one, other) for one in rows for other in rows if one["exercise"] == other["exercise"] and one["us"] > 1.05 * other["us"]]
    right = sum(one["estimated"] > other["estimated"] for one, other in pairs)
    return [*lines, f"{len(rows)} answers: {np.mean(errors):.1%} off on average, nine of ten within {errors[int(0.9 * len(errors))]:.1%}, at most {errors[-1]:.1%}; "
                    f"{right} of {len(pairs)} pairs that differ by over 5 % ranked rightly"]


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], prog="python -m benchmarks.answers_timed")
    parser.add_argument("--time", action="store_true", help="estimate and time them on this machine's GPU, and store both")
    asked = parser.parse_args()
    if asked.time:
        from hopperlab.measure.machine import here
        if (why := here.no_gpu()) is not None:
            print(why, file=sys.stderr)
            return 2
        rows = [row for exercise in catalogue.every().values() if exercise.speed is not None for row in timed(exercise)]
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / f"{boards.board(None).name}.json").write_text('{"rows": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]}\n", encoding="utf-8")
    for path in sorted(FOLDER.glob("*.json")):
        print("\n".join((path.stem, *judged(json.loads(path.read_text(encoding="utf-8"))["rows"]))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
