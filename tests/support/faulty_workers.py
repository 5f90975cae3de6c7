# SPDX-License-Identifier: Apache-2.0
"""Work that fails in a worker process: it ends the process, or raises. Imports nothing of ours, so that each new process starts quickly."""
from __future__ import annotations

import os
import signal
from pathlib import Path


def dies_once(task):
    """Ends its process the first time it sees a task."""
    mark = Path(task["mark"])
    if not mark.exists():
        mark.write_text("")
        os._exit(9)
    return {"exercise": task["exercise"], "digest": task["digest"], "seconds": {}}


def dies(task):
    """Always ends its process."""
    os._exit(9)


def raises(task):
    """A fault of the grader's own."""
    raise OSError("no space left")


def dies_or_kills(task):
    """Does what the task's `how` says: ends its own process, kills the one that started it (a Dask worker), or comes to an outcome."""
    if task["how"] == "dies":
        os._exit(9)
    if task["how"] == "kills":
        os.kill(os.getppid(), signal.SIGKILL)
    return {"exercise": task["exercise"], "digest": task["digest"], "seconds": {}}
