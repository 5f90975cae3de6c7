# SPDX-License-Identifier: Apache-2.0
"""Dask clusters on this machine whose workers and schedulers a test can kill; what is killed is started again, as a service would be."""
from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from support.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


class Processes:
    """A scheduler and workers on this machine. Use it in a `with`."""

    def __init__(self, folder: Path, workers: int):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address, self.folder, self.stop = f"tcp://127.0.0.1:{self.port}", folder, threading.Event()
        self.scheduler = self._scheduler()
        self.workers = [self._worker(number) for number in range(workers)]
        self.keeper = threading.Thread(target=self._keep, daemon=True)

    def _start(self, *words: str) -> subprocess.Popen:
        path = f"{ROOT}{os.pathsep}{ROOT / 'tests'}"
        with open(self.folder / "dask.log", "a") as log:
            return subprocess.Popen([sys.executable, "-m", *words, "--no-dashboard"], cwd=self.folder, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": path})

    def _scheduler(self) -> subprocess.Popen:
        return self._start("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(self.port))

    def _worker(self, number: int) -> subprocess.Popen:
        return self._start("distributed.cli.dask_worker", self.address, "--nthreads", "1", "--no-nanny", "--local-directory", str(self.folder / f"worker{number}"))

    def _keep(self) -> None:
        while not self.stop.wait(0.3):
            for number, worker in enumerate(self.workers):
                if worker.poll() is not None:
                    self.workers[number] = self._worker(number)

    def kill_worker(self, number: int) -> None:
        """End one; another takes its place."""
        self.workers[number].kill()

    def kill_scheduler(self) -> None:
        """End it, and start a new one that knows nothing."""
        self.scheduler.kill()
        self.scheduler.wait()
        self.scheduler = self._scheduler()

    def __enter__(self) -> Processes:
        until = time.monotonic() + 120 * PATIENCE
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                break
            time.sleep(0.2)
        self.keeper.start()
        return self

    def __exit__(self, *problem) -> None:
        self.stop.set()
        self.keeper.join(20 * PATIENCE)
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


class Local:
    """distributed's own cluster of worker processes on this machine, which starts killed ones again. Use it in a `with`."""

    def __init__(self, folder: Path, workers: int):
        import distributed
        self.cluster = distributed.LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=str(folder / "dask"))
        self.address = self.cluster.scheduler_address

    def kill_worker(self, number: int) -> None:
        """End one; another takes its place."""
        process = self.cluster.workers[number].process
        if process is not None and process.process.pid:
            os.kill(process.process.pid, signal.SIGKILL)

    def kill_scheduler(self) -> None:
        """It lives in this process and stays: another worker is ended instead."""
        self.kill_worker(2)

    def __enter__(self) -> Local:
        return self

    def __exit__(self, *problem) -> None:
        self.cluster.close()
