# SPDX-License-Identifier: Apache-2.0
"""What takes long to make and is only read is made once a run of the suite, also where xdist's workers share it."""
from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from .patience import PATIENCE

LIMIT = 240 * PATIENCE      # seconds that a process waits for the one that makes it


def once(tmp_path_factory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder of this run, filled by make(folder) in the first process that asks for `name`; the others wait for it.

    What `make` raises is raised there; the others then raise RuntimeError with its words.
    """
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    folder, done, failed = root / name, root / f"{name}.done", root / f"{name}.failed"
    try:
        folder.mkdir()
    except FileExistsError:
        _wait(done, failed)
        return folder
    try:
        make(folder)
    except BaseException as problem:
        failed.write_text(f"{type(problem).__name__}: {problem}", encoding="utf-8")
        raise
    done.touch()
    return folder


def _wait(done: Path, failed: Path) -> None:
    deadline = time.monotonic() + LIMIT
    while not done.exists():
        if failed.exists():
            raise RuntimeError(f"another test could not make it: {failed.read_text(encoding='utf-8')}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{done.stem} was not made within {LIMIT:.0f} s")
        time.sleep(0.1)
