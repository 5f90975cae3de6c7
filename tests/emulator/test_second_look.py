# SPDX-License-Identifier: Apache-2.0
"""Rings whose producer has a slot or a credit too many, or whose consumer answers too early, and a flag at which its reader looks once: named under every schedule,
though each is quick when it is asked."""
import threading

import hopperlab as hl
import numpy as np
import pytest
from support.emulated import SCHEDULES, told

from hopperlab.emulator import second_look
from hopperlab.emulator.machine.memory import GlobalMemory, Kept

pytestmark = pytest.mark.emulator_only

SOURCE = r"""
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <cuda/semaphore>

__device__ void take(int* s) {
    for (int v; (v = atomicAdd(s, 0)) < 1 || atomicCAS(s, v, v - 1) != v;) {}
    __threadfence();
}
__device__ void give(int* s) { __threadfence(); atomicAdd(s, 1); }

extern "C" __global__ void credits(const int* in, int* out, int* word, int* ring) {             // word: 3 credits, or 4
    if (threadIdx.x) return;
    int sum = 0;
    for (int t = 0; t < 9; t++) {
        if (blockIdx.x == 0) {
            take(word);
            ring[t % 3] = in[t];                                            // FILL
            give(word + 1);
        } else {
            take(word + 1);
            if (BUG & 2) give(word);
            sum += ring[t % 3] * (t + 1);                                   // READ
            if (!(BUG & 2)) give(word);
        }
    }
    if (blockIdx.x) *out = sum;
}

extern "C" __global__ void counters(const int* in, int* out, volatile int* word, int* ring) {
    if (threadIdx.x) return;
    int sum = 0;
    for (int t = 0; t < 9; t++) {
        if (blockIdx.x == 0) {
            while (t - word[1] >= (BUG & 1 ? 4 : 3)) {}
            __threadfence();
            ring[t % 3] = in[t];                                            // FILL
            __threadfence();
            word[0] = t + 1;
        } else {
            while (word[0] <= t) {}
            __threadfence();
            sum += ring[t % 3] * (t + 1);                                   // READ
            if (!(BUG & 2)) __threadfence();
            word[1] = t + 1;
        }
    }
    if (blockIdx.x) *out = sum;
}

using semaphore = cuda::counting_semaphore<cuda::thread_scope_block, 8>;
extern "C" __global__ void semaphores(const int* in, int* out, int*, int*) {
    __shared__ alignas(semaphore) char raw[2][sizeof(semaphore)];
    __shared__ int ring[2];
    semaphore &room = *reinterpret_cast<semaphore*>(raw[0]), &filled = *reinterpret_cast<semaphore*>(raw[1]);
    if (threadIdx.x == 0) new (raw[0]) semaphore(BUG & 1 ? 3 : 2), new (raw[1]) semaphore(0);
    __syncthreads();
    int sum = 0;
    for (int t = 0; t < 9; t++) {
        if (threadIdx.x == 0) {
            room.acquire();
            ring[t % 2] = in[t];                                            // FILL
            filled.release();
        } else if (threadIdx.x == 32) {
            filled.acquire();
            if (BUG & 2) room.release();
            sum += ring[t % 2] * (t + 1);                                   // READ
            if (!(BUG & 2)) room.release();
        }
    }
    if (threadIdx.x == 32 && blockIdx.x) *out = sum;
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster(const int* in, int* out, int*, int*) {
    __shared__ int ring[2], word[2];
    auto pair = cooperative_groups::this_cluster();
    if (threadIdx.x < 2) word[threadIdx.x] = 0;
    pair.sync();
    int *far = pair.map_shared_rank(ring, 0), sum = 0;
    cuda::atomic_ref<int> there(*pair.map_shared_rank(word, 0)), taken(*pair.map_shared_rank(word + 1, 0));
    for (int t = 0; threadIdx.x == 0 && t < 9; t++) {
        if (blockIdx.x == 0) {
            while (t - taken.load(cuda::std::memory_order_acquire) >= (BUG & 1 ? 3 : 2)) {}
            ring[t % 2] = in[t];                                            // FILL
            there.store(t + 1, cuda::std::memory_order_release);
        } else {
            while (there.load(cuda::std::memory_order_acquire) <= t) {}
            if (BUG & 2) taken.store(t + 1, cuda::std::memory_order_release);
            sum += far[t % 2] * (t + 1);                                    // READ
            if (!(BUG & 2)) taken.store(t + 1, cuda::std::memory_order_release);
        }
    }
    if (threadIdx.x == 0 && blockIdx.x) *out = sum;
    pair.sync();
}

__device__ int acquired(const int* p) { int v; asm volatile("ld.acquire.gpu.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
__device__ void released(int* p, int v) { asm volatile("st.release.gpu.s32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }

extern "C" __global__ void fan_out(const int* in, int* out, int* word, int* ring) {             // three readers, one of which is given a slot too many
    if (threadIdx.x) return;
    int sum = 0;
    for (int t = 0; t < 9; t++) {
        if (blockIdx.x == 0) {
            for (int c = 1; c < 4; c++)
                while (t - acquired(word + c) >= (BUG & 1 && c == 2 ? 4 : 3)) {}
            ring[t % 3] = in[t];                                            // FILL
            released(word, t + 1);
        } else {
            while (acquired(word) <= t) {}
            if (BUG & 2 && blockIdx.x == 3) released(word + 3, t + 1);
            sum += ring[t % 3] * (t + 1);                                   // READ
            released(word + blockIdx.x, t + 1);
        }
    }
    if (blockIdx.x == 1) *out = sum;
}

extern "C" __global__ void one_look(const int* in, int* out, volatile int* word, int* ring) {
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {
        ring[0] = in[0] * 285;                                              // FILL
        __threadfence();
        word[0] = 1;
    } else {
        word[1] = 1;
        int there;
        do there = word[0]; while (BUG == 0 && there == 0);
        __threadfence();
        *out = there == 7 ? 0 : ring[0];                                   // READ
    }
}
"""
NAMES = ("one_look", "credits", "counters", "semaphores", "cluster", "fan_out")


