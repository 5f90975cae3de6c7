# SPDX-License-Identifier: Apache-2.0
"""The queue: 20 clients of which one hangs, fair turns, time limits, crashes, clients that leave, and messages that are no messages."""
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from support.crowd import LEARNERS, ROUNDS, STAND_IN, crowd, outsider
from support.patience import PATIENCE
from support.queue_server import CODE, request, serving

import hopperlab as hl
from hopperlab.hopper.tensormap import TensorMapFields
from hopperlab.runtime.queue import client, wire
from hopperlab.runtime.queue.guests import MOST_LINES
from hopperlab.runtime.queue.fair_turns import LEAST, MOST_WAITING, QueueFull, Turns

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the queue's server needs Linux")

@pytest.fixture
def server(tmp_path):
    """Call it with Server's options: (server, path of its socket)."""
    with serving(tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def module():
    return hl.RawModule(code=CODE, backend="emulator", name="queue.cu")


@pytest.mark.parametrize("place, how, ready", [("gpu", {}, 4), ("emulator", {"at_once": 2}, 2), ("emulator", {"spares": 3}, 3), ("gpu", {"at_once": 6, "spares": 2}, 6)])
def test_so_many_workers_stand_ready(tmp_path, place, how, ready):
    """Before anybody asks, and again after a launch."""
    with serving(tmp_path, place) as start:
        made, path = start(worker=(sys.executable, "-I", "-S", "-c", STAND_IN), **how)
        for _ in range(2):
            until = time.monotonic() + 60 * PATIENCE
            while not all(one.done() for one in made._spares) and time.monotonic() < until:
                time.sleep(0.02)
            assert [one.done() for one in made._spares] == [True] * ready and len({one.result().pid for one in made._spares}) == ready
            assert client.ask(path, {"kernel": "quick", "user": "ada"}, 30 * PATIENCE, "ada")["kernel"] == "quick"


def test_no_spare_worker_is_a_usage_error(capsys):
    from hopperlab.cli import main
    assert main(["queue", "serve", "--spares", "0"]) == 2 and "--spares at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("clients", [6, pytest.param(20, marks=pytest.mark.thorough)])
def test_many_clients_of_which_one_hangs(server, module, monkeypatch, clients):
    made, path = server(limit=60 * PATIENCE, at_once=2, names=True)
    hang = request(module, "hang", (np.zeros(4, np.int32),), monkeypatch)

    def learner(number):
        if number == 3:
            with pytest.raises(hl.IsolatedError, match=r"hang did not finish in 1.5 s and was ended") as caught:
                client.ask(path, hang, 1.5, "learner 3")
            return caught.value.kind
        mine = request(module, "scale", (np.arange(4, dtype=np.float32), np.float32(number)), monkeypatch)
        return client.ask(path, mine, 60 * PATIENCE, f"learner {number}")["arrays"][0].tolist()
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules[__name__], "request", _serial(request))
        with ThreadPoolExecutor(clients) as pool:
            answers = list(pool.map(learner, range(clients)))
    assert answers.pop(3) == "timeout"
    assert answers == [[0, n, 2 * n, 3 * n] for n in range(clients) if n != 3]
    state = client.state(path)
    assert state["launches"] == clients and state["ended"] == 1 and len(state["users"]) == clients
    assert state["users"]["learner 3"]["seconds"] >= 1.5 and not any(u["waiting"] or u["running"] for u in state["users"].values())


def _serial(function):
    lock = threading.Lock()

    def one_at_a_time(*args):
        with lock:
            return function(*args)
    return one_at_a_time


@pytest.mark.thorough
def test_thirty_clients_of_which_one_is_killed_one_hangs_and_one_floods(server, tmp_path):
    worker = tmp_path / "stand_in.py"
    worker.write_text(STAND_IN)
    made, path = server(limit=3 * PATIENCE, names=True, worker=(sys.executable, "-I", "-S", str(worker)))
    answers = crowd(made, path, tmp_path, {"kernel": "work"}, {"kernel": "hang"}, 3 * PATIENCE)
    assert len(answers) == LEARNERS and all([one["who"] for one in mine] == [name] * ROUNDS for name, mine in answers.items()), "each got its own answers"


