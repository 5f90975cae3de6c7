# SPDX-License-Identifier: Apache-2.0
"""Grading tasks in worker processes of this machine; outcomes come back as they are done. grade_cluster.py does the same on a Dask cluster.

A worker that dies (killed for its memory, say) is replaced and its task runs again, a few times; then the task has an outcome that says so.
Workers end when the process that started them does.

Why this and not distributed.LocalCluster, which was tried with four workers and 200 tasks of 20 ms, side by side on one busy machine: the first outcome came
after 23 s (here 1.3 s), all of its processes held 284 MB (here 64 MB), and a task that kills its worker each time left a cluster without any worker, which waited without
end (a nanny does not replace a worker that dies while it starts; here the task fails and the others go on). Its scheduler also runs what anybody who
can reach its port on this machine sends, with the teacher's rights. It is the better one for several machines.
"""
from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from .results import FULL

ATTEMPTS = 3
TASKS_A_WORKER = 40          # then a fresh process takes over, so that memory stays flat
Work = Callable[[Mapping[str, Any]], dict[str, Any]]


class PoolError(RuntimeError):
    """The workers cannot be had at all: no scheduler at the address, or no dask there."""


def failed(task: Mapping[str, Any], message: str) -> dict[str, Any]:
    """The outcome of a task that could not be run; it is not stored, so the next run tries again."""
    return {"exercise": task["exercise"], "digest": task["digest"], "failed": message}


def run_local(tasks: Sequence[Mapping[str, Any]], workers: int, work: Work) -> Iterator[dict[str, Any]]:
    """Run tasks in `workers` processes (0: in this one); yields outcomes as they come. `work` is a function that a fresh process can import."""
    if not workers:
        yield from (attempt(task, work) for task in tasks)
        return
    todo: queue.SimpleQueue = queue.SimpleQueue()
    done: queue.SimpleQueue = queue.SimpleQueue()
    for task in tasks:
        todo.put(task)
    stop = threading.Event()
    threads = [threading.Thread(target=_serve, args=(todo, done, work, stop), daemon=True) for _ in range(min(workers, len(tasks)))]
    for thread in threads:
        thread.start()
    try:
        for _ in tasks:
            yield done.get()
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=5)


class _Worker:
    """One process and the pipe to it."""

    def __init__(self, work: Work):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_main, args=(theirs, work), daemon=False)
        self.process.start()
        theirs.close()
        self.tasks = 0

    def run(self, task: Mapping[str, Any], stop: threading.Event) -> dict[str, Any] | None:
        """The outcome; None when the process ended without one."""
        self.tasks += 1
        try:
            self.pipe.send(task)
            while not self.pipe.poll(0.2):
                if stop.is_set():
                    return None
            return self.pipe.recv()
        except (EOFError, OSError):
            return None

    def close(self) -> None:
        self.pipe.close()
        self.process.join(timeout=1)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join(timeout=2)


def _serve(todo: queue.SimpleQueue, done: queue.SimpleQueue, work: Work, stop: threading.Event) -> None:
    if hasattr(signal, "pthread_sigmask"):
        resource_tracker.ensure_running()                                  # it would set the mask back
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})          # and so in workers: Ctrl-C is the grader's to answer
    worker: _Worker | None = None
    while not stop.is_set():
        try:
            task = todo.get_nowait()
        except queue.Empty:
            break
        outcome = None
        for _ in range(ATTEMPTS):
            worker = worker or _Worker(work)
            outcome = worker.run(task, stop)
            if outcome is not None or stop.is_set():
                break
            worker.close()
            worker = None
        done.put(outcome or failed(task, f"the worker process ended {ATTEMPTS} times while grading it"))
        if worker and worker.tasks >= TASKS_A_WORKER:
            worker.close()
            worker = None
    if worker:
        worker.close()


def _main(pipe: Connection, work: Work) -> None:
    """A worker: tasks in, outcomes out, until the pipe closes."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            pipe.send(attempt(pipe.recv(), work))
        except (EOFError, OSError):
            return


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    wait([parent.sentinel])
    os._exit(1)                    # the sandboxes are told to die with this process


def attempt(task: Mapping[str, Any], work: Work) -> dict[str, Any]:
    """Do the work; an exception of the grader's own becomes an outcome that says so."""
    try:
        return work(task)
    except Exception as problem:
        if isinstance(problem, OSError) and problem.errno in FULL:
            return failed(task, "no space was left on a disk") | {"full": str(problem.filename or tempfile.gettempdir())}
        return failed(task, f"grading raised {type(problem).__name__}: {str(problem)[:500]}")