@pytest.fixture(scope="module", params=[0, 1, 2])
def built(request):
    return request.param, hl.RawModule(code=SOURCE, options=(f"-DBUG={request.param}",), backend="emulator")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", NAMES)
def test_a_slot_is_filled_again_only_when_it_was_handed_back(built, name, schedule):
    bug, module = built
    word = np.array([4 if bug == 1 else 3, 0], np.int32) if name == "credits" else np.zeros(4, np.int32)
    given, out = np.arange(1, 10, dtype=np.int32), np.zeros(1, np.int32)
    with hl.emulate(schedule=schedule, seed=2, hazards="collect") as session:
        module.get_function(name)((4 if name == "fan_out" else 2,), (64,), (given, out, word, np.zeros(3, np.int32)))
    if bug == 0:
        assert not session.hazards and not session.warnings, told(session)
        assert out[0] == (given * given).sum()
    else:
        lines = SOURCE.splitlines()
        ends = [{lines[end.line - 1][-4:] for end in (h.where, h.other)} for h in session.hazards if h.kind == "race"]
        assert {"FILL", "READ"} in ends, told(session)


TALKS = r"""
#include <cstdio>
extern "C" __global__ void talks(volatile int* word, int* slot, int* out) {
    if (threadIdx.x) return;
    for (int t = 0; t < 6; t++) {
        if (blockIdx.x == 0) {
            while (t - word[1] >= 3 + BUG) {}
            __threadfence();
            slot[t % 3] = t;
            __threadfence();
            word[0] = t + 1;
        } else {
            while (word[0] <= t) {}
            __threadfence();
            printf("%d ", slot[t % 3]);
            atomicAdd(out, 1);
            __threadfence();
            word[1] = t + 1;
        }
    }
}
extern "C" __global__ void after(const int* out, int* copy) {
    if (WAIT) asm volatile("griddepcontrol.wait;" ::: "memory");
    copy[0] = out[0];
}
"""


def talk(bug, **asked):
    """A ring of three slots whose producer has `bug` credits too many: the session, and what the arrays hold."""
    word, slot, out = np.zeros(2, np.int32), np.zeros(3, np.int32), np.full(1, 7, np.int32)
    module = hl.RawModule(code=TALKS, options=(f"-DBUG={bug}", "-DWAIT=0"), backend="emulator")
    with hl.emulate(hazards="collect", **asked) as session:
        module.get_function("talks")((2,), (32,), (word, slot, out))
    return session, [word.tolist(), slot.tolist(), out.tolist()]