def test_what_one_client_may_hold_is_bounded_and_the_others_are_served(server, tmp_path):
    worker = tmp_path / "stand_in.py"
    worker.write_text(STAND_IN)
    made, path = server(limit=20 * PATIENCE, names=True, worker=(sys.executable, "-I", "-S", str(worker)))
    flood = outsider(path, tmp_path, {"kernel": "hang", "user": "flood", "timeout": 20 * PATIENCE}, MOST_LINES + 40)
    until = time.monotonic() + 20 * PATIENCE
    while made.turns.running.get("flood") is None and time.monotonic() < until:
        time.sleep(0.02)
    assert max(made.guests.lines.values()) <= MOST_LINES and len(made.turns.waiting["flood"]) <= MOST_WAITING
    with socket.socket(socket.AF_UNIX) as line, socket.socket(socket.AF_UNIX) as second:       # two halves of messages that are never sent whole
        for half in (line, second):
            half.connect(path)
            half.sendall(wire.MOST_BYTES.to_bytes(8, "little"))
        with pytest.raises(hl.IsolatedError, match="more than .* bytes wait") as caught:
            client.ask(path, {"kernel": "k", "more": b"x" * 4096}, 1, "greedy")
        assert caught.value.kind == "QueueFull"
    flood.kill()
    flood.wait()
    assert client.ask(path, {"kernel": "work"}, 10 * PATIENCE, "ann")["who"] == "ann"


@pytest.mark.parametrize("timeout", ["NaN", "-1.0", '"soon"', "1" + "0" * 400])
def test_a_time_limit_that_is_none_is_refused_and_delays_nobody(server, tmp_path, timeout):
    worker = tmp_path / "stand_in.py"
    worker.write_text(STAND_IN)
    made, path = server(limit=10 * PATIENCE, worker=(sys.executable, "-I", "-S", str(worker)))
    head = f'{{"$dict": [["kernel", "hang"], ["user", "x"], ["timeout", {timeout}]]}}'.encode()
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(path)
        line.sendall((8 + len(head)).to_bytes(8, "little") + len(head).to_bytes(8, "little") + head)
        size = int.from_bytes(line.recv(8), "little")
        assert wire.unpack(line.recv(size))["kind"] == "WireError" and made.launches == 0
    assert client.ask(path, {"kernel": "work"}, 10 * PATIENCE)["kernel"] == "work"


def test_a_fault_of_the_queue_itself_costs_one_launch(server, tmp_path, monkeypatch):
    worker = tmp_path / "stand_in.py"
    worker.write_text(STAND_IN)
    made, path = server(worker=(sys.executable, "-I", "-S", str(worker)))
    with monkeypatch.context() as patch:
        patch.setattr(made, "_ask", lambda process, body: 1 / 0)
        with pytest.raises(hl.IsolatedError, match="could not run it .ZeroDivisionError") as caught:
            client.ask(path, {"kernel": "work"}, 5 * PATIENCE)
    assert caught.value.kind == "crash" and client.ask(path, {"kernel": "work"}, 5 * PATIENCE)["kernel"] == "work"


def test_a_head_that_takes_long_to_read_is_not_read():
    body = (wire.MOST_HEAD + 1).to_bytes(8, "little") + b"[" * (wire.MOST_HEAD + 1)
    with pytest.raises(wire.WireError, match="too long"):
        wire.head_of(body)
    with pytest.raises(wire.WireError, match="damaged"):
        wire.head_of((200_000).to_bytes(8, "little") + b"[" * 200_000)


def test_run_isolated_goes_through_the_queue_and_brings_results_back(server, module, monkeypatch):
    made, path = server()
    monkeypatch.setenv("HOPPERLAB_QUEUE", path)
    values = np.arange(4, dtype=np.float32)
    done = hl.run_isolated(module.get_function("scale"), (1,), (4,), (values, np.float32(3)))
    assert values.tolist() == [0, 3, 6, 9] and done.place == "emulator" and made.launches == 1
    with pytest.raises(hl.IsolatedError, match="MemoryFault: ") as caught:
        hl.run_isolated(module.get_function("past"), (1,), (1,), (np.zeros(4, np.int32),))
    assert caught.value.kind == "MemoryFault"


