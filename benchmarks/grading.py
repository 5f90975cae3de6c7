# SPDX-License-Identifier: Apache-2.0
"""How fast a class is graded: `python -m benchmarks.grading [--submissions 200] [--workers 2] [--exercise 04.2] [--json FILE]`.

Makes submissions of one exercise, no two alike: most hold the right answer, every fifth one a wrong one, every tenth an empty one. Grades
them in the sandbox as `hopperlab grade` does, checks the points, and says seconds each and the memory of all processes over time.
"""
from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
WRONG = {"04.2": ("&full[ring.slot], ring.phase)", "&full[ring.slot], ring.phase ^ 1)"), "04.1": ("outstanding == 0:", "outstanding <= 16:")}
SLICES = 10


def classroom(folder: Path, exercise: str, count: int) -> int:
    """Write the submissions; returns how many hold a right answer."""
    from hopperlab.grading import edition, generate, regions
    solution = nbformat.read(next((ROOT / "solutions").glob(f"{exercise[:2]}_*.ipynb")), as_version=4)
    given = generate.exercise_notebook(solution)
    cell = f"answer-{exercise.replace('.', '-')}"
    answer = regions.solution_without_stubs(generate.answers_of(solution)[cell])
    old, new = WRONG[exercise]
    if old not in answer:
        raise SystemExit(f"the solution of {exercise} does not hold {old!r} any more; mend the list of wrong answers")
    mark = "//" if edition.find(exercise).kind == "cuda" else "#"
    right = 0
    for number in range(count):
        empty, wrong = number % 10 == 9, number % 5 == 2
        text = answer.replace(old, new) if wrong else answer
        answers = {} if empty else {cell: f"{text.rstrip()}\n{mark} learner {number}\n"}
        right += not empty and not wrong
        (folder / f"learner{number:03d}").mkdir(parents=True)
        nbformat.write(generate.with_answers(given, answers), folder / f"learner{number:03d}" / f"{number}.ipynb")
    return right


class Memory(threading.Thread):
    """Looks twice a second at the memory of this process and all that descend from it."""

    def __init__(self):
        super().__init__(daemon=True)
        self.seen: list[tuple[float, int, int]] = []
        self.done = threading.Event()

    def run(self) -> None:
        """Until `done` is set."""
        from hopperlab.grading.supervise import descendants, resident_bytes
        began = time.monotonic()
        while not self.done.wait(0.5):
            tree = descendants(os.getpid())
            self.seen.append((time.monotonic() - began, resident_bytes(os.getpid()), sum(map(resident_bytes, tree))))

    def slices(self) -> list[tuple[int, int]]:
        """(MB of the grader itself, MB of all processes), the most in each tenth of the time."""
        parts = [self.seen[i * len(self.seen) // SLICES:(i + 1) * len(self.seen) // SLICES] for i in range(SLICES)]
        return [(max(own for _, own, _ in part) >> 20, max(tree for _, _, tree in part) >> 20) for part in parts if part]


def measure(exercise: str, count: int, workers: int) -> dict:
    """Grade a class; returns what was measured. Ends the program when a point is wrong."""
    from hopperlab.cli.grading import _Bar
    from hopperlab.grading import edition, grader, reports
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        right = classroom(folder / "class", exercise, count)
        memory = Memory()
        memory.start()
        began = time.monotonic()
        with _Bar() as bar:
            report, timing = grader.grade(grader.Asked(folder / "class", edition.load(ROOT, exercise[:2]), folder / "report", workers=workers), bar.tell)
        graded = time.monotonic() - began
        reports.write_all(report, timing, folder / "report")
        total = time.monotonic() - began
        memory.done.set()
        memory.join()
        began = time.monotonic()
        grader.grade(grader.Asked(folder / "class", edition.load(ROOT, exercise[:2]), folder / "report", workers=workers))
        again = time.monotonic() - began
    found = [e for row in report.rows for e in row.exercises if e.exercise == exercise]
    if sum(e.status == "right" for e in found) != right or report.not_graded:
        raise SystemExit(f"{sum(e.status == 'right' for e in found)} answers were found right, and {right} are: nothing is reported")
    slices = memory.slices()
    return {"exercise": exercise, "submissions": count, "right": right, "workers": workers, "seconds": round(total, 1), "seconds_each": round(graded / count, 2),
            "reports_seconds": round(total - graded, 1), "again_seconds": round(again, 1),
            "grader_mb": [own for own, _ in slices], "all_processes_mb": [tree for _, tree in slices]}


def main() -> None:
    """Measure and say."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grading", description=__doc__.splitlines()[0])
    parser.add_argument("--submissions", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--exercise", default="04.2", choices=sorted(WRONG))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    load = os.getloadavg()[0]
    made = measure(given.exercise, given.submissions, given.workers) | {"load_before": round(load, 1)}
    print(f"{made['submissions']} submissions of {made['exercise']}, {made['right']} right, {made['workers']} workers: {made['seconds']} s, {made['seconds_each']} s "
          f"each (load before: {made['load_before']}, {os.cpu_count()} CPUs); reports {made['reports_seconds']} s; all of it again, stored: {made['again_seconds']} s")
    print("memory of the grader itself over time, MB: " + " ".join(map(str, made["grader_mb"])))
    print("memory of all its processes over time, MB: " + " ".join(map(str, made["all_processes_mb"])))
    if given.json:
        given.json.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
