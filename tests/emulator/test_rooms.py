# SPDX-License-Identifier: Apache-2.0
"""The rooms of the emulator: what happens is said once, in words that listeners share. What may import what stands in tests/test_architecture.py."""
import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import hopperlab as hl
from hopperlab import emulator
from hopperlab.emulator.hazards import watch
from hopperlab.emulator.machine import events
from hopperlab.emulator.observe import access_tracer, counting, deadlock, progress, tracer, work
from hopperlab.estimates import order, trace, wave
from support.emulated import run_ptx

ROOT = Path(emulator.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
OF_EMULATOR = {one for module in (watch, access_tracer, counting, deadlock, progress, tracer, work) for _, one in inspect.getmembers(module, inspect.isclass)
               if issubclass(one, events.Listener) and one is not events.Listener}
LISTENERS = sorted({*watch.checks(), *OF_EMULATOR, order.Heard, trace.Recorder, wave.Loads}, key=lambda one: (one.__name__, one.__module__))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").as_posix().removesuffix("/__init__")


@pytest.mark.parametrize("path", [path for path in FILES if name_of(path).split("/")[0] in ("ops", "machine", "compile")], ids=name_of)
def test_nobody_asks_whether_somebody_listens(path):
    found = re.findall(r"\b(?:shadow|trace|checks|counting|findings|session\.check)\b(?: is (?:not )?None)?", path.read_text(encoding="utf-8"))
    assert not [word for word in found if "None" in word or word == "session.check"], found


@pytest.mark.parametrize("listener", LISTENERS, ids=lambda one: one.__name__)
def test_listeners_hear_events_as_they_are_said(listener):
    """What a listener overrides has the parameters that the list of events gives; and it overrides something."""
    heard = [name for name in events.NAMES if getattr(listener, name) is not getattr(events.Listener, name)]
    assert heard
    for name in heard:
        assert list(inspect.signature(getattr(listener, name)).parameters) == list(inspect.signature(getattr(events.Listener, name)).parameters), name


RAISED = r"""
extern "C" __global__ void k(const int* x, int* y) {
    __shared__ int s;
    s = 0;
    int v = atomicAdd(&s, 1);
    asm volatile("ld.volatile.u32 %0, [%1];" : "=r"(v) : "l"(x));
    *(volatile int*)y = v;
}"""


def test_every_listener_of_hazards_hears_a_launch(monkeypatch):
    """Those of checks_*.py are found by themselves; watch.py puts the others together. What hears flags between grids hears launches that may run beside others, and what
    hears letters and flags those with volatile loads, and what hears first values those with atomics on shared words."""
    written = {one for path in sorted((ROOT / "hazards").glob("[a-z]*.py")) for one in vars(import_module(f"{emulator.__name__}.hazards.{path.stem}")).values()
               if inspect.isclass(one) and issubclass(one, events.Listener) and one is not events.Listener}
    hearing, put_together = [], watch.listeners
    monkeypatch.setattr(watch, "listeners", lambda machine: hearing.extend(put_together(machine)) or hearing)
    run_ptx("ret;\nld.volatile.u32 %r1, [%rd1];\nst.volatile.global.u32 [%rd2], %r1;\natom.shared.add.u32 %r1, [%r2], 1;", [])
    alone = sorted(type(one).__name__ for one in hearing)
    hearing.clear()
    with hl.emulate():
        hl.RawModule(code=RAISED, backend="emulator").get_function("k")((1,), (1,), (np.zeros(1, np.int32), np.zeros(1, np.int32)), stream=hl.Stream(backend="emulator"))
        hl.synchronize("emulator")
    beside = sorted(type(one).__name__ for one in hearing)
    assert beside == sorted(one.__name__ for one in written) and beside == sorted([*alone, "AtomicStarts", "GridFlags"])


def said() -> dict[str, set[int]]:
    """Events that machine, handlers and emitted code say, and with how many arguments."""
    found: dict[str, set[int]] = {}
    for path in FILES:
        if name_of(path).split("/")[0] in ("machine", "ops"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value).endswith(".tell"):
                    found.setdefault(node.func.attr, set()).add(len(node.args))
                elif isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith(".tell"):
                    found.setdefault(node.attr, set())
        for name in re.findall(r"M\.tell\.(\w+)\(C, \{", path.read_text(encoding="utf-8")):
            found.setdefault(name, set())
    return found


def test_every_event_is_said_and_heard():
    heard = {name for name in events.NAMES for one in LISTENERS if getattr(one, name) is not getattr(events.Listener, name)}
    spoken = said()
    assert set(spoken) == set(events.NAMES) == heard
    for name, counts in spoken.items():
        assert counts <= {len(inspect.signature(getattr(events.Listener, name)).parameters) - 1}, name


def test_what_nobody_hears_costs_one_call_and_several_are_heard_in_order():
    log = []

    class One(events.Listener):
        def closed(self) -> None:
            log.append("one")

    class Other(events.Listener):
        def closed(self) -> None:
            log.append("other")
    tell = events.Events([One(), Other()])
    tell.closed()
    assert log == ["one", "other"] and tell.finished is events._nothing and events.Events([One()]).closed.__name__ == "closed"
