# SPDX-License-Identifier: Apache-2.0
"""Finished outcomes on disk, so that a grading run that was killed goes on where it was.

One JSON file an outcome, below OUT/results/EXERCISE/, named by the digest of everything it rests on; written beside and renamed, so that a file is whole or not there.
"""
from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any


FULL = (errno.ENOSPC, errno.EDQUOT)


class DiskFull(OSError):
    """No room to write to. What is finished is kept."""

    def __init__(self, folder: Path | str):
        super().__init__(f"no space is left on the disk that holds {folder}. Free some (a result needs about 10 kB), and give the same command again: "
                         "what is finished is kept, and it goes on from there.")

    def __reduce__(self):
        return OSError, self.args


class Results:
    """The outcomes stored below a folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, exercise: str, digest: str) -> Path:
        """Where this outcome lies."""
        return self.folder / exercise / f"{digest}.json"

    def get(self, exercise: str, digest: str) -> dict[str, Any] | None:
        """The stored outcome; None when there is none or it is not whole."""
        try:
            outcome = json.loads(self.path(exercise, digest).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return outcome if isinstance(outcome, dict) and outcome.get("digest") == digest and "seconds" in outcome else None

    def put(self, outcome: Mapping[str, Any]) -> None:
        """Store an outcome; one that says the grader itself failed is not stored."""
        if "failed" not in outcome:
            write(self.path(outcome["exercise"], outcome["digest"]), json.dumps(outcome, indent=1, sort_keys=True) + "\n")

    def forget(self, exercise: str, digest: str) -> None:
        """Remove an outcome, so that the answer is graded again."""
        self.path(exercise, digest).unlink(missing_ok=True)


def write(path: Path, text: str) -> None:
    """Write a file in one step: readers see the old one or the new one, never a half."""
    part = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, path)
    except BaseException as problem:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        if isinstance(problem, OSError) and problem.errno in FULL:
            raise DiskFull(path.parent) from None
        raise
