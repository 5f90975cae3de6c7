# SPDX-License-Identifier: Apache-2.0
"""Thirty clients of the queue: 27 that work, one that hangs, one whose process is killed while its launch runs, one that floods. For a stand-in and for a GPU."""
from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support.patience import PATIENCE

from hopperlab.runtime.errors import IsolatedError
from hopperlab.runtime.queue import client, wire

LEARNERS, ROUNDS = 27, 2
STAND_IN = """
import json, sys, time
def say(value):
    head = json.dumps({"$dict": [[k, v] for k, v in value.items()]}).encode()
    body = len(head).to_bytes(8, "little") + head
    sys.stdout.buffer.write(len(body).to_bytes(8, "little") + body); sys.stdout.flush()
say({"ready": True})
body = sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(8), "little"))
head = dict(json.loads(body[8:8 + int.from_bytes(body[:8], "little")])["$dict"])
time.sleep(3600 if head["kernel"] == "hang" else 0.03)
say({"kernel": head["kernel"], "who": head["user"]})
"""
"""A worker that has no GPU: one launch takes 30 ms, `hang` an hour."""
CLIENT = """
import socket, sys, time
path, data, many = sys.argv[1], open(sys.argv[2], "rb").read(), int(sys.argv[3])
lines = []
for _ in range(many):
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(path); line.sendall(data); lines.append(line)
    except OSError:
        pass
print("sent", flush=True)
time.sleep(3600)
"""
"""Sends one message over many connections, and reads no answer."""


def outsider(path: str, folder: Path, message: Mapping, many: int) -> subprocess.Popen:
    """A process that sends `message` over `many` connections."""
    data = folder / f"message{len(list(folder.glob('message*')))}"
    data.write_bytes(wire.pack(message))
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", CLIENT, path, str(data), str(many)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"sent\n"
    return process


def crowd(made, path: str, folder: Path, work: Mapping, hang: Mapping, limit: float) -> dict[str, list]:
    """Let the thirty at a server that goes by names, and return the answers of those who work; says what went wrong by assertions.

    work, hang: what the launches are; limit: seconds that the server lets one run.
    """
    took: dict[str, list[float]] = {}
    done = made.turns.done
    made.turns.done = lambda user, seconds: (took.setdefault(user, []).append(seconds), done(user, seconds))[1]
    killed = outsider(path, folder, {**hang, "timeout": limit, "user": "killed"}, 1)
    until = time.monotonic() + 60 * PATIENCE
    while "killed" not in made.turns.running and time.monotonic() < until:
        time.sleep(0.02)
    flood = outsider(path, folder, {**work, "timeout": limit, "user": "flood"}, 300)
    hung: list[str] = []
    threading.Thread(target=_hangs, args=(path, hang, limit, hung), daemon=True).start()

    def learner(number: int) -> list:
        return [client.ask(path, work, limit, f"learner{number}") for _ in range(ROUNDS)]
    with ThreadPoolExecutor(LEARNERS) as pool:
        asked = [pool.submit(learner, number) for number in range(LEARNERS)]
        assert "killed" in made.turns.running, "it must run when it is killed"
        killed.kill()
        killed.wait()
        answers = {f"learner{number}": one.result(120 * PATIENCE) for number, one in enumerate(asked)}
    charged = {user: sum(seconds) for user, seconds in took.items()}
    while not hung and time.monotonic() < until + 120 * PATIENCE:
        time.sleep(0.05)
    flood.kill()
    flood.wait()
    assert hung == ["timeout"] and made.ended == 1, "the launch that hangs is ended at its limit, the killed one's when it is gone"
    assert sum(took["killed"]) < limit, "a launch goes on without its client"
    longest = max(max(seconds) for user, seconds in took.items() if user != "hangs")
    most = max(charged[f"learner{number}"] for number in range(LEARNERS))
    assert charged.get("flood", 0.0) <= most + longest, "who floods gets no more than the others"
    while any(user["waiting"] or user["running"] for user in made.turns.as_dict().values()) and time.monotonic() < until + 120 * PATIENCE:
        time.sleep(0.05)
    assert not made.turns.running and not made.guests.lines and not made.guests.held, "something is held for clients that are gone"
    return answers


def _hangs(path: str, hang: Mapping, limit: float, said: list[str]) -> None:
    try:
        client.ask(path, hang, limit, "hangs")
    except IsolatedError as problem:
        said.append(problem.kind)
