# SPDX-License-Identifier: Apache-2.0
"""The queue's client: `run_isolated` sends its launches there when HOPPERLAB_QUEUE names the server's socket."""
from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping
from typing import Any

from ..errors import IsolatedError
from . import wire


def address() -> str | None:
    """The socket of the queue to use, or None: HOPPERLAB_QUEUE."""
    return os.environ.get("HOPPERLAB_QUEUE") or None


def ask(path: str, request: Mapping[str, Any], timeout: float, user: str | None = None) -> dict[str, Any]:
    """Send one launch and wait for its turn and its answer.

    timeout: seconds it may run once it is its turn; the server's own limit may be lower. user: the name given to a server that goes by
    names (default: JUPYTERHUB_USER, else the login). Raises IsolatedError when the launch failed
    (kind as for `run_isolated`, or 'QueueFull') or the queue cannot be reached (kind 'queue').
    """
    answer = _talk(path, dict(request) | {"timeout": float(timeout), "user": user or _name()})
    if "error" in answer:
        kind = answer["kind"]
        raise IsolatedError(answer["error"] if kind in ("timeout", "crash", "QueueFull") else f"{kind}: {answer['error']}", kind)
    return answer


def state(path: str) -> dict[str, Any]:
    """What the server says of itself: place, limit, launches so far, those ended at the limit, and users with waiting, running, seconds."""
    return _talk(path, {"ask": "state"})


def _name() -> str:
    return os.environ.get("JUPYTERHUB_USER") or getpass.getuser()


def _talk(path: str, message: Mapping[str, Any]) -> dict[str, Any]:
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(path)
            line.sendall(wire.pack(message))
            return wire.unpack(memoryview(_exactly(line, int.from_bytes(_exactly(line, wire.LENGTH), "little"))))
    except (OSError, EOFError, AttributeError) as problem:
        raise IsolatedError(f"the queue at {path} does not answer ({problem or type(problem).__name__}). Is `hopperlab queue serve` running there? "
                            "Without HOPPERLAB_QUEUE launches run in a worker process of your own", "queue") from problem


def _exactly(line: socket.socket, size: int) -> bytearray:
    data = bytearray()
    while len(data) < size:
        piece = line.recv(min(1 << 20, size - len(data)))
        if not piece:
            raise EOFError("the connection ended")
        data += piece
    return data
