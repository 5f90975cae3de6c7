# SPDX-License-Identifier: Apache-2.0
"""Judging in a child process, so that an answer's death is that child's and nobody else's: it is replaced, and the task runs again, a few times.

The local pool (grade_pool.py) has one a worker, and so has each thread of a Dask worker (grade_cluster.py), which may not start processes of multiprocessing's.
A child ends when the process that started it does, however that ended.
"""
from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

from .results import FULL

ATTEMPTS = 3
TASKS_A_CHILD = 40           # then a fresh process takes over, so that memory stays flat
LOOK_SECONDS = 0.2           # between two looks at whether to stop
START = ("import sys; from multiprocessing.connection import Connection; pipe = Connection(int(sys.argv[1])); sys.path[:] = pipe.recv(); "
         "from hopperlab.grading.grade_child import serve; serve(pipe)")
Work = Callable[[Mapping[str, Any]], dict[str, Any]]


def failed(task: Mapping[str, Any], message: str) -> dict[str, Any]:
    """The outcome of a task that could not be run; it is not stored, so the next run tries again."""
    return {"exercise": task["exercise"], "digest": task["digest"], "failed": message}


def attempt(task: Mapping[str, Any], work: Work) -> dict[str, Any]:
    """Do the work; an exception of the grader's own becomes an outcome that says so."""
    try:
        return work(task)
    except Exception as problem:
        if isinstance(problem, OSError) and problem.errno in FULL:
            return failed(task, "no space was left on a disk") | {"full": str(problem.filename or tempfile.gettempdir())}
        return failed(task, f"grading raised {type(problem).__name__}: {str(problem)[:500]}")


class Judge:
    """Judges tasks one by one in a child process, which is replaced when it dies. `work` is a function that a fresh process can import."""

    def __init__(self, work: Work):
        self.work, self.child, self.tasks = work, None, 0
        self.child: _Child | None

    def outcome(self, task: Mapping[str, Any], stop: threading.Event | None = None) -> dict[str, Any]:
        """What the task came to; one whose child died ATTEMPTS times failed. stop: when it is set, nothing is waited for any more."""
        for _ in range(ATTEMPTS):
            if self.child is None or self.tasks >= TASKS_A_CHILD:
                self.close()
                self.child, self.tasks = _Child(self.work), 0
            self.tasks += 1
            found = self.child.run(task, stop or threading.Event())
            if found is not None:
                return found
            self.close()
            if stop is not None and stop.is_set():
                break
        return failed(task, f"the worker process ended {ATTEMPTS} times while grading it")

    def close(self) -> None:
        """End the child, if there is one."""
        child, self.child = self.child, None
        if child is not None:
            child.close()


class _Child:
    """One process and the pipe to it. It has a session of its own: Ctrl-C is the grader's to answer."""

    def __init__(self, work: Work):
        self.pipe, theirs = multiprocessing.Pipe()
        with theirs:
            self.process = subprocess.Popen([sys.executable, "-c", START, str(theirs.fileno())], pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL,
                                            start_new_session=True)
        with contextlib.suppress(OSError):                   # it ended at once, which the first task finds out
            self.pipe.send(sys.path)
            self.pipe.send(work)

    def run(self, task: Mapping[str, Any], stop: threading.Event) -> dict[str, Any] | None:
        """The outcome; None when the process ended without one, or `stop` was set."""
        try:
            self.pipe.send(task)
            while not self.pipe.poll(LOOK_SECONDS):
                if stop.is_set():
                    return None
            found: dict[str, Any] = self.pipe.recv()
            return found
        except (EOFError, OSError):
            return None

    def close(self) -> None:
        """Close the pipe, at whose end the process ends."""
        self.pipe.close()
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def serve(pipe: Connection) -> None:
    """The child: the work to do, then tasks in, outcomes out, until the pipe closes."""
    os.set_inheritable(pipe.fileno(), False)
    given: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(pipe, given), daemon=True).start()
    work = given.get()
    while True:
        pipe.send(attempt(given.get(), work))


def _read(pipe: Connection, given: queue.SimpleQueue[Any]) -> None:
    """What comes through the pipe; at its end the process ends, in the middle of a task too. The sandboxes are told to die with it."""
    try:
        while True:
            given.put(pipe.recv())
    finally:
        os._exit(1)


def judge_apart(task: Mapping[str, Any], work: Work) -> dict[str, Any]:
    """The outcome of a task, from the child of this thread; it stays for the thread's next task."""
    return _judge(work, threading.get_ident()).outcome(task)


@cache
def _judge(work: Work, _thread: int) -> Judge:
    return Judge(work)
