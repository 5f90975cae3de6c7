# SPDX-License-Identifier: Apache-2.0
"""Rings all of whose lanes look, and counters that are waited for with too few arrivals: named under every schedule, though in the run itself all came at once."""
import numpy as np
import pytest

import hopperlab as hl
from support.emulated import SCHEDULES, told

pytestmark = pytest.mark.emulator_only

RINGS = {
    "acquire": """#define LD(p) ([&]{ unsigned v; asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }())
#define ST(p, v) asm volatile("st.release.gpu.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory")""",
    "volatile": """#define LD(p) ([&]{ unsigned v = *(volatile unsigned*)(p); __threadfence(); return v; }())
#define ST(p, v) do { __threadfence(); *(volatile unsigned*)(p) = (v); } while (0)""",
    "atomic": """#define LD(p) ([&]{ unsigned v = atomicAdd((p), 0); __threadfence(); return v; }())
#define ST(p, v) do { __threadfence(); atomicExch((p), v); } while (0)""",
}
RING = """
extern "C" __global__ void k(const unsigned* in, unsigned* out, unsigned* slots, unsigned* words) {
#if BLOCKS == 1
    __shared__ unsigned q[4][32], word[2]; unsigned *head = word, *tail = word + 1;
    if (threadIdx.x < 2) word[threadIdx.x] = 0;
    __syncthreads();
    bool fills = threadIdx.x < 32;
#else
    unsigned (*q)[32] = (unsigned (*)[32])slots, *head = words, *tail = words + 1;
    bool fills = blockIdx.x == 0;
    if (threadIdx.x >= 32) return;
#endif
    unsigned l = threadIdx.x % 32, s = 0;
    for (int i = 0; i < 13; i++) {
        if (fills) {
            if (ALL || l == 0) while (i - LD(tail) >= CAP) {}
            __syncwarp();
            q[i & 3][l] = in[i * 32 + l];           // FILL
            __syncwarp();
            if (l == 0) ST(head, i + 1);
        } else {
            if (ALL || l == 0) while (LD(head) <= i) {}
            __syncwarp();
            s = s * 3 + q[i & 3][l ^ 5];            // READ
            __syncwarp();
            if (l == 0) ST(tail, i + 1);
        }
    }
    if (!fills) out[l] = s;
}"""
SEMAPHORES = """#include <cuda/semaphore>
using sem = cuda::counting_semaphore<cuda::thread_scope_block, 4>;
extern "C" __global__ void k(const unsigned* in, unsigned* out, unsigned*, unsigned*) {
    __shared__ alignas(16) char raw[2][64]; __shared__ unsigned buf[2]; sem &room = *(sem*)raw[0], &filled = *(sem*)raw[1];
    if (threadIdx.x == 0) { new (&room) sem(CAP); new (&filled) sem(0); }
    __syncthreads();
    if (threadIdx.x == 0) for (int i = 0; i < 13; i++) {
        room.acquire();
        buf[i & 1] = in[i];                         // FILL
        filled.release();
    }
    if (threadIdx.x == 32) {
        unsigned s = 0;
        for (int i = 0; i < 13; i++) {
            filled.acquire();
            s = s * 3 + buf[i & 1];                 // READ
            room.release();
        }
        out[0] = s;
    }
}"""
GRID = """extern "C" __global__ void k(const unsigned* in, unsigned* out, unsigned* mid, unsigned* word) {
    unsigned t = threadIdx.x;
    if (blockIdx.x < 3) {
        for (unsigned i = 0; i < WORK; i++) mid[blockIdx.x * 64 + t] += in[t];      // FILL
        __syncthreads();
        if (t == 0) { __threadfence(); atomicAdd(word, 1); }
    } else {
        if (t == 0) { while (*(volatile unsigned*)word < CAP) {} __threadfence(); }
        __syncthreads();
        for (int i = 0; i < 3; i++) out[i * 64 + t] = mid[i * 64 + t];              // READ
    }
}"""
WARPS = """extern "C" __global__ void k(const unsigned* in, unsigned* out, unsigned*, unsigned*) {
    __shared__ unsigned tile[3][32], count; unsigned t = threadIdx.x, w = t / 32;
    if (t == 0) count = 0;
    __syncthreads();
    if (w < 3) {
        for (unsigned i = 0; i < WORK; i++) tile[w][t % 32] = in[t] + i;            // FILL
        __syncwarp();
        if (t % 32 == 0) { __threadfence_block(); atomicAdd(&count, 1); }
    } else {
        if (t == 96) { while (*(volatile unsigned*)&count < CAP) {} __threadfence_block(); }
        __syncwarp();
        for (int i = 0; i < 3; i++) out[i * 32 + t % 32] = tile[i][t % 32];         // READ
    }
}"""
ROUNDS = """extern "C" __global__ void k(const unsigned*, unsigned* x, unsigned* y, unsigned* word) {
    unsigned t = threadIdx.x, N = gridDim.x * 64, i = blockIdx.x * 64 + t;
    for (int r = 0; r < WORK; r++) {
        unsigned *p = r & 1 ? y : x, *q = r & 1 ? x : y;
        q[i] = p[(i + 65) % N];                     // FILL READ
        __syncthreads();
        if (t == 0) { __threadfence(); atomicAdd(word, 1); while (*(volatile unsigned*)word < 3 * r + CAP) {} __threadfence(); }
        __syncthreads();
    }
}"""


