# SPDX-License-Identifier: Apache-2.0
"""Grading tasks on a Dask cluster: outcomes come back as they are done, whatever becomes of workers and scheduler meanwhile.

A worker judges in a child process (grade_child.py), so that what kills its judge kills no worker. Of workers that are killed all the same distributed gives the
tasks to others; when it gives one up, because too many workers died that held it, that task runs once more at the end, alone, where it can take no other with it
and no other can be the cause. A scheduler that goes takes all that it knows with it: then this waits for one to answer at the same address, and hands it what is
not finished. An outcome counts once, by the digest of its task.
"""
from __future__ import annotations

import contextlib
import logging
import queue
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .grade_child import ATTEMPTS, Work, failed, judge_apart
from .grade_pool import PoolError

if TYPE_CHECKING:
    from distributed import Client, Future

FIRST_SECONDS = 15.0       # for a scheduler to answer at the beginning
AWAY_SECONDS = 300.0       # for one to come back, or for a cluster without workers to get one
ROUNDS = 4                 # connections in turn that bring nothing, and then no more
LOOK_SECONDS = 2.0         # of silence before scheduler and workers are asked after
AGAIN_SECONDS = 0.1        # before a result that went with its worker is asked for again
MADE_AGAIN = ("lost", "pending")        # what a future that was finished is when its result went with a worker: the scheduler has it made again
Task = Mapping[str, Any]
Say = Callable[[str], None]


class _OutOfTouch(Exception):
    """Nothing more comes over this connection: the scheduler went."""


def _print(line: str) -> None:
    print(f"\nhopperlab grade: {line}", file=sys.stderr, flush=True)


def run(tasks: Sequence[Task], address: str, work: Work, *, first: float = FIRST_SECONDS, away: float = AWAY_SECONDS, say: Say = _print) -> Iterator[dict[str, Any]]:
    """Run tasks on the Dask cluster at `address`; yields one outcome a task, as they come. `work` is a function that workers can import.

    first, away: seconds. say: is told what is waited for. Raises PoolError without distributed, without an answer from the scheduler, or when scheduler or
    workers stay away.
    """
    try:
        import distributed  # noqa: F401 - an extra, asked for before anything is tried
    except ImportError:
        raise PoolError("--dask needs the package distributed: pip install 'hopperlab[grading]'") from None
    todo = {task["digest"]: task for task in tasks}
    patience, barren = first, 0
    while todo:
        with _quiet(), contextlib.closing(_connected(address, patience)) as client:
            try:
                for outcome in _outcomes(client, todo, work, away, say):
                    del todo[outcome["digest"]]
                    barren = -1
                    yield outcome
            except _OutOfTouch as problem:
                barren += 1
                if barren >= ROUNDS:
                    raise PoolError(f"the Dask cluster at {address} takes no work ({str(problem.__cause__ or 'it cancels all tasks')[:300]}). The "
                                    "same version of the course must be installed where its scheduler and its workers run. What is finished is kept") from None
                say(f"lost touch with the Dask scheduler at {address}, and {len(todo)} answers are unfinished; they are handed in again to the one that answers there "
                    f"within {away:g} s")
        patience = away


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """distributed's own tracebacks of a connection that ends, which `say` tells in a line."""
    log = logging.getLogger("distributed")
    levels = {name: logging.getLogger(name).level for name in (log.name, *(f"{log.name}.{part}" for part in ("client", "core", "utils", "comm")))}
    for name in levels:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def _connected(address: str, seconds: float) -> Client:
    """A client of the scheduler at `address`, tried for so long."""
    from distributed import Client
    until = time.monotonic() + seconds
    while True:
        try:
            return Client(address, timeout=max(1.0, min(FIRST_SECONDS, until - time.monotonic())), set_as_default=False)
        except (OSError, ValueError) as problem:
            if time.monotonic() >= until or isinstance(problem, ValueError):
                raise PoolError(f"no Dask scheduler answers at {address}: {problem}. What is finished is kept; the same command goes on from there") from None
            time.sleep(0.2)


def _outcomes(client: Client, todo: Mapping[str, Task], work: Work, away: float, say: Say) -> Iterator[dict[str, Any]]:
    """Outcomes of what this scheduler is given; what it gives up runs again alone. Raises _OutOfTouch when it goes."""
    given_up: list[Task] = []
    yield from _round(client, {f"hopperlab-grade-{digest}": task for digest, task in todo.items()}, work, away, say, given_up)
    for task in given_up:
        again: list[Task] = []
        yield from _round(client, {f"hopperlab-grade-alone-{task['digest']}": task}, work, away, say, again)
        if again:
            yield failed(task, "the cluster gave it up: workers died while they graded it, also when they graded nothing else")


def _round(client: Client, tasks: dict[str, Task], work: Work, away: float, say: Say, given_up: list[Task]) -> Iterator[dict[str, Any]]:
    """Outcomes of tasks, by key, that run side by side. Those which the scheduler gives up, because workers died, are put into `given_up` instead."""
    done: queue.SimpleQueue[Future] = queue.SimpleQueue()
    futures = {key: client.submit(judge_apart, task, work, key=key, pure=False, retries=ATTEMPTS) for key, task in tasks.items()}
    for future in futures.values():                      # one that nobody holds is forgotten by the scheduler
        future.add_done_callback(done.put)
    alone: float | None = None                           # since when there is no worker
    while tasks:
        try:
            future = done.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            alone = _alone(client, alone, away, say)
            continue
        outcome = _outcome(future, tasks[future.key], given_up)
        if outcome is None:
            alone = _alone(client, alone, away, say)
            time.sleep(AGAIN_SECONDS)
            done.put(future)
            continue
        del tasks[future.key]
        futures.pop(future.key).release()
        if outcome:
            yield outcome


def _outcome(future: Future, task: Task, given_up: list[Task]) -> dict[str, Any] | None:
    """What a future that is done came to; None while it cannot be had, as when it went with its worker and is made again; {} when its workers died, and the
    task is put into `given_up`. Raises _OutOfTouch."""
    from distributed import KilledWorker
    if future.status == "error":
        problem = future.exception()
        if isinstance(problem, KilledWorker):
            given_up.append(task)
            return {}
        return failed(task, f"the cluster gave it up: {type(problem).__name__}: {str(problem)[:300]}")
    if future.status in MADE_AGAIN:
        return None
    if future.status != "finished":                      # cancelled, which only the end of a scheduler does here
        raise _OutOfTouch
    try:
        outcome: dict[str, Any] = future.result(timeout=LOOK_SECONDS)
    except TimeoutError:
        return None
    except Exception as problem:                         # of the connection to its worker or to the scheduler, in one of their many kinds
        if future.status in MADE_AGAIN:
            return None
        raise _OutOfTouch from problem
    return outcome


def _alone(client: Client, since: float | None, away: float, say: Say) -> float | None:
    """Since when the cluster has had no worker; None when it has one. Raises PoolError when that lasts, _OutOfTouch when nobody answers."""
    try:
        workers = len(client.nthreads()) if client.status == "running" else None
    except Exception as problem:                         # of the connection, in one of its many kinds
        raise _OutOfTouch from problem
    if workers is None:
        raise _OutOfTouch
    if workers:
        return None
    if since is None:
        say("the Dask cluster has no worker now; waiting for one")
        return time.monotonic()
    if time.monotonic() - since > away:
        raise PoolError(f"the Dask cluster has had no worker for {away:g} s. What is finished is kept: start workers, and give the same command again")
    return since
