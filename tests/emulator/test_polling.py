# SPDX-License-Identifier: Apache-2.0
"""Loops that look at memory or a clock again and again: those that move on end by themselves, those that repeat are deadlocks."""
import hopperlab as hl
import numpy as np
import pytest
from hopperlab import emulator
from hopperlab.emulator.launch import geometry
from hopperlab.emulator.machine.sm_places import Places, needs
from hopperlab.hopper import limits
from hypothesis import given
from hypothesis import strategies as st

READS = {
    "volatile": "((volatile int*)a)[i]",
    "atomic add of nothing": "atomicAdd(a + i, 0)",
    "compare and swap that never swaps": "atomicCAS(a + i, -1, 0)",
}


def launch(source, args, block=64, grid=2):
    hl.RawModule(code=source, backend="emulator").get_function("f")((grid,), (block,), args)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_loop_that_reads_on_is_no_deadlock(read):
    source = f"""extern "C" __global__ void f(int* a, int* out, int n) {{
        int sum = 0;
        for (int i = 0; i < n; i++) sum += {read};
        out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    }}"""
    out = np.zeros(128, np.int32)
    launch(source, (np.arange(50, dtype=np.int32), out, np.int32(50)))
    assert out.tolist() == [49 * 25] * 128


def test_spinning_a_bounded_number_of_times_is_no_deadlock():
    source = """extern "C" __global__ void f(volatile int* flag, int* out) {
        int i = 0;
        while (i < 500 && !*flag) i++;
        out[blockIdx.x * blockDim.x + threadIdx.x] = i;
    }"""
    out = np.zeros(128, np.int32)
    launch(source, (np.zeros(1, np.int32), out))
    assert out.tolist() == [500] * 128


@pytest.mark.parametrize("late", [0, 1])
def test_a_loop_of_test_wait_says_what_it_waits_for(late):
    """As one of try_wait does: the mbarrier, its phase, and what is missing; of other loops in the launch nothing is said of mbarriers."""
    source = """#include <hopperlab/mbarrier.cuh>
    extern "C" __global__ void f(volatile int* flag) {
        __shared__ mbarrier_t full, other;
        if (threadIdx.x == 0) { mbarrier_init(&full, 3); mbarrier_init(&other, 1); }
        __syncthreads();
        if (threadIdx.x < 2) mbarrier_arrive(&full);
        if (threadIdx.x == 40) { mbarrier_arrive(&other); while (!mbarrier_test_wait_parity(&other, 0)) { } }
        if (threadIdx.x < 32 || !LATE) while (!mbarrier_test_wait_parity(&full, 0)) { }
        else while (!*flag) { }
    }""".replace("LATE", str(late))
    with hl.emulate(hazards="collect") as run:
        launch(source, (np.zeros(1, np.int32),), grid=1)
    text = next(str(h) for h in run.hazards if h.case == "endless-loops")
    asks = f"threads 0 to {31 if late else 63}: waits in mbarrier.test_wait.parity"
    assert asks in text and "(full), phase 0 (parity 0), 1 of 3 arrivals pending" in text and "1 more arrival in this phase" in text, text
    assert ("stands at" in text) == bool(late) and "(other)" not in text, text


@pytest.mark.parametrize("clock", ["clock64()", "globaltimer()"])
def test_waiting_for_a_clock_is_no_deadlock(clock):
    source = f"""
    __device__ long long globaltimer() {{ long long t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }}
    extern "C" __global__ void f(int* out) {{
        long long start = {clock};
        while ({clock} - start < 100000) {{ }}
        out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
    }}"""
    out = np.zeros(128, np.int32)
    launch(source, (out,))
    assert out.all()


def test_a_long_loop_that_only_computes_is_no_deadlock():
    source = """extern "C" __global__ void f(unsigned* out, int n) {
        unsigned x = threadIdx.x;
        #pragma unroll 1
        for (int i = 0; i < n; i++) x = x * 1664525u + 1013904223u;
        out[blockIdx.x * blockDim.x + threadIdx.x] = x;
    }"""
    steps, out = 90_000, np.zeros(2, np.uint32)
    launch(source, (out, np.int32(steps)), block=1)
    x = 0
    for _ in range(steps):
        x = (x * 1664525 + 1013904223) % 2**32
    assert out.tolist() == [x, x]


