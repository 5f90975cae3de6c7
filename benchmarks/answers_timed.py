# SPDX-License-Identifier: Apache-2.0
"""Right answers to the exercises that ask for speed: their estimated times beside measured ones (docs/estimates.md, Errors).

    python -m benchmarks.answers_timed --time        time them on this machine's Hopper GPU, and store that: two minutes
    python -m benchmarks.answers_timed               estimate them, and judge by what was stored: a minute, no GPU

The solutions (and answers that have a k-block in flight) with each choice of constants, and the right answers of others in tests/exercises/right_*.toml,
each at the size at which its speed is asked for. Random operands, the L2 cold, all of an exercise interleaved.
"""
from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hopperlab as hl
from hopperlab.authoring.hashes import ROOT
from hopperlab.authoring.shipping.own_answers import own_cell, settings
from hopperlab.checking import answers, speed
from hopperlab.checking.exercise import Exercise
from hopperlab.estimates import boards
from hopperlab.estimates.estimating import estimate
from hopperlab.grading import generate, regions
from hopperlab.lessons import catalogue
from hopperlab.runtime.tables import text_table

FOLDER, ROUNDS = Path(__file__).parent / "drawn" / "answers", 15
LEAST = speed.Speed.least
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


def launched(exercise: Exercise, setting: Mapping[str, Any], cell: str) -> tuple[Any, ...]:
    """(kernel, grid, block, arguments, shared memory) of the one launch of an answer that is timed."""
    module = hl.RawModule(code=answers.body(exercise, cell), name=f"{exercise.name}.cu", backend="emulator")
    (one,) = speed.launched(exercise.speed_of(setting), module)
    return one


def on_gpu(one: tuple[Any, ...]) -> Any:
    """The same launch on the GPU, with random bf16 numbers in its operands."""
    from hopperlab.runtime.arrays import base_of
    from hopperlab.runtime.gpu.relaunch import OnGpu
    from hopperlab.runtime.watching import Seen, passed_array
    kernel, grid, block, args, shared_mem = one
    rng = np.random.default_rng(1)
    for array in (arg.array for arg in args if hasattr(arg, "array")):
        if not array.view(np.uint16).any():
            array[...] = rng.standard_normal(array.shape, np.float32).astype(array.dtype)
    bases = [base_of(array) for array in map(passed_array, args) if isinstance(array, np.ndarray)]
    grid, block = ((*sizes, 1, 1)[:3] for sizes in (grid, block))
    return OnGpu(Seen(kernel, grid, block, tuple(args), shared_mem, {id(base): base for base in bases}, "emulator", True))


def timed(exercise: Exercise) -> Iterator[dict[str, Any]]:
    """Rows: each answer with its measured microseconds."""
    from hopperlab.measure.machine.timing import interleaved
    runs = {name: on_gpu(launched(exercise, setting, cell)) for name, setting, cell in texts(exercise)}
    for name, sample in interleaved(runs, rounds=ROUNDS, warmups=3).items():
        yield {"exercise": exercise.id, "name": name, "us": round(1e3 * sample.ms, 2)}


def estimated(rows: Sequence[dict[str, Any]], board: str) -> list[dict[str, Any]]:
    """The same rows with what is estimated now. Raises LookupError for an answer that there is no more."""
    found = []
    for exercise in map(catalogue.find, dict.fromkeys(row["exercise"] for row in rows)):
        known = {name: (setting, cell) for name, setting, cell in texts(exercise)}
        for row in (row for row in rows if row["exercise"] == exercise.id):
            if row["name"] not in known:
                raise LookupError(f"{exercise.id} has no answer {row['name']!r} any more")
            kernel, grid, block, args, shared_mem = launched(exercise, *known[row["name"]])
            found.append({**row, "estimated": estimate(kernel, grid, block, args, shared_mem=shared_mem, board=board).us})
    return found


def ratios(rows: Sequence[dict[str, Any]]) -> list[tuple[float, float]]:
    """(measured, estimated) speeds of others' answers, of the course's own with the same constants."""
    own = {(row["exercise"], _constants(row)): row for row in rows if row["name"].startswith("solution")}
    first = {exercise: row for (exercise, _), row in reversed(own.items())}
    pairs = [(own.get((row["exercise"], _constants(row)), first[row["exercise"]]), row) for row in rows if not row["name"].startswith("solution")]
    return [(mine["us"] / row["us"], mine["estimated"] / row["estimated"]) for mine, row in pairs]


def _constants(row: dict[str, Any]) -> str:
    return ", ".join(word for word in row["name"].split(", ") if "=" in word)


def judged(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Lines: each answer, what estimates are off, pairs of an exercise that differ by more than 5 per cent and are ranked rightly, and ratios to the course's own."""
    lines = text_table("{:<*}  {:<*}  {:>9.1f}  {:>9.1f}  {:+6.0%}", [
        (row["exercise"], row["name"], row["us"], row["estimated"], row["estimated"] / row["us"] - 1) for row in rows], ("", "answer", "measured", "estimated", "off"))
    pairs = [(one, other) for one in rows for other in rows if one["exercise"] == other["exercise"] and one["us"] > 1.05 * other["us"]]
    right, both = sum(one["estimated"] > other["estimated"] for one, other in pairs), ratios(rows)
    alike = sum((real >= LEAST) == (guessed >= LEAST) for real, guessed in both)
    off = _off([row["estimated"] / row["us"] - 1 for row in rows])
    return [*lines, f"{len(rows)} answers: {off}; {right} of {len(pairs)} pairs that differ by over 5 % ranked rightly",
            f"{len(both)} ratios to the course's own answer: {_off([guessed / real - 1 for real, guessed in both])}; {alike} reach {LEAST:g}, or do not, as measured"]


def _off(errors: Sequence[float]) -> str:
    found = sorted(map(abs, errors))
    return f"{np.mean(found):.1%} off on average, nine of ten within {found[int(0.9 * len(found))]:.1%}, at most {found[-1]:.1%}"


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], prog="python -m benchmarks.answers_timed")
    parser.add_argument("--time", action="store_true", help="time them on this machine's GPU, and store that")
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
        print("\n".join((path.stem, *judged(estimated(json.loads(path.read_text(encoding="utf-8"))["rows"], path.stem)))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
