# SPDX-License-Identifier: Apache-2.0
"""A queue's server in a thread, and the message that `run_isolated` would send it."""
from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from support.patience import PATIENCE

import hopperlab as hl
from hopperlab.runtime.queue import client

CODE = """
extern "C" __global__ void scale(float* a, float by) { a[threadIdx.x] *= by; }
extern "C" __global__ void hang(volatile int* a) { for (long long i = 0; i < (1ll << 50); i++) a[0] = i; }
extern "C" __global__ void past(int* a) { a[1 << 20] = 1; }
"""


@contextlib.contextmanager
def serving(folder: Path, place: str = "emulator") -> Iterator[Callable]:
    """Call what this yields with Server's options: (server, path of its socket). It is stopped at the end, and must leave no socket behind."""
    from hopperlab.runtime.queue.server import Server
    path, running = folder / "queue.sock", []

    def start(**options):
        made = Server(path, place, **options)
        ready, loop = threading.Event(), asyncio.new_event_loop()
        task = loop.create_task(made.serve(ready))

        def run():
            with contextlib.suppress(asyncio.CancelledError):
                loop.run_until_complete(task)
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        assert ready.wait(20 * PATIENCE)
        running.append((loop, task, thread))
        return made, str(path)
    yield start
    for loop, task, thread in running:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(20 * PATIENCE)
        assert not thread.is_alive() and not path.exists()
        loop.close()


def request(module, name, args, monkeypatch):
    """What run_isolated would send for this launch."""
    sent = {}
    with monkeypatch.context() as patch:
        patch.setenv("HOPPERLAB_QUEUE", "/nowhere")
        patch.setattr(client, "ask", lambda path, message, timeout: sent.update(message) or {"arrays": message["arrays"], "seconds": 0})
        hl.run_isolated(module.get_function(name), (1,), (4,), args)
    return sent