@pytest.mark.parametrize("body", [
    "while (!*flag) { }",
    "while (!*flag) __nanosleep(100);",
    "int i = threadIdx.x; while (!*flag) i = (i + 1) % 7; *out = i;",
], ids=["bare", "with pauses", "in a circle of seven states"])
def test_a_loop_that_comes_back_to_where_it_was_is_a_deadlock(body):
    source = f'extern "C" __global__ void f(volatile int* flag, int* out) {{\n{body}\n}}'
    with pytest.raises(hl.DeadlockError, match="at kernel.cu:2"):
        launch(source, (np.zeros(1, np.int32), np.zeros(1, np.int32)))


ENDLESS = {
    "counts in a register": ("int i = 0;\nwhile (!*flag) i++;\n*out = i;", "what these loops read is changed by nobody"),
    "computes beside it": ("float x = 1;\nwhile (!*flag) x = x * 1.5f + 1;\n*out = x;", "what these loops read is changed by nobody"),
    "counts in memory": ("\nwhile (!*flag) ++*out;", "these loops write memory, but for 256 rounds"),
    "counts atomically": ("\nwhile (!*flag) atomicAdd((int*)out + 1, 1);", "these loops write memory, but for 256 rounds"),
    "counts in shared memory": ("__shared__ int many[64];\nwhile (!*flag) { many[threadIdx.x]++; __syncwarp(); }\n*out = many[0];", "these loops|what these loops read"),
}


@pytest.mark.parametrize("body, words", ENDLESS.values(), ids=ENDLESS)
def test_a_loop_that_waits_for_nobody_is_a_deadlock_at_its_line(body, words):
    source = f'extern "C" __global__ void f(volatile int* flag, volatile int* out) {{ {body} }}'
    with pytest.raises(hl.DeadlockError, match=rf"(?s)only loops that wait still run.*({words}).*kernel.cu:2"):
        launch(source, (np.zeros(1, np.int32), np.zeros(2, np.int32)), grid=1)


LIMIT = 'extern "C" __global__ void f(volatile int* flag, int* out) { int i = 0;\nwhile (!*flag && i < 2000000000) i++;\n*out = i; }'


def test_a_loop_that_might_end_by_itself_has_a_budget():
    with pytest.raises(hl.DeadlockError, match=r"(?s)501 rounds in which only these loops ran, and nobody changes memory .*hl.emulate\(budget=…\) or "
                                               r"HOPPERLAB_POLLING_BUDGET.*kernel.cu:2"):
        with hl.emulate(budget=500):
            launch(LIMIT, (np.zeros(1, np.int32), np.zeros(1, np.int32)))


def test_the_budget_may_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("HOPPERLAB_POLLING_BUDGET", "300")
    with pytest.raises(hl.DeadlockError, match="301 rounds"):
        launch(LIMIT, (np.zeros(1, np.int32), np.zeros(1, np.int32)))
    monkeypatch.setenv("HOPPERLAB_POLLING_BUDGET", "many")
    with pytest.raises(emulator.LaunchError, match="whole number"):
        launch(LIMIT, (np.zeros(1, np.int32), np.zeros(1, np.int32)))


@pytest.mark.thorough
def test_a_loop_that_changes_memory_and_watches_a_clock_has_a_budget():
    source = 'extern "C" __global__ void f(volatile int* flag) { long long t = clock64();\nwhile (!*flag && clock64() - t < 1000000000000000ll) ++flag[1]; }'
    with pytest.raises(hl.DeadlockError, match=r"(?s)601 rounds in which only these loops ran, though they change memory.*kernel.cu:2"):
        with hl.emulate(budget=600):
            launch(source, (np.zeros(2, np.int32),))


ENDING = {
    "an atomic counter": "while (atomicAdd(a, 1) < 3000) { } out[0] = a[0] > 3000;",
    "a counter in memory": "while (++*(volatile int*)a < 4000) { } out[0] = 1;",
    "one thread counts, the others wait": "if (threadIdx.x == 0) { for (int i = 0; i < 4000; i++) ((volatile int*)a)[0] += 1; __threadfence(); ((volatile "
                                          "int*)a)[1] = 1; } else while (!((volatile int*)a)[1]) { } out[0] = 1;",
    "every hundredth time": "while (((volatile int*)a)[1] < 12) { if (++((volatile int*)a)[0] % 100 == 0) ((volatile int*)a)[1]++; } out[0] = 1;",
}


