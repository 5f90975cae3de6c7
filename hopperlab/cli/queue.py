# SPDX-License-Identifier: Apache-2.0
"""`hopperlab queue`: share one GPU among many learners. `serve` runs the server, `state` asks it how things stand."""
from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from pathlib import Path

DETAILS = ("`hopperlab queue serve` takes launches over a Unix socket and runs each in a worker process of its own, one at a time, fair by user, with a time limit. "
           "Learners set HOPPERLAB_QUEUE to the socket's path; `hl.run_isolated` then sends its launches there. `hopperlab queue state` shows who waits. "
           "See docs/teaching.md.")


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of both verbs."""
    parser.add_argument("verb", nargs="?", choices=("serve", "state"), help="serve: run the server until Ctrl-C; state: who waits, and who used how much")
    parser.add_argument("--socket", type=Path, default=Path(os.environ.get("HOPPERLAB_QUEUE") or Path(tempfile.gettempdir()) / "hopperlab-queue.sock"), metavar="PATH",
                        help="where the server listens (default: HOPPERLAB_QUEUE, else hopperlab-queue.sock among temporary files)")
    parser.add_argument("--limit", type=float, default=20.0, metavar="SECONDS", help="most seconds a launch may run (default 20)")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="launches that run side by side (default 1)")
    parser.add_argument("--spares", type=int, default=None, metavar="N",
                        help="workers that stand ready for the next launches (default 4 on a GPU, as many as --at-once in the emulator)")
    parser.add_argument("--names", action="store_true", help="tell users apart by the name they give (JUPYTERHUB_USER), not by their uid")


def run(given: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    from ..runtime.errors import IsolatedError
    if given.verb is None:
        print("hopperlab queue: serve or state? `hopperlab queue serve` runs the server, `hopperlab queue state` shows who waits", file=sys.stderr)
        return 2
    try:
        return _serve(given) if given.verb == "serve" else _state(given)
    except IsolatedError as problem:
        print(f"hopperlab queue: {problem}", file=sys.stderr)
        return 1


def _serve(given: argparse.Namespace) -> int:
    if not hasattr(asyncio, "start_unix_server") or not sys.platform.startswith("linux"):
        print("hopperlab queue serve needs Linux", file=sys.stderr)
        return 1
    from ..runtime.backend import backend
    from ..runtime.queue.server import Server
    if given.limit <= 0 or given.at_once < 1 or (given.spares is not None and given.spares < 1):
        print("hopperlab queue: --limit must be positive, --at-once and --spares at least 1", file=sys.stderr)
        return 2
    server = Server(given.socket, backend(), given.limit, given.at_once, given.names, spares=given.spares)
    print(f"Launches run {'on the GPU' if server.place == 'gpu' else 'in the emulator'}, at most {given.limit:g} s each. Learners set\n"
          f"    export HOPPERLAB_QUEUE={given.socket}", flush=True)
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(_until_stopped(server))
    return 0


async def _until_stopped(server) -> None:
    task = asyncio.current_task()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await server.serve()


def _state(given: argparse.Namespace) -> int:
    from ..runtime.queue import client
    from ..runtime.tables import counted, text_table
    now = client.state(str(given.socket))
    print(f"{now['place']}, at most {now['limit']:g} s a launch; {counted(now['launches'], 'launch', 'launches')} so far, {now['ended']} ended at the limit")
    rows = [(user, facts["waiting"], facts["running"], facts["seconds"]) for user, facts in now["users"].items()]
    for line in text_table("  {:16} {:3d} waiting  {:2d} running  {:8.1f} s used", rows):
        print(line)
    return 0
