# SPDX-License-Identifier: Apache-2.0
"""The leaderboard of lesson 14: right answers to 14.2 timed on a Hopper GPU in turns with cuBLAS, and ordered by the ratio of speeds.

Each answer runs in a worker process of its own with a time limit (rank_worker.py); what is made of its times is here and needs no GPU.
"""
from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ..measure.summaries import summary
from ..runtime import backend
from ..runtime.queue import client
from ..runtime.errors import BackendError, HopperlabError
from ..checking.answers import Refused, body
from ..runtime.tables import text_table
from ..lessons.catalogue import find

EXERCISE = "14.2"
SHAPES = ((8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (128, 7168, 18432))
ROUNDS = 9
SECONDS = 180.0              # an answer may take for all its shapes, compiling and checking included
ANSWER = "answer"            # in Times: the learner's kernel; every other name is an entry of cuBLAS

Shape = tuple[int, int, int]
Times = Mapping[Shape, Mapping[str, Sequence[float]]]
"""By shape and contestant: milliseconds, in the order of the rounds."""


class RankError(HopperlabError, RuntimeError):
    """A leaderboard cannot be made here at all."""


class NotTimed(Exception):
    """One answer has no times; the message says why."""


@dataclass(frozen=True)
class Job:
    """What a timer needs to know about one answer. text: of the answer cell, without its %%cuda line; key: seeds the inputs."""

    text: str
    shapes: tuple[Shape, ...]
    rounds: int
    constants: Mapping[str, Any]
    key: str
    seconds: float


Timer = Callable[[Job], Times]
"""Times one answer beside cuBLAS. Raises NotTimed."""


@dataclass(frozen=True)
class Row:
    """One learner's place. ratio: cuBLAS's time over the answer's, the geometric mean over the shapes, median of the rounds (more than 1 is
    faster than cuBLAS), with its least and greatest round; tflops: 10^12 operations per second over all shapes; problem: why there is no time."""

    learner: str
    ratio: float = 0.0
    ratio_min: float = 0.0
    ratio_max: float = 0.0
    tflops: float = 0.0
    problem: str = ""


def rank(answers: Mapping[str, str], shapes: Sequence[Shape] = SHAPES, *, rounds: int = ROUNDS, constants: Mapping[str, Any] | None = None,
         key: str = "leaderboard", seconds: float = SECONDS, timer: Timer | None = None, progress: Callable[[str], None] = lambda text: None,
         show: Callable[[str], None] = print) -> list[Row]:
    """The leaderboard, fastest first, answers without a time last; its table is printed.

    answers:   by learner, the text of the answer cell of 14.2; give those that `judge` finds right (values are checked again each round)
    constants: those of the class's edition, such as {"ALPHA": 3}
    seconds:   the time limit of one answer
    timer:     what times an answer; None is a worker process on this machine's GPU
    show:      takes the table, once all answers have been timed
    Raises RankError without a Hopper GPU, and where HOPPERLAB_QUEUE lends the GPU to others meanwhile; ValueError for shapes or rounds that cannot be.
    """
    _check(shapes, rounds)
    exercise, setting = find(EXERCISE), find(EXERCISE).setting(constants or {})
    if timer is None:
        _require_gpu()
        timer = in_worker
    rows = []
    for number, (learner, cell) in enumerate(sorted(answers.items()), 1):
        progress(f"{number} of {len(answers)}: {learner}")
        try:
            job = Job(body(exercise, cell), tuple(map(tuple, shapes)), rounds, setting, key, seconds)
            rows.append(row(learner, timer(job)))
        except (NotTimed, Refused) as problem:
            rows.append(Row(learner, problem=str(problem)))
    rows.sort(key=lambda found: (bool(found.problem), -found.ratio, found.learner))
    show(table(rows, shapes))
    return rows


def row(learner: str, times: Times) -> Row:
    """What one answer's times come to. Each shape's peer is cuBLAS's entry with the least median there. Raises NotTimed for times that are none."""
    ratios: list[list[float]] = []
    total_ms = total_flop = 0.0
    for shape, found in times.items():
        mine, entries = found.get(ANSWER, ()), [list(entry) for name, entry in found.items() if name != ANSWER]
        if not mine or not entries or any(len(entry) != len(mine) for entry in entries):
            raise NotTimed(f"{_x(shape)}: times are missing")
        if not all(math.isfinite(ms) and ms > 0 for series in (mine, *entries) for ms in series):
            raise NotTimed(f"{_x(shape)}: a time that is not positive")
        peer = min(entries, key=median)
        ratios.append([theirs / ms for ms, theirs in zip(mine, peer, strict=True)])
        total_ms += median(mine)
        total_flop += 2.0 * math.prod(shape)
    if not ratios or len({len(series) for series in ratios}) > 1:
        raise NotTimed("times are missing")
    by_round = [summary(series).mean for series in zip(*ratios, strict=True)]
    return Row(learner, median(by_round), min(by_round), max(by_round), total_flop / total_ms / 1e9)


def table(rows: Sequence[Row], shapes: Sequence[Shape] = SHAPES) -> str:
    """The leaderboard as text."""
    cells = [("", found.learner, f"not ranked: {' '.join(found.problem.split())}", None) if found.problem else
             (f"{place}.", found.learner, f"{found.ratio:.3f} ({found.ratio_min:.3f} to {found.ratio_max:.3f})", found.tflops)
             for place, found in enumerate(rows, 1)]
    return "\n".join([f"14.2, m x n x k of {', '.join(map(_x, shapes))}; speed over cuBLAS in the same rounds (lowest to highest round)",
                      *text_table("{:>4} {:<*} {:>24} {:8.0f}", cells, ("", "learner", "of cuBLAS", "TFLOP/s"))])


def in_worker(job: Job, command: Sequence[str] = (sys.executable, "-m", "hopperlab.grading.rank_worker")) -> Times:
    """Time one answer in a process of its own. What its kernels print is thrown away. Raises NotTimed."""
    request = {"text": job.text, "shapes": job.shapes, "rounds": job.rounds, "constants": dict(job.constants), "key": job.key}
    try:
        done = subprocess.run(command, input=json.dumps(request).encode(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=job.seconds)
    except subprocess.TimeoutExpired:
        raise NotTimed(f"it did not finish within {job.seconds:g} s and was ended") from None
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise NotTimed(f"its process ended without an answer (exit code {done.returncode})") from None
    if "error" in answer:
        raise NotTimed(answer["error"])
    return {tuple(shape): times for shape, times in answer["times"]}


def _check(shapes: Sequence[Shape], rounds: int) -> None:
    if rounds < 1 or not shapes:
        raise ValueError(f"a leaderboard needs at least one round and one shape, not {rounds} and {len(shapes)}")
    for shape in shapes:
        if len(shape) != 3 or min(shape) < 1 or shape[2] % 8:
            raise ValueError(f"{tuple(shape)} is no shape m, n, k of at least 1 with k a multiple of 8")


def _require_gpu() -> None:
    try:
        backend.backend("gpu")
    except BackendError as problem:
        raise RankError(f"the leaderboard times kernels on a Hopper GPU: {problem}") from None
    if client.address():
        raise RankError("HOPPERLAB_QUEUE is set: other launches would run between the timed ones. Stop the queue and unset it while ranking")


def _x(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))
