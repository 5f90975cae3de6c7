# SPDX-License-Identifier: Apache-2.0
"""The queue's server: many learners, one GPU. It takes launches over a Unix socket and runs each in a worker process of its own, one at
a time (or a few), fair by user, with a time limit. A launch that hangs or crashes costs its worker and its user's turn, nobody else's.

Spare workers stand ready, so that a launch need not wait for Python, CuPy and a CUDA context. Users are told apart by what the kernel
says of the socket's other end; with `names`, by the name that the client gives (containers in which all have one uid).
"""
from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import socket
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from . import wire
from .guests import Guests, TooMuch
from .fair_turns import QueueFull, Turns

WORKER = (sys.executable, "-m", "hopperlab.runtime.queue.worker")
START_SECONDS = 120.0
SPARES = 4                  # on a GPU: a worker takes seconds to start, a launch milliseconds to run
READ_SECONDS = 60.0         # for a client to take its answer; one that does not is left


@dataclass(eq=False)
class Launch:
    """One message that waits or runs: what it says, and the future that its client waits for."""

    body: bytes
    name: str
    timeout: float
    answer: asyncio.Future[bytes]
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)


class Settable(Protocol):
    """An event of threading or of asyncio."""

    def set(self) -> None:
        """It has come."""


class Server:
    """Serves `path` until it is stopped. place: 'gpu' or 'emulator'. limit: most seconds a launch may run. at_once: launches side by side.
    spares: workers that stand ready for the next launches, at least `at_once` (default: 4 on a GPU, `at_once` in the emulator)."""

    def __init__(self, path: Path, place: str, limit: float = 20.0, at_once: int = 1, names: bool = False, worker: Sequence[str] = WORKER, spares: int | None = None):
        self.path, self.place, self.limit, self.at_once, self.names, self.worker = Path(path), place, limit, at_once, names, tuple(worker)
        self.turns, self.guests, self.launches, self.ended = Turns(), Guests(), 0, 0
        self.spares = max(at_once, SPARES if place == "gpu" else 0) if spares is None else max(at_once, spares)
        self._spares: list[asyncio.Task[asyncio.subprocess.Process]] = []
        self._news = asyncio.Event()

    async def serve(self, ready: Settable | None = None) -> None:
        """Listen and run launches; `ready` is set once the socket answers. Cancel the task to stop: workers are ended, the socket removed."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        runners: list[asyncio.Task[None]] = []
        try:
            server = await asyncio.start_unix_server(self._client, path=str(self.path))
            os.chmod(self.path, 0o666)
            runners = [asyncio.create_task(self._run_launches()) for _ in range(self.at_once)]
            self._spares = [asyncio.create_task(self._start()) for _ in range(self.spares)]
            if ready is not None:
                ready.set()
            async with server:
                await asyncio.gather(*runners)
        finally:
            for task in runners:
                task.cancel()
            await self._end_spares()
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client: each message is a launch, or a question for the state; answered in order."""
        pid, uid = _peer(writer)
        try:
            with self.guests.line((uid, (pid or id(writer)) if self.names else 0)) as line:        # pid 0: in a container that this one does not see into
                while True:
                    with line.message(await _size(reader)) as size:
                        body = await reader.readexactly(size)
                        writer.write(await self._answer(body, reader, writer))
                        del body
                        await asyncio.wait_for(writer.drain(), READ_SECONDS)
        except TooMuch as problem:
            writer.write(_said(str(problem), "QueueFull"))
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError, wire.WireError):
            pass
        finally:
            writer.close()

    async def _answer(self, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        try:
            head = wire.head_of(body)
            if head.get("ask") == "state":
                return wire.pack({"place": self.place, "limit": self.limit, "launches": self.launches, "ended": self.ended, "users": self.turns.as_dict()})
            launch = Launch(body, str(head.get("kernel", "?"))[:200], _seconds(head.get("timeout", self.limit), self.limit), asyncio.get_running_loop().create_future())
        except wire.WireError as problem:
            return _said(str(problem), "WireError")
        user = self._user(writer, str(head.get("user", "")))
        try:
            self.turns.add(user, launch)
        except QueueFull as problem:
            return _said(f"{problem}; wait for some of them", "QueueFull")
        self._news.set()
        gone = asyncio.create_task(reader.read(1))           # a client says nothing while it waits: a byte or the end means it is gone
        both: set[asyncio.Future[Any]] = {gone, launch.answer}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not launch.answer.done():
            self.turns.drop(user, launch)
            launch.cancelled.set()
            raise ConnectionResetError
        gone.cancel()
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            await gone
        return launch.answer.result()

    def _user(self, writer: asyncio.StreamWriter, given: str) -> str:
        """Who is at the other end: the uid that the kernel vouches for, or the name given where the server trusts names."""
        if self.names and given:
            return given[:64]
        uid = _peer(writer)[1]
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return f"uid {uid}"

    async def _run_launches(self) -> None:
        while True:
            turn = self.turns.take()
            if turn is None:
                self._news.clear()
                await self._news.wait()
                continue
            user, launch = turn
            began = time.monotonic()
            try:
                answer = await self._run(launch)
            except Exception as problem:                     # whatever one launch brings about, the next one has its turn
                answer = _said(f"the queue could not run it ({type(problem).__name__}: {problem})", "crash")
            finally:
                self.turns.done(user, time.monotonic() - began)
            self.launches += 1
            if not launch.answer.done():
                launch.answer.set_result(answer)

    async def _run(self, launch: Launch) -> bytes:
        """One launch in one worker, which is ended afterwards whatever happened; the next spare starts meanwhile."""
        try:
            process = await self._ready_worker()
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as problem:
            return _said(f"a worker process for the {self.place} did not start ({type(problem).__name__}: {problem})", "crash")
        work, gone = asyncio.create_task(self._ask(process, launch.body)), asyncio.create_task(launch.cancelled.wait())
        try:
            await asyncio.wait({work, gone}, timeout=launch.timeout, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            self.ended += not gone.done()
            return _said(f"{launch.name} did not finish in {launch.timeout:g} s and was ended. If it waits for a barrier nobody completes, "
                         "`with hl.emulate():` names the barrier and the line", "timeout")
        finally:
            for task in (work, gone):
                task.cancel()
            await end(process)

    async def _ready_worker(self) -> asyncio.subprocess.Process:
        """A spare worker, one that is ready if there is one, while the next one starts; a fresh one where the spare did not start (memory may have
        been short just then)."""
        spare = next((one for one in self._spares if one.done()), self._spares[0])
        self._spares.remove(spare)
        try:
            return await spare
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return await self._start()
        finally:
            self._spares.append(asyncio.create_task(self._start()))

    async def _ask(self, process: asyncio.subprocess.Process, body: bytes) -> bytes:
        """The worker's answer as it came: its arrays are the client's to read."""
        try:
            stdin, stdout = _pipes(process)
            stdin.write(len(body).to_bytes(wire.LENGTH, "little") + body)
            await stdin.drain()
            answer = await read_message(stdout)
            return len(answer).to_bytes(wire.LENGTH, "little") + answer
        except (asyncio.IncompleteReadError, ConnectionError):
            return _said(f"the worker process ended while it ran the launch (exit code {await process.wait()})", "crash")
        except wire.WireError as problem:
            return _said(str(problem), "crash")

    async def _start(self) -> asyncio.subprocess.Process:
        """A worker that has said that it is ready. It is of a process group of its own, so that Ctrl-C at the server's terminal is for the server, which ends it."""
        process = await asyncio.create_subprocess_exec(*self.worker, self.place, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, process_group=0)
        try:
            await asyncio.wait_for(read_message(_pipes(process)[1]), START_SECONDS)
        except BaseException:
            await end(process)
            raise
        return process

    async def _end_spares(self) -> None:
        for task in self._spares:
            task.cancel()
        for outcome in await asyncio.gather(*self._spares, return_exceptions=True):
            if isinstance(outcome, asyncio.subprocess.Process):
                await end(outcome)


def _peer(writer: asyncio.StreamWriter) -> tuple[int, int]:
    """The pid and the uid of the socket's other end, which the kernel vouches for."""
    peer = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", peer)
    return pid, uid


def _seconds(asked: Any, limit: float) -> float:
    """The time limit of a launch: what its client asked for, if that is a number, and the server's own at most. Raises WireError."""
    try:
        seconds = float(asked)
    except (ValueError, OverflowError) as problem:
        raise wire.WireError(f"a damaged message: {asked!r:.100} is no time limit") from problem
    if not seconds >= 0:                                     # NaN would never come
        raise wire.WireError(f"a damaged message: {seconds} is no time limit")
    return min(seconds, limit)


def _said(error: str, kind: str) -> bytes:
    """The message of a launch that brought nothing."""
    return wire.pack({"error": error, "kind": kind, "fatal": False})


async def _size(reader: asyncio.StreamReader) -> int:
    size = int.from_bytes(await reader.readexactly(wire.LENGTH), "little")
    if size > wire.MOST_BYTES:
        raise wire.WireError(f"a message of {size} bytes is too long")
    return size


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """The body of the next message. Raises WireError for one that is too long, IncompleteReadError at the end."""
    return await reader.readexactly(await _size(reader))


def _pipes(process: asyncio.subprocess.Process) -> tuple[asyncio.StreamWriter, asyncio.StreamReader]:
    assert process.stdin is not None and process.stdout is not None, "workers are started with pipes"
    return process.stdin, process.stdout


async def end(process: asyncio.subprocess.Process) -> None:
    """End a process and wait until it is gone."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
