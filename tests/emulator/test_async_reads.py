# SPDX-License-Identifier: Apache-2.0
"""Loads as reads of global memory that last until they are waited for: between grids and devices, and the table that remembers them against plain sets."""
import hopperlab as hl
import numpy as np
import pytest

from hopperlab.emulator.hazards import async_reads
from hopperlab.emulator.hazards.async_reads import Box, Loads

SCHEDULES = ("lazy", "eager", "random")
xp = hl.array_module("emulator")
SOURCE = r"""
#include <hopperlab/cp_async.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/peers.cuh>
#include <hopperlab/tma.cuh>
extern "C" __global__ void take(const float* data, unsigned* flag, float* out) {
    __shared__ __align__(128) float tile[128];
    __shared__ mbarrier_t arrived;
    int t = threadIdx.x;
    if (t == 0) mbarrier_init(&arrived, 1);
    __syncthreads();
    if (BULK && t == 0) {
        mbarrier_arrive_expect_tx(&arrived, 512);
        cp_async_bulk_load(tile, data, 512, &arrived);
        if (EARLY) st_release_sys(flag, 1);
    }
    if (!BULK && t < 32) {
        cp_async_cg_16(tile + 4 * t, data + 4 * t);
        cp_async_commit_group();
        __syncwarp();
        if (EARLY && t == 0) st_release_sys(flag, 1);
        cp_async_wait_group<0>();
    }
    if (BULK) mbarrier_wait_parity(&arrived, 0);
    __syncthreads();
    if (!EARLY && t == 100) st_release_sys(flag, 1);
    out[t] = tile[t];
}
extern "C" __global__ void put(float* data, const unsigned* flag) {
    if (threadIdx.x == 0) await_flag(flag, 1);
    __syncthreads();
    data[threadIdx.x] = 7;
}"""


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("bulk", [0, 1])
@pytest.mark.parametrize("early", [0, 1])
def test_an_early_flag_between_grids(devices, bulk, early):
    module = hl.RawModule(code=SOURCE, options=(f"-DBULK={bulk}", f"-DEARLY={early}"), backend="emulator")
    for schedule in SCHEDULES:
        data, out, flag = xp.arange(128).astype(np.float32), xp.zeros(128, np.float32), xp.zeros(1, np.uint32)
        both = hl.devices(2, backend="emulator")
        streams = []
        for device in (both[0], both[devices - 1]):
            with device:
                streams.append(hl.Stream(backend="emulator"))
        with hl.emulate(schedule=schedule, hazards="collect") as run:
            module.get_function("take")((1,), (128,), (data, flag, out), stream=streams[0])
            module.get_function("put")((1,), (128,), (data, flag), stream=streams[1])
            for stream in streams:
                stream.synchronize()
        assert {h.kind for h in run.hazards} == ({"race"} if early else set()), schedule
        assert all("not when it is issued" in h.message for h in run.hazards)
        assert early or (hl.asnumpy(out) == np.arange(128)).all()


class Array:
    """What Loads asks of an allocation."""

    def __init__(self, nbytes):
        self.nbytes = nbytes


@pytest.mark.parametrize("seed", range(12))
def test_the_table_says_what_plain_sets_say(seed, monkeypatch):
    """Random boxes are loaded and words written; of each written word the loads since its last whole write are told, by place the newest of every barrier."""
    monkeypatch.setattr(async_reads, "NOTED", 5)
    monkeypatch.setattr(async_reads, "TOGETHER", 7)
    rng = np.random.default_rng(seed)
    loads, newest, pending = Loads(Array(4 * 200)), {}, [set() for _ in range(200)]
    for when in range(1, 120):
        if rng.random() < 0.6:
            width, rows, stride = (int(v) for v in rng.integers((1, 1, 1), (9, 5, 30)))
            first = int(rng.integers(0, 200 - width - (rows - 1) * stride)) + stride * np.arange(rows)
            who = int(rng.integers(1, 4))
            loads.note(None, ((who, when), (who + 10, when)), Box(first, width))
            words = sorted({w for f in first.tolist() for w in range(f, f + width)})
            newest[(width, tuple(first.tolist()), who)] = when, words
            for word in words:
                pending[word].add((who, when))
            continue
        at = rng.permutation(200)[:int(rng.integers(1, 60))]
        whole = bool(rng.integers(2))
        told = [set() for _ in range(200)]
        for here, whos, whens in loads.touching(None, at, whole):
            assert whos.shape == whens.shape == (len(here), 2) and (whos[:, 1] == whos[:, 0] + 10).all() and (whens[:, 1] == whens[:, 0]).all()
            for word, one, time in zip(at[here].tolist(), whos[:, 0].tolist(), whens[:, 0].tolist()):
                told[word].add((one, time))
        for word in at.tolist():
            everybody = {(key[2], time) for key, (time, words) in newest.items() if word in words}
            needed = {(one, time) for one, time in pending[word] if (one, time) in everybody}
            assert needed <= told[word] <= everybody                    # what an earlier write has come after may be told again
            assert bool(told[word]) == bool(pending[word])
            if whole:
                pending[word].clear()


def test_a_span_and_a_box_at_the_end_of_an_array():
    assert Box.span(6, 20).words(400).tolist() == [1, 2, 3, 4, 5, 6]
    assert Box(np.array([97]), 4).words(398).tolist() == [97, 98, 99, 99]
