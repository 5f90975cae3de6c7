# SPDX-License-Identifier: Apache-2.0
"""Launches in a worker process with a time limit: a crash or a hang costs the worker, not the notebook.

A crashed kernel leaves a CUDA context unusable, and a deadlocked one never returns; the worker is then ended and the next
launch starts a new one. Arrays travel to the worker and back by value.
"""
from __future__ import annotations

import atexit
import pickle
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import IO, Any

import numpy as np

from .. import arguments, launch_attributes, session as sessions
from ..arrays import Array, asnumpy, base_of, is_cuda_array
from ..errors import IsolatedError, LaunchError
from ..module import RawKernel
from ..queue import client
from ..shapes import Shape
from ..tensor_map import PointedMap, TensorMap

START_SECONDS = 120.0       # a cold machine imports CuPy and makes a CUDA context in this time


@dataclass(frozen=True)
class IsolatedRun:
    """What a launch in the worker gave: the place it ran in and the seconds between launch and completion."""

    place: str
    seconds: float


def run_isolated(kernel: RawKernel, grid: Shape, block: Shape, args: Sequence[Any], *, shared_mem: int = 0, timeout: float = 10.0,
                 backend: str | None = None, cluster: Shape | None = None, cooperative: bool | None = None) -> IsolatedRun:
    """Launch `kernel` in a worker process, wait for it, and put the results into the arrays of `args`.

    timeout: seconds the launch may take once the worker is up. backend: None is the kernel's own place.
    Raises LaunchError before anything runs; IsolatedError with kind 'timeout', 'crash', or the name of the exception
    that was raised in the worker (such as 'HazardError' or 'GpuError'). Where HOPPERLAB_QUEUE names a queue's socket the launch waits its
    turn there and runs where the queue's server does.
    """
    place = backend or kernel.backend
    whole = arguments.check_launch(kernel.signature, kernel.use, grid, block, shared_mem)
    attributes = launch_attributes.checked(kernel.signature, kernel.use, *whole, int(shared_mem), cluster, kernel.meets_in_grid if cooperative is None else cooperative)
    if sessions.forced() is not None:              # explore and sanitize watch the launches of their own process
        start = time.perf_counter()
        kernel(grid, block, args, shared_mem=shared_mem, cluster=cluster, cooperative=cooperative)
        return IsolatedRun("emulator", time.perf_counter() - start)
    arrays, described = _describe(arguments.check_arguments(kernel.signature, args, kernel.backend))
    module = kernel.module
    if module.touched:
        raise LaunchError(f"{kernel.name}: what get_global put into variables of {module.name} does not travel to another process; launch it in this one")
    request = {"place": place, "ptx": module.ptx, "cubin": module.cubin, "log": module.log, "name": module.name,
               "kernel": kernel.mangled, "grid": grid, "block": block, "args": described, "shared_mem": shared_mem, "attributes": asdict(attributes),
               "arrays": [asnumpy(a) for a in arrays]}
    line = client.address()
    answer = client.ask(line, request, timeout) if line else _worker(place).ask(request, timeout, kernel.name)
    for array, values in zip(arrays, answer["arrays"]):
        _put(array, values)
    return IsolatedRun(answer.get("place", place), answer["seconds"])


def _describe(args: Sequence[Any]) -> tuple[list[Array], list[tuple[Any, ...]]]:
    """The base arrays behind checked arguments, and each argument as plain data that refers to them by index."""
    owners: list[Array] = []
    described: list[tuple[Any, ...]] = []
    for value in args:
        if isinstance(value, TensorMap):
            index, offset = _owner(value.array, owners)
            described.append(("pointed map" if isinstance(value, PointedMap) else "map", index, offset, value.fields))
        elif isinstance(value, np.ndarray) or is_cuda_array(value):
            described.append(("array", *_owner(value, owners)))
        else:
            described.append(("scalar", value.dtype.name, value.tobytes()))
    return owners, described


def _owner(array: Array, owners: list[Array]) -> tuple[int, int]:
    """Index in `owners` of the array whose memory this one looks at (added at first sight), and the offset in bytes."""
    owner = base_of(array)
    index = next((index for index, known in enumerate(owners) if known is owner), len(owners))
    if index == len(owners):
        owners.append(owner)
    return index, _start(array) - _start(owner)


def _start(array: Array) -> int:
    if is_cuda_array(array):
        return int(array.__cuda_array_interface__["data"][0])
    return int(array.__array_interface__["data"][0])


def _put(array: Array, values: np.ndarray) -> None:
    if is_cuda_array(array):
        array.set(values)
    elif array.flags.writeable:
        array[...] = values


class _Worker:
    """One worker process and the thread that reads its answers."""

    def __init__(self, place: str):
        self.place = place
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.Queue[Any] = queue.Queue()

    def ask(self, request: dict[str, Any], timeout: float, name: str) -> dict[str, Any]:
        """Send one launch and wait for the answer; ends the process when it hangs or dies."""
        process = self._started()
        answer: dict[str, Any] | None
        try:
            pickle.dump(request, _pipe(process.stdin), protocol=pickle.HIGHEST_PROTOCOL)
            _pipe(process.stdin).flush()
            answer = self._answers.get(timeout=timeout)
        except queue.Empty:
            self.end()
            raise IsolatedError(f"{name} did not finish in {timeout:g} s and was ended. If it waits for a barrier nobody "
                                "completes, `with hl.emulate():` names the barrier and the line", "timeout") from None
        except (BrokenPipeError, OSError):
            answer = None
        if answer is None:
            code = process.wait()
            self.end()
            raise IsolatedError(f"the worker process ended while it ran {name} (exit code {code})", "crash")
        if "error" in answer:
            if answer["fatal"]:
                self.end()
            raise IsolatedError(f"{answer['kind']}: {answer['error']}", answer["kind"])
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        """The process: the one that runs, else a new one that has said that it is ready."""
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._answers = queue.Queue()
        self._process = process = subprocess.Popen([sys.executable, "-m", "hopperlab.runtime.workers.worker", self.place],
                                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        threading.Thread(target=_read_answers, args=(process.stdout, self._answers), daemon=True).start()
        try:
            ready = self._answers.get(timeout=START_SECONDS)
        except queue.Empty:
            ready = None
        if ready != "ready":
            self.end()
            raise IsolatedError(f"the worker process for the {self.place} did not start", "crash")
        return process

    def end(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            _pipe(process.stdin).close()


def _pipe(end: IO[bytes] | None) -> IO[bytes]:
    assert end is not None, "the worker was started with pipes"
    return end


def _read_answers(stream: IO[bytes], answers: queue.Queue[Any]) -> None:
    """Put each answer of a worker on the queue, then None when the stream ends."""
    try:
        while True:
            answers.put(pickle.load(stream))
    except (EOFError, OSError, pickle.UnpicklingError, ValueError):
        answers.put(None)


_workers: dict[str, _Worker] = {}


def _worker(place: str) -> _Worker:
    if not _workers:
        atexit.register(end_workers)
    return _workers.setdefault(place, _Worker(place))


def end_workers() -> None:
    """End every worker process of this process."""
    for worker in _workers.values():
        worker.end()