def test_a_worker_that_dies_and_a_client_that_leaves_cost_nobody_else(server, module, monkeypatch, tmp_path):
    crash = tmp_path / "worker.py"
    crash.write_text("import os, sys\nfrom hopperlab.runtime.queue import wire as w\nsys.stdout.buffer.write(w.pack({'ready': True}))\nsys.stdout.flush()\n"
                     "body = w.unpack(sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(8), 'little')))\n"
                     "if body['kernel'] == 'die': os._exit(7)\nif body['kernel'] == 'sleep': __import__('time').sleep(3600)\n"
                     "sys.stdout.buffer.write(w.pack({'arrays': [], 'seconds': 0.0, 'kernel': body['kernel']}))\n")
    made, path = server(limit=30 * PATIENCE, worker=(sys.executable, str(crash)))
    with pytest.raises(hl.IsolatedError, match="exit code 7") as caught:
        client.ask(path, {"kernel": "die"}, 5 * PATIENCE)
    assert caught.value.kind == "crash"
    for _ in range(2):                       # one that runs, one that waits; both leave
        line = socket.socket(socket.AF_UNIX)
        line.connect(path)
        line.sendall(wire.pack({"kernel": "sleep", "timeout": 30.0 * PATIENCE, "user": "x"}))
        time.sleep(0.3 * PATIENCE)
        line.close()
    began = time.monotonic()
    assert client.ask(path, {"kernel": "fine"}, 5 * PATIENCE)["kernel"] == "fine"
    assert time.monotonic() - began < 10 * PATIENCE and made.ended == 0


def test_the_servers_limit_holds_whatever_the_client_asks_for(server, tmp_path):
    sleeper = tmp_path / "worker.py"
    sleeper.write_text("import sys, time\nfrom hopperlab.runtime.queue import wire as w\nsys.stdout.buffer.write(w.pack({'ready': "
                       "True}))\nsys.stdout.flush()\ntime.sleep(60)\n")
    made, path = server(limit=0.3, worker=(sys.executable, str(sleeper)))
    with pytest.raises(hl.IsolatedError, match="k did not finish in 0.3 s"):
        client.ask(path, {"kernel": "k"}, 1000)
    assert made.ended == 1


def test_a_worker_that_does_not_start_is_said(server):
    _, path = server(worker=(sys.executable, "-c", "raise SystemExit(1)"))
    with pytest.raises(hl.IsolatedError, match="did not start"):
        client.ask(path, {"kernel": "k"}, 5)


def test_messages_that_are_none_end_the_connection_only(server):
    _, path = server(worker=(sys.executable, "-c", ""))
    for data in (b"GET / HTTP/1.1\r\n\r\n" * 3, (1 << 40).to_bytes(8, "little"), wire.pack({"a": 1})[:20], (20).to_bytes(8, "little") + b"\xff" * 20):
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(path)
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
            line.settimeout(10 * PATIENCE)
            while line.recv(4096):
                pass
    assert client.state(path)["launches"] == 0


def test_a_queue_that_is_not_there_is_one_clear_error(module, monkeypatch, tmp_path):
    monkeypatch.setenv("HOPPERLAB_QUEUE", str(tmp_path / "none.sock"))
    with pytest.raises(hl.IsolatedError, match="does not answer.*hopperlab queue serve") as caught:
        hl.run_isolated(module.get_function("scale"), (1,), (4,), (np.zeros(4, np.float32), np.float32(1)))
    assert caught.value.kind == "queue"


def served(turns, seconds):
    order = []
    while (turn := turns.take()) is not None:
        order.append(turn[1])
        turns.done(turn[0], seconds.get(turn[1], 1.0))
    return order


def test_a_greedy_user_does_not_delay_the_others():
    turns = Turns()
    for n in range(4):
        turns.add("greedy", f"g{n}")
    turns.add("ann", "a0")
    turns.add("bob", "b0")
    assert served(turns, {}) == ["g0", "a0", "b0", "g1", "g2", "g3"]


def test_who_hangs_pays_with_later_turns():
    turns = Turns()
    for n in range(3):
        turns.add("hangs", f"h{n}")
        turns.add("ann", f"a{n}")
    assert served(turns, {"h0": 20.0}) == ["h0", "a0", "a1", "a2", "h1", "h2"]


def test_a_pause_earns_no_credit():
    turns = Turns()
    turns.add("late", "l0")
    served(turns, {})
    for n in range(3):
        turns.add("ann", f"a{n}")
    for _ in range(2):
        user, _ = turns.take()
        turns.done(user, 10.0)
    for n in range(3):
        turns.add("late", f"m{n}")
    assert served(turns, {}).index("a2") <= 1, "level with those who wait, not before all of them"
    assert turns.as_dict()["late"]["seconds"] >= 20