@pytest.mark.parametrize("body", ENDING.values(), ids=ENDING)
@pytest.mark.thorough
def test_a_long_loop_that_changes_what_it_reads_ends(body):
    out = np.zeros(1, np.int32)
    source = f'extern "C" __global__ void f(int* a, int* out) {{ {body} }}'
    hl.RawModule(code=source, backend="emulator").get_function("f")((1,), (64 if "threadIdx" in body else 1,), (np.zeros(2, np.int32), out))
    assert out[0] == 1


MEETING = """extern "C" __global__ void __launch_bounds__(1024) f(int* count) {
    if (threadIdx.x == 0) {
        atomicAdd(count, 1);
        while (atomicAdd(count, 0) < (int)gridDim.x) { }
    }
    __syncthreads();
}"""


def test_as_many_blocks_as_an_h200_holds_may_wait_for_each_other():
    launch_meeting = hl.RawModule(code=MEETING, backend="emulator").get_function("f")
    count = np.zeros(1, np.int32)
    launch_meeting((264,), (1024,), (count,))
    assert count[0] == 264


def test_waiting_for_blocks_that_have_no_room_names_them():
    launch_meeting = hl.RawModule(code=MEETING, backend="emulator").get_function("f")
    with pytest.raises(hl.DeadlockError, match=r"\n1 of 265 blocks have not started"):
        launch_meeting((265,), (1024,), (np.zeros(1, np.int32),))


@pytest.mark.parametrize("ctas, shared", [(132, 150_000), (396, 70_000)])
def test_shared_memory_bounds_the_blocks_that_may_wait_for_each_other(ctas, shared):
    launch_meeting = hl.RawModule(code=MEETING, backend="emulator").get_function("f")
    launch_meeting((ctas,), (32,), (np.zeros(1, np.int32),), shared_mem=shared)
    with pytest.raises(hl.DeadlockError, match=rf"\n2 of {ctas + 2} blocks have not started"):
        launch_meeting((ctas + 2,), (32,), (np.zeros(1, np.int32),), shared_mem=shared)


def test_a_block_whose_registers_no_sm_has_is_refused():
    with pytest.raises(emulator.LaunchError, match="1024 threads with 128 registers each"):
        geometry(1, 1024, 128, 0)


@given(st.integers(1, 1024), st.integers(16, 255), st.integers(0, 227 * 1024))
def test_grids_side_by_side_get_as_many_places_as_one_alone(threads, registers, shared):
    try:
        alone = limits.resident_blocks(threads, registers, shared)
    except ValueError:
        alone = 0
    places, needed = Places(), needs(threads, registers, shared)
    assert places.room(needed) == alone
    places.take(needed, alone)
    assert places.room(needed) == 0


WATCHED = {
    "pauses by the clock": ("while (!test_wait(&b)) { long long t = clock64();\nwhile (clock64() - t < 50) { } }", "a clock that these loops watch"),
    "gives up after four seconds": ("long long t = clock64();\nwhile (!test_wait(&b)) { if (clock64() - t > 8000000000ll) break; }", "a clock that these loops watch"),
    "measures": ("long long t = 0;\nwhile (!test_wait(&b)) { t += clock64(); }\n*out = (int)t;", "what these loops read is changed by nobody"),
    "writes the time": ("\nwhile (!test_wait(&b)) { *out = (int)clock64(); }", "these loops write memory, but for 256 rounds"),
    "pauses, and counts in memory": ("\nwhile (!test_wait(&b)) { long long t = clock64(); while (clock64() - t < 50) { ++*out; } }", "a clock that these loops watch"),
}
WAITING = """#include <hopperlab/mbarrier.cuh>
__device__ bool test_wait(mbarrier_t* b) { return mbarrier_test_wait_parity(b, 0); }
extern "C" __global__ void f(volatile int* out) { __shared__ mbarrier_t b; if (threadIdx.x == 0) mbarrier_init(&b, 1); __syncthreads(); BODY
*out = 1; }"""


LONG = "pauses, and counts in memory"         # many rounds before it is named, as "pauses by the clock" is after few


