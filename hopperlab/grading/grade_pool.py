# SPDX-License-Identifier: Apache-2.0
"""Grading tasks in worker processes of this machine; outcomes come back as they are done. grade_cluster.py does the same on a Dask cluster.

Each judges in a child process (grade_child.py). One that dies (killed for its memory, say) is replaced and its task runs again, a few times; then the task
has an outcome that says so.

Why this and not distributed.LocalCluster, which was tried with four workers and 200 tasks of 20 ms, side by side on one busy machine: the first outcome came
after 23 s (here 1.3 s), all of its processes held 284 MB (here 64 MB). Its scheduler also runs what anybody who can reach its port on this machine
sends, with the teacher's rights. It is the better one for several machines.
"""
from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .grade_child import Judge, Work, attempt


class PoolError(RuntimeError):
    """The workers cannot be had at all: no scheduler at the address, or no dask there."""


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


def _serve(todo: queue.SimpleQueue, done: queue.SimpleQueue, work: Work, stop: threading.Event) -> None:
    judge = Judge(work)
    while not stop.is_set():
        try:
            task = todo.get_nowait()
        except queue.Empty:
            break
        done.put(judge.outcome(task, stop))
    judge.close()