def launch(source, schedule, grid, block, **values):
    """The session, and {line of each race}."""
    kernel = hl.RawModule(code=source, options=tuple(f"-D{k}={v}" for k, v in values.items()), backend="emulator").get_function("k")
    with hl.emulate(schedule=schedule, seed=1, hazards="collect") as session:
        kernel((grid,), (block,), (np.arange(416, dtype=np.uint32), *(np.zeros(256, np.uint32) for _ in range(3))))
    assert all(h.kind == "race" for h in [*session.hazards, *session.warnings]), told(session)
    return session, {h.where.line for h in session.hazards}


def ends(source):
    """Lines of the kernel itself."""
    return {k + 1 for k, line in enumerate(source.splitlines()) if "// FILL" in line or "// READ" in line}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("looks, blocks", [("acquire", 2), ("volatile", 1), pytest.param("atomic", 1, marks=pytest.mark.thorough),
                                          pytest.param("atomic", 2, marks=pytest.mark.thorough)])
def test_a_slot_too_many_where_all_lanes_look(looks, blocks, schedule):
    """As where the first one alone does (test_second_look.py)."""
    source = RINGS[looks] + RING
    right, found = launch(source, schedule, blocks, 64, CAP=4, ALL=1, BLOCKS=blocks)
    assert not found, told(right)
    session, found = launch(source, schedule, blocks, 64, CAP=5, ALL=1, BLOCKS=blocks)
    assert found and found <= ends(source), told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_credit_too_many_of_a_counting_semaphore(schedule):
    """Its release stands in one block of instructions with what comes before it."""
    right, found = launch(SEMAPHORES, schedule, 1, 64, CAP=2)
    assert not found, told(right)
    session, found = launch(SEMAPHORES, schedule, 1, 64, CAP=3)
    assert found and found <= ends(SEMAPHORES), told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("work", ["1", "(blockIdx.x == 2 || threadIdx.x == 64 ? 9 : 1)"])
@pytest.mark.parametrize("name", ["GRID", "WARPS"])
def test_a_counter_that_is_waited_for_with_too_few_arrivals(name, work, schedule):
    """Each writer counts once, whoever takes long."""
    source, grid, block = (GRID, 4, 64) if name == "GRID" else (WARPS, 1, 128)
    right, found = launch(source, schedule, grid, block, CAP=3, WORK=work)
    assert not found, told(right)
    for few in (1, 2):
        session, found = launch(source, schedule, grid, block, CAP=few, WORK=work)
        assert found and found <= ends(source), told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("rounds", [2, 3])
def test_a_barrier_of_the_grid_that_waits_for_too_few(rounds, schedule):
    right, found = launch(ROUNDS, schedule, 3, 64, CAP=3, WORK=rounds)
    assert not found, told(right)
    session, found = launch(ROUNDS, schedule, 3, 64, CAP=2, WORK=rounds)
    assert found == ends(ROUNDS), told(session)
