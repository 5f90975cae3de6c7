# SPDX-License-Identifier: Apache-2.0
"""Running one command and ending it, with everything that it started, when it takes too long, grows too large or prints too much.

Output is read as it comes and kept up to a limit, so that a flood fills neither memory nor a pipe.
"""
from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

LOOK_SECONDS = 0.1         # between two looks at memory and processes
LAST_SECONDS = 1.0         # for output that is still in the pipes when the command has ended
CHUNK = 1 << 16


@dataclass(frozen=True)
class Completed:
    """How a command ended. `killed`: '' when by itself, else the limit that ended it: 'time', 'memory', 'processes' or 'output'."""

    returncode: int
    stdout: bytes
    stderr: bytes
    seconds: float
    killed: str = ""


def run(command: Sequence[str], input: bytes = b"", *, seconds: float, memory_bytes: int, output_bytes: int, processes: int,
        cwd: Path | None = None, env: dict[str, str] | None = None) -> Completed:
    """Run `command`, give it `input`, keep at most `output_bytes` of what it prints, and end it at the first limit it passes."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, cwd=cwd, env=env)
    pipes = _Pipes(process, input, output_bytes)
    try:
        killed = _watch(process, pipes, start + seconds, memory_bytes, processes)
    finally:
        end(process)
        pipes.drain(LAST_SECONDS)
        pipes.close()
    if not killed and pipes.flooded:
        killed = "output"
    return Completed(process.returncode, pipes.text(process.stdout), pipes.text(process.stderr), time.monotonic() - start, killed)


def _watch(process: subprocess.Popen, pipes: "_Pipes", until: float, memory_bytes: int, processes: int) -> str:
    look = time.monotonic()
    while process.poll() is None:
        now = time.monotonic()
        if now > until:
            return "time"
        if pipes.flooded:
            return "output"
        if now >= look:
            look = now + LOOK_SECONDS
            tree = descendants(process.pid)
            if len(tree) > processes:
                return "processes"
            if sum(map(resident_bytes, tree)) > memory_bytes:
                return "memory"
        pipes.move(min(LOOK_SECONDS, max(0.0, until - now)) / 2)
    return ""


class _Pipes:
    """The three pipes of a process, none of which ever blocks this one."""

    def __init__(self, process: subprocess.Popen, input: bytes, most: int):
        self.left, self.most, self.kept = memoryview(input), most, {process.stdout: bytearray(), process.stderr: bytearray()}
        self.count, self.selector, self.process = 0, selectors.DefaultSelector(), process
        for pipe in (process.stdin, process.stdout, process.stderr):
            os.set_blocking(pipe.fileno(), False)
        for pipe in self.kept:
            self.selector.register(pipe, selectors.EVENT_READ)
        self.selector.register(process.stdin, selectors.EVENT_WRITE)

    @property
    def flooded(self) -> bool:
        """True when more was printed than is kept."""
        return self.count > self.most

    def text(self, pipe) -> bytes:
        """What was kept of one pipe."""
        return bytes(self.kept[pipe])

    def move(self, seconds: float) -> bool:
        """Write and read what can be; waits at most `seconds` for something to do. False when all pipes are closed."""
        if not self.selector.get_map():
            time.sleep(min(seconds, 0.01))
            return False
        for key, _ in self.selector.select(seconds):
            if key.fileobj is self.process.stdin:
                self._write()
            else:
                self._read(key.fileobj)
        return True

    def _write(self) -> None:
        try:
            self.left = self.left[os.write(self.process.stdin.fileno(), self.left[:CHUNK]):]
        except BlockingIOError:
            return
        except OSError:                                     # it does not read, or has ended
            self.left = self.left[:0]
        if not self.left:
            self.selector.unregister(self.process.stdin)
            self.process.stdin.close()

    def _read(self, pipe) -> None:
        data = os.read(pipe.fileno(), CHUNK)
        if not data:
            self.selector.unregister(pipe)
        room = max(0, self.most - self.count)
        self.kept[pipe] += data[:room]
        self.count += len(data)

    def drain(self, seconds: float) -> None:
        """Read what the command left in its pipes before it ended."""
        until = time.monotonic() + seconds
        if not self.process.stdin.closed:
            self.selector.unregister(self.process.stdin)
        while not self.flooded and time.monotonic() < until and self.move(0.05):
            pass

    def close(self) -> None:
        """Close all of them."""
        self.selector.close()
        for pipe in (self.process.stdin, *self.kept):
            pipe.close()


def end(process: subprocess.Popen) -> None:
    """Kill a process and all that descend from it, and wait for it. What a sandbox holds dies with the sandbox's first process."""
    tree = descendants(process.pid)
    if process.poll() is None:
        _kill(tree[:1])                                     # first, so that it starts no more
    while tree:
        _kill(tree[::-1])
        tree = descendants(process.pid)
        if process.poll() is not None:
            break
    process.wait()


def _kill(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):       # it has ended
            process.kill()


def descendants(pid: int) -> list[psutil.Process]:
    """A process and all its living descendants, parents first ([] when it has ended)."""
    try:
        first = psutil.Process(pid)
        tree = [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
    return [process for process in tree if _lives(process)]


def _lives(process: psutil.Process) -> bool:
    """False for what has ended, also when its parent has not asked how yet."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def resident_bytes(process: psutil.Process) -> int:
    """Memory that a process holds in RAM, without files it has mapped (0 when it has ended)."""
    try:
        held = process.memory_info()
    except psutil.NoSuchProcess:
        return 0
    return held.rss - getattr(held, "shared", 0)