def test_memory_output_counters_and_timeline_are_those_of_the_first_run(capsys):
    session, held = talk(1)
    said = capsys.readouterr().out
    alone, before = talk(1, limit=10**9)                                # no second look
    assert {h.kind for h in session.hazards} == {"race"} and not alone.hazards
    assert held == before == [[6, 6], [3, 4, 5], [13]]
    assert said == capsys.readouterr().out == "0 1 2 3 4 5 "
    assert dict(session.counters.items()) == dict(alone.counters.items()) and session.timeline.as_dicts() == alone.timeline.as_dicts()


def test_flags_may_be_variables_of_the_module():
    variables = "__device__ volatile int word[2]; __device__ int slot[3];\n"
    source = TALKS.replace("volatile int* word, int* slot, int* out", "int* out").replace('extern "C"', variables + 'extern "C"', 1)
    kernel = hl.RawModule(code=source, options=("-DBUG=1", "-DWAIT=0"), backend="emulator").get_function("talks")
    with hl.emulate(hazards="collect") as session:
        kernel((2,), (32,), (np.zeros(1, np.int32),))
    assert {h.kind for h in session.hazards} == {"race"}


def test_a_race_of_the_second_look_ends_the_launch():
    with pytest.raises(hl.HazardError, match="race"), hl.emulate():
        hl.RawModule(code=TALKS, options=("-DBUG=1", "-DWAIT=0"), backend="emulator").get_function("talks")(
            (2,), (32,), (np.zeros(2, np.int32), np.zeros(3, np.int32), np.zeros(1, np.int32)))


def test_each_of_several_readers_is_the_last_in_turn(monkeypatch):
    def told():
        word, ring, out = np.zeros(4, np.int32), np.zeros(3, np.int32), np.zeros(1, np.int32)
        with hl.emulate(hazards="collect") as session:
            hl.RawModule(code=SOURCE, options=("-DBUG=1",), backend="emulator").get_function("fan_out")((4,), (64,), (np.arange(9, dtype=np.int32), out, word, ring))
        return session.hazards
    assert told()
    monkeypatch.setattr(second_look, "MOST_RAISERS", 2)
    assert not told()


@pytest.mark.parametrize("bound", ["MOST_BYTES", "MOST_RUNS"])
def test_it_is_left_out_where_it_would_cost_much(bound, monkeypatch):
    monkeypatch.setattr(second_look, bound, 16)
    assert not talk(1)[0].hazards


def test_it_is_given_up_where_it_does_much_more_than_the_first(monkeypatch):
    monkeypatch.setattr(second_look, "SLOWER", 0)
    session, held = talk(1)
    assert not session.hazards and held == [[6, 6], [3, 4, 5], [13]]


@pytest.mark.parametrize("wait", [0, 1])
def test_what_the_launch_did_is_known_to_a_dependent_launch(wait):
    word, slot, out, copy = (np.zeros(3, np.int32) for _ in range(4))
    module = hl.RawModule(code=TALKS, options=("-DBUG=0", f"-DWAIT={wait}"), backend="emulator")
    with hl.emulate(hazards="collect") as session:
        module.get_function("talks")((2,), (32,), (word, slot, out))
        module.get_function("after")((1,), (1,), (out, copy), dependent=True)
        hl.synchronize(backend="emulator")
    assert [h.case for h in session.hazards] == ([] if wait else ["read-before-grid-wait"]) and out[0] == 6


def test_arrays_hold_again_what_they_held_also_those_that_nobody_wants_any_more():
    memory, array, other, kept = GlobalMemory(), np.arange(4), np.arange(4), Kept(32)
    here, there = (memory.register(a) for a in (array, other))
    with memory.keeping(kept):
        here.view(8)[:] = 9
        after = kept.as_now()
        with memory.keeping(after):
            here.view(4)[:], there.view(8)[:] = 5, 5
    kept.restore()
    assert array.tolist() == [0, 1, 2, 3] and other.tolist() == [5] * 4
    after.restore()
    assert array.tolist() == [9] * 4 and other.tolist() == [0, 1, 2, 3]
    memory.release_views()
    del array, here
    kept.restore()


def test_what_is_too_large_is_not_kept_and_what_nobody_may_write_need_not_be():
    large, constant = Kept(31), Kept(31)
    large.keep(np.zeros(4))
    constant.keep(np.broadcast_to(np.zeros(1), 99))
    assert large.held is None and constant.held == []


def test_what_launches_of_other_threads_touch_is_left_alone():
    memory, array, kept = GlobalMemory(), np.arange(4), Kept(99)
    with memory.keeping(kept):
        other = threading.Thread(target=memory.register(array).view, args=(8,))
        other.start()
        other.join()
    assert kept.held == []