def test_the_shortest_launch_is_charged_and_too_many_are_refused():
    turns = Turns()
    for n in range(MOST_WAITING):
        assert turns.add("ann", n) == n
    with pytest.raises(QueueFull, match=f"{MOST_WAITING} launches waiting"):
        turns.add("ann", "more")
    turns.drop("ann", 0)
    turns.take()
    turns.done("ann", 0.0)
    assert turns.as_dict() == {"ann": {"waiting": MOST_WAITING - 2, "running": 0, "seconds": LEAST}}


def test_values_travel_and_come_back_the_same():
    fields = hl.TensorMap.tiled(np.zeros((8, 16), np.float32), box=(4, 8)).fields
    sent = {"a": np.arange(6).reshape(2, 3), "f": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "b": np.ones(3, ml_dtypes.bfloat16), "v": np.zeros(2, "V128"),
            "e": np.zeros((0, 4), np.int8), "bytes": b"\0\xff", "args": [("map", 0, 16, fields), ("scalar", "float32", b"abcd")], "none": None,
            "grid": (1, np.int32(2)), "x": 1.5}
    back = wire.unpack(wire.pack(sent)[wire.LENGTH:])
    for name in "afbve":
        assert back[name].dtype == sent[name].dtype and back[name].shape == sent[name].shape and back[name].tobytes("A") == sent[name].tobytes("A"), name
    assert back["f"].flags.f_contiguous and back["args"] == sent["args"] and isinstance(back["args"][0][3], TensorMapFields)
    assert back["grid"] == (1, 2) and back["bytes"] == b"\0\xff" and back["none"] is None and back["x"] == 1.5
    assert wire.head_of(wire.pack(sent)[wire.LENGTH:]) == {"x": 1.5}


@pytest.mark.parametrize("value", [{"a": object()}, {"a": {1, 2}}, {1: "a"}])
def test_what_cannot_travel_is_refused(value):
    with pytest.raises(wire.WireError):
        wire.pack(value)


def test_a_message_runs_no_code_and_its_damage_is_named():
    body = bytearray(wire.pack({"a": np.arange(4)})[wire.LENGTH:])
    with pytest.raises(wire.WireError, match="bytes are missing"):
        wire.unpack(body[:-8])
    import ast
    import inspect
    imported = {alias.name for node in ast.walk(ast.parse(inspect.getsource(wire))) if isinstance(node, ast.Import) for alias in node.names}
    assert not imported & {"pickle", "marshal", "shelve"}


def test_the_command_serves_tells_its_state_and_stops(tmp_path, module, monkeypatch):
    path = str(tmp_path / "q.sock")
    env = {**os.environ, "HOPPERLAB_BACKEND": "emulator"}
    process = subprocess.Popen([sys.executable, "-u", "-m", "hopperlab", "queue", "serve", "--socket", path, "--limit", "5", "--names"], stdout=subprocess.PIPE,
                               text=True, env=env)
    try:
        assert "in the emulator, at most 5 s" in process.stdout.readline() and f"HOPPERLAB_QUEUE={path}" in process.stdout.readline()
        deadline = time.monotonic() + 20 * PATIENCE
        while not os.path.exists(path) and time.monotonic() < deadline:
            time.sleep(0.05)
        monkeypatch.setenv("HOPPERLAB_QUEUE", path)
        monkeypatch.setenv("JUPYTERHUB_USER", "ann")
        hl.run_isolated(module.get_function("scale"), (1,), (4,), (np.zeros(4, np.float32), np.float32(1)))
        shown = subprocess.run([sys.executable, "-m", "hopperlab", "queue", "state"], capture_output=True, text=True,
                               env={**os.environ, "HOPPERLAB_QUEUE": path}, check=True).stdout
        assert "1 launch so far, 0 ended" in shown and "ann" in shown
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=False).stdout.split()
    finally:
        process.send_signal(signal.SIGTERM)
    assert process.wait(20 * PATIENCE) == 0 and not os.path.exists(path)
    assert children and not any(os.path.exists(f"/proc/{pid}") for pid in children), "a worker outlived the server"


def test_the_state_of_no_queue_is_exit_code_1(tmp_path):
    done = subprocess.run([sys.executable, "-m", "hopperlab", "queue", "state", "--socket", str(tmp_path / "none")], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "does not answer" in done.stderr and "Traceback" not in done.stderr


def test_head_is_json_only():
    body = wire.pack({"kernel": "k", "timeout": 2.0, "cubin": b"x" * 100})[wire.LENGTH:]
    size = int.from_bytes(body[:8], "little")
    assert json.loads(body[8:8 + size]) and wire.head_of(body) == {"kernel": "k", "timeout": 2.0}
