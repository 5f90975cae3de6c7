# SPDX-License-Identifier: Apache-2.0
"""A worker process of the queue: says that it is ready, runs one launch from standard input, answers on standard output, ends.

Run as `python -m hopperlab.runtime.queue.worker PLACE` by the server. What a kernel prints goes to standard error.
"""
from __future__ import annotations

import os
import sys
from typing import IO, Any

from ..workers.worker import answer
from . import wire


def main(place: str) -> None:
    """Serve one launch."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if place == "gpu":
        import cupy
        cupy.cuda.runtime.free(0)       # makes the context now, outside the launch's time limit
    else:
        from .. import emulated  # noqa: F401 - imported now, outside the launch's time limit
    _send(answers, {"ready": True})
    length = sys.stdin.buffer.read(wire.LENGTH)
    if len(length) == wire.LENGTH:
        request = wire.unpack(sys.stdin.buffer.read(int.from_bytes(length, "little")))
        _send(answers, answer(request | {"place": place}) | {"place": place})


def _send(answers: IO[bytes], value: dict[str, Any]) -> None:
    answers.write(wire.pack(value))
    answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
