# SPDX-License-Identifier: Apache-2.0
"""Programs of several grids drawn at random, on streams of one or two devices, with events, dependent launches, waits and copies by the host: the emulator names
exactly the pairs that nothing orders, under every schedule. What is ordered is worked out here, from sets alone."""
import re
from dataclasses import dataclass, field

import hopperlab as hl
import numpy as np
import pytest

xp = hl.array_module("emulator")
ARRAYS, N = 4, 64
SOURCE = r"""
#define WAIT asm volatile("griddepcontrol.wait;" ::: "memory")
#define TRIGGER asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define KERNEL(name, first, middle) extern "C" __global__ void name(const int* a, const int* b, int* c) { \
    int i = blockIdx.x * 32 + threadIdx.x; first; int x = a[i]; middle; c[i] = x + b[(i + 33) % 64] + 1; }
KERNEL(plain, , )
KERNEL(starts, TRIGGER, )
KERNEL(waits, WAIT, )
KERNEL(late, , WAIT)
KERNEL(starts_waits, TRIGGER; WAIT, )
KERNEL(waits_starts, WAIT; TRIGGER, )
KERNEL(starts_late, TRIGGER, WAIT)
KERNEL(late_starts, , WAIT; TRIGGER)
"""
NAMES = ("plain", "starts", "waits", "late", "starts_waits", "waits_starts", "starts_late", "late_starts")


@dataclass
class Launched:
    """One grid of the model: what it knows at its start and after its wait, and its accesses before and after that."""

    number: int
    known: frozenset
    after: frozenset
    waits: bool
    knows_early: bool
    accesses: list = field(default_factory=list)          # (array, writes, whether after the wait)


class Model:
    """What is over before what, by the rules of docs/emulator.md."""

    def __init__(self, streams: list):
        self.streams = streams                             # device of each
        self.host: frozenset = frozenset()
        self.tails = [frozenset() for _ in streams]
        self.events = [frozenset() for _ in streams]
        self.latest: list = [None for _ in streams]
        self.grids: list = []
        self.pairs: set = set()
        self.host_pairs: set = set()

    def ahead(self, stream):
        return self.host | self.tails[stream]

    def launch(self, stream, name, arrays, dependent):
        front, number = self.latest[stream], len(self.grids) + 1
        if dependent and front is not None and front.number not in self.host:
            known = self.host | self.events[stream] | front.known | (front.after if front.knows_early else frozenset())
            after = known | {front.number} | (front.after if front.waits else front.known)
        else:
            known = after = self.ahead(stream)
        waits = name not in ("plain", "starts")
        a, b, c = arrays
        early = name in ("late", "starts_late", "late_starts")
        grid = Launched(number, known, after if waits else known, waits, waits and name != "starts_waits" and name != "starts_late",
                        [(a, False, not early), (b, False, True), (c, True, True)])
        for other in self.grids:
            for array, writes, later in grid.accesses:
                ordered = other.number in (grid.after if later else grid.known)
                if not ordered and any(x == array and (writes or w) for x, w, _ in other.accesses):
                    self.pairs.add((other.number, number))
        self.grids.append(grid)
        self.tails[stream] = self.ahead(stream) | {number}
        self.events[stream], self.latest[stream] = frozenset(), grid

    def wait(self, stream, event):
        self.tails[stream] |= event
        self.events[stream] |= event

    def synchronise(self, over):
        self.host |= over

    def host_read(self, stream, array):
        self.synchronise(self.ahead(stream))
        self.host_pairs |= {g.number for g in self.grids if g.number not in self.host and any(x == array and w for x, w, _ in g.accesses)}


def run(seed: int, schedule: str, steps: int = 12):
    """The same drawn program in the model and in the emulator: (model, session)."""
    hl.synchronize("emulator")                              # what an earlier test launched is over: launches count from 1
    rng = np.random.default_rng(seed)
    devices = hl.devices(2, backend="emulator") if rng.random() < 0.3 else hl.devices(1, backend="emulator") * 2
    module = hl.RawModule(code=SOURCE, backend="emulator")
    arrays = [xp.zeros(N, np.int32) for _ in range(ARRAYS)]
    model = Model([int(rng.integers(2)) for _ in range(int(rng.integers(2, 4)))])
    with hl.emulate(schedule=schedule, seed=seed, hazards="collect", trace=False) as session:
        streams = []
        for device in model.streams:
            with devices[device]:
                streams.append(hl.Stream(backend="emulator"))
        recorded = []
        for _ in range(steps):
            k, what = int(rng.integers(len(streams))), rng.random()
            if what < 0.55:
                name, chosen = NAMES[int(rng.integers(len(NAMES)))], rng.permutation(ARRAYS)[:3].tolist()
                dependent = bool(rng.random() < 0.5)
                model.launch(k, name, chosen, dependent)
                module.get_function(name)((2,), (32,), tuple(arrays[c] for c in chosen), stream=streams[k], dependent=dependent)
            elif what < 0.7:
                recorded.append((model.ahead(k), streams[k].record()))
            elif what < 0.87 and recorded:
                known, event = recorded[int(rng.integers(len(recorded)))]
                model.wait(k, known)
                streams[k].wait_event(event)
            elif what < 0.91:
                model.synchronise(model.ahead(k))
                streams[k].synchronize()
            elif what < 0.95:
                array = int(rng.integers(ARRAYS))
                model.host_read(k, array)
                with streams[k]:
                    arrays[array].get()
            elif recorded:
                known, event = recorded[int(rng.integers(len(recorded)))]
                model.synchronise(known)
                event.synchronize()
    return model, session


def numbers(hazard) -> tuple:
    """Numbers of the launches that a hazard names, earlier first."""
    return tuple(int(re.search(r"launch (\d+)", hazard.facts[key])[1]) for key in ("other", "kernel") if key in hazard.facts)


def check(seed: int, schedule: str) -> None:
    model, session = run(seed, schedule)
    found = {numbers(h) for h in session.hazards}
    assert {pair for pair in found if len(pair) == 2} == model.pairs, (seed, schedule)
    assert {pair[0] for pair in found if len(pair) == 1} == model.host_pairs, (seed, schedule)


@pytest.mark.parametrize("seed", range(30))
def test_exactly_what_nothing_orders_is_named(seed):
    for schedule in ("lazy", "eager", "random"):
        check(seed, schedule)


@pytest.mark.thorough
@pytest.mark.parametrize("block", range(20))
@pytest.mark.sampled(ci=2)
def test_exactly_what_nothing_orders_is_named_in_many_programs(block):
    for seed in range(100 + 40 * block, 140 + 40 * block):
        check(seed, ("lazy", "eager", "random", "late-wgmma", "late-copies")[seed % 5])