@pytest.mark.parametrize("body, words", [pytest.param(*WATCHED[name], id=name, marks=pytest.mark.thorough if name == LONG else ()) for name in WATCHED])
def test_a_wait_that_watches_a_clock_and_never_ends_is_named(body, words):
    with pytest.raises(hl.DeadlockError, match=rf"(?s)only loops that wait still run.*{words}.*kernel.cu:[34]"):
        launch(WAITING.replace("BODY", body), (np.zeros(1, np.int32),), block=1)


@pytest.mark.parametrize("body", [
    "long long t = clock64(); while (!test_wait(&b)) { if (clock64() - t > 20000000) break; }",
    "for (int i = 0; i < 300; i++) { long long t = clock64(); while (!test_wait(&b) && clock64() - t < 200000) { } }",
    "long long t = clock64(), n = 0; while (!test_wait(&b) && n < 3000) { n += clock64() - t > 100; }",
], ids=["gives up", "waits again and again", "counts how often it was late"])
def test_a_wait_that_ends_by_the_clock_ends(body):
    out = np.zeros(1, np.int32)
    launch(WAITING.replace("BODY", body), (out,), block=1)
    assert out[0] == 1


ASKED = """
#include <hopperlab/tma.cuh>
extern "C" __global__ void f(const float* x, int* out) {
    __shared__ __align__(16) float tiles[2][32];
    __shared__ mbarrier_t full[2];
    for (int s = 0; s < 2; s++) {
        mbarrier_init(&full[s], 1);
        mbarrier_arrive_expect_tx(&full[s], 128);
        cp_async_bulk_load(tiles[s], x + 32 * s, 128, &full[s]);
    }
    while (!mbarrier_test_wait_parity(&full[FIRST], 0)) {}
    out[0] = ((volatile float*)tiles[1 - FIRST])[0] > 0;          // too early, if it has not landed
    while (!mbarrier_test_wait_parity(&full[1 - FIRST], 0)) {}
    out[1] = tiles[0][0] + tiles[1][0];
}
"""


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("schedule, other", [("lazy", 0), ("eager", 1)])
def test_under_the_lazy_schedule_only_the_copies_that_a_loop_asks_after_land(first, schedule, other):
    out = np.zeros(2, np.int32)
    with hl.emulate(schedule=schedule, hazards="collect") as session:
        launch(ASKED.replace("FIRST", str(first)), (np.arange(1, 65, dtype=np.float32), out), block=1, grid=1)
    assert out.tolist() == [other, 34] and [h.case for h in session.hazards] == ["read-before-copy"]


@pytest.mark.emulator_only
@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
def test_who_polls_gets_its_turn_beside_a_loop_that_never_waits(schedule):
    """Workers that do not wait for the next tile loop over an old one, and arrive each time; the scheduler's warp polls for its phase, and must be asked meanwhile."""
    source = """
    #include <hopperlab/mbarrier.cuh>
    extern "C" __global__ void f(const float* x, float* y, unsigned tiles, unsigned* next) {
        __shared__ unsigned tile[2];
        __shared__ mbarrier_t full[2], empty[2];
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        if (threadIdx.x == 0) for (int s = 0; s < 2; s++) { mbarrier_init(&full[s], 1); mbarrier_init(&empty[s], 2); }
        __syncthreads();
        if (warp == 0) {
            if (lane == 0) for (unsigned t = 0;; t++) {
                mbarrier_wait_parity(&empty[t & 1], ((t >> 1) & 1) ^ 1);
                unsigned id = atomicAdd(next, 1);
                tile[t & 1] = id;
                mbarrier_arrive(&full[t & 1]);
                if (id >= tiles) break;
            }
        } else for (unsigned t = 0;; t++) {
            unsigned id = tile[t & 1];                          // no wait for full
            __syncwarp();
            if (lane == 0) mbarrier_arrive(&empty[t & 1]);
            if (id >= tiles) break;
            y[id * 64 + (warp - 1) * 32 + lane] = x[id * 64 + (warp - 1) * 32 + lane] * 2;
        }
    }"""
    kernel = hl.RawModule(code=source, backend="emulator").get_function("f")
    with hl.emulate(schedule=schedule, hazards="collect", limit=4_000_000) as run:
        kernel((2,), (96,), (np.ones(384, np.float32), np.zeros(384, np.float32), np.uint32(6), np.zeros(1, np.uint32)))
    assert {"phase-overrun", "race"} <= {hazard.kind for hazard in run.hazards}
