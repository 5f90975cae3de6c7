# SPDX-License-Identifier: Apache-2.0
"""Launches seen after the emulator ran them: what they were given, whether they were clean; and what a panel says of them on a GPU."""
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.measure.machine.timing import Sample
from hopperlab.runtime.arrays import array_module
from hopperlab.runtime.gpu.relaunch import holds_addresses
from hopperlab.runtime.watching import Seen, watching
from hopperlab.show import panel_on_gpu

ADD = """extern "C" __global__ void add(float* x, float by, int racing) {
    x[threadIdx.x] += by;
    if (racing) x[0] = by;
}"""


@pytest.fixture(scope="module")
def add():
    return hl.RawModule(code=ADD, backend="emulator").get_function("add")


def seen_of(kernel, x, racing=0):
    found = []
    with watching(found.append), hl.emulate(hazards="collect"):
        kernel((1,), (32,), (x, np.float32(2), np.int32(racing)))
    return found


def test_a_launch_is_seen_with_what_it_was_given(add):
    base = np.arange(64, dtype=np.float32)
    (seen,) = seen_of(add, base[32:])
    assert (seen.kernel, seen.grid, seen.block, seen.clean) == (add, (1, 1, 1), (32, 1, 1), True)
    (array,), (before,) = seen.arrays, seen.before.values()
    assert array is base and (before == np.arange(64)).all() and (base[32:] == np.arange(34, 66)).all()


def test_hazards_are_told_and_launches_that_raise_are_not_seen(add):
    x = np.ones(32, np.float32)
    assert [seen.clean for seen in seen_of(add, x, racing=1)] == [False]
    found = []
    with watching(found.append), pytest.raises(hl.HazardError):
        add((1,), (32,), (x, np.float32(2), np.int32(1)))
    assert not found
    add((1,), (32,), (x, np.float32(2), np.int32(0)))
    assert not found                                        # nobody watches any more


def test_arrays_are_copied_for_those_who_ask(add):
    plain, whole, x = [], [], np.ones(32, np.float32)
    with watching(plain.append, copies=False):
        add((1,), (32,), (x, np.float32(2), np.int32(0)))
        assert not plain[0].before and plain[0].place == "emulator"
        with watching(whole.append):
            add((1,), (32,), (x, np.float32(2), np.int32(0)))
    assert len(plain) == 2 and [(before == 3).all() for before in whole[0].before.values()] == [True]


def test_tables_of_addresses_are_known():
    x = array_module("emulator").zeros(8, np.float32)
    assert holds_addresses(np.array([3, x.data.ptr + 4], np.uint64))
    assert not holds_addresses(np.array([3, 5], np.uint64)) and not holds_addresses(np.zeros(4, np.float32))


class Repeated:
    """Stands for OnGpu: adds `more` than the emulator did."""

    more = 0.0

    def __init__(self, seen):
        self.seen, self.launched = seen, 0

        self.left = seen.arrays

    def restore(self):
        pass

    def numbers(self):
        return self.left

    close = restore

    def __call__(self):
        self.launched += 1

    def after(self):
        assert self.launched == 1
        return [(array + np.float32(self.more)).view(np.uint8).reshape(-1) for array in self.seen.arrays]


def sampled(variants, rounds, prepare):
    prepare()
    return {name: Sample((0.0031, 0.0030, 0.0042)) for name in variants}


@pytest.mark.parametrize(("more", "words"), [(0.0, "the same result"), (1e-4, "results apart by 3e-05 of the largest value"), (np.nan, "other bits: clocks")])
def test_a_panel_says_time_and_difference(add, monkeypatch, more, words):
    monkeypatch.setattr(panel_on_gpu, "OnGpu", type("Other", (Repeated,), {"more": more}))
    (seen,) = seen_of(add, np.ones(32, np.float32))
    assert panel_on_gpu.timed(seen, sampled).startswith("add 3.1 us (3.0 to 4.2), " + words)


def test_hazardous_launches_and_tables_of_addresses_stay_in_the_emulator(add, monkeypatch):
    monkeypatch.setattr(panel_on_gpu, "OnGpu", None)
    (seen,) = seen_of(add, np.ones(32, np.float32), racing=1)
    assert panel_on_gpu.timed(seen, sampled) == "add not launched: the emulator found a hazard in it"
    x = array_module("emulator").zeros(32, np.float32)
    (seen,) = seen_of(add, np.full(32, x.data.ptr, np.uint64).view(np.float32)[:32].view(np.uint64)[:16])
    assert "reads addresses from an array" in panel_on_gpu.timed(seen, sampled)


def test_a_panel_without_a_gpu_says_nothing_and_with_one_everything(add, monkeypatch):
    launches = seen_of(add, np.ones(32, np.float32))
    assert panel_on_gpu.told(launches) == ""
    monkeypatch.setattr(panel_on_gpu, "backend", lambda: "gpu")
    monkeypatch.setattr(panel_on_gpu, "find_gpu", lambda: type("Gpu", (), {"name": "a GPU"}))
    monkeypatch.setattr(panel_on_gpu, "timed", lambda seen: f"{seen.kernel.name} timed")
    assert panel_on_gpu.told([]) == "" and panel_on_gpu.told(launches * 3) == "On this GPU (a GPU): add timed."
    many = [Seen(add, (i, 1, 1), (32, 1, 1), (), 0, {}, "emulator", True) for i in range(5)]
    assert panel_on_gpu.told(many) == "On this GPU (a GPU): add timed; add timed; add timed; and 2 more."


def test_a_refusal_of_the_driver_leaves_the_picture(add, monkeypatch):
    def refuse(seen):
        raise hl.GpuError("no memory is left")
    monkeypatch.setattr(panel_on_gpu, "backend", lambda: "gpu")
    monkeypatch.setattr(panel_on_gpu, "find_gpu", lambda: type("Gpu", (), {"name": "a GPU"}))
    monkeypatch.setattr(panel_on_gpu, "timed", refuse)
    assert "add: no memory is left" in panel_on_gpu.told(seen_of(add, np.ones(32, np.float32)))
